"""PREDICTIONS: how long the runs of a group take at each count, from these runs and from the law of the group.

The runs of one group at one count are a cell. `_walk` goes through the log week by week, up to the time of the table.
At the beginning of a week it looks at each cell that runs in this week: the median of its runs, and knots, which are
quantiles of their distances from the median. It notes between which knots the runs of the week fall. When these runs
have ended they count in the cell's record. The ends of an interval are the places among the knots below which 2.5, 10,
90 and 97.5% of the cell's later runs fell; few of them are shrunk towards cells that ran in about as many weeks. The
rows of the table are answered in the same way at the end; at counts that never ran the law is the median, and
`_with_law` says how far from it the ends are.
"""

import math
from collections import Counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtri

from pipeline.arrays import DAY_S, WEEK_S, Array, Bools, Floats, Ints, category_codes, floats, job_procs, lower_bounds
from pipeline.kernels import called_kernel, entry_kernel, set_order
from pipeline.large_tables import LargeTable, groups_of
from pipeline.report import Fact, Report, Tally
from pipeline.scaling.average import ENDS, QUANTILES
from pipeline.schema import MOST_EFFICIENCY, Axis
from pipeline.tables import PREDICTIONS

# Age at which the weight of a run is a half.
HALF_S = 180.0 * DAY_S
# Newest runs of a log that are used; runs that an answer is made of (of more every k-th); newest runs of a cell that
# are used at any age; distances of later runs from their medians that are kept of the log.
MOST_RUNS, WIDTH, LEAST, RING = 2_000_000, 256, 20, 64

# Columns of an answer: distances (log) from the median at these levels, and the median itself (log s).
LEVELS = np.array(QUANTILES)
NORMAL = ndtri(LEVELS)
LO95, LO80, MIDDLE, HI80, HI95 = range(5)
KNOT_LEVELS = np.array((0.01, 0.03, 0.07, 0.15, 0.3, 0.5, 0.7, 0.85, 0.93, 0.97, 0.99))
# More knots stand on either side, at these distances (log) from the outermost.
FAR = np.array((0.1, 0.4, 1.0, 2.5))
N_FAR, N_KNOTS = len(FAR), len(KNOT_LEVELS) + 2 * len(FAR)
# Runtimes are equal up to this (log).
SAME = 1e-6
# Of so many runs the shortest and the longest bound every interval: of fewer the next may well be beyond.
MANY = 1_000

# Classes of cells by the number of weeks in which they ran: up to these. What ran in one week is often one campaign.
CLASSES = np.array((1, 2, 4, 1_000))
# How many runs of a cell the distances of the log count as.
OF_LOG = 0.5
# How many later runs of a cell its class counts as, and of a class the levels of knots; what a week leaves of them.
OF_CLASS, OF_UNIFORM, KEEPS = 3.0, 30.0, 0.97

# A row is kept where its 80% interval contained 70 to 90% of at least 20 later runs, of which the newest count most, or
# more than 90% where it spans at most 1.1 times: runs of one length are all in it. It is ok where the interval spans at
# most 2.5 times.
ENOUGH, KEEPS_OF_ROW, LEAST_KEPT, MOST_KEPT, MOST_SPAN, NARROW_SPAN = 20, 0.99, 0.7, 0.9, 2.5, 1.1

# The words of reliability, and a sentence for each; the law's own advice is used instead for ok, far and broken.
ADVICE = {
    "ok": "", "wide": "The 80% interval contained as many later runs as it should, but it is wide.",
    "missed": "The 80% interval contained {share:.0%} of the latest {n} later runs; it should contain 80%.",
    "few": "Too few later runs have been compared with this row to judge it: {n} of the {enough} needed.",
    "far": "Beyond the counts that ran: only the law of the group tells.",
    "broken": "The laws miss a count that ran by more than 10%, and no run on this count is known.",
}  # fmt: skip


class Runs(NamedTuple):
    """Ended runs in order of cell, then of end."""

    cell: Ints
    log_s: Floats
    is_bound: Bools
    submit_s: Floats
    end_s: Floats


class Learnt(NamedTuple):
    """What the walk has learnt. By cell, but for the last two."""

    # Place of the first run; how many have ended; when the cell was last looked at.
    first: Ints
    n_known: Ints
    looked_s: Floats
    # As last looked at: log s of the median, effective runs, knots (log), class.
    median: Floats
    n_effective: Floats
    knots: Floats
    of_class: Ints
    # Decayed numbers of later runs in the 80% interval, in the 95% interval, and of all; the number of all.
    record: Floats
    # Runs that have ended in the newest week.
    n_of_week: Floats
    # By cell, then by class: week of the newest end, decayed number of later runs between two knots.
    week: Ints
    later: Floats
    # Of the log: distances of the newest later runs from their medians; how many there were.
    ring: Floats
    n_in_ring: Ints


