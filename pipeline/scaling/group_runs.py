"""PREDICTIONS: how long the runs of a group take at each count, from the law of the group and from its own runs.

The runs of one group at one count are a cell. `_walk` follows a log in time. Each run is answered from the runs of its
group that had ended AGE_S before its submit; when a run has ended, its answer is compared with its runtime. After the
walk each row of the table is answered in the same way, with the law beside the runs.

One answer: runtimes of the cell (those of the newest half-year; a run older than HALF_S counts less than a half), their
median by Kaplan and Meier, shrunk towards the group's other counts or the law, against which a burst counts as its
root; knots, which are quantiles of the residuals of the cell, its group and the log; the ends of the intervals at
calibrated positions among the knots.
"""

import math
from collections import Counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from pipeline.arrays import Array, Bools, Floats, Ints, category_codes, dense_codes, floats, job_procs, lower_bounds
from pipeline.axes import MOST_EFFICIENCY, Axis
from pipeline.estimate.answer import sort_numbers
from pipeline.large_tables import LargeTable, groups_of
from pipeline.report import Fact, Report, Tally
from pipeline.tables import PREDICTIONS

DAY_S = 86_400.0
AGE_S, HALF_S, BURST_S = 7 * DAY_S, 180 * DAY_S, 600.0
"""Age of what an answer knows; age at which the weight of a run is a half; gaps between submits of one burst."""

LEVELS = np.array((0.025, 0.1, 0.5, 0.9, 0.975))
LO95, LO80, MIDDLE, HI80, HI95 = range(5)
"""Columns of an answer, log s: the quantiles at LEVELS. The middle joins runs and law, the others are moved."""
KNOT_LEVELS = np.array((0.01, 0.03, 0.07, 0.15, 0.3, 0.5, 0.7, 0.85, 0.93, 0.97, 0.99))
N_KNOTS = len(KNOT_LEVELS)
FIRST_POSITIONS = np.array((1.5, 2.5, 5.0, 7.5, 8.5))
NORMAL_KNOTS = np.array((-2.33, -1.88, -1.48, -1.04, -0.52, 0.0, 0.52, 1.04, 1.48, 1.88, 2.33))

CLASSES = np.array((0.0, 3.0, 10.0, 30.0))
"""Calibration by the effective runs of a cell: none, then up to these numbers, and more."""
STEP, WAITING = 0.02, 5.0
"""Move of a position per ended run, in knots; over the usual number of answers that wait for their ends, the largest
move (late feedback would oscillate)."""
OVERSHOOT, LEAST_GAP, MOST_GAP = 4.0, 0.02, 0.7
"""How far positions go beyond the knots, and the least and largest distance (log) of knots there."""

WIDTH, GROUP_WIDTH, NEIGHBOURS, REFRESH, MOST_OF_CELL = 256, 32, 16, 32, 20_000
"""Runs of a cell in an answer (of more, as many are drawn by weight), residuals kept of a group, counts looked at on
either side. A cell is computed anew after a week or a 32nd more runs, from at most so many, so that a walk is linear
in runs."""
N_ATOMS = WIDTH + GROUP_WIDTH + N_KNOTS
OF_GROUP, OF_LOG, OF_OTHERS = 2.0, 1.0, 0.5
"""Runs' worth of the residuals of the group and of the log, and of the median at the group's other counts."""
MOST_OF_LAW = 1.0
"""The law counts as at most one run at a count that ran."""
MOST_RUNS = 2_000_000
"""The newest runs are used, so that memory has a bound."""

WIDTH_80, WIDTH_86, SAME = 2.5631, 2.9516, 1e-6
"""Widths of a normal distribution's central 80% and 86% in standard deviations; equal log runtimes, in float32."""

ENOUGH, KEEPS, KEEPS_OF_LOG, LEAST_KEPT, MOST_KEPT, MOST_SPAN = 20, 0.99, 0.9999, 0.7, 0.9, 2.5
"""A row is kept where its 80% interval contained 70 to 90% of at least 20 later runs, of which the newest count most;
it is ok where the interval spans at most 2.5 times."""

