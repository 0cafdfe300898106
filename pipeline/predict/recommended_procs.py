"""Recommended processor counts: the fastest, and the largest of given efficiency, on the model average's median."""

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.predict.curves import Curves
from pipeline.predict.observed_series import ObservedSeries

PER_DOUBLING = 8
"""Counts evaluated per doubling: results are whole counts at most 9% apart."""

NO_FASTER = 1.01
"""Runtimes up to this many times the least runtime count as equal to it: a gain of 1% justifies no processors."""


def recommended_procs(
    observed: ObservedSeries, groups: Ints, scaling: Curves, reach: float, max_procs: int | None
) -> dict[str, Floats]:
    """Per group, by column of SCALABILITY: the count of least runtime, and the last of at least 80% and 50% efficiency.

    The search covers counts from 1 to `reach` times the largest observed size, within the machine. The result is NaN
    where it lies beyond: the fastest count, for example, where runtime still falls at the end of the search.
    """
    counts = [_counts(top, reach, max_procs) for top in scaling["procs_max"]]
    lengths = np.array([len(found) for found in counts], np.int64)
    procs = np.concatenate(counts) if counts else np.empty(0)
    runtime_s = np.exp(observed.curve(np.repeat(groups, lengths), procs).log_s[:, 2])
    starts = np.cumsum(lengths) - lengths
    efficiency = np.repeat(runtime_s[starts] if len(starts) else runtime_s, lengths) / (runtime_s * procs)
    least = np.minimum.reduceat(runtime_s, starts) if len(starts) else runtime_s
    optimal = _first(runtime_s <= NO_FASTER * np.repeat(least, lengths), starts, lengths)
    ends = starts + lengths - 1
    still_falls = runtime_s[ends] <= least
    return {
        "time_optimal_procs": _at(procs, np.where(still_falls, -1, optimal)),
        "efficiency_80_procs": _at(procs, _first(efficiency < 0.8, starts, lengths) - 1),
        "efficiency_50_procs": _at(procs, _first(efficiency < 0.5, starts, lengths) - 1),
    }


def _counts(largest: float, reach: float, max_procs: int | None) -> Floats:
    top = max(min(largest * reach, max(max_procs or np.inf, largest)), 1.0)
    steps = np.arange(0, np.floor(np.log2(top) * PER_DOUBLING) + 1) / PER_DOUBLING
    return np.unique(np.append(np.round(2.0**steps), np.floor(top)))


def _first(holds: Bools, starts: Ints, lengths: Ints) -> Ints:
    """Place of the first true value in each slice; -1 where the slice has none."""
    found = np.flatnonzero(holds)
    if not found.size:
        return np.full(len(starts), -1)
    place = np.searchsorted(found, starts)
    first = np.append(found, -1)[place]
    inside: Ints = np.where((first >= starts) & (first < starts + lengths), first, -1)
    return inside


def _at(procs: Floats, place: Ints) -> Floats:
    return np.where(place >= 0, np.append(procs, np.nan)[np.maximum(place, -1)], np.nan)
