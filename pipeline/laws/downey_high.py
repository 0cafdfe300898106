"""Downey's law, high variance (sigma >= 1).

A. B. Downey, "A model for speedup of parallel programs", UC Berkeley CSD-97-933, 1997: the high-variance
speedup; as a runtime in Deshmeh 2013 (ADEPT), chapter 3. With N* = A + A sigma - sigma and tau = T(1)/(A (1 + sigma)):

    1 <= n <= N*    T = tau (sigma + N*/n)
    n >= N*         T = tau (sigma + 1)
"""

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Floats
from pipeline.laws.law import Law, Parameters, checked_procs, parameter


def runtime_s(parameters: Parameters, procs: npt.ArrayLike) -> Floats:
    """T(n) from t1_s, avg_parallelism >= 1 and sigma >= 1.

    Infinite A is linear speedup, T(1)/n; infinite sigma is Amdahl's law with serial fraction 1/A.
    """
    n = checked_procs(procs)
    A, sigma = parameter(parameters, "avg_parallelism"), parameter(parameters, "sigma")
    share = 1.0 / (A * (1.0 + 1.0 / sigma))
    reached = np.minimum(n, _plateau_procs(A, sigma))
    runtime: Floats = parameter(parameters, "t1_s") * (share + (1.0 - share) / reached)
    return runtime


def largest_useful_procs(parameters: Parameters) -> Floats:
    """N* = A + A sigma - sigma, where the flat piece begins."""
    return _plateau_procs(parameter(parameters, "avg_parallelism"), parameter(parameters, "sigma"))


def _plateau_procs(A: Floats, sigma: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        product = (A - 1.0) * sigma
    return A + np.where((A == 1.0) & ~np.isnan(sigma), 0.0, product)


DOWNEY_HIGH = Law("downey_high", "downey", 3, "Downey 1997, CSD-97-933, high variance", runtime_s, largest_useful_procs)
