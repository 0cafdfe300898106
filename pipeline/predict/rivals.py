"""The range of average parallelism among the fits that are about as good as a group's best fit."""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.predict.curves import Curves

NEAR = 1.1
"""Ratio to the least WSSRE up to which a fit is about as good as the best (Deshmeh 2013)."""

PERFECT = 0.005
"""Relative error per size that is tolerated even beside a perfect fit."""


def rival_parallelism(fits: Curves, chosen: Curves) -> tuple[Floats, Floats]:
    """Per row of `chosen`, least and largest A of its group's good fits; NaN where none of them has an A."""
    place = {group: row for row, group in enumerate(chosen.group_id)}
    group = np.array([place.get(name, -1) for name in fits.group_id], np.int64)
    rows = np.flatnonzero((group >= 0) & np.isfinite(fits["wssre"]))
    least = _extreme(np.minimum, group[rows], fits["wssre"][rows], len(chosen), np.inf)
    limit = NEAR * least + chosen["n_points"] * PERFECT**2
    good = rows[fits["wssre"][rows] <= limit[group[rows]]]
    parallelism = fits["avg_parallelism"][good]
    low = np.fmin(fits["avg_parallelism_lo"][good], parallelism)
    high = np.fmax(fits["avg_parallelism_hi"][good], parallelism)
    known = ~np.isnan(low)
    low = _extreme(np.minimum, group[good[known]], low[known], len(chosen), np.inf)
    high = _extreme(np.maximum, group[good[known]], high[known], len(chosen), -np.inf)
    has_any = high > -np.inf
    return np.where(has_any, low, np.nan), np.where(has_any, high, np.nan)


def _extreme(pick: np.ufunc, group: Ints, values: Floats, n_groups: int, empty: float) -> Floats:
    found = np.full(n_groups, empty)
    pick.at(found, group, values)
    return found
