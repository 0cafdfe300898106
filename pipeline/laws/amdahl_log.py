"""Amdahl's law with a tree of messages on top: T(n) = T(1) (f + (1 - f)/n) + c log2 n.

The logarithm is the depth of a reduction over n processors: H. P. Flatt and K. Kennedy, "Performance of parallel
processors", Parallel Computing 12(1), 1989.
"""

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Floats
from pipeline.laws import amdahl
from pipeline.laws.law import Law, Parameters, checked_procs, least_at, parameter


def runtime_s(parameters: Parameters, procs: npt.ArrayLike) -> Floats:
    """T(n) from t1_s, serial_fraction in [0, 1] and overhead_s >= 0 for each doubling of processors."""
    n = checked_procs(procs)
    runtime: Floats = amdahl.runtime_s(parameters, n) + parameter(parameters, "overhead_s") * np.log2(n)
    return runtime


def largest_useful_procs(parameters: Parameters) -> Floats:
    """(1 - f) T(1) ln 2/c, where runtime is least; infinite where c = 0 and anything runs in parallel."""
    parallel_s = parameter(parameters, "t1_s") * (1.0 - parameter(parameters, "serial_fraction"))
    return least_at(parallel_s * np.log(2.0), parameter(parameters, "overhead_s"))


AMDAHL_LOG = Law("amdahl_log", "amdahl_log", 3, "Flatt and Kennedy 1989", runtime_s, largest_useful_procs)
