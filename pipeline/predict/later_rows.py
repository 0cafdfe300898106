"""Rows as published at a time: median, ends of intervals, and whether past windows confirm them."""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Bools, Floats
from pipeline.core.settings import PredictSettings
from pipeline.predict.cells import Cells
from pipeline.predict.later_levels import calibrated_shares, spread_class
from pipeline.predict.later_windows import PastWindows, half_iqr
from pipeline.predict.predictive import TargetRows, predictive
from pipeline.predict.track_record import Record

CHUNK = 2000
"""Rows predicted at a time, which bounds memory."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Log runtime [row, 5] at 2.5, 10, 50, 90, 97.5%; half the interquartile range (log s); whether the group ran."""

    log_s: Floats
    half_iqr: Floats
    is_known: Bools


def answers_at(
    cells: Cells, level: Floats, targets: TargetRows, now_s: float, past: PastWindows, settings: PredictSettings
) -> Answers:
    """The published quantiles of each target row at `now_s`; interval ends are calibrated on past windows."""
    shares = calibrated_shares(past, settings.horizon_days)
    log_s, spread = np.empty((targets.group.size, 5)), np.empty(targets.group.size)
    is_known = np.empty(targets.group.size, bool)
    for first in range(0, targets.group.size, CHUNK):
        part = slice(first, first + CHUNK)
        rows = TargetRows(targets.group[part], targets.procs[part], targets.cell[part], targets.level[part])
        found = predictive(cells, level, rows, now_s, past.residuals, settings.jump_mass)
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
