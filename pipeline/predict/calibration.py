"""How far runtimes walk away from any law per doubling: judged on sizes the log has already seen run.

Each series with sizes enough is predicted from its smallest; what ran on the larger ones says which drift gives
intervals that are as narrow as they can be while they hold (Gneiting and Raftery 2007, the interval score).
"""

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.predict.average import Averaged, average
from pipeline.predict.sizes import Sizes

DRIFTS = (0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.5)
"""What may be chosen (log s per root of a doubling)."""

KEPT_SIZES = 3
"""Sizes a held-out series is predicted from: its smallest."""

REACH = 4.0
"""Sizes up to this many times the largest kept one are judged."""

MIN_HELD_OUT, MIN_SERIES = 30, 10
"""Fewer sizes or series than these, and the default drift stands."""

MOST_SERIES = 500
"""Series judged, evenly out of all."""


def calibrated_drift(sizes: Sizes, new_variance: Floats, default_log_sd: float) -> float:
    """The drift (log s per root of a doubling) with the least interval score; the default where too little is known.

    `new_variance` per size: what its median scatters about the curve.
    """
    chosen = np.flatnonzero(np.diff(sizes.offsets) > KEPT_SIZES)
    if chosen.size > MOST_SERIES:
        chosen = chosen[np.linspace(0, chosen.size - 1, MOST_SERIES).astype(np.int64)]
    kept, rows, series = _held_out(sizes, chosen)
    if rows.size < MIN_HELD_OUT or chosen.size < MIN_SERIES:
        return default_log_sd
    truth = np.log(sizes.runtime_s[rows])
    scores = []
    for drift in DRIFTS:
        part = Sizes(kept.offsets, kept.procs, kept.runtime_s, kept.variance, np.full(chosen.size, drift**2))
        found = average(part, series, sizes.procs[rows], new_variance[rows])
        scores.append(_by_series(interval_score(found, truth), series).mean())
    return DRIFTS[int(np.argmin(scores))]


def interval_score(found: Averaged, log_s: Floats) -> Floats:
    """Width of the central 80% and 95% intervals plus 2/alpha times how far the truth lies outside; less is better."""
    score = np.zeros(log_s.size)
    for alpha, low, high in ((0.2, found.log_s[:, 1], found.log_s[:, 3]), (0.05, found.log_s[:, 0], found.log_s[:, 4])):
        outside = np.maximum(low - log_s, 0.0) + np.maximum(log_s - high, 0.0)
        score += high - low + 2.0 / alpha * outside
    return score


def _held_out(sizes: Sizes, chosen: Ints) -> tuple[Sizes, Ints, Ints]:
    """The smallest sizes of the chosen series; rows of those to predict, and the place in `chosen` of each."""
    first = sizes.offsets[chosen]
    kept = (first[:, None] + np.arange(KEPT_SIZES)).ravel()
    offsets = np.arange(0, kept.size + 1, KEPT_SIZES, dtype=np.int64)
    counts = sizes.offsets[chosen + 1] - first - KEPT_SIZES
    series = np.repeat(np.arange(chosen.size), counts)
    rows = np.arange(series.size) - np.repeat(np.cumsum(counts) - counts, counts) + (first + KEPT_SIZES)[series]
    near: Bools = sizes.procs[rows] <= REACH * sizes.procs[first + KEPT_SIZES - 1][series]
    part = Sizes(offsets, sizes.procs[kept], sizes.runtime_s[kept], sizes.variance[kept], sizes.drift[chosen])
    return part, rows[near], series[near]


def _by_series(values: Floats, series: Ints) -> Floats:
    """Mean per series that has any: one long series is one voice."""
    counts = np.bincount(series)
    means: Floats = (np.bincount(series, values) / np.maximum(counts, 1))[counts > 0]
    return means
