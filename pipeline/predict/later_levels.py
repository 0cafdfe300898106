"""Between which shares of a predictive later runtimes lie as often as an interval names: conformal on past windows."""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.predict.later_windows import Past

CLASS_ENDS = np.array([0.15, 0.4, 0.8, 1.3])
"""Half interquartile ranges (log s) that part classes of spread."""

NAMED = np.array([0.025, 0.1, 0.9, 0.975])

DEFAULTS = {1.0: (0.023, 0.10, 0.924, 0.982), 7.0: (0.021, 0.094, 0.926, 0.983), 30.0: (0.025, 0.098, 0.929, 0.985)}
"""Shares without a past, by days ahead; chosen on other logs' middle thirds."""

HALF_LIFE_DAYS = 90.0
CLASS_PRIOR, POOL_PRIOR = 50.0, 30.0
"""Jobs the pool counts as beside a class's own, and the defaults beside the pool's."""


def spread_class(half_iqr: Floats) -> Ints:
    """The class of a predictive's spread, 0 the narrowest."""
    return np.searchsorted(CLASS_ENDS, half_iqr).astype(np.int64)


def calibrated_shares(past: Past, horizon_days: float) -> Floats:
    """Shares [class, end] in place of 2.5%, 10%, 90%, 97.5%: those that past jobs of the class lay below so often."""
    nearest = min(DEFAULTS, key=lambda days: abs(np.log(days / horizon_days)))
    pool = np.array(DEFAULTS[nearest])
    weight = np.exp2(-past.age * horizon_days / HALF_LIFE_DAYS)[past.row]
    pool = _shrunk(past.below, weight, pool, POOL_PRIOR)
    of = spread_class(past.half_iqr)[past.row]
    rows = [_shrunk(past.below[of == k], weight[of == k], pool, CLASS_PRIOR) for k in range(CLASS_ENDS.size + 1)]
    return np.array(rows)


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
