"""Rows as published at a time: median, ends of intervals, and whether past windows let one believe them."""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Bools, Floats
from pipeline.core.settings import PredictSettings
from pipeline.predict.cells import Cells
from pipeline.predict.later_levels import calibrated_shares, spread_class
from pipeline.predict.later_windows import PastWindows, half_iqr
from pipeline.predict.predictive import Asked, predictive
from pipeline.predict.track_record import Record

CHUNK = 2000
"""Rows predicted at a time, which bounds memory."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Log runtime [row, 5] at 2.5, 10, 50, 90 and 97.5%; half the interquartile range (log s), whether known at all."""

    log_s: Floats
    half_iqr: Floats
    is_known: Bools


def answers_at(
    cells: Cells, level: Floats, asked: Asked, now_s: float, past: PastWindows, settings: PredictSettings
) -> Answers:
    """What is published at `now_s` for each row asked: ends are the shares that past windows call for."""
    shares = calibrated_shares(past, settings.horizon_days)
    log_s, spread = np.empty((asked.group.size, 5)), np.empty(asked.group.size)
    is_known = np.empty(asked.group.size, bool)
    for first in range(0, asked.group.size, CHUNK):
        part = slice(first, first + CHUNK)
        rows = Asked(asked.group[part], asked.procs[part], asked.cell[part], asked.level[part])
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


def believed_rows(record: Record, asked: Asked, spread: Floats, scales: Bools, sound: Bools) -> Bools:
    """By the row's own record; a count that never ran by its group's, where a law answers and nothing speaks against.

    `spread` is half the interquartile range (log s); `scales`, per group, whether a law answers; `sound`, per row,
    whether that law's prediction has no code against it. A group's record is good where most of its rows that ran are
    believed.
    """
    own = record.is_believed(asked.cell, spread)
    ran = asked.cell >= 0
    n_ran = np.bincount(asked.group, ran, scales.size)
    n_good = np.bincount(asked.group, own & ran, scales.size)
    good = scales & (n_good > n_ran / 2)
    believed: Bools = own | (~ran & good[asked.group] & sound)
    return believed