ADVICE = {
    "ok": "", "wide": "The 80% interval contained as many later runs as it should, but it is wide.",
    "missed": "The 80% interval contained {share:.0%} of the latest {n} later runs; it should contain 80%.",
    "few": "{n} later runs have been compared with this row; {enough} are needed.",
    "far": "Beyond the counts that ran: only the law of the group tells.",
    "broken": "No law comes close to what ran, and no run on this count is known.",
}  # fmt: skip
"""The words of reliability, and a sentence for each; the law's own advice stands before it."""


class Runs(NamedTuple):
    """Ended runs in order of cell, then of end."""

    cell: Ints
    log_s: Floats
    is_bound: Bools
    # By how much the root of the number of its burst's runs grew with this run.
    of_burst: Floats
    # Whether the root of the burst's runs so far grew to a whole number with this run.
    in_root: Bools
    submit_s: Floats
    end_s: Floats


class Cells(NamedTuple):
    """Cells in order of group and count."""

    group: Ints
    log_count: Floats
    # Place of the first run.
    first: Ints


class Learnt(NamedTuple):
    """What the walk has learnt."""

    # By cell: runs that have ended; those known when the cell was last computed, -1 before; when that was.
    n_known: Ints
    n_used: Ints
    used_s: Floats
    # By cell, as last computed: middle of the answer (log s); effective runs; knots, as distances from the middle.
    centre: Floats
    n_effective: Floats
    knots: Floats
    # By cell: decayed number of later runs in the 80% interval; of all; their number.
    record: Floats
    # By group a ring of residuals (log), and how many were put in.
    residuals: Floats
    n_residuals: Ints
    # By class: the log's residuals at KNOT_LEVELS, how many there were, and the position of each of LEVELS.
    ladder: Floats
    n_ladder: Floats
    positions: Floats
    # By cell: median of its runs (log s), or about that since it was computed; its group.
    middle: Floats
    group: Ints
    # Decayed: runs inside 80%, inside 95%, all; the usual number of answers that wait; runs compared.
    totals: Floats


def predict(
    curves: pa.Table, grouped_jobs: LargeTable, groups: pa.Table, run_id: str, as_of_s: float = np.inf
) -> tuple[pa.Table, Report]:
    """PREDICTIONS, a row per group and count of `curves`.

    Parameters
    ----------
    curves : pa.Table
        PREDICTIONS by law alone, from `law_medians`.
    grouped_jobs : pa.Table or StoredTable
        GROUPED_JOBS.
    groups : pa.Table
        GROUPS.
    run_id : str
        Id of the run, written to every row.
    as_of_s : float
        What ended later is not known; s since 1970; at most the newest end.

    Returns
    -------
    table : pa.Table
        PREDICTIONS; runtimes in s.
    report : Report
        Number of rows of each reliability, and how many later runs the intervals contained.

    Examples
    --------
    >>> table, report = predict(tables["curves"], tables["grouped_jobs"], tables["groups"], "r1")
    >>> table.num_rows == tables["curves"].num_rows
    True
    """
    # 1. The ended runs, and the cells of runs and of rows.
    runs, cells, row_cell = _runs_and_cells(curves, grouped_jobs, groups, as_of_s)
    as_of_s = min(as_of_s, float(runs.end_s.max(initial=0.0)))
    learnt, by_submit = _nothing(cells), np.argsort(runs.submit_s, kind="stable")
    by_end = np.argsort(runs.end_s, kind="stable")
    # 2. Learn from the log in order of time.
    answers, of_class = np.full((len(runs.cell), len(LEVELS)), np.nan, np.float32), np.full(len(runs.cell), -1, np.int8)
    _walk(runs, cells, learnt, answers, of_class, by_submit, by_end, as_of_s)
    # 3. Answer the rows from the runs, and join the law.
    of_runs = np.full((len(row_cell), len(LEVELS)), np.nan)
    law = np.log(np.stack([floats(curves, name) for name in _ENDS], axis=1))
    _answer_rows(runs, cells, learnt, row_cell, law, as_of_s, of_runs)
    has_run = learnt.n_known[row_cell] > 0
    found = np.exp(np.where(has_run[:, None], of_runs, _with_law(of_runs, law)))
    words, sentences, record = _reliability(curves, found, has_run, learnt.record[row_cell])
    speedup = _speedup(curves, found[:, MIDDLE], law[:, MIDDLE], learnt.n_effective[row_cell])
    table = PREDICTIONS.build(
        **{name: curves.column(name) for name in ("group_id", "axis", "procs", "is_extrapolated")},
        **dict(zip(_ENDS, found.T, strict=True)), speedup=speedup, efficiency=speedup / floats(curves, "procs"),
        reliability=words, advice=sentences, kept_share=record[0], n_later=record[1],
        method=np.where(has_run, "runs", "law").tolist(), run_id=[run_id] * curves.num_rows,
    )  # fmt: skip
    counted, (in_80, in_95, n, _, n_compared) = Counter(words), learnt.totals.tolist()
    facts: dict[str, Fact] = {f"predictions_{word}": counted[word] for word in ADVICE}
    facts |= {"past_jobs": int(n_compared)}
    facts |= {"in_80_later": in_80 / n if n else None, "in_95_later": in_95 / n if n else None}
    whole = Tally(table.num_rows)
    return table, Report("predict", "prediction", whole, whole, facts=facts).check()


