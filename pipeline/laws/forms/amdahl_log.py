"""Amdahl's law with a tree of messages on top: T(n) = T(1) (f + (1 - f)/n) + c log2 n.

The logarithm is the depth of a reduction over n processors: H. P. Flatt and K. Kennedy, "Performance of parallel
processors", Parallel Computing 12(1), 1989.
"""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.laws.forms import amdahl
from pipeline.laws.law import Averaging, Law, Parameter, Parameters, Solver, doublings, least_at, parameter, powers


def formula(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s, serial_fraction in [0, 1] and overhead_s >= 0 for each doubling of processors."""
    runtime: Floats = amdahl.formula(parameters, n) + parameter(parameters, "overhead_s") * doublings(n)
    return runtime


def largest_useful_procs(parameters: Parameters) -> Floats:
    """(1 - f) T(1) ln 2/c, where runtime is least; infinite where c = 0 and anything runs in parallel."""
    parallel_s = parameter(parameters, "t1_s") * (1.0 - parameter(parameters, "serial_fraction"))
    return least_at(parallel_s * np.log(2.0), parameter(parameters, "overhead_s"))


# Of prior weights 0, 1/2 and 1 the one that real applications prefer.
AMDAHL_LOG = Law(
    "amdahl_log", "T(1) (f + (1 - f)/n) + c log2 n", "Flatt and Kennedy 1989", formula, largest_useful_procs,
    (
        Parameter("serial_fraction", 0.0, 1.0, (0.0, *powers(-10, -1))),
        Parameter("overhead_s", 0.0, np.inf, powers(-12, 1, 0.5)),
    ),
    solver=Solver.AMDAHL_LOG, averaging=Averaging(0.5, place=4), place=5,
)  # fmt: skip
