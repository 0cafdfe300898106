"""Calibrates interval ends for later jobs: conformal shares of the predictive distribution, from past windows."""

from collections.abc import Sequence

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.settings import PredictSettings
from pipeline.predict.cells import Cells
from pipeline.predict.later_windows import PastWindows, Window

CLASS_ENDS = np.array([0.15, 0.4, 0.8, 1.3])
"""Half interquartile ranges (log s) that separate classes of spread."""

NAMED = np.array([0.025, 0.1, 0.9, 0.975])

DEFAULTS = {1.0: (0.023, 0.10, 0.924, 0.982), 7.0: (0.021, 0.094, 0.926, 0.983), 30.0: (0.025, 0.098, 0.929, 0.985)}
"""Shares for a log without past windows, by days ahead; chosen on other logs' middle thirds."""

MIN_WINDOWS = 4
"""Past windows needed to measure how often a log's intervals held."""

BLOCKS = 8
"""Blocks of the newer half of the past windows; each has its own calibration."""

HALF_LIFE_DAYS = 90.0
CLASS_PRIOR, POOL_PRIOR = 50.0, 30.0
"""Weight in jobs of the pool beside a class, and of the defaults beside the pool."""


N_CLASSES = CLASS_ENDS.size + 2


def spread_class(half_iqr: Floats, is_seen: Bools) -> Ints:
    """The class of a predictive's spread, 0 the narrowest; the last class holds the cells that never ran."""
    return np.where(is_seen, np.searchsorted(CLASS_ENDS, half_iqr), N_CLASSES - 1).astype(np.int64)


def calibrated_shares(past: PastWindows, horizon_days: float) -> Floats:
    """Shares [class, end] to use instead of 2.5%, 10%, 90%, 97.5%: quantiles of where past jobs of the class lay."""
    nearest = min(DEFAULTS, key=lambda days: abs(np.log(days / horizon_days)))
    pool = np.array(DEFAULTS[nearest])
    weight = np.exp2(-past.age_days / HALF_LIFE_DAYS)[past.row]
    pool = _shrunk(past.below, weight, pool, POOL_PRIOR)
    of = spread_class(past.half_iqr, past.is_seen)[past.row]
    rows = [_shrunk(past.below[of == k], weight[of == k], pool, CLASS_PRIOR) for k in range(N_CLASSES)]
    return np.array(rows)


def later_coverage(
    windows: Sequence[Window], cells: Cells, now_s: float, settings: PredictSettings
) -> tuple[float, float]:
    """Shares of the jobs of the newer half of the windows inside 80% and 95%; NaN for fewer than MIN_WINDOWS.

    That half is split into BLOCKS parts. Each is calibrated with what was known when its first window began.
    """
    known = [window for window in windows[-settings.past_windows :] if (cells.end_s[window.run] <= now_s).any()]
    if len(known) < MIN_WINDOWS or not settings.past_windows:
        return float("nan"), float("nan")
    newer = np.array_split(np.arange(len(known) // 2, len(known)), BLOCKS)
    blocks = [[known[place] for place in part] for part in newer if part.size]
    inside = np.concatenate([_inside(windows, block, cells, now_s, settings) for block in blocks], axis=1)
    return float(inside[0].mean()), float(inside[1].mean())


def _inside(
    windows: Sequence[Window], block: Sequence[Window], cells: Cells, now_s: float, settings: PredictSettings
) -> Bools:
    """Whether each job [80% and 95%, job] of a block of windows lies inside, as calibrated when the block began."""
    then = PastWindows.of(windows, cells, block[0].cut_s, settings.past_windows)
    every = calibrated_shares(then, settings.horizon_days)
    found = []
    for window in block:
        ended = cells.end_s[window.run] <= now_s
        shares = every[spread_class(window.half_iqr, window.is_seen)][window.row[ended]]
        below = window.below[ended]
        found.append([(shares[:, k] <= below) & (below <= shares[:, -1 - k]) for k in (1, 0)])
    return np.concatenate(found, axis=1)


def _shrunk(below: Floats, weight: Floats, prior: Floats, prior_jobs: float) -> Floats:
    if not below.size:
        return prior
    order = np.argsort(below, kind="stable")
    total = np.cumsum(weight[order])
    middle = (total - weight[order] / 2) / total[-1]
    own = np.interp(NAMED, middle, below[order])
    n_jobs = weight.sum() ** 2 / np.square(weight).sum() if weight.size else 0.0
    mixed: Floats = (n_jobs * own + prior_jobs * prior) / (n_jobs + prior_jobs)
    return mixed
