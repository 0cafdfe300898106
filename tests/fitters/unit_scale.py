"""Downey's laws with the scale pinned, tau = 1: Deshmeh 2013, "T(inf) = 1" (docs/explanations/exact-downey-fit.md).

Only for reproducing the thesis: runtimes must come in units of tau. Logs give seconds, which fit_law fits.
"""

import numpy as np

from pipeline.arrays import Floats
from pipeline.laws import FitStatus
from pipeline.scaling.fit import Fits, fit_law, unfitted
from pipeline.scaling.series import SeriesBatch

FAR_PROCS = 1e9
HEAVY = 1e6
SAME = 1e-9


def fit_low_unit(batch: SeriesBatch) -> Fits:
    """Low mode with T(inf) = 1: a heavy pseudo-observation of runtime 1 far beyond every size pins the scale.

    As fit_law, but two sizes are enough. wssre is that of the sizes given, to about 1 part in 1e6.
    """
    stops = batch.offsets[1:]
    total = np.bincount(batch.owner, batch.weights, batch.n_series)
    pinned = SeriesBatch(
        batch.offsets + np.arange(batch.n_series + 1),
        np.insert(batch.procs, stops, FAR_PROCS),
        np.insert(batch.runtime_s, stops, 1.0),
        np.insert(batch.weights, stops, np.where(total > 0, HEAVY * total, np.nan)),
    )
    return fit_law("downey_low", pinned)


def fit_high_unit(batch: SeriesBatch) -> Fits:
    """High mode with tau = 1, T(inf) = sigma + 1, exactly; as fit_law, but two sizes are enough."""
    # For the statuses of series that cannot be fitted, and the columns.
    template = fit_law("amdahl", batch)
    found = unfitted(template.status)
    for i in np.flatnonzero(~np.isnan(template.wssre)):
        own = slice(batch.offsets[i], batch.offsets[i + 1])
        error, a, b = _best_pinned(batch.procs[own], batch.runtime_s[own], batch.weights[own])
        found.t1_s[i], found.tinf_s[i] = a + b, a + 1.0
        found.avg_parallelism[i], found.sigma[i], found.wssre[i] = (a + b) / (a + 1.0), a, error
        is_bound = a <= 1.0 + SAME or b <= 1.0 + SAME
        found.status[i] = FitStatus.AT_BOUND if is_bound else FitStatus.OK
    return found


def _best_pinned(n: Floats, t: Floats, w: Floats) -> tuple[float, float, float]:
    """The least squares and (a, b) of T = a + b/min(n, b) with a >= 1, b >= 1: every place of the bend tried."""
    edges = np.concatenate([[1.0], n, [np.inf]])
    candidates = [(max(1.0, _level(n, t, w, edge)), edge) for edge in edges[:-1]]
    for j in range(1, len(n) + 1):
        within = [pair for pair in _inside(n, t, w, j) if edges[j] <= pair[1] <= edges[j + 1]]
        candidates += [(a, b) for a, b in within if a >= 1.0]
    errors = [float((w * (1.0 - (a + b / np.minimum(n, b)) / t) ** 2).sum()) for a, b in candidates]
    best = int(np.argmin(errors))
    return errors[best], *candidates[best]


def _level(n: Floats, t: Floats, w: Floats, b: float) -> float:
    """The a of least squares for a given b."""
    return float((w / t * (1.0 - b / np.minimum(n, b) / t)).sum() / (w / t**2).sum())


def _inside(n: Floats, t: Floats, w: Floats, j: int) -> list[tuple[float, float]]:
    """Stationary points with the first j sizes sloped: a = 1 and b free, and both free."""
    slope = np.where(np.arange(len(n)) < j, 1.0 / n, 0.0)
    rest = t - np.where(np.arange(len(n)) < j, 0.0, 1.0)
    root = np.sqrt(w) / t
    alone = float((root**2 * slope * (rest - 1.0)).sum() / (root**2 * slope**2).sum())
    found = [(1.0, alone)]
    if j >= 1 and len(n) > 1:
        (a, b), _, rank, _ = np.linalg.lstsq(np.column_stack([root, root * slope]), root * rest, rcond=1e-12)
        found += [(float(a), float(b))] if rank == 2 else []
    return found
