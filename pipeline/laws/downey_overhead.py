"""Downey's law with an overhead that grows with every processor, or with every doubling of them.

A. B. Downey, UC Berkeley CSD-97-933, 1997, knows no piece that declines; Lan 2007, section 6.6, asks for one.
T(n) = T_Downey(n) + c (n - 1), or + c log2 n: nothing at one processor, so that T(1) keeps its meaning.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Floats
from pipeline.laws import downey
from pipeline.laws.law import Law, Parameters, checked_procs, least_at, parameter


def linear_runtime_s(parameters: Parameters, procs: npt.ArrayLike) -> Floats:
    """T(n) from t1_s, avg_parallelism >= 1, sigma >= 0 and overhead_s >= 0 for each processor beyond the first."""
    n = checked_procs(procs)
    runtime: Floats = downey.runtime_s(parameters, n) + parameter(parameters, "overhead_s") * (n - 1.0)
    return runtime


def log_runtime_s(parameters: Parameters, procs: npt.ArrayLike) -> Floats:
    """T(n) from t1_s, avg_parallelism >= 1, sigma >= 0 and overhead_s >= 0 for each doubling of processors."""
    n = checked_procs(procs)
    runtime: Floats = downey.runtime_s(parameters, n) + parameter(parameters, "overhead_s") * np.log2(n)
    return runtime


def linear_largest_useful_procs(parameters: Parameters) -> Floats:
    """Where runtime is least, the smallest such size."""
    return _least(parameters, linear_runtime_s, lambda fall, c: np.sqrt(least_at(fall, c)))


def log_largest_useful_procs(parameters: Parameters) -> Floats:
    """Where runtime is least, the smallest such size."""
    return _least(parameters, log_runtime_s, lambda fall, c: least_at(fall * np.log(2.0), c))


def _least(
    parameters: Parameters,
    curve_s: Callable[[Parameters, npt.ArrayLike], Floats],
    turns_at: Callable[[Floats, Floats], Floats],
) -> Floats:
    """Of each sloped piece, level + fall/n + overhead, the turning point kept inside it; the best of them."""
    t1_s, A, sigma, c = (parameter(parameters, name) for name in ("t1_s", "avg_parallelism", "sigma", "overhead_s"))
    plateau = np.maximum(downey.plateau_procs(parameters), 1.0)
    bend = np.where(sigma > 1.0, plateau, A)
    with np.errstate(invalid="ignore", divide="ignore"):
        first = t1_s * np.where(sigma > 1.0, 1.0 - 1.0 / (A * (1.0 + 1.0 / sigma)), 1.0 - sigma / (2.0 * A))
        second = t1_s * (sigma - sigma / (2.0 * A))
        sizes = [np.clip(turns_at(first, c), 1.0, bend), np.clip(turns_at(second, c), bend, np.maximum(plateau, bend))]
        best, least_s = sizes[0], curve_s(parameters, np.fmax(sizes[0], 1.0))
        runtime_s = curve_s(parameters, np.fmax(sizes[1], 1.0))
    is_better = (sigma <= 1.0) & (runtime_s < least_s * (1 - 1e-12))
    return np.where(np.isnan(least_s), np.nan, np.where(is_better, sizes[1], best))


_SOURCE = "Downey 1997, CSD-97-933; Lan 2007, 6.6"
DOWNEY_LINEAR = Law("downey_linear", "downey_linear", 4, _SOURCE, linear_runtime_s, linear_largest_useful_procs)
DOWNEY_LOG = Law("downey_log", "downey_log", 4, _SOURCE, log_runtime_s, log_largest_useful_procs)
