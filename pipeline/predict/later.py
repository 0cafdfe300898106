"""PREDICTIONS as they hold for the jobs that come next: calibrated on the log's own past windows."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.arrays import Bools, Floats, Ints, floats
from pipeline.core.report import Fact, Report, Tally
from pipeline.core.settings import PredictSettings
from pipeline.core.tables import PREDICTIONS
from pipeline.predict.cells import DAY_S, Cells
from pipeline.predict.curves import Curves
from pipeline.predict.later_levels import calibrated_shares, later_coverage, spread_class
from pipeline.predict.later_windows import Past, past_windows
from pipeline.predict.later_words import note_if_none, reliability_words
from pipeline.predict.predictive import Asked, predictive
from pipeline.predict.scaling_groups import scaling_groups
from pipeline.predict.track_record import MIN_WINDOWS, Record

CHUNK = 2000
"""Rows predicted at a time, which bounds memory."""

_ENDS = ("runtime_s_lo95", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_hi95")


def later(predictions: pa.Table, jobs: pa.Table, fits: pa.Table, settings: PredictSettings) -> tuple[pa.Table, Report]:
    """PREDICTIONS with medians, intervals and reliability for jobs submitted within `horizon_days` of the latest end.

    Runtimes are those of the cell's own runs and its group's other sizes, brought together by the group's law where it
    has earned that. Ends are shares of that distribution which past windows call for. A row is `ok` until
    `holds_until_s` where its track record says so. Without past windows the intervals are the defaults'.
    """
    whole = Tally(predictions.num_rows)
    cells = Cells.of(jobs)
    if not predictions.num_rows or not len(cells):
        return predictions, Report("later", "prediction", whole, whole).check()
    asked, level, scales = _asked(predictions, cells, fits)
    past = past_windows(cells, level, settings)
    shares = calibrated_shares(past, settings.horizon_days)
    log_s, half_iqr = _log_quantiles(cells, level, asked, past, shares, settings)
    log_s = _with_law(log_s, predictions, scales[asked.group] & (asked.cell < 0))
    record = Record.of(past, len(cells))
    believed = _believed(record, asked, half_iqr, predictions, scales) & (expected_error(log_s) <= MOST_ERROR)
    table = _table(predictions, log_s, asked, scales, believed, record, half_iqr, cells, settings)
    return table, Report("later", "prediction", whole, whole, facts=_facts(past, scales, table, settings),
                         notes=note_if_none(table)).check()  # fmt: skip


MOST_ERROR = 1.0
"""A row whose own quantiles expect a larger relative error is not believed, whatever its record."""

QUANTILE_WEIGHTS = np.array([0.0625, 0.2375, 0.4, 0.2375, 0.0625])
"""The share of runtimes that each of the five quantiles stands for."""


def _asked(predictions: pa.Table, cells: Cells, fits: pa.Table) -> tuple[Asked, Floats, Bools]:
    """Rows of PREDICTIONS as asked; log runtime by law of every cell, 0 where no law has earned it; who has."""
    curves = Curves.of(fits)
    scales = scaling_groups(cells, curves.take(fits.column("is_chosen").to_numpy()))
    place = {group: code for code, group in enumerate(cells.group_id)}
    group = np.array([place[name] for name in predictions.column("group_id").to_pylist()], np.int64)
    procs, law = floats(predictions, "procs"), np.log(floats(predictions, "runtime_s"))
    row_keys, cell_keys = _keys(group, procs), _keys(cells.group, cells.procs)
    cell = _found(cell_keys, row_keys)
    row = _found(row_keys, cell_keys)
    level = np.where((row >= 0) & scales[cells.group], law[row], 0.0)
    return Asked(group, procs, cell, np.where(scales[group], law, 0.0)), level, scales


def _keys(group: Ints, procs: Floats) -> Ints:
    return group * np.int64(2**40) + procs.astype(np.int64)


def _found(keys: Ints, wanted: Ints) -> Ints:
    """Row of each wanted key; -1 where there is none."""
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), keys.size - 1)
    return np.where(keys[order][at] == wanted, order[at], -1)


def _log_quantiles(
    cells: Cells, level: Floats, asked: Asked, past: Past, shares: Floats, settings: PredictSettings
) -> tuple[Floats, Floats]:
    """Log runtime [row, 5] at the ends and the median, in order; half interquartile range of each row (log s)."""
    log_s, half_iqr = np.empty((asked.group.size, 5)), np.empty(asked.group.size)
    for first in range(0, asked.group.size, CHUNK):
        part = slice(first, first + CHUNK)
        rows = Asked(asked.group[part], asked.procs[part], asked.cell[part], asked.level[part])
        found = predictive(cells, level, rows, cells.now_s, past.residuals, settings.jump_mass)
        known = found.mixtures
        every = np.arange(rows.group.size)
        quarters = [known.at(every, np.full(every.size, share)) for share in (0.25, 0.75)]
        half_iqr[part] = (quarters[1] - quarters[0]) / 2
        own = np.sort(shares[spread_class(half_iqr[part], found.is_seen)], axis=1)
        ends = [known.at(every, own[:, end]) for end in range(4)]
        log_s[part] = _nested(ends, found.medians())
    return log_s, half_iqr


def _nested(ends: list[Floats], middle: Floats) -> Floats:
    """The four ends with the median between them; an end never lies beyond it."""
    below, above = (np.minimum(end, middle) for end in ends[:2]), (np.maximum(end, middle) for end in ends[2:])
    return np.column_stack([*below, middle, *above])


def _with_law(log_s: Floats, predictions: pa.Table, is_law: Bools) -> Floats:
    """On counts that never ran, where a law answers, an interval is at least as wide as how unsure that law is."""
    law_s = np.log(floats(predictions, "runtime_s"))
    for place, name in zip((0, 1, 3, 4), _ENDS, strict=True):
        apart = np.log(floats(predictions, name)) - law_s
        farthest = np.where(np.abs(apart) > np.abs(log_s[:, place] - log_s[:, 2]), log_s[:, 2] + apart, log_s[:, place])
        log_s[:, place] = np.where(is_law, farthest, log_s[:, place])
    return log_s


def expected_error(log_s: Floats) -> Floats:
    """Per row the mean of |median / runtime - 1| over its own quantiles (2.5, 10, 50, 90, 97.5%)."""
    off: Floats = np.abs(np.exp(log_s[:, 2:3] - log_s) - 1.0) @ QUANTILE_WEIGHTS
    return off


def _believed(record: Record, asked: Asked, half_iqr: Floats, predictions: pa.Table, scales: Bools) -> Bools:
    """By the row's own record; a count that never ran by its group's, where a law answers and nothing speaks against.

    A group's record is good where most of its rows that ran are believed.
    """
    own = record.is_believed(asked.cell, half_iqr)
    ran = asked.cell >= 0
    n_ran = np.bincount(asked.group, ran, scales.size)
    n_good = np.bincount(asked.group, own & ran, scales.size)
    good = scales & (n_good > n_ran / 2)
    codes = predictions.column("reliability").cast(pa.string())
    sound = pc.equal(codes, "ok").to_numpy(zero_copy_only=False)
    believed: Bools = own | (~ran & good[asked.group] & sound)
    return believed


def _table(
    predictions: pa.Table, log_s: Floats, asked: Asked, scales: Bools, believed: Bools, record: Record,
    half_iqr: Floats, cells: Cells, settings: PredictSettings,
) -> pa.Table:  # fmt: skip
    runtime_s = np.exp(log_s)
    until_s = cells.now_s + settings.horizon_days * DAY_S
    words, advice = reliability_words(predictions, believed, record, asked, half_iqr)
    answered = scales[asked.group]
    old = {name: predictions.column(name) for name in predictions.column_names}
    speedup = _speedup(predictions, asked, log_s[:, 2], answered)
    methods = np.where(answered, np.array(old["method"].to_pylist(), object), "observed")
    ends = dict(zip(_ENDS, runtime_s[:, [0, 1, 3, 4]].T, strict=True))
    changed = ends | {
        "runtime_s": runtime_s[:, 2], "reliability": words, "advice": advice, "method": methods.tolist(),
        "speedup": speedup, "efficiency": speedup / asked.procs,
        "near_share": np.where(record.windows(asked.cell) >= MIN_WINDOWS, record.share(asked.cell, half_iqr), np.nan),
        "holds_until_s": np.where(believed, np.floor(until_s), np.nan),
    }  # fmt: skip
    return PREDICTIONS.build(**(old | changed))


def _speedup(predictions: pa.Table, asked: Asked, log_s: Floats, answered: Bools) -> Floats:
    """The law's, where one answers; else the runtime on the least count over that of each row."""
    law = floats(predictions, "speedup")
    first = np.searchsorted(asked.group, asked.group) if (np.diff(asked.group) >= 0).all() else np.arange(law.size)
    on_least = log_s[first]
    speedup: Floats = np.where(answered | np.isnan(law), law, np.exp(on_least - log_s))
    return speedup


def _facts(past: Past, scales: Bools, table: pa.Table, settings: PredictSettings) -> dict[str, Fact]:
    held = [None if np.isnan(share) else share for share in later_coverage(past, settings.horizon_days)]
    words = table.column("reliability").cast(pa.string())
    return {
        "past_windows": past.n_windows,
        "past_jobs": int(past.below.size),
        "in_80_later": held[0],
        "in_95_later": held[1],
        "groups_that_scale": int(scales.sum()),
        "predictions_ok": int(pc.sum(pc.equal(words, "ok")).as_py() or 0),
    }