def predict(
    curves: pa.Table, grouped_jobs: LargeTable, run_id: str, as_of_s: float = np.inf
) -> tuple[pa.Table, Report]:
    """PREDICTIONS, a row per group and count of `curves`.

    Parameters
    ----------
    curves : pa.Table
        PREDICTIONS by law alone, from `predictions.predict`.
    grouped_jobs : pa.Table or StoredTable
        GROUPED_JOBS.
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
    >>> table, report = predict(tables["curves"], tables["grouped_jobs"], "r1")
    >>> table.num_rows == tables["curves"].num_rows
    True
    """
    # 1. The walk through the log, which learns from every run and then answers the rows.
    runs, n_cells, row_cell = _runs_and_cells(curves, grouped_jobs, as_of_s)
    as_of_s = min(as_of_s, float(runs.end_s.max(initial=0.0)))
    learnt, of_runs = _nothing(runs, n_cells), np.empty((len(row_cell), len(LEVELS)))
    by_submit, by_end = (np.argsort(one, kind="stable") for one in (runs.submit_s, runs.end_s))
    _walk(runs, learnt, by_submit, by_end, row_cell, as_of_s, of_runs)
    # 2. Quantiles, also at counts that never ran, and what follows from them.
    n_effective, has_run = learnt.n_effective[row_cell], learnt.n_known[row_cell] > 0
    law = np.log(np.stack([floats(curves, name) for name in ENDS], axis=1))
    extremes = (runs.log_s.min(), runs.log_s.max()) if len(runs.log_s) >= MANY else (-np.inf, np.inf)
    found = np.exp(_with_law(curves, of_runs, law, has_run, extremes))
    speedup = _speedup(curves, found[:, MIDDLE], law[:, MIDDLE], n_effective)
    # 3. How far to rely on a row: the share of later runs in its 80% interval, and the span of that.
    in_80, _, n, n_later = learnt.record[row_cell].T
    share = np.divide(in_80, n, out=np.full(len(n), np.nan), where=n_later > 0)
    span = found[:, HI80] / found[:, LO80]
    is_kept = (share >= LEAST_KEPT) & ((share <= MOST_KEPT) | (span <= NARROW_SPAN))
    is_broken = pc.match_substring(curves.column("reliability").cast(pa.string()), "high_error").to_numpy()
    cases = {
        "broken": ~has_run & (is_broken | np.isnan(found[:, MIDDLE])),
        "far": ~has_run & curves.column("is_extrapolated").to_numpy(), "few": n_later < ENOUGH, "missed": ~is_kept,
        "wide": ~(span <= MOST_SPAN),
    }  # fmt: skip
    words, advice = np.select(list(cases.values()), list(cases), "ok").tolist(), []
    for row, (word, of_law) in enumerate(zip(words, curves.column("advice").to_pylist(), strict=True)):
        own = ADVICE[word].format(share=share[row], n=int(n_later[row]), enough=ENOUGH) or None
        advice.append(of_law or own if word in ("far", "broken", "ok") else own)
    table = PREDICTIONS.build(
        **{name: curves.column(name) for name in ("group_id", "axis", "procs", "is_extrapolated")},
        **dict(zip(ENDS, found.T, strict=True)), speedup=speedup, efficiency=speedup / floats(curves, "procs"),
        reliability=words, advice=advice, kept_share=share, n_later=n_later.astype(np.int64),
        method=np.where(has_run, "runs", "law").tolist(), run_id=[run_id] * curves.num_rows,
    )  # fmt: skip
    # 4. The report.
    counted, whole = Counter(words), Tally(table.num_rows)
    facts: dict[str, Fact] = {f"predictions_{word}": counted[word] for word in ADVICE}
    every_80, every_95, every, n_past = learnt.record.sum(axis=0).tolist()
    facts |= {"past_jobs": int(n_past), "in_80_later": every_80 / every if every else None}
    facts |= {"in_95_later": every_95 / every if every else None}
    rows = ", ".join(f"{number:,} {word}" for word, number in counted.most_common())
    note = (
        f"No prediction is ok ({rows}): more runs, a column in group.template that tells the work apart, or a rule in "
        "ingest.problem_size_rules may change that."
    )
    notes = () if counted["ok"] or not counted else (note,)
    return table, Report("predict", "prediction", whole, whole, facts=facts, notes=notes).check()


