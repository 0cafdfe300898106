"""Both modes of Downey's law as one: sigma up to 1 is the low-variance mode, above it the high-variance one."""

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Floats
from pipeline.laws import downey_high, downey_low
from pipeline.laws.law import Parameters, parameter


def runtime_s(parameters: Parameters, procs: npt.ArrayLike) -> Floats:
    """T(n) from t1_s, avg_parallelism >= 1 and sigma >= 0."""
    sigma = parameter(parameters, "sigma")
    high = downey_high.runtime_s({**parameters, "sigma": np.maximum(sigma, 1.0)}, procs)
    low = downey_low.runtime_s({**parameters, "sigma": np.minimum(sigma, 1.0)}, procs)
    return np.where(sigma > 1.0, high, low)


def plateau_procs(parameters: Parameters) -> Floats:
    """Where the flat piece begins: 2A - 1 in the low mode, N* in the high one."""
    A, sigma = parameter(parameters, "avg_parallelism"), parameter(parameters, "sigma")
    return np.where(sigma > 1.0, downey_high.largest_useful_procs(parameters), 2.0 * A - 1.0)
