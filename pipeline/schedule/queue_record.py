"""What a site's past says of waits and of time left: cases, what was said of them, and outcomes, as arrays."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats, Ints
from pipeline.estimate.history import READ, History, history
from pipeline.estimate.jobs import texts
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.state import State
from pipeline.large_tables import LargeTable, newest_jobs
from pipeline.schedule.queues import Log, usual_capacity
from pipeline.schedule.start_cases import Cases, cases_at
from pipeline.schedule.starts import LEAST_CASES, MOST_CASES, Record, record_of
from pipeline.schedule.time_left import Outcomes, outcomes_of
from pipeline.stored_arrays import arrays_in, arrays_of, arrays_table, tuple_of

FORMAT = 1
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

    as_of_s: float
    queues: Sequence[str]
    """The names of the queues of the cases."""
    cases: Cases
    record: Record
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
    return QueueRecord(newest_past_s(past), queue_names(past), cases, record_of(cases), outcomes)


def newest_past_s(past: History) -> float:
    """The newest known instant of a history."""
    instants = np.concatenate([past.submit_s, past.start_s, past.end_s])
    return float(instants[np.isfinite(instants)].max(initial=-np.inf))


def queue_names(past: History) -> list[str]:
    """The names of a history's queues, or of its partitions where it has none."""
    return past.names["queue" if (past.codes["queue"] >= 0).any() else "partition"]


def log_of(past: History, quantiles_s: Floats, pools: Pools | None, queues: Sequence[str]) -> Log:
    """The log of a history; without pools all jobs share one, whose size is what was usually held at most."""
    number = {name: code for code, name in enumerate(queues)}
    of_queue = _coded(past, ("queue", "partition"), number, -1)
    if pools is None:
        one = np.zeros(len(past), np.int64)
        return Log(past, quantiles_s, one, usual_capacity(past, one), of_queue)
    of_pool = _coded(past, ("partition", "queue"), pools.of_partition, 0)
    return Log(past, quantiles_s, of_pool, pools.capacity, of_queue)


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
    found = np.full((len(past), len(QUANTILES)), np.nan)
    n_known = min(len(past.by_end), len(state.record.runtime_s))
    ended, first = past.by_end[len(past.by_end) - n_known :], len(state.record.runtime_s) - n_known
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
    mean_jobs = float(in_system_s.sum() / max(last_s - past.submit_s[0], 1.0))
    jobs = max(mean_jobs, 1.0)
    n = int(min(MOST_WORK / jobs, MOST_SQUARES / jobs**2, MOST_INSTANTS, len(past) // 3))
    return np.sort(np.random.default_rng(1).uniform(first_s, last_s, n))


def table_of(found: QueueRecord) -> pa.Table:
    """STATE with the arrays of a record."""
    arrays = {
        "format": np.array([FORMAT]), "as_of_s": np.array([found.as_of_s]), "queues": texts(found.queues),
        "said_s": found.record.said_s,
    }  # fmt: skip
    return arrays_table(arrays | dict(arrays_of("cases", found.cases)) | dict(arrays_of("outcomes", found.outcomes)))


def record_in(table: pa.Table) -> QueueRecord | None:
    """The record of a table; None where it has another format."""
    arrays = arrays_in(table)
    if arrays["format"].tolist() != [FORMAT]:
        return None
    cases, outcomes = tuple_of(Cases, "cases", arrays), tuple_of(Outcomes, "outcomes", arrays)
    said_s, as_of_s = arrays["said_s"], float(arrays["as_of_s"][0])
    record = Record(cases.take(slice(len(cases.at_s) - said_s.shape[1], None)), said_s)
    return QueueRecord(as_of_s, arrays["queues"].tolist(), cases, record, outcomes)
