"""Downey's law, low variance (0 <= sigma <= 1).

A. B. Downey, "A model for speedup of parallel programs", UC Berkeley CSD-97-933, 1997: the low-variance
speedup; as a runtime in Deshmeh 2013 (ADEPT), chapter 3. With tau = T(inf) = T(1)/A:

    1 <= n <= A          T = tau ((A - sigma/2)/n + sigma/2)
    A <= n <= 2A - 1     T = tau (sigma (A - 1/2)/n + 1 - sigma/2)
    n >= 2A - 1          T = tau
"""

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Floats
from pipeline.laws.law import Law, Parameters, checked_procs, parameter


def runtime_s(parameters: Parameters, procs: npt.ArrayLike) -> Floats:
    """T(n) from t1_s, avg_parallelism >= 1 and sigma in [0, 1]; infinite A is linear speedup, T(1)/n."""
    n = checked_procs(procs)
    relative = _relative_runtime(parameter(parameters, "avg_parallelism"), parameter(parameters, "sigma"), n)
    runtime: Floats = parameter(parameters, "t1_s") * relative
    return runtime


def _relative_runtime(A: Floats, sigma: Floats, n: Floats) -> Floats:
    """T(n)/T(1), written in 1/A so that an infinite A needs no case of its own."""
    half = sigma / (2.0 * A)
    rising = (1.0 - half) / n + half
    bending = (sigma - half) / n + 1.0 / A - half
    relative: Floats = np.where(n <= A, rising, np.where(n < 2.0 * A - 1.0, bending, 1.0 / A))
    return np.where(np.isnan(sigma + n), np.nan, relative)


def largest_useful_procs(parameters: Parameters) -> Floats:
    """2A - 1, where the flat piece begins; A where sigma = 0, because the bending piece is flat then."""
    A, sigma = parameter(parameters, "avg_parallelism"), parameter(parameters, "sigma")
    return np.where(np.isnan(sigma), np.nan, np.where(sigma == 0.0, A, 2.0 * A - 1.0))


DOWNEY_LOW = Law("downey_low", "downey", 3, "Downey 1997, CSD-97-933, low variance", runtime_s, largest_useful_procs)