_ENDS = ("runtime_s_lo95", "runtime_s_lo80", "runtime_s", "runtime_s_hi80", "runtime_s_hi95")


def _runs_and_cells(
    curves: pa.Table, grouped_jobs: LargeTable, groups: pa.Table, as_of_s: float
) -> tuple[Runs, Cells, Ints]:
    """The newest ended runs of the groups of `curves`; the cells of runs and rows; the cell of each row."""
    code, ids = category_codes(curves, "group_id")
    axis = dict(zip(*(groups.column(name).to_pylist() for name in ("group_id", "axis")), strict=True))
    number = {name: place for place, name in enumerate(ids)}
    parts = [_ended(part, number, axis, as_of_s) for part in groups_of(grouped_jobs)]
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    group, count, user, log_s, is_bound, submit_s, end_s = columns
    kept = np.argsort(end_s, kind="stable")[-MOST_RUNS:]
    counts = np.append(floats(curves, "procs"), count[kept]).astype(np.int64)
    base = int(counts.max(initial=0)) + 1
    distinct, cell = np.unique(np.append(code, group[kept]) * base + counts, return_inverse=True)
    row_cell, cell = cell[: len(code)], cell[len(code) :]
    order = np.argsort(cell, kind="stable")
    kept, cell = kept[order], cell[order]
    nth = _nth_of_burst(cell, user[kept], submit_s[kept])
    root = np.floor(np.sqrt(nth) + 1e-9) > np.floor(np.sqrt(nth - 1) + 1e-9)
    of_burst = np.sqrt(nth) - np.sqrt(nth - 1)
    runs = Runs(cell, log_s[kept], is_bound[kept], of_burst, root, submit_s[kept], end_s[kept])
    first = np.searchsorted(cell, np.arange(len(distinct)))
    return runs, Cells(distinct // base, np.log(distinct % base), first), row_cell


def _ended(part: pa.Table, number: dict[str, int], axis: dict[str, str | None], as_of_s: float) -> tuple[Array, ...]:
    """Group, count, user, log runtime, whether it is a lower bound, submit and end of the ended runs of some jobs."""
    code, ids = category_codes(part, "group_id")
    group = np.array([number.get(name, -1) for name in ids], np.int64)[code]
    counts = {Axis.PROCS: job_procs(part), Axis.GPUS: floats(part, "gpus"), Axis.NODES: floats(part, "nodes")}
    of_axis = np.array([axis.get(name) or Axis.PROCS for name in ids], object)[code]
    count = np.select([of_axis == name for name in counts], list(counts.values()), np.nan)
    runtime_s, end_s, submit_s = (floats(part, name) for name in ("runtime_s", "end_s", "submit_s"))
    end_s = np.where(np.isnan(end_s), submit_s + runtime_s, end_s)
    submit_s = np.where(np.isnan(submit_s), end_s - runtime_s, submit_s)
    # A clock that is wrong may say that a job ended before its submit.
    end_s = np.fmax(end_s, submit_s)
    rows = np.flatnonzero((group >= 0) & (count > 0) & (runtime_s > 0) & (end_s <= as_of_s))
    user = dense_codes(part.column("user"))
    log_s, is_bound = np.log(np.fmax(runtime_s, 1e-3)), lower_bounds(part)
    return tuple(column[rows] for column in (group, count, user, log_s, is_bound, submit_s, end_s))


def _nth_of_burst(cell: Ints, user: Ints, submit_s: Floats) -> Floats:
    """The place of each run, from 1, among those of one user in one cell with gaps of submits up to BURST_S."""
    order = np.lexsort((submit_s, user, cell))
    is_next = (np.diff(cell[order]) == 0) & (np.diff(user[order]) == 0) & (np.diff(submit_s[order]) <= BURST_S)
    starts = np.flatnonzero(np.append(True, ~is_next)[: len(order)])
    nth = np.empty(len(order))
    nth[order] = np.arange(1, len(order) + 1) - np.repeat(starts, np.diff(starts, append=len(order)))
    return nth


def _nothing(cells: Cells) -> Learnt:
    n, n_groups = len(cells.first), int(cells.group.max(initial=-1)) + 1
    return Learnt(
        np.zeros(n, np.int64), np.full(n, -1), np.zeros(n), np.full(n, np.nan), np.zeros(n),
        np.zeros((n, len(KNOT_LEVELS)), np.float32), np.zeros((n, 3)), np.zeros((n_groups, GROUP_WIDTH), np.float32),
        np.zeros(n_groups, np.int64), np.tile(NORMAL_KNOTS, (len(CLASSES) + 1, 1)), np.zeros(len(CLASSES) + 1),
        np.tile(FIRST_POSITIONS, (len(CLASSES) + 1, 1)), np.full(n, np.nan), cells.group,
        np.zeros(5),
    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def _walk(
    runs: Runs, cells: Cells, learnt: Learnt, answers: Array, of_class: Array, by_submit: Ints, by_end: Ints,
    as_of_s: float,
) -> None:  # fmt: skip
    """Answer each run from what had ended AGE_S before its submit, and learn from each end."""
    n_over, room, codes = 0, np.empty((4, N_ATOMS)), np.empty(N_ATOMS, np.int64)
    for asked in range(len(by_submit) + 1):
        is_last = asked == len(by_submit)
        run = by_submit[asked - is_last] if len(by_submit) else 0
        known_s = as_of_s if is_last else runs.submit_s[run] - AGE_S
        while n_over < len(by_end) and runs.end_s[by_end[n_over]] <= known_s:
            _learn(by_end[n_over], asked - n_over, runs, learnt, answers, of_class)
            n_over += 1
        if is_last:
            break
        cell = runs.cell[run]
        n_known = learnt.n_known[cell]
        is_old = n_known == 0 or known_s - learnt.used_s[cell] > AGE_S
        if is_old or (n_known - learnt.n_used[cell]) * REFRESH > n_known:
            _compute(cell, known_s, math.nan, 1.0, runs, cells, learnt, room, codes)
        if not math.isnan(learnt.centre[cell]):
            of_class[run] = _class_of(learnt.n_effective[cell])
            _set_answer(cell, learnt, answers[run])


@njit(cache=True, nogil=True, error_model="numpy")
def _answer_rows(
    runs: Runs, cells: Cells, learnt: Learnt, row_cell: Ints, law: Floats, as_of_s: float, found: Floats
) -> None:
    """Set the answer to each row; at counts that ran the law is joined to the runs."""
    room, codes = np.empty((4, N_ATOMS)), np.empty(N_ATOMS, np.int64)
    for row in range(len(row_cell)):
        law_sd = (law[row, HI80] - law[row, LO80]) / WIDTH_80
        _compute(row_cell[row], as_of_s, law[row, MIDDLE], law_sd, runs, cells, learnt, room, codes)
        if not math.isnan(learnt.centre[row_cell[row]]):
            _set_answer(row_cell[row], learnt, found[row])


@njit(cache=True, nogil=True, error_model="numpy")
def _compute(
    cell: int, known_s: float, law_log_s: float, law_sd: float, runs: Runs, cells: Cells, learnt: Learnt, room: Floats,
    codes: Ints,
) -> None:  # fmt: skip
    """Compute centre, effective runs and knots of a cell from the runs that are known."""
    values, weights, bounds, redistributed = room
    n_known, group = learnt.n_known[cell], cells.group[cell]
    after = cells.first[cell] + n_known
    first = max(cells.first[cell], after - MOST_OF_CELL)
    # 1. The newest runs of the cell; of many, WIDTH that each stand for the same weight.
    total, n_effective, passed, n = 0.0, 0.0, 0.0, 0
    for run in range(first, after):
        weight = _weight(known_s - runs.end_s[run])
        total, n_effective = total + weight, n_effective + weight * runs.of_burst[run]
    for run in range(first, after):
        weight = _weight(known_s - runs.end_s[run])
        passed += weight
        while n < WIDTH and (n == run - first if n_known <= WIDTH else passed * WIDTH >= (n + 0.5) * total):
            values[n], bounds[n] = runs.log_s[run], runs.is_bound[run]
            weights[n] = weight if n_known <= WIDTH else total / WIDTH
            n += 1
    # 2. The weight of a stopped run goes to longer ones (Kaplan and Meier), at the end to the longest.
    _set_order(values[:n], bounds[:n], codes[:n])
    at_risk, surviving = total, 1.0
    for code in codes[:n]:
        place = code & 511
        left = surviving * max(1 - weights[place] / at_risk, 0.0) if not bounds[place] else surviving
        redistributed[place] = n_effective * (surviving - left)
        at_risk, surviving = max(at_risk - weights[place], 1e-300), left
    if n:
        redistributed[codes[n - 1] & 511] += n_effective * surviving
        learnt.middle[cell] = _quantile(values, redistributed, codes[:n], n_effective, 0.5)
    middle = learnt.middle[cell]
    # 3. Knots: residuals of the cell, those of its group, and the log's.
    which = _class_of(n_effective)
    values[:n] -= middle
    n_group = min(learnt.n_residuals[group], GROUP_WIDTH)
    values[n : n + n_group] = learnt.residuals[group, :n_group]
    redistributed[n : n + n_group] = OF_GROUP / max(n_group, 1)
    n += n_group
    values[n : n + N_KNOTS], redistributed[n : n + N_KNOTS] = learnt.ladder[which], OF_LOG / N_KNOTS
    n += N_KNOTS
    bounds[:n] = 0.0
    _set_order(values[:n], bounds[:n], codes[:n])
    knots, whole = learnt.knots[cell], redistributed[:n].sum()
    for k in range(N_KNOTS):
        knots[k] = _quantile(values, redistributed, codes[:n], whole, KNOT_LEVELS[k])
    # 4. The centre: the median of the runs, and that of the group's other counts or the law.
    prior, of_prior = _of_others(cell, cells, learnt), OF_OTHERS
    if not math.isnan(law_log_s) and law_sd > 0 and n_known > 0:
        sd = (knots[N_KNOTS - 3] - knots[2]) / WIDTH_86
        prior, of_prior = law_log_s, min((sd / max(law_sd, 1e-3)) ** 2, MOST_OF_LAW)
    if n_known == 0 or math.isnan(prior):
        learnt.centre[cell] = middle if n_known else prior
    else:
        learnt.centre[cell] = (n_effective * middle + of_prior * prior) / (n_effective + of_prior)
    learnt.n_effective[cell] = n_effective
    learnt.n_used[cell], learnt.used_s[cell] = n_known, known_s


@njit(cache=True, nogil=True, error_model="numpy")
def _weight(age_s: float) -> float:
    """The weight of a run that ended so long ago: a half after HALF_S, little after 1.5 times that."""
    return float(1 / (1 + (age_s / HALF_S) ** 8))


@njit(cache=True, nogil=True, error_model="numpy")
def _set_order(values: Floats, bounds: Floats, codes: Ints) -> None:
    """Set `codes` so that their last nine bits are places by value, of equal values the runs to an end first."""
    # Bits of positive floats are ordered as the floats are.
    shifted = values + 100.0
    bits = shifted.view(np.int64)
    for place in range(len(values)):
        codes[place] = (bits[place] & ~1023) | (512 if bounds[place] else 0) | place
    sort_numbers(codes)


@njit(cache=True, nogil=True, error_model="numpy")
def _quantile(values: Floats, weights: Floats, codes: Ints, total: float, level: float) -> float:
    """The value below which a share of the weight lies, straight between the middles of the weights."""
    passed, at, before = 0.0, -1.0, 0.0
    for code in codes:
        value, own = values[code & 511], weights[code & 511]
        # A run that bears the weight of many, as of those that were stopped, is as wide as they are.
        edge = min(own, total / len(codes)) / 2
        here, after = (passed + edge) / total, (passed + own - edge) / total
        if own > 0 and here >= level:
            return float(value if at < 0 else before + (value - before) * (level - at) / (here - at))
        if own > 0:
            passed, at, before = passed + own, after, value
            if after >= level:
                return float(value)
    return before


@njit(cache=True, nogil=True, error_model="numpy")
def _of_others(cell: int, cells: Cells, learnt: Learnt) -> float:
    """The mean of the medians at the group's nearest other counts, by nearness and runs; NaN without one."""
    total, weight = 0.0, 0.0
    for other in range(max(cell - NEIGHBOURS, 0), min(cell + NEIGHBOURS + 1, len(cells.group))):
        if other != cell and cells.group[other] == cells.group[cell] and learnt.n_known[other] > 0:
            apart = abs(cells.log_count[other] - cells.log_count[cell]) / math.log(2.0)
            own = math.exp(-apart) * min(learnt.n_known[other], 20)
            total, weight = total + own * learnt.middle[other], weight + own
    return float(total / weight) if weight > 0 else math.nan


@njit(cache=True, nogil=True, error_model="numpy")
def _class_of(n_effective: float) -> int:
    return int(np.searchsorted(CLASSES, n_effective))


@njit(cache=True, nogil=True, error_model="numpy")
def _set_answer(cell: int, learnt: Learnt, answer: Floats) -> None:
    """Set the quantiles at the calibrated positions; beyond the knots their spacing goes on."""
    knots, positions = learnt.knots[cell], learnt.positions[_class_of(learnt.n_effective[cell])]
    middle = answer[MIDDLE] = learnt.centre[cell]
    for level in (LO95, LO80, HI80, HI95):
        low = min(max(math.floor(positions[level]), 0), N_KNOTS - 2)
        part, gap = positions[level] - low, knots[low + 1] - knots[low]
        gap = gap if 0 <= part <= 1 else min(max(gap, LEAST_GAP), MOST_GAP)
        # Beyond the last knot its distance from the one before is that of the end, not of the one within.
        answer[level] = middle + (knots[low] + part * gap if part <= 1 else knots[low + 1] + (part - 1) * gap)
    answer[LO80], answer[HI80] = min(answer[LO80], middle), max(answer[HI80], middle)
    answer[LO95], answer[HI95] = min(answer[LO95], answer[LO80]), max(answer[HI95], answer[HI80])


@njit(cache=True, nogil=True, error_model="numpy")
def _learn(run: int, n_waiting: int, runs: Runs, learnt: Learnt, answers: Array, of_class: Array) -> None:
    """Learn from a run that has ended, `n_waiting` answers after which ends are not known."""
    cell, log_s, which, totals = runs.cell[run], runs.log_s[run], of_class[run], learnt.totals
    if which >= 0:
        answer, record, ladder = answers[run], learnt.record[cell], learnt.ladder[which]
        totals[3] += (n_waiting - totals[3]) * max(1 / (totals[4] + 1), 0.01)
        in_80 = answer[LO80] - SAME <= log_s <= answer[HI80] + SAME
        in_95 = answer[LO95] - SAME <= log_s <= answer[HI95] + SAME
        record[0], record[1], record[2] = KEEPS * record[0] + in_80, KEEPS * record[1] + 1, record[2] + 1
        for k, value in enumerate((in_80, in_95, True)):
            totals[k] = KEEPS_OF_LOG * totals[k] + value
        totals[4] += 1
        residual, rate = log_s - answer[MIDDLE], max(10 / (learnt.n_ladder[which] + 20), 0.02)
        learnt.n_ladder[which] += 1
        for k in range(N_KNOTS):
            ladder[k] += rate * (KNOT_LEVELS[k] - (residual <= ladder[k]))
            ladder[k] = max(ladder[k], ladder[max(k - 1, 0)])
        move = min(STEP, WAITING / max(totals[3], 1.0))
        for level in (LO95, LO80, HI80, HI95):
            # A runtime equal to either end lies within the interval.
            is_above = log_s > answer[level] + SAME or (LEVELS[level] < 0.5 and log_s >= answer[level] - SAME)
            to = learnt.positions[which, level] + move * (is_above - (1 - LEVELS[level]))
            learnt.positions[which, level] = min(max(to, -OVERSHOOT), N_KNOTS - 1 + OVERSHOOT)
        if runs.in_root[run]:
            group = learnt.group[cell]
            learnt.residuals[group, learnt.n_residuals[group] % GROUP_WIDTH] = residual
            learnt.n_residuals[group] += 1
    learnt.n_known[cell] += 1
    off = min(max(log_s - learnt.middle[cell], -1.0), 1.0) / min(learnt.n_known[cell], 30)
    learnt.middle[cell] = log_s if learnt.n_known[cell] == 1 else learnt.middle[cell] + off


def _with_law(of_runs: Floats, law: Floats) -> Floats:
    """Quantiles (log s) at counts that never ran: law and group, each by its precision."""
    width, law_width = (one[:, HI80] - one[:, LO80] for one in (of_runs, law))
    share = np.where(np.isnan(law_width), 0.0, width**2 / np.fmax(width**2 + law_width**2, 1e-12))
    share = np.where(np.isnan(width), 1.0, share)[:, None]

    def mixed(one: Floats, other: Floats) -> Floats:
        return np.where(share < 1, (1 - share) * one, 0.0) + np.where(share > 0, share * other, 0.0)

    middle = mixed(of_runs[:, [MIDDLE]], law[:, [MIDDLE]])
    off, of_law = np.abs(of_runs - of_runs[:, [MIDDLE]]), np.abs(law - law[:, [MIDDLE]])
    of_80 = np.fmax(off, of_law)
    off = np.sqrt(mixed(off**2, of_law**2))
    off[:, LO80], off[:, HI80] = of_80[:, LO80], of_80[:, HI80]
    off[:, LO95], off[:, HI95] = np.fmax(off[:, LO95], off[:, LO80]), np.fmax(off[:, HI95], off[:, HI80])
    found: Floats = middle + np.sign(LEVELS - 0.5) * off
    return found


def _reliability(
    curves: pa.Table, found: Floats, has_run: Bools, record: Floats
) -> tuple[list[str], list[str | None], tuple[Floats, Floats]]:
    """Per row the word and the advice; the share of later runs in its 80% interval, and their number."""
    n, broken = record[:, 2], pc.match_substring(curves.column("reliability").cast(pa.string()), "high_error")
    share = np.divide(record[:, 0], record[:, 1], out=np.full(len(n), np.nan), where=n > 0)
    is_kept = (share >= LEAST_KEPT) & (share <= MOST_KEPT)
    cases = {
        "broken": ~has_run & (broken.to_numpy() | np.isnan(found).any(axis=1)),
        "far": ~has_run & curves.column("is_extrapolated").to_numpy(), "few": n < ENOUGH, "missed": ~is_kept,
        "wide": ~(found[:, HI80] <= MOST_SPAN * found[:, LO80]),
    }  # fmt: skip
    words = np.select(list(cases.values()), list(cases), "ok").tolist()
    sentences = []
    for row, (word, advice) in enumerate(zip(words, curves.column("advice").to_pylist(), strict=True)):
        own = ADVICE[word].format(share=share[row], n=int(n[row]), enough=ENOUGH) or None
        sentences.append(advice or own if word in ("far", "broken", "ok") else own)
    return words, sentences, (share, n.astype(np.int64))


def _speedup(curves: pa.Table, runtime_s: Floats, law: Floats, n_effective: Floats) -> Floats:
    """Runtime on one over that of each row; of one number a group, by the law at the level of the group's runs.

    NaN in groups where an efficiency exceeds MOST_EFFICIENCY: runtimes at two counts do not agree.
    """
    code, ids = category_codes(curves, "group_id")
    count, on_one = floats(curves, "procs"), np.log(floats(curves, "speedup")) + law
    level = np.bincount(code, n_effective * np.nan_to_num(np.log(runtime_s) - law), len(ids))
    on_one += (level / np.maximum(np.bincount(code, n_effective, len(ids)), 1e-9))[code]
    one = np.full(len(ids), np.nan)
    one[code[::-1]] = on_one[::-1]
    one[code[count == 1]] = np.log(runtime_s[count == 1])
    speedup = np.exp(one[code]) / runtime_s
    return np.where(np.isin(code, code[speedup > MOST_EFFICIENCY * count]), np.nan, speedup)
