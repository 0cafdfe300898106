"""Track records: a prediction is reliable if past windows of its cell and of similar rows were accurate."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints
from pipeline.scaling.later.cells import Cells
from pipeline.scaling.later.predictive import TargetRows, predictive
from pipeline.scaling.later.windows import N_CLASSES, PastWindows, calibrated_shares, half_iqr, spread_class
from pipeline.scaling.scaling_rules import PredictRules

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


CHUNK = 2000
"""Rows predicted at a time, which bounds memory."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Log runtime [row, 5] at 2.5, 10, 50, 90, 97.5%; half the interquartile range (log s); whether the group ran."""

    log_s: Floats
    half_iqr: Floats
    is_known: Bools


def answers_at(
    cells: Cells, level: Floats, targets: TargetRows, now_s: float, past: PastWindows, rules: PredictRules
) -> Answers:
    """The published quantiles of each target row at `now_s`; interval ends are calibrated on past windows."""
    shares = calibrated_shares(past, rules.horizon_days)
    log_s, spread = np.empty((targets.group.size, 5)), np.empty(targets.group.size)
    is_known = np.empty(targets.group.size, bool)
    for first in range(0, targets.group.size, CHUNK):
        part = slice(first, first + CHUNK)
        rows = TargetRows(targets.group[part], targets.procs[part], targets.cell[part], targets.level[part])
        found = predictive(cells, level, rows, now_s, past.residuals, rules.jump_mass)
        spread[part], is_known[part] = half_iqr(found), found.is_known
        own = np.sort(shares[spread_class(spread[part], found.is_seen)], axis=1)
        ends = [found.mixtures.at(np.arange(rows.group.size), own[:, end]) for end in range(4)]
        log_s[part] = _nested(ends, found.medians())
    return Answers(log_s, spread, is_known)


def _nested(ends: list[Floats], middle: Floats) -> Floats:
    """The four ends with the median between them; an end never lies beyond it."""
    below, above = (np.minimum(end, middle) for end in ends[:2]), (np.maximum(end, middle) for end in ends[2:])
    return np.column_stack([*below, middle, *above])


def believed_rows(record: Record, targets: TargetRows, spread: Floats, scales: Bools, sound: Bools) -> Bools:
    """Whether each row is reliable: by its own track record, or by its group's for a count that never ran.

    The group's record counts only where a law answers and the law's prediction has no code (`sound`, per row). It is
    good if most of the group's rows that ran are reliable. `spread` is half the interquartile range (log s); `scales`,
    per group, says whether a law answers.
    """
    own = record.is_believed(targets.cell, spread)
    ran = targets.cell >= 0
    n_ran = np.bincount(targets.group, ran, scales.size)
    n_good = np.bincount(targets.group, own & ran, scales.size)
    good = scales & (n_good > n_ran / 2)
    believed: Bools = own | (~ran & good[targets.group] & sound)
    return believed


Words = npt.NDArray[np.object_]

NO_RECORD, MISSED = "no_record", "missed"

_MEANING = {
    NO_RECORD: "too few past windows have jobs on that count",
    MISSED: "past windows missed the median by more than 25%",
    "one_size": "the group ran on one count only",
    "wide_group": "the group mixes different work",
    "few_sizes": "too few counts tell the laws apart",
    "high_error": "no law comes close to what ran",
}


def reliability_texts(
    predictions: pa.Table, believed: Bools, record: Record, targets: TargetRows, half_iqr: Floats
) -> tuple[list[str], list[str | None]]:
    """Per row: `ok`, or the codes of the law's prediction and of the track record; and a sentence."""
    old = predictions.column("reliability").to_pylist()
    advice = predictions.column("advice").to_pylist()
    n_windows, share = record.windows(targets.cell), record.share(targets.cell, half_iqr)
    words = [_codes(old[row], bool(believed[row]), int(n_windows[row])) for row in range(len(old))]
    says = [bool(believed[row]) or (old[row] != "ok" and advice[row] is not None) for row in range(len(old))]
    sentences = [
        advice[row] if says[row] else _sentence(int(n_windows[row]), float(share[row])) for row in range(len(old))
    ]
    return words, sentences


def _codes(old: str, is_believed: bool, n_windows: int) -> str:
    if is_believed:
        return "ok"
    lacking = NO_RECORD if n_windows < MIN_WINDOWS else MISSED
    return lacking if old == "ok" else f"{old}+{lacking}"


def _sentence(n_windows: int, share: float) -> str:
    if n_windows < MIN_WINDOWS:
        return f"Of {MIN_WINDOWS} past windows with such jobs that a track record needs, there are {n_windows}."
    return f"In past windows {share:.0%} of such jobs took within 25% of what was predicted, not {ENOUGH:.0%}."


def note_if_none(table: pa.Table) -> tuple[str, ...]:
    """One sentence where no prediction is ok: the two most common reasons, and what would change it."""
    counted = Counter(code for words in table.column("reliability").to_pylist() for code in words.split("+"))
    if not counted or counted["ok"]:
        return ()
    common = sorted(counted, key=lambda code: (-counted[code], code))[:2]
    reasons = " and ".join(f"{_MEANING.get(code, code)} ({code}, {counted[code]:,} rows)" for code in common)
    return (
        f"No prediction is ok: {reasons}; a column in group.template that tells the work apart, or a rule in "
        "ingest.problem_size_rules, would change that.",
    )
