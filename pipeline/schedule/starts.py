"""Expected starts: quantiles of what is left to wait, from similar past cases, with the record of each way to answer.

Two ways answer: by cases of all features, with the queue simulated, and by cases without the simulation. In each, a
forest grown on past cases says how similar they are to a question, and their weighted waits are its quantiles; those
that still wait are lower bounds (Kaplan and Meier 1958), and jobs that left the queue unstarted do not count. A record
of past answers, each made from what was known at its instant, calibrates them and says which way answers in a queue.
Where many jobs start at once, the place of such a wait among the quantiles is drawn (Smith 1985: the randomised
transform).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Bools, Floats, Ints, arrays_in, arrays_of, stored_arrays, tuple_of
from pipeline.estimate.history import READ, History, history
from pipeline.estimate.jobs import texts
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.state import State
from pipeline.forest import grown, leaves, similarity
from pipeline.large_tables import LargeTable, newest_jobs
from pipeline.schedule.forward import orders_of, simulated
from pipeline.schedule.queues import Log, Queue, usual_capacity
from pipeline.schedule.start_cases import FEATURES, GRID, SOON_S, WAYS, Cases, asked, cases_at, logs
from pipeline.schedule.time_left import UNCALIBRATED, Outcomes, calibration, outcomes_of, time_left
from pipeline.tables import STATE

LEVELS = (0.1, 0.5, 0.8, 0.95)
"""The quantiles that are told."""

MOST_CASES, LEAST_CASES = 8_000, 200
"""The newest cases that are compared; with fewer than the least nothing is said."""

REFIT_CASES = 600
"""Cases answered by one forest while a record is made."""

CALIBRATION_S, PRIOR_CASES = 20 * 86_400.0, 100
"""Older answers calibrate nothing; cases without error that are added, of 30, 100 and 300 chosen on SDSC-DS.

