"""Which predictions may be believed: those whose past windows, and whose likes' past windows, came true."""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.predict.later_levels import N_CLASSES, spread_class
from pipeline.predict.later_windows import PastWindows

DECAY = 0.85
"""What a window weighs beside the next later one of its cell."""

MIN_WINDOWS = 2

LIKES = 2.0
"""Windows that rows of the same class of spread count as beside a cell's own."""

ENOUGH = 0.5
"""Share of jobs that took within 25% of their predicted median, from which on a row is believed."""


@dataclass(frozen=True, slots=True)
class Record:
    """Per cell, past windows with jobs of it and the decayed weight and hits of these; per class, share of hits."""

    n_windows: Ints
    weight: Floats
    hits: Floats
    by_class: Floats

    @classmethod
    def of(cls, past: PastWindows, n_cells: int, horizon_days: float) -> "Record":
        """From past windows that do not overlap; a cell's latest window weighs most."""
        apart = _apart(past.age_days, horizon_days)
        order = np.lexsort((past.age_days, past.cell))
        order = order[apart[order]]
        cell = past.cell[order]
        first = np.searchsorted(cell, np.arange(n_cells + 1))
        weight = DECAY ** (np.arange(cell.size) - first[:-1][cell])
        sums = (np.bincount(cell, values, n_cells) for values in (weight * past.hit[order], weight))
        hits, total = (values.astype(np.float64) for values in sums)
        return cls(np.diff(first), total, hits, _by_class(past))

    def share(self, cell: Ints, half_iqr: Floats) -> Floats:
        """Expected share of jobs within 25% of the median, per row; -1 stands for a cell that never ran."""
        known = cell >= 0
        place = np.where(known, cell, 0)
        likes = self.by_class[spread_class(half_iqr, known)]
        if not self.weight.size:
            return likes
        own, weight = (np.where(known, values[place], 0.0) for values in (self.hits, self.weight))
        shares: Floats = (own + LIKES * likes) / (weight + LIKES)
        return shares

    def windows(self, cell: Ints) -> Ints:
        """How many past windows had jobs of each row's cell."""
        return np.where(cell >= 0, np.append(self.n_windows, 0)[cell], 0)

    def is_believed(self, cell: Ints, half_iqr: Floats) -> Bools:
        """Where a track record says that the next jobs will come true."""
        believed: Bools = (self.windows(cell) >= MIN_WINDOWS) & (self.share(cell, half_iqr) >= ENOUGH)
        return believed


def _apart(age_days: Floats, horizon_days: float) -> Bools:
    """Of windows that begin in the same horizon counted from now, the oldest."""
    horizon = np.ceil(np.round(age_days / horizon_days, 6)).astype(np.int64)
    oldest = np.zeros(int(horizon.max(initial=0)) + 1)
    np.maximum.at(oldest, horizon, age_days)
    found: Bools = age_days == oldest[horizon]
    return found


def _by_class(past: PastWindows) -> Floats:
    """Share of hits in each class of spread, every cell one voice; one more miss and one more cell than there are."""
    of, cell = spread_class(past.half_iqr, past.is_seen), past.cell
    voices = 1.0 / np.bincount(cell)[cell] if cell.size else np.empty(0)
    hits = np.bincount(of, voices * past.hit, N_CLASSES)
    shares: Floats = hits / (np.bincount(of, voices, N_CLASSES) + 1.0)
    return shares