@entry_kernel
def _walk(
    runs: Runs, learnt: Learnt, by_submit: Ints, by_end: Ints, row_cell: Ints, as_of_s: float, of_rows: Floats
) -> None:
    """Go through the log week by week, then set the answers to the rows."""
    n, n_ended, answer = len(by_submit), 0, np.empty(len(LEVELS))
    bin_of, inside = np.full(n, -1, np.int8), np.ones((n, 4), np.bool_)
    room, codes = np.empty((3, WIDTH + RING)), np.empty(WIDTH + RING, np.int64)
    for asked in range(n + len(row_cell)):
        is_row = asked >= n
        run = -1 if is_row else by_submit[asked]
        cell = row_cell[asked - n] if is_row else runs.cell[run]
        # 1. A run is answered at the beginning of its week; weeks are counted back from the time of the table.
        age_s = 0.0 if is_row else as_of_s - runs.submit_s[run]
        known_s = as_of_s - WEEK_S * math.ceil(age_s / WEEK_S)
        # 2. Learn from the runs that had ended by then.
        while n_ended < n and runs.end_s[by_end[n_ended]] <= known_s:
            _learn(by_end[n_ended], runs, learnt, bin_of, inside)
            n_ended += 1
        # 3. Look at the cell once a week: its median and its knots.
        if learnt.looked_s[cell] != known_s:
            _look(cell, known_s, runs, learnt, room, codes)
        # 4. Its interval; and between which knots the run falls, which is not learnt before it has ended.
        if is_row:
            _set_answer(cell, learnt, of_rows[asked - n])
        elif learnt.n_known[cell] > 0:
            _set_answer(cell, learnt, answer)
            off, knots = runs.log_s[run] - answer[MIDDLE], learnt.knots[cell]
            # A runtime that equals several knots falls between the middle ones.
            between = (np.sum(knots < off - SAME) + np.sum(knots <= off + SAME)) // 2 - 1
            bin_of[run] = min(max(between, 0), N_KNOTS - 2)
            inside[run, 0] = answer[LO80] - SAME <= off <= answer[HI80] + SAME
            inside[run, 1] = answer[LO95] - SAME <= off <= answer[HI95] + SAME


@called_kernel
def _look(cell: int, known_s: float, runs: Runs, learnt: Learnt, room: Floats, codes: Ints) -> None:
    """Set median, effective runs, class and knots of a cell from the runs that are known."""
    values, weights, bounds = room
    knots = learnt.knots[cell, N_FAR:-N_FAR]
    # 1. The runs of the newest nine months, of many every k-th; the newest few at any age. Runs of a week are effective
    # as their root.
    after = learnt.first[cell] + learnt.n_known[cell]
    start = max(learnt.first[cell], after - LEAST)
    while start > learnt.first[cell] and known_s - runs.end_s[start - 1] < 1.5 * HALF_S:
        start -= 1
    step = max(math.ceil((after - start) / WIDTH), 1)
    n, n_weeks, n_of_week, n_effective, week = 0, 0, 0.0, 0.0, -1
    for run in range(after - 1, start - 1, -step):
        age_s = known_s - runs.end_s[run]
        if math.floor(age_s / WEEK_S) != week:
            week, n_weeks, n_of_week = math.floor(age_s / WEEK_S), n_weeks + 1, 0.0
        values[n], bounds[n], weights[n] = runs.log_s[run], runs.is_bound[run], 1 / (1 + (age_s / HALF_S) ** 8)
        n_effective += weights[n] * (math.sqrt(n_of_week + step) - math.sqrt(n_of_week))
        n, n_of_week = n + 1, n_of_week + step
    weights[:n] *= n_effective / max(weights[:n].sum(), 1e-300)
    # 2. Their median.
    if n:
        median = learnt.median[cell : cell + 1]
        _set_quantiles(values[:n], weights[:n], bounds[:n], codes[:n], LEVELS[MIDDLE : MIDDLE + 1], median)
        values[:n] -= median
    # 3. Knots: distances of the cell's runs from the median, and some of the log's later runs from theirs.
    more = min(learnt.n_in_ring[0], RING)
    values[n : n + more], weights[n : n + more] = learnt.ring[:more], OF_LOG / max(more, 1)
    n += more
    bounds[:n] = 0.0
    _set_quantiles(values[:n], weights[:n], bounds[:n], codes[:n], KNOT_LEVELS, knots)
    learnt.knots[cell, :N_FAR], learnt.knots[cell, -N_FAR:] = knots[0] - FAR[::-1], knots[-1] + FAR
    learnt.of_class[cell] = len(CLASSES) - 1
    for of_class in range(len(CLASSES) - 1, -1, -1):
        if 0 < n_weeks <= CLASSES[of_class]:
            learnt.of_class[cell] = of_class
    learnt.n_effective[cell], learnt.looked_s[cell] = n_effective, known_s


