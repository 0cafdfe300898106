"""The universal scalability law. N. J. Gunther, "Guerrilla Capacity Planning", Springer 2007, chapter 4.

Capacity C(n) = n/(1 + alpha (n - 1) + beta n (n - 1)); as a runtime, with f = alpha (contention) and
c = beta T(1) (coherency, seconds for each processor beyond the first): T(n) = T(1) (f + (1 - f)/n) + c (n - 1).
"""

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Floats
from pipeline.laws import amdahl
from pipeline.laws.law import Law, Parameters, checked_procs, least_at, parameter


def runtime_s(parameters: Parameters, procs: npt.ArrayLike) -> Floats:
    """T(n) from t1_s, serial_fraction in [0, 1] and overhead_s >= 0."""
    n = checked_procs(procs)
    runtime: Floats = amdahl.runtime_s(parameters, n) + parameter(parameters, "overhead_s") * (n - 1.0)
    return runtime


def largest_useful_procs(parameters: Parameters) -> Floats:
    """sqrt((1 - f) T(1)/c), where runtime is least; infinite where c = 0 and anything runs in parallel."""
    parallel_s = parameter(parameters, "t1_s") * (1.0 - parameter(parameters, "serial_fraction"))
    return np.sqrt(least_at(parallel_s, parameter(parameters, "overhead_s")))


USL = Law("usl", "usl", 3, "Gunther 2007", runtime_s, largest_useful_procs)
