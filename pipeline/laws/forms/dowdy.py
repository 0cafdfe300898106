"""Dowdy's execution signature. L. W. Dowdy, "On the partitioning of multiprocessor systems", Vanderbilt 1988.

S(n) = n/(C1 + C2 n). Chiang, Mansharamani and Vernon (SIGMETRICS 1994) scale it to S(1) = 1, as (1 + b) n/(n + b); so
A = 1 + b and T(n) = T(1) (n + A - 1)/(A n). It is Amdahl's law with f = 1/A in other parameters: the two always
fit alike, and as one family they are never weighed against each other.
"""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.laws.forms import amdahl
from pipeline.laws.law import Law, Parameter, Parameters, Solver, never_or_one, parameter


def formula(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s and avg_parallelism >= 1; infinite A is linear speedup."""
    serial = 1.0 / parameter(parameters, "avg_parallelism")
    return amdahl.formula({"t1_s": parameters["t1_s"], "serial_fraction": serial}, n)


def largest_useful_procs(parameters: Parameters) -> Floats:
    """Infinite where A > 1, 1 where nothing runs in parallel."""
    return never_or_one(parameters, "avg_parallelism", lambda A: A > 1.0)


DOWDY = Law(
    "dowdy", "T(1) (n + A - 1)/(A n)", "Dowdy 1988; Chiang, Mansharamani and Vernon 1994", formula,
    largest_useful_procs, (Parameter("avg_parallelism", 1.0, np.inf),),
    solver=Solver.AMDAHL, family="amdahl", place=8,
)  # fmt: skip