With the answers of 20 days the pinball loss was smaller than with those of 90 days in 13 of 15 comparisons on five
logs.
"""

LONG_S = 4 * 3600.0
"""Jobs that have waited for longer are calibrated apart."""

LEAST_ANSWERS = 30
"""Answers in a queue with which its own record says the way; else the record of all queues does."""

_TURN = (5**0.5 - 1) / 2


def record_of(cases: Cases, first: int = LEAST_CASES) -> Cases:
    """The cases with estimates of those from the first one on; forests are grown anew for each REFIT_CASES."""
    quantiles_s = cases.quantiles_s.copy()
    for start in range(first, len(cases.at_s), REFIT_CASES):
        known = cases.take(slice(max(start - MOST_CASES, 0), start + REFIT_CASES))
        chosen, at_s = slice(start, start + REFIT_CASES), float(cases.at_s[start])
        for nth, columns in enumerate(WAYS.values()):
            quantiles_s[chosen, nth] = similar_waits(known, min(start, MOST_CASES), at_s, cases.take(chosen), columns)
    return cases._replace(quantiles_s=quantiles_s)


def similar_waits(past: Cases, n_grown: int, known_s: float, asked: Cases, columns: slice) -> Floats:
    """(questions, GRID): time left to wait, s, of weighted past cases that had come before the question.

    The forest is grown on what was known at an instant of the first past cases; the later ones are sorted into it.
    """
    wait = logs(past.take(slice(n_grown)).left_s(known_s)[0])
    forest = grown(past.features[:n_grown, columns], wait - wait.mean())
    known_leaf, found = leaves(forest, past.features[:, columns]), np.empty((len(asked.at_s), len(GRID)))
    for row, leaf in enumerate(leaves(forest, asked.features[:, columns]).T):
        at_s = float(asked.at_s[row])
        n_known = int(np.searchsorted(past.at_s, at_s))
        weight = similarity(known_leaf, n_known, leaf)
        # Of its own past the job knows only that it waited, as its features say.
        is_other = past.submit_s[:n_known] != asked.submit_s[row]
        chosen = np.flatnonzero((weight > 0) & is_other & ~past.has_left(at_s)[:n_known])
        chosen = chosen if len(chosen) else np.flatnonzero(weight)
        wait_s, is_known = past.take(chosen).left_s(at_s)
        found[row] = survivor_quantiles(wait_s, is_known, weight[chosen], GRID)
    return found


def survivor_quantiles(values: Floats, is_known: Bools, weight: Floats, levels: Floats) -> Floats:
    """Quantiles of weighted values of which some are lower bounds; beyond the last known value, the largest of all."""
    order = np.lexsort((~is_known, values))
    values, is_known, weight = values[order], is_known[order], weight[order]
    at_risk = np.cumsum(weight[::-1])[::-1]
    reached = 1.0 - np.cumprod(1.0 - np.where(is_known, weight / at_risk, 0.0))
    places = np.searchsorted(reached, levels - 1e-12)
    return np.append(values, values[-1])[places]


def known_answers(record: Cases, at_s: float) -> Cases:
    """The cases with an estimate that calibrate at an instant."""
    is_recent = (record.at_s < at_s) & (record.at_s >= at_s - CALIBRATION_S)
    return record.take(np.flatnonzero(is_recent & ~np.isnan(record.quantiles_s[:, 0, 0])))


def figures(record: Cases, at_s: float) -> dict[str, float]:
    """How the answers with the simulation have held, as far as it is known at an instant: their number, the shares of
    starts by the 80 and 95% quantiles before calibration, and the median error, s; empty without a record."""
    known = known_answers(record, at_s)
    wait_s, is_known = known.left_s(at_s)
    if not is_known.any():
        return {}
    quantiles_s, wait_s = at_levels(known.quantiles_s[is_known, 0], np.array(LEVELS)), wait_s[is_known]
    held = (wait_s[:, None] <= quantiles_s).mean(axis=0).tolist()
    error_s = float(np.median(np.abs(quantiles_s[:, LEVELS.index(0.5)] - wait_s)))
    return {"n_scored": len(wait_s), "held_q80": held[2], "held_q95": held[3], "median_error_s": error_s}


def answers(record: Cases, known_s: float, asked: Cases, at_s: float) -> tuple[Floats, Ints]:
    """(questions, LEVELS) calibrated times left to wait, and the place among WAYS of the one that answers.

    Of the record only what was known at the instant is used. A question without an estimate gets that of its way, from
    a forest that is grown on what the record knew at `known_s`.
    """
    known = known_answers(record, at_s)
    way, waited = _best_way(known, asked.features[:, -1], at_s), _waited(asked)
    found = np.empty((len(asked.at_s), len(LEVELS)))
    for nth in np.unique(way).tolist():
        is_own, quantiles_s = way == nth, asked.quantiles_s[:, nth].copy()
        new = is_own & np.isnan(quantiles_s[:, 0])
        if new.any():
            columns = list(WAYS.values())[nth]
            quantiles_s[new] = similar_waits(
                record, len(record.at_s), known_s, asked.take(np.flatnonzero(new)), columns
            )
        for one in np.unique(waited[is_own]).tolist():
            rows, like = is_own & (waited == one), known.take(np.flatnonzero(_waited(known) == one))
            found[rows] = at_levels(quantiles_s[rows], _calibrated(like.quantiles_s[:, nth], like, at_s))
    return found, way


def at_levels(quantiles_s: Floats, levels: Floats) -> Floats:
    """(questions, levels) of quantiles at GRID."""
    found: Floats = np.array([np.interp(levels, GRID, row) for row in logs(quantiles_s)]).reshape(-1, len(levels))
    return np.maximum(np.exp(found) - SOON_S, 0.0)


def pinball_s(quantiles_s: Floats, left_s: Floats, levels: Floats) -> Floats:
    """(questions,): the mean loss over the levels, s."""
    off_s = left_s[:, None] - quantiles_s
    loss_s: Floats = np.maximum(levels * off_s, (levels - 1.0) * off_s).mean(axis=1)
    return loss_s


def _waited(cases: Cases) -> Ints:
    """The class of each job by the time it has waited: asked about at its submit, up to LONG_S, longer."""
    return np.searchsorted(logs(np.array([1.0, LONG_S])), cases.features[:, FEATURES.index("waited")], side="right")


def _best_way(known: Cases, queue: Floats, at_s: float) -> Ints:
    """Per question the way with the least loss in its queue."""
    wait_s, is_known = known.left_s(at_s)
    quantiles_s = known.quantiles_s[is_known]
    loss_s = np.array([pinball_s(quantiles_s[:, nth], wait_s[is_known], GRID) for nth in range(len(WAYS))])
    of_queue = known.features[is_known, -1]
    best = {}
    for one in np.unique(queue).tolist():
        own = of_queue == one if (of_queue == one).sum() >= LEAST_ANSWERS else np.ones(len(of_queue), np.bool_)
        best[one] = int(loss_s[:, own].sum(axis=1).argmin())
    return np.array([best[one] for one in queue.tolist()], np.int64)


def _calibrated(quantiles_s: Floats, cases: Cases, at_s: float) -> Floats:
    """The levels of GRID's distribution below which shares LEVELS of the outcomes lay.

    The outcome of a job that still waits lies anywhere beyond its wait so far; without such jobs answers are early.
    """
    wait_s, is_known = cases.left_s(at_s)
    edges = np.array([0.0, *GRID, 1.0])
    low, high = (compare(quantiles_s, wait_s[:, None]).sum(axis=1) for compare in (np.less, np.less_equal))
    first, last = edges[np.where(is_known, low, high)], np.where(is_known, edges[high + 1], 1.0)
    place = first + _TURN * np.arange(len(wait_s)) % 1.0 * (last - first)
    evenly = (np.arange(PRIOR_CASES) + 0.5) / PRIOR_CASES
    counted = place[~cases.has_left(at_s)]
    found: Floats = np.quantile(np.concatenate([counted, evenly]), LEVELS)
    return found


FORMAT = "waits_2"
"""Begins the names of a stored record's arrays; another number, another format."""

