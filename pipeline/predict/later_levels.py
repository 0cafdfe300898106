"""Between which shares of a predictive later runtimes lie as often as an interval names: conformal on past windows."""

from dataclasses import replace

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.predict.later_windows import Past

CLASS_ENDS = np.array([0.15, 0.4, 0.8, 1.3])
"""Half interquartile ranges (log s) that part classes of spread."""

NAMED = np.array([0.025, 0.1, 0.9, 0.975])

DEFAULTS = {1.0: (0.023, 0.10, 0.924, 0.982), 7.0: (0.021, 0.094, 0.926, 0.983), 30.0: (0.025, 0.098, 0.929, 0.985)}
"""Shares without a past, by days ahead; chosen on other logs' middle thirds."""

MIN_WINDOWS = 4
"""Past windows, for a log to say how often its intervals held."""

HALF_LIFE_DAYS = 90.0
CLASS_PRIOR, POOL_PRIOR = 50.0, 30.0
"""Jobs the pool counts as beside a class's own, and the defaults beside the pool's."""


N_CLASSES = CLASS_ENDS.size + 2


def spread_class(half_iqr: Floats, is_seen: Bools) -> Ints:
    """The class of a predictive's spread, 0 the narrowest; cells that never ran are a class of their own, the last."""
    return np.where(is_seen, np.searchsorted(CLASS_ENDS, half_iqr), N_CLASSES - 1).astype(np.int64)


def calibrated_shares(past: Past, horizon_days: float) -> Floats:
    """Shares [class, end] in place of 2.5%, 10%, 90%, 97.5%: those that past jobs of the class lay below so often."""
    nearest = min(DEFAULTS, key=lambda days: abs(np.log(days / horizon_days)))
    pool = np.array(DEFAULTS[nearest])
    weight = np.exp2(-past.age * horizon_days / HALF_LIFE_DAYS)[past.row]
    pool = _shrunk(past.below, weight, pool, POOL_PRIOR)
    of = spread_class(past.half_iqr, past.is_seen)[past.row]
    rows = [_shrunk(past.below[of == k], weight[of == k], pool, CLASS_PRIOR) for k in range(N_CLASSES)]
    return np.array(rows)


def later_coverage(past: Past, horizon_days: float) -> tuple[float, float]:
    """Shares of the jobs of the newer half of the windows inside 80% and 95%, calibrated on the older half alone."""
    ages = np.unique(past.age)
    if ages.size < MIN_WINDOWS:
        return float("nan"), float("nan")
    middle = ages[ages.size // 2]
    age = past.age[past.row]
    older = age >= middle
    part = replace(past, row=past.row[older], below=past.below[older])
    shares = calibrated_shares(part, horizon_days)[spread_class(past.half_iqr, past.is_seen)[past.row[~older]]]
    below = past.below[~older]
    inside = [np.mean((shares[:, k] <= below) & (below <= shares[:, -1 - k])) for k in (1, 0)]
    return float(inside[0]), float(inside[1])


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
