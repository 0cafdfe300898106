"""Track records: a prediction is reliable if past windows of its cell and of similar rows were accurate."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.predict.later_levels import N_CLASSES, spread_class
from pipeline.predict.later_windows import PastWindows

DECAY = 0.85
"""Weight of a window relative to the next later one of its cell."""

MIN_WINDOWS = 2

CLASS_WINDOWS = 2.0
"""Weight, in windows, of all rows of the same class of spread beside a cell's own windows."""

ENOUGH = 0.5
"""Least share of jobs within 25% of their predicted median for a row to be reliable."""


@dataclass(frozen=True, slots=True)
class Record:
    """Per cell: number of past windows with jobs, their decayed weight and hits. Per class of spread: share of hits."""

    n_windows: Ints
    weight: Floats
    hits: Floats
    by_class: Floats

    @classmethod
    def of(cls, past: PastWindows, n_cells: int, horizon_days: float) -> "Record":
        """The record of past windows that do not overlap; a cell's latest window has the most weight."""
        apart = _apart(past.age_days, horizon_days)
        order = np.lexsort((past.age_days, past.cell))
        order = order[apart[order]]
        cell = past.cell[order]
        first = np.searchsorted(cell, np.arange(n_cells + 1))
        weight = DECAY ** (np.arange(cell.size) - first[:-1][cell])
        sums = (np.bincount(cell, values, n_cells) for values in (weight * past.hit[order], weight))
        hits, total = (values.astype(np.float64) for values in sums)
        return cls(np.diff(first), total, hits, _by_class(past))

    def at(self, places: Ints) -> "Record":
        """The record of cells at these places, -1 for one that has none."""
        known = places >= 0

        def of(values: Any) -> Any:
            return np.where(known, np.append(values, 0)[places], 0)

        return Record(of(self.n_windows), of(self.weight), of(self.hits), self.by_class)

    def share(self, cell: Ints, half_iqr: Floats) -> Floats:
        """Expected share of jobs within 25% of the median, per row; `cell` is -1 for a cell that never ran."""
        known = cell >= 0
        place = np.where(known, cell, 0)
        class_share = self.by_class[spread_class(half_iqr, known)]
        if not self.weight.size:
            return class_share
        own, weight = (np.where(known, values[place], 0.0) for values in (self.hits, self.weight))
        shares: Floats = (own + CLASS_WINDOWS * class_share) / (weight + CLASS_WINDOWS)
        return shares

    def windows(self, cell: Ints) -> Ints:
        """Number of past windows with jobs of each row's cell."""
        return np.where(cell >= 0, np.append(self.n_windows, 0)[cell], 0)

    def is_believed(self, cell: Ints, half_iqr: Floats) -> Bools:
        """Whether each row's track record is good enough to publish it as ok."""
        believed: Bools = (self.windows(cell) >= MIN_WINDOWS) & (self.share(cell, half_iqr) >= ENOUGH)
        return believed


def _apart(age_days: Floats, horizon_days: float) -> Bools:
    """The oldest window of each horizon, horizons being counted back from now; these do not overlap."""
    horizon = np.ceil(np.round(age_days / horizon_days, 6)).astype(np.int64)
    oldest = np.zeros(int(horizon.max(initial=0)) + 1)
    np.maximum.at(oldest, horizon, age_days)
    found: Bools = age_days == oldest[horizon]
    return found


def _by_class(past: PastWindows) -> Floats:
    """Share of hits in each class of spread, every cell with equal weight; one missed cell is added as a prior."""
    of, cell = spread_class(past.half_iqr, past.is_seen), past.cell
    voices = 1.0 / np.bincount(cell)[cell] if cell.size else np.empty(0)
    hits = np.bincount(of, voices * past.hit, N_CLASSES)
    shares: Floats = hits / (np.bincount(of, voices, N_CLASSES) + 1.0)
    return shares