NEWEST_JOBS = 50_000
"""Jobs whose starts are learnt from."""

MOST_INSTANTS = MOST_CASES // 3
MOST_WORK, MOST_SQUARES = 1_500_000, 1.5e9
"""Instants times jobs in the queue, and times their square: deep queues are asked about at fewer instants, of which the
simulation takes about a minute; with fewer than LEAST_CASES cases there is no record."""

OUTCOME_JOBS = 5_000


class Pools(NamedTuple):
    """Which nodes jobs run on, as a site's scheduler tells."""

    of_partition: Mapping[str, int]
    """A partition that is not named has the first pool."""
    capacity: Floats
    """Processors of each pool that are not down."""


class QueueRecord(NamedTuple):
    """What was learnt of a site's past up to a time."""

    as_of_s: Floats
    """(1,)"""
    queues: Array
    """The names of the queues of the cases."""
    cases: Cases
    outcomes: Outcomes


def learnt(jobs: LargeTable, state: State, timezone: str, pools: Pools | None = None) -> QueueRecord:
    """The record of JOBS with the State that was learnt from them; the same arguments give the same record."""
    past = history(newest_jobs(jobs, READ, NEWEST_JOBS)[0], timezone)
    return record_of_log(log_of(past, estimated(past, state), pools, queue_names(past)))


def record_of_log(log: Log) -> QueueRecord:
    """The record of a log, whose queues are numbered as `queue_names` lists them."""
    past, cases = log.past, cases_at(log, _instants(log))
    known = np.flatnonzero(past.has_run)[-OUTCOME_JOBS:]
    outcomes = outcomes_of(log.quantiles_s[known], past.runtime_s[known], past.requested_s[known], past.end_s[known])
    instants = np.concatenate([past.submit_s, past.start_s, past.end_s])
    newest_s = float(instants[np.isfinite(instants)].max(initial=-np.inf))
    return QueueRecord(np.array([newest_s]), texts(queue_names(past)), record_of(cases), outcomes)


def queue_names(past: History) -> list[str]:
    """The names of a history's queues, or of its partitions where it has none."""
    return past.names["queue" if (past.codes["queue"] >= 0).any() else "partition"]


def log_of(past: History, quantiles_s: Floats, pools: Pools | None, queues: Sequence[str]) -> Log:
    """The log of a history; without pools all jobs share one, whose size is what was usually held at most."""
    number = {name: code for code, name in enumerate(queues)}
    of_queue = _coded(past, ("queue", "partition"), number, -1)
    if pools is None:
        one = np.zeros(len(past), np.int64)
        return Log(past, quantiles_s, one, np.maximum(usual_capacity(past, one), 1.0), of_queue)
    of_pool = _coded(past, ("partition", "queue"), pools.of_partition, 0)
    return Log(past, quantiles_s, of_pool, pools.capacity, of_queue, is_told=True)


def _coded(past: History, columns: Sequence[str], number: Mapping[str, int], otherwise: int) -> Ints:
    """Per job the number of its name in the first column that has one."""
    found = np.full(len(past), otherwise)
    for column in reversed(columns):
        of_name = np.array([*(number.get(name, otherwise) for name in past.names[column]), otherwise])
        codes = past.codes[column]
        found = np.where(codes >= 0, of_name[codes], found)
    return found


