"""Runs by cell (a group on one processor count), in order of their ends, and how much each counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Bools, Floats, Ints, category_codes, floats, grouped_jobs, job_procs

DAY_S = 86_400.0

CELL_COLUMNS = ("group_id", "procs", "requested_procs", "submit_s", "end_s", "runtime_s")
"""The columns of JOBS of which cells are made."""

MOST_PER_DAY = 20
"""Runs of one cell and day that count; together they weigh the root of how many the day has."""

HALF_LIFE_DAYS, HALF_LIFE_RUNS = 60.0, 50.0
"""A run's weight halves with so many days, and with so many (effective) runs of its cell that came after it."""

_MOST_HALVINGS = 1000.0
"""Bounds the exponent: no weight becomes 0 in floating point."""


@dataclass(frozen=True, slots=True)
class Atoms:
    """Weighted log runtimes, each of an `owner`: a place among the cells that were asked for."""

    owner: Ints
    log_s: Floats
    weight: Floats


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells in order of group and procs; the runs of cell c are the rows offsets[c] to offsets[c + 1] - 1, by end.

    `counted` are the runs with a positive weight. `weight_so_far` is per run the weight of its cell's runs up to and
    including it, before ageing. Days end at `now_s`.
    """

    group_id: list[str]
    group: Ints
    procs: Floats
    offsets: Ints
    submit_s: Floats
    end_s: Floats
    log_s: Floats
    weight: Floats
    counted: Ints
    weight_so_far: Floats
    now_s: float

    @classmethod
    def of(cls, jobs: pa.Table, now_s: float | None = None) -> Self:
        """The runs of the grouped jobs; one stopped at its limit counts with the time it ran.

        Days are counted from `now_s`, the latest end where none is given.
        """
        runs = grouped_jobs(jobs, CELL_COLUMNS)
        group, ids = category_codes(runs, "group_id")
        procs, runtime_s, submit_s = job_procs(runs), floats(runs, "runtime_s"), floats(runs, "submit_s")
        end_s = floats(runs, "end_s")
        end_s = np.where(np.isnan(end_s), submit_s + runtime_s, end_s)
        is_known = (runtime_s > 0) & np.isfinite(end_s) & np.isfinite(submit_s) & np.isfinite(procs)
        log_s = np.log(np.where(is_known, runtime_s, 1.0))
        # The columns would be in memory beside the arrays.
        del runs, runtime_s
        order = np.lexsort((log_s, submit_s, end_s, procs, group))
        order = order[is_known[order]]
        now_s = float(end_s[order].max(initial=0.0)) if now_s is None else now_s
        columns: list[Array] = [values[order] for values in (group, procs, end_s, submit_s, log_s)]
        del group, procs, end_s, submit_s, log_s, order
        return cls._sorted(ids, columns, now_s)

    @classmethod
    def _sorted(cls, ids: list[str], columns: Sequence[Array], now_s: float) -> Self:
        group, procs, end_s, submit_s, log_s = columns
        is_first = _changes(group, procs)
        starts = np.flatnonzero(is_first)
        offsets = np.append(starts, group.size).astype(np.int64)
        weight = _day_weights(is_first | _changes(np.floor((now_s - end_s) / DAY_S)))
        total = np.cumsum(weight)
        before = np.repeat((total - weight)[starts], np.diff(offsets))
        counted, weight_so_far = np.flatnonzero(weight), total - before
        columns = (offsets, submit_s, end_s, log_s, weight, counted, weight_so_far)
        return cls(ids, group[starts], procs[starts], *columns, now_s)

    def __len__(self) -> int:
        """How many cells."""
        return self.procs.size

    @property
    def of_run(self) -> Ints:
        """The cell of every run."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def ended(self, cells: Ints, cut_s: float) -> Ints:
        """How many runs of each cell ended by then."""
        low, high = self.offsets[cells], self.offsets[cells + 1]
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = np.minimum((low + high) // 2, max(self.end_s.size - 1, 0))
            is_before = (low < high) & (self.end_s[middle] <= cut_s)
            low, high = np.where(is_before, middle + 1, low), np.where(is_before | (low >= high), high, middle)
        return low - self.offsets[cells]

    def atoms(self, cells: Ints, n_ended: Ints, cut_s: float, most: int) -> Atoms:
        """The latest runs that count, `most` at most, of each cell's first `n_ended`, with their weights of then."""
        last = self.offsets[cells] + n_ended
        first, after_last = (np.searchsorted(self.counted, bound) for bound in (self.offsets[cells], last))
        places, owner = ranges(np.maximum(first, after_last - most), after_last)
        rows = self.counted[places]
        age_days = (cut_s - self.end_s[rows]) / DAY_S
        after = self.weight_so_far[np.maximum(last - 1, 0)][owner] - self.weight_so_far[rows]
        halvings = np.minimum(age_days / HALF_LIFE_DAYS + after / HALF_LIFE_RUNS, _MOST_HALVINGS)
        return Atoms(owner, self.log_s[rows], self.weight[rows] * np.exp2(-halvings))


def ranges(first: Ints, after: Ints) -> tuple[Ints, Ints]:
    """Rows first[i] to after[i] - 1 of every i, end to end; and the i of each."""
    counts = np.maximum(after - first, 0)
    owner = np.repeat(np.arange(first.size), counts)
    begins = np.cumsum(counts) - counts
    return (np.arange(owner.size) - begins[owner] + first[owner]).astype(np.int64), owner.astype(np.int64)


def _changes(*columns: Floats | Ints) -> Bools:
    found = np.ones(columns[0].size, bool)
    found[1:] = np.any([values[1:] != values[:-1] for values in columns], axis=0)
    return found


def _day_weights(is_first: Bools) -> Floats:
    """Weights of runs in order of end; `is_first` marks the first run of each cell and day.

    Evenly spaced runs of a day get weight, the others 0. The first run of a day always has weight, so that a prediction
    made during the day can use runs of that day.
    """
    starts = np.flatnonzero(is_first)
    n_runs = np.diff(starts, append=is_first.size)
    n_counted = np.minimum(n_runs, MOST_PER_DAY)
    place = np.arange(is_first.size) - np.repeat(starts, n_runs)
    spread, many = np.repeat(n_counted, n_runs), np.repeat(n_runs, n_runs)
    counts = (place * spread) // many != ((place - 1) * spread) // many
    return np.where(counts, np.sqrt(many) / spread, 0.0)


_APART = 64.0
"""Larger than the range of log runtimes: owner times this plus a log runtime sorts points by owner, then by value."""

_FARTHEST = 30.0


@dataclass(frozen=True, slots=True)
class Mixtures:
    """Distributions end to end: the points of distribution i are first[i] to first[i + 1] - 1, by rising value.

    `share` is the part of the weight below a point plus half its own; it is interpolated linearly between points.
    """

    first: Ints
    value: Floats
    share: Floats

    @classmethod
    def of(cls, atoms: Atoms, n_owners: int) -> Self:
        """One distribution per owner; each needs at least one point."""
        value = np.clip(atoms.log_s, -_FARTHEST, _FARTHEST)
        order = np.argsort(atoms.owner * _APART + value, kind="stable")
        owner, value, weight = atoms.owner[order], value[order], atoms.weight[order]
        first = np.searchsorted(owner, np.arange(n_owners + 1)).astype(np.int64)
        total = np.cumsum(weight)
        before = np.append(0.0, total)[first]
        whole = np.maximum(np.diff(before), 1e-300)
        share = (total - weight / 2 - before[:-1][owner]) / whole[owner]
        return cls(first, value, np.clip(share, 1e-12, 1 - 1e-12))

    @property
    def _owner(self) -> Ints:
        return np.repeat(np.arange(self.first.size - 1), np.diff(self.first))

    def below(self, owner: Ints, value: Floats) -> Floats:
        """Share of each owner's distribution below a value; points equal to the value count half."""
        wanted = np.clip(value, -_FARTHEST, _FARTHEST)
        keys, asked = self._owner * _APART + self.value, owner * _APART + wanted
        left, right = np.searchsorted(keys, asked, "left"), np.searchsorted(keys, asked, "right")
        is_equal = right > left
        low, high = np.where(is_equal, left, left - 1), np.where(is_equal, right - 1, left)
        return self._between(owner, low, high, self.value, self.share, wanted, (0.0, 1.0))

    def at(self, owner: Ints, share: Floats) -> Floats:
        """Quantile of each owner's distribution at a share; it lies between the outermost points."""
        keys = self._owner + self.share
        high = np.searchsorted(keys, owner + share, "left")
        ends = (-np.inf, np.inf)
        found = self._between(owner, high - 1, high, self.share, self.value, share, ends)
        return np.clip(found, self.value[self.first[owner]], self.value[self.first[owner + 1] - 1])

    def _between(
        self, owner: Ints, low: Ints, high: Ints, x: Floats, y: Floats, at: Floats, ends: tuple[float, float]
    ) -> Floats:
        first, last = self.first[owner], self.first[owner + 1] - 1
        low_in, high_in = np.clip(low, first, last), np.clip(high, first, last)
        width = x[high_in] - x[low_in]
        part = np.where(width > 0, (at - x[low_in]) / np.where(width > 0, width, 1.0), 0.5)
        inside = y[low_in] + part * (y[high_in] - y[low_in])
        # Beyond the outermost point, half of the remaining share.
        below = ends[0] if np.isinf(ends[0]) else y[first] / 2
        above = ends[1] if np.isinf(ends[1]) else (1 + y[last]) / 2
        found: Floats = np.where(low < first, below, np.where(high > last, above, inside))
        return found


MOST_RUNS = 20
"""Runs beyond this number add no weight to a cell among its group's cells."""


def kernel_averages(cells: Cells, level: Floats, group: Ints, procs: Floats, own_level: Floats, now_s: float) -> Floats:
    """Per row the mean over its group's other counts of the log median of all runs that ended by `now_s` (log s).

    A count weighs exp(-|log2 of the ratio|) times its runs, 20 at most. `level` (per cell) and `own_level` (per row)
    are log runtimes by the group's law, which bring medians together; 0 where none answers. NaN: no other count ran.
    """
    near = np.flatnonzero(np.isin(cells.group, group))
    n_ended = cells.ended(near, now_s)
    near, n_ended = near[n_ended > 0], n_ended[n_ended > 0]
    rows, owner = ranges(cells.offsets[near], cells.offsets[near] + n_ended)
    every = Mixtures.of(Atoms(owner, cells.log_s[rows], np.ones(rows.size)), near.size)
    median = every.at(np.arange(near.size), np.full(near.size, 0.5)) - level[near]
    first, last = (np.searchsorted(cells.group[near], group, side) for side in ("left", "right"))
    pair, row = ranges(first, last)
    apart = np.abs(np.log2(cells.procs[near[pair]] / procs[row]))
    kernel = np.exp(-apart) * np.minimum(n_ended[pair], MOST_RUNS) * (apart > 0)
    total = np.bincount(row, kernel, group.size)
    mean = np.bincount(row, kernel * median[pair], group.size) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, mean + own_level, np.nan)
