"""No scaling at all: T(n) = T(1). The baseline every other law has to beat."""

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Floats
from pipeline.laws.law import Law, Parameters, checked_procs, parameter


def runtime_s(parameters: Parameters, procs: npt.ArrayLike) -> Floats:
    """T(n) = T(1), from t1_s."""
    t1_s, n = np.broadcast_arrays(parameter(parameters, "t1_s"), checked_procs(procs))
    return np.where(np.isnan(n), np.nan, t1_s)


def largest_useful_procs(parameters: Parameters) -> Floats:
    """1: a second processor gains nothing."""
    t1_s = parameter(parameters, "t1_s")
    return np.where(np.isnan(t1_s), np.nan, 1.0)


CONSTANT = Law("constant", "constant", 1, "baseline", runtime_s, largest_useful_procs)
