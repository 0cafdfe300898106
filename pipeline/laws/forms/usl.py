"""The universal scalability law. N. J. Gunther, "Guerrilla Capacity Planning", Springer 2007, chapter 4.

Capacity C(n) = n/(1 + alpha (n - 1) + beta n (n - 1)); as a runtime, with f = alpha (contention) and
c = beta T(1) (coherency, seconds for each processor beyond the first): T(n) = T(1) (f + (1 - f)/n) + c (n - 1).
"""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.laws.forms import amdahl
from pipeline.laws.law import Averaging, Law, Parameter, Parameters, Solver, extra_procs, least_at, parameter, powers


def formula(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s, serial_fraction in [0, 1] and overhead_s >= 0."""
    runtime: Floats = amdahl.formula(parameters, n) + parameter(parameters, "overhead_s") * extra_procs(n)
    return runtime


def largest_useful_procs(parameters: Parameters) -> Floats:
    """sqrt((1 - f) T(1)/c), where runtime is least; infinite where c = 0 and anything runs in parallel."""
    parallel_s = parameter(parameters, "t1_s") * (1.0 - parameter(parameters, "serial_fraction"))
    return np.sqrt(least_at(parallel_s, parameter(parameters, "overhead_s")))


# The overhead reaches the whole of T(1), as small problems on slow networks show.
USL = Law(
    "usl", "T(1) (f + (1 - f)/n) + c (n - 1)", "Gunther 2007", formula, largest_useful_procs,
    (
        Parameter("serial_fraction", 0.0, 1.0, (0.0, *powers(-10, -1, 0.5))),
        Parameter("overhead_s", 0.0, np.inf, powers(-16, 0, 0.5)),
    ),
    solver=Solver.AMDAHL_LINEAR, averaging=Averaging(place=3), place=4,
)  # fmt: skip
