"""PREDICTIONS for later jobs, calibrated on past windows of the log."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, Ints, floats
from pipeline.large_tables import LargeTable, groups_of, newest_jobs, rows_of
from pipeline.report import Fact, Report, Tally
from pipeline.scaling.curves import Curves
from pipeline.scaling.later.cells import CELL_COLUMNS, DAY_S, Cells
from pipeline.scaling.later.predictive import TargetRows, scaling_groups
from pipeline.scaling.later.track_record import (
    MIN_WINDOWS,
    Record,
    answers_at,
    believed_rows,
    note_if_none,
    reliability_texts,
)
from pipeline.scaling.later.windows import PastWindows, Window, later_coverage, past_cuts, windows_at
from pipeline.scaling.scaling_rules import PredictRules
from pipeline.tables import PREDICTIONS

HOLDS_DAYS = 7.0
"""Longest validity of an ok row, days: a track record is weak evidence for runs weeks later."""

_ENDS = ("runtime_s_lo95", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_hi95")


def later(
    predictions: pa.Table, jobs: LargeTable, fits: pa.Table, rules: PredictRules, now_s: float | None = None,
    grouped: LargeTable | None = None,
) -> tuple[pa.Table, Report]:  # fmt: skip
    """PREDICTIONS with medians, intervals and reliability for jobs submitted within `horizon_days` of `now_s`, the
    latest end where none is given.

    Runtimes come from the cell's own runs and its group's other sizes. The group's law relates the sizes if it predicts
    left-out sizes clearly better than their mean does. Interval ends are the shares of that distribution that past
    windows require. A row is `ok` until `holds_until_s` if its track record is good. Without past windows the shares
    are defaults. The windows of a long log lie in its newest jobs: `newest_jobs` has the rule.

    Parameters
    ----------
    predictions : pa.Table
        PREDICTIONS by law.
    jobs : pa.Table or StoredTable
        Grouped JOBS.
    fits : pa.Table
        FITS of the groups.
    rules : PredictRules
        Horizon in days, number of past windows, and other rules.
    now_s : float, optional
        Time of the predictions, s since 1970; by default the latest end.
    grouped : pa.Table or StoredTable, optional
        GROUPED_JOBS of the same jobs: of a log that is longer than the part for the windows, a few groups at a time are
        in memory then.

    Returns
    -------
    table : pa.Table
        PREDICTIONS with the same rows; runtimes and interval ends in s.
    report : Report
        Number of predictions; past windows and their coverage as facts.

    Examples
    --------
    >>> table, report = later(tables["unlevelled"], tables["jobs"], tables["fits"], PredictRules())
    >>> table.num_rows == tables["unlevelled"].num_rows
    True
    """
    whole = Tally(predictions.num_rows)
    newest, older = newest_jobs(jobs, CELL_COLUMNS, rules.calibrate_jobs)
    cells = Cells.of(newest, now_s)
    del newest
    if not predictions.num_rows or not len(cells):
        return predictions, Report("later", "prediction", whole, whole).check()
    chosen = Curves.of(fits.filter(fits.column("is_chosen")))
    past = _Calibration.of(predictions, cells, chosen, rules)
    if not older.rows:
        parts: Iterable[Cells] = [cells]
    elif grouped is None:
        parts = [Cells.of(rows_of(jobs, columns=CELL_COLUMNS), cells.now_s)]
    else:
        parts = (Cells.of(part, cells.now_s) for part in groups_of(grouped))
    table, n_scaling = _answered(predictions, parts, chosen, past)
    facts = past.facts() | {"groups_that_scale": n_scaling, "predictions_ok": _n_ok(table)}
    return table, Report("later", "prediction", whole, whole, facts=facts, notes=note_if_none(table)).check()


@dataclass(frozen=True, slots=True)
class _Calibration:
    """Past windows of the newest jobs, and what they say of interval ends and of the record of each cell."""

    cells: Cells
    rules: PredictRules
    windows: list[Window]
    past: PastWindows
    record: Record

    @classmethod
    def of(cls, predictions: pa.Table, cells: Cells, chosen: Curves, rules: PredictRules) -> Self:
        _, level, _ = target_rows(predictions.take(pa.array(_rows_of(predictions, cells))), cells, chosen)
        windows = windows_at(cells, level, rules, past_cuts(cells, cells.now_s, rules))
        past = PastWindows.of(windows, cells, cells.now_s, rules.past_windows)
        return cls(cells, rules, windows, past, Record.of(past, len(cells), rules.horizon_days))

    def record_of(self, cells: Cells) -> Record:
        """The record of other cells of the same log."""
        if cells is self.cells:
            return self.record
        code = {name: place for place, name in enumerate(self.cells.group_id)}
        group = np.array([code.get(name, -1) for name in cells.group_id], np.int64)[cells.group]
        return self.record.at(places_of(cell_keys(self.cells.group, self.cells.procs), cell_keys(group, cells.procs)))

    def facts(self) -> dict[str, Fact]:
        """Number of past windows and jobs, and the share of later jobs inside the intervals."""
        shares = later_coverage(self.windows, self.cells, self.cells.now_s, self.rules)
        held = [None if np.isnan(share) else share for share in shares]
        return {
            "past_windows": self.past.n_windows, "past_jobs": int(self.past.below.size), "in_80_later": held[0],
            "in_95_later": held[1],
        }  # fmt: skip


def _answered(
    predictions: pa.Table, parts: Iterable[Cells], chosen: Curves, past: _Calibration
) -> tuple[pa.Table, int]:
    """The rows of PREDICTIONS in their order, answered a part of the groups at a time; how many groups scale."""
    rows, tables, n_scaling = [], [], 0
    for cells in parts:
        rows.append(_rows_of(predictions, cells))
        own = predictions.take(pa.array(rows[-1]))
        targets, level, scales = target_rows(own, cells, chosen)
        tables.append(_table(own, cells, targets, level, scales, past))
        n_scaling += int(scales.sum())
    table = pa.concat_tables(tables).unify_dictionaries()
    return table.take(pa.array(np.argsort(np.concatenate(rows)))), n_scaling


def _rows_of(predictions: pa.Table, cells: Cells) -> Ints:
    """The rows of PREDICTIONS of the groups of some cells."""
    ids = predictions.column("group_id").cast(pa.string())
    return np.flatnonzero(pc.is_in(ids, pa.array(cells.group_id, pa.string())).to_numpy())


def target_rows(predictions: pa.Table, cells: Cells, chosen: Curves) -> tuple[TargetRows, Floats, Bools]:
    """Rows of PREDICTIONS as targets; log runtime by law of every cell (0: no law); whether a law predicts a group.

    `chosen` are the laws in use.
    """
    scales = scaling_groups(cells, chosen)
    place = {group: code for code, group in enumerate(cells.group_id)}
    group = np.array([place[name] for name in predictions.column("group_id").to_pylist()], np.int64)
    procs, law = floats(predictions, "procs"), np.log(floats(predictions, "runtime_s"))
    row_keys, keys = cell_keys(group, procs), cell_keys(cells.group, cells.procs)
    cell = places_of(keys, row_keys)
    row = places_of(row_keys, keys)
    level = np.where((row >= 0) & scales[cells.group], law[row], 0.0)
    return TargetRows(group, procs, cell, np.where(scales[group], law, 0.0)), level, scales


def cell_keys(group: Ints, procs: Floats) -> Ints:
    """A number per pair of group and processor count."""
    return group * np.int64(2**40) + procs.astype(np.int64)


def places_of(keys: Ints, wanted: Ints) -> Ints:
    """Row of each wanted key; -1 where there is none."""
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), keys.size - 1)
    return np.where(keys[order][at] == wanted, order[at], -1)


def with_law(log_s: Floats, predictions: pa.Table, is_law: Bools) -> Floats:
    """Interval ends that are at least as wide as the law's own, on counts that never ran and where a law answers.

    Where the law leaves a 95% end open and its 80% end lies beyond the calibrated 95% one, the 95% end is open (NaN).
    """
    law_s = np.log(floats(predictions, "runtime_s"))
    for place, name in zip((0, 1, 3, 4), _ENDS, strict=True):
        apart = np.log(floats(predictions, name)) - law_s
        farthest = np.where(np.abs(apart) > np.abs(log_s[:, place] - log_s[:, 2]), log_s[:, 2] + apart, log_s[:, place])
        log_s[:, place] = np.where(is_law, farthest, log_s[:, place])
    for outer, inner, sign in ((0, 1, -1.0), (4, 3, 1.0)):
        log_s[is_law & (sign * log_s[:, outer] < sign * log_s[:, inner]), outer] = np.nan
    return log_s


def _table(
    predictions: pa.Table, cells: Cells, targets: TargetRows, level: Floats, scales: Bools, calibration: _Calibration
) -> pa.Table:
    rules, record = calibration.rules, calibration.record_of(cells)
    answers = answers_at(cells, level, targets, cells.now_s, calibration.past, rules)
    answered, half_iqr = scales[targets.group], answers.half_iqr
    log_s = with_law(answers.log_s, predictions, answered & (targets.cell < 0))
    sound = pc.equal(predictions.column("reliability").cast(pa.string()), "ok").to_numpy(zero_copy_only=False)
    believed = believed_rows(record, targets, half_iqr, scales, sound)
    runtime_s = np.exp(log_s)
    until_s = cells.now_s + min(rules.horizon_days, HOLDS_DAYS) * DAY_S
    words, advice = reliability_texts(predictions, believed, record, targets, half_iqr)
    old = {name: predictions.column(name) for name in predictions.column_names}
    speedup = _speedup(floats(predictions, "speedup"), targets, log_s[:, 2], answered)
    methods = np.where(answered, np.array(old["method"].to_pylist(), object), "observed")
    ends = dict(zip(_ENDS, runtime_s[:, [0, 1, 3, 4]].T, strict=True))
    has_record = record.windows(targets.cell) >= MIN_WINDOWS
    changed = ends | {
        "runtime_s": runtime_s[:, 2], "reliability": words, "advice": advice, "method": methods.tolist(),
        "speedup": speedup, "efficiency": speedup / targets.procs,
        "near_share": np.where(has_record, record.share(targets.cell, half_iqr), np.nan),
        "holds_until_s": np.where(believed, np.floor(until_s), np.nan),
    }  # fmt: skip
    return PREDICTIONS.build(**(old | changed))


def _speedup(law: Floats, targets: TargetRows, log_s: Floats, answered: Bools) -> Floats:
    """The law's speed-up where one answers; else T(1)/T(n) where the group ran on one processor, and unknown (NaN)."""
    on_one = np.full(int(targets.group.max(initial=-1)) + 1, np.nan)
    ran_on_one = (targets.procs == 1) & (targets.cell >= 0)
    on_one[targets.group[ran_on_one]] = log_s[ran_on_one]
    speedup: Floats = np.where(answered | np.isnan(law), law, np.exp(on_one[targets.group] - log_s))
    return speedup


def _n_ok(table: pa.Table) -> int:
    words = table.column("reliability").cast(pa.string())
    return int(pc.sum(pc.equal(words, "ok")).as_py() or 0)
