"""Downey's law with an overhead that grows with every processor, or with every doubling of them.

A. B. Downey, UC Berkeley CSD-97-933, 1997, knows no piece that declines; Lan 2007, section 6.6, asks for one.
T(n) = T_Downey(n) + c (n - 1), or + c log2 n: nothing at one processor, so that T(1) keeps its meaning.
"""

from collections.abc import Callable

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.laws.forms import downey
from pipeline.laws.law import (
    Averaging,
    Law,
    Parameter,
    Parameters,
    Solver,
    doublings,
    extra_procs,
    least_at,
    parameter,
    powers,
)


def linear(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s, avg_parallelism >= 1, sigma >= 0 and overhead_s >= 0 for each processor beyond the first."""
    runtime: Floats = downey.both(parameters, n) + parameter(parameters, "overhead_s") * extra_procs(n)
    return runtime


def logarithmic(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s, avg_parallelism >= 1, sigma >= 0 and overhead_s >= 0 for each doubling of processors."""
    runtime: Floats = downey.both(parameters, n) + parameter(parameters, "overhead_s") * doublings(n)
    return runtime


def linear_useful_procs(parameters: Parameters) -> Floats:
    """Where runtime is least, the smallest such size."""
    return _least(parameters, linear, lambda fall, c: np.sqrt(least_at(fall, c)))


def log_useful_procs(parameters: Parameters) -> Floats:
    """Where runtime is least, the smallest such size."""
    return _least(parameters, logarithmic, lambda fall, c: least_at(fall * np.log(2.0), c))


def _least(
    parameters: Parameters,
    curve_s: Callable[[Parameters, Floats], Floats],
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
_PARAMETERS = (
    Parameter("avg_parallelism", 1.0, np.inf, powers(1, 10)),
    Parameter("sigma", 0.0, np.inf, (0.0, 0.5, 1.0, 2.0)),
    Parameter("overhead_s", 0.0, np.inf, powers(-14, 0, 2)),
)

DOWNEY_LINEAR = Law(
    "downey_linear", "Downey's + c (n - 1)", _SOURCE, linear, linear_useful_procs, _PARAMETERS,
    solver=Solver.DOWNEY_LINEAR, averaging=Averaging(place=6), place=6,
)  # fmt: skip
DOWNEY_LOG = Law(
    "downey_log", "Downey's + c log2 n", _SOURCE, logarithmic, log_useful_procs, _PARAMETERS,
    solver=Solver.DOWNEY_LOG, place=7,
)  # fmt: skip
