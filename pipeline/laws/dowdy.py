"""Dowdy's execution signature. L. W. Dowdy, "On the partitioning of multiprocessor systems", Vanderbilt 1988.

S(n) = n/(C1 + C2 n). Chiang, Mansharamani and Vernon (SIGMETRICS 1994) scale it to S(1) = 1, as (1 + b) n/(n + b); so
A = 1 + b and T(n) = T(1) (n + A - 1)/(A n). It is Amdahl's law with f = 1/A, told in other parameters: the two always
fit alike, and as one family they are never weighed against each other.
"""

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Floats
from pipeline.laws.law import Law, Parameters, checked_procs, parameter


def runtime_s(parameters: Parameters, procs: npt.ArrayLike) -> Floats:
    """T(n) from t1_s and avg_parallelism >= 1; infinite A is linear speedup."""
    n = checked_procs(procs)
    share = 1.0 / parameter(parameters, "avg_parallelism")
    runtime: Floats = parameter(parameters, "t1_s") * (share + (1.0 - share) / n)
    return runtime


def largest_useful_procs(parameters: Parameters) -> Floats:
    """Infinite where A > 1, 1 where nothing runs in parallel."""
    A = parameter(parameters, "avg_parallelism")
    return np.where(np.isnan(A), np.nan, np.where(A > 1.0, np.inf, 1.0))


DOWDY = Law("dowdy", "amdahl", 2, "Dowdy 1988; Chiang, Mansharamani and Vernon 1994", runtime_s, largest_useful_procs)