@called_kernel
def _set_quantiles(
    values: Floats, weights: Floats, bounds: Floats, codes: Array, levels: Floats, found: Floats
) -> None:
    """Set quantiles by Kaplan and Meier. The weight of a bound goes to longer values, or to the longest."""
    # As positive numbers.
    set_order(codes, values + 100.0, bounds)
    total = at_risk = weights.sum()
    surviving, k = 1.0, 0
    for code in codes:
        place, before = code & 511, surviving
        if not bounds[place]:
            surviving *= max(1 - weights[place] / at_risk, 0.0)
        if code == codes[-1]:
            surviving = 0.0
        at_risk = max(at_risk - weights[place], 1e-300)
        weights[place] = total * (before - surviving)
        while k < len(levels) and 1 - surviving >= levels[k] - 1e-12:
            found[k], k = values[place], k + 1


@called_kernel
def _set_answer(cell: int, learnt: Learnt, answer: Floats) -> None:
    """Set the median, and the distances from it below which shares of the later runs of cell and class fell."""
    knots, of_cell = learnt.knots[cell], learnt.later[cell]
    of_class = learnt.later[len(learnt.first) + learnt.of_class[cell]]
    share = OF_CLASS / of_class.sum()
    total, passed, k = of_cell.sum() + OF_CLASS, 0.0, 0
    for between in range(N_KNOTS - 1):
        here = of_cell[between] + share * of_class[between]
        while k < len(LEVELS) and passed + here >= LEVELS[k] * total:
            part = (LEVELS[k] * total - passed) / here
            answer[k], k = knots[between] + part * (knots[between + 1] - knots[between]), k + 1
        passed += here
    answer[MIDDLE] = learnt.median[cell]
    answer[LO80], answer[HI80] = min(answer[LO80], 0.0), max(answer[HI80], 0.0)
    answer[LO95], answer[HI95] = min(answer[LO95], answer[LO80]), max(answer[HI95], answer[HI80])


@called_kernel
def _learn(run: int, runs: Runs, learnt: Learnt, bin_of: Array, inside: Bools) -> None:
    """Learn from a run that has ended."""
    cell, week = runs.cell[run], math.floor(runs.end_s[run] / WEEK_S)
    n_before = learnt.n_of_week[cell] if week == learnt.week[cell] else 0.0
    learnt.n_known[cell], learnt.n_of_week[cell] = learnt.n_known[cell] + 1, n_before + 1
    if bin_of[run] >= 0:
        # The runs of a cell in a week count as their root.
        root, root_before = math.sqrt(n_before + 1), math.sqrt(n_before)
        for at in (len(learnt.first) + learnt.of_class[cell], cell):
            learnt.later[at] *= KEEPS ** (week - learnt.week[at])
            learnt.later[at, bin_of[run]] += root - root_before
            learnt.week[at] = week
        if math.floor(root) > math.floor(root_before):
            learnt.ring[learnt.n_in_ring[0] % RING] = runs.log_s[run] - learnt.median[cell]
            learnt.n_in_ring[0] += 1
        record = learnt.record[cell]
        record[:3] *= KEEPS_OF_ROW
        record += inside[run]
    learnt.week[cell] = week