def estimated(past: History, state: State) -> Floats:
    """(jobs, 6): the runtimes estimated at the submit, s, of the latest ended jobs; NaN of the others."""
    found, by_end = np.full((len(past), len(QUANTILES)), np.nan), past.by_end[past.end_s[past.by_end] <= state.as_of_s]
    n_known = min(len(by_end), len(state.record.runtime_s))
    ended, first = by_end[len(by_end) - n_known :], len(state.record.runtime_s) - n_known
    # The State's record is of the same jobs in order of end, unless it knows of others.
    is_same = past.runtime_s[ended] == state.record.runtime_s[first:]
    found[ended[is_same]] = state.record.quantiles_s[first:, : len(QUANTILES)][is_same]
    return found


def _instants(log: Log) -> Floats:
    """Instants spread over the later nine tenths of the log, fewer where queues are deep."""
    past = log.past
    if len(past) < LEAST_CASES:
        return np.empty(0)
    first_s, last_s = past.submit_s[len(past) // 10], past.submit_s[-1]
    in_system_s = np.minimum(past.end_s, last_s) - past.submit_s
    jobs = max(float(in_system_s.sum() / max(last_s - past.submit_s[0], 1.0)), 1.0)
    n = int(min(MOST_WORK / jobs, MOST_SQUARES / jobs**2, MOST_INSTANTS, len(past) // 3))
    return np.sort(np.random.default_rng(1).uniform(first_s, last_s, n))


def table_of(found: QueueRecord) -> pa.Table:
    """STATE with the arrays of a record."""
    return STATE.build(**stored_arrays(dict(arrays_of(FORMAT, found))))


def record_in(table: pa.Table) -> QueueRecord:
    """The record of a table; KeyError where it has another format."""
    found: QueueRecord = tuple_of(QueueRecord, FORMAT, arrays_in(table))
    return found


ALONE = "draws"
"""The way that answers without a record: the simulation's own draws, which hold less than they say."""

IDLE = "idle"
"""What answers that a job starts now: no job runs on the nodes of its pool, as the scheduler tells them, and it fits
there with all waiting jobs before it."""

N_DRAWS = 200


def expected(queue: Queue, found: QueueRecord | None) -> tuple[Floats, list[str], Floats]:
    """The answers to a queue, from the record of the site's past where there is one; times in s from its instant.

    (waiting jobs, LEVELS) starts; what answered each; (running jobs, LEFT_SHARES) times left.
    """
    start_s, way = starts(queue, np.arange(len(queue.waits)), found)
    log = queue.log
    known = calibration(found.outcomes, queue.at_s) if found else UNCALIBRATED
    asked_s = np.where(log.past.requested_s > 0, log.past.requested_s, np.nan)[queue.runs]
    return start_s, way, time_left(log.quantiles_s[queue.runs], queue.elapsed_s, asked_s, known)


def starts(queue: Queue, chosen: Ints, found: QueueRecord | None) -> tuple[Floats, list[str]]:
    """(jobs, LEVELS) times left to wait of these places among the waiting jobs, s, and what answered each.

    Where the machine is not idle, similar past cases answer, or without a record draws.
    """
    start_s, way = np.zeros((len(chosen), len(LEVELS))), np.full(len(chosen), IDLE, np.object_)
    others = np.flatnonzero(~_fits_idle(queue)[chosen])
    if len(others) and (found is None or len(known_answers(found.cases, queue.at_s).at_s) < LEAST_ANSWERS):
        draws_s, _ = simulated(queue, N_DRAWS, orders=1)
        start_s[others], way[others] = np.quantile(draws_s[0][:, chosen[others]], LEVELS, axis=0).T, ALONE
    elif len(others) and found is not None:
        questions = asked(queue, chosen[others])
        start_s[others], nth = answers(found.cases, float(found.as_of_s[0]), questions, queue.at_s)
        way[others] = np.array(list(WAYS), np.object_)[nth]
    return start_s, way.tolist()


def _fits_idle(queue: Queue) -> Bools:
    """Per waiting job, whether it fits nodes on which no job runs, with all waiting jobs before it."""
    log, fits = queue.log, np.zeros(len(queue.waits), np.bool_)
    if not log.is_told:
        return fits
    pools, in_turn = log.pool[queue.waits], orders_of(queue)[0]
    for pool in np.setdiff1d(pools, log.pool[queue.runs]).tolist():
        own = in_turn[pools[in_turn] == pool]
        fits[own] = np.cumsum(log.size[queue.waits[own]]) <= log.capacity[pool]
    return fits