def _runs_and_cells(curves: pa.Table, grouped_jobs: LargeTable, as_of_s: float) -> tuple[Runs, int, Ints]:
    """The newest ended runs of the groups of `curves`; the number of cells; the cell of each row."""
    code, ids = category_codes(curves, "group_id")
    number = {name: place for place, name in enumerate(ids)}
    axis = dict(zip(curves.column("group_id").to_pylist(), curves.column("axis").to_pylist(), strict=True))
    parts = []
    for part in groups_of(grouped_jobs):
        codes, names = category_codes(part, "group_id")
        group = np.array([number.get(name, -1) for name in names], np.int64)[codes]
        held = {Axis.PROCS: job_procs(part), Axis.GPUS: floats(part, "gpus"), Axis.NODES: floats(part, "nodes")}
        of_axis = np.array([axis.get(name) for name in names], object)[codes]
        count = np.select([of_axis == name for name in held], list(held.values()), np.nan)
        runtime_s, end_s, submit_s = (floats(part, name) for name in ("runtime_s", "end_s", "submit_s"))
        end_s = np.where(np.isnan(end_s), submit_s + runtime_s, end_s)
        submit_s = np.where(np.isnan(submit_s), end_s - runtime_s, submit_s)
        # A clock that is wrong may say that a job ended before its submit.
        end_s = np.fmax(end_s, submit_s)
        rows = np.flatnonzero((count > 0) & (runtime_s > 0) & (end_s <= as_of_s))
        log_s = np.log(np.fmax(runtime_s, 1e-3))
        parts.append([one[rows] for one in (group, count, log_s, lower_bounds(part), submit_s, end_s)])
    group, count, log_s, is_bound, submit_s, end_s = (np.concatenate(column) for column in zip(*parts, strict=True))
    newest = np.argsort(end_s, kind="stable")[-MOST_RUNS:]
    counts = np.append(floats(curves, "procs"), count[newest]).astype(np.int64)
    base = int(counts.max(initial=0)) + 1
    distinct, cell = np.unique(np.append(code, group[newest]) * base + counts, return_inverse=True)
    row_cell, cell = cell[: len(code)], cell[len(code) :]
    order = np.argsort(cell, kind="stable")
    kept = newest[order]
    return Runs(cell[order], log_s[kept], is_bound[kept], submit_s[kept], end_s[kept]), len(distinct), row_cell


def _nothing(runs: Runs, n: int) -> Learnt:
    later = np.zeros((n + len(CLASSES), N_KNOTS - 1))
    later[n:, N_FAR - 1 : -N_FAR + 1] = OF_UNIFORM * np.diff(KNOT_LEVELS, prepend=0.0, append=1.0)
    return Learnt(
        first=np.searchsorted(runs.cell, np.arange(n)), n_known=np.zeros(n, np.int64), looked_s=np.full(n, np.nan),
        median=np.full(n, np.nan), n_effective=np.zeros(n), knots=np.zeros((n, N_KNOTS)),
        of_class=np.zeros(n, np.int64), record=np.zeros((n, 4)), n_of_week=np.zeros(n),
        week=np.full(len(later), runs.end_s.min(initial=4e9) // WEEK_S, np.int64), later=later, ring=np.zeros(RING),
        n_in_ring=np.zeros(1, np.int64),
    )  # fmt: skip


def _with_law(curves: pa.Table, of_runs: Floats, law: Floats, has_run: Bools, extremes: tuple[float, float]) -> Floats:
    """Quantiles (log s) of each row: those of its runs; at counts that never ran the law's, with the spread of both.

    Three spreads add up there: the interval of the law, the runs of the group about the medians of their counts, and
    over the log the medians about the laws. An end stays within what the runs of the group allow: linear speed-up of
    the lower ends at its counts, and the highest of the upper ends; beyond these only the law's median may be.
    """
    off, middle, shown = np.where(LEVELS == 0.5, 0.0, of_runs), law[:, [MIDDLE]], of_runs[:, [MIDDLE]]
    off = np.fmin(np.fmax(off, extremes[0] - shown), extremes[1] - shown)
    found = shown + off
    missed = np.nan_to_num((found - law)[has_run, MIDDLE])
    variance = float((missed**2).mean()) if len(missed) else 0.0
    code, log_count = category_codes(curves, "group_id")[0], np.log(floats(curves, "procs"))
    for rows in np.split(np.arange(len(code)), np.flatnonzero(np.diff(code)) + 1):
        ran, never = rows[has_run[rows]], rows[~has_run[rows]]
        if not len(never):
            continue
        # Of a group without any run the log tells the spread.
        of_counts = np.median(off[ran if len(ran) else never], axis=0)
        spread = np.hypot(of_counts, law[never] - middle[never])
        ends = middle[never] + np.sign(NORMAL) * np.hypot(spread, variance**0.5 * NORMAL)
        if len(ran):
            beyond = log_count[never][:, None] - log_count[ran]
            least = (found[ran] - np.maximum(beyond, 0.0)[:, :, None]).min(axis=1)
            most = found[ran].max(axis=0) + np.maximum(-beyond.max(axis=1, keepdims=True), 0.0)
            ends = np.clip(ends, np.fmin(least, middle[never]), np.fmax(most, middle[never]))
        found[never] = ends
    return found


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
