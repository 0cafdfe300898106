"""A log in the order a scheduler observes it: jobs in order of submit, and when each fact about them became known.

When a job is submitted, an estimator may use only what is known at that time: the job's own values (request, submitter,
program, queue, time); when earlier jobs were submitted, started or left the queue, up to that time; and the runtimes of
jobs that had ended, which are those before `ended` in `by_end`. Jobs that were cancelled before they started are
included, because they were in the queue.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import EARLIEST_S, LATEST_S, Bools, Floats, Ints, category_codes, floats, lower_bounds, offset_s
from pipeline.schema import gpu_types
from pipeline.tables import JOBS

NO_JOB_FLAGS = ("site_drop", "partial_execution", "impossible_times", "no_procs", "duplicate")
"""Flags of records that are no jobs of their own. Jobs of a flurry are kept: a scheduler had to estimate them."""

NOT_ENDED = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING", "STOPPED")
"""States of jobs whose runtime is not known yet, even if the log has the time so far."""

ATTRIBUTES = ("user", "user_group", "account", "application", "queue", "partition", "qos", "problem_size", "gpu_type")
"""`gpu_type` is known of every job that holds GPUs: as the log tells it, else UNTOLD."""

OTHERS = ("inputs", "array_id")
"""Columns that are no attributes of a job, but are known of it by their text."""

WHO = ("user", "account", "user_group")
WHAT = ("application", "job_name", "submit_tokens", "queue")
"""Columns that identify a job's submitter and its program: per job, the first one that is known."""

READ = tuple(dict.fromkeys((
    *JOBS.key, "submit_s", "start_s", "end_s", "runtime_s", "requested_s", "requested_mem_kib",
    "gpus", "procs", "requested_procs", "is_lower_bound", "state", "flag", *ATTRIBUTES, *OTHERS, *WHO, *WHAT,
)))  # fmt: skip
"""The columns of JOBS that a history and the ids of its records are made of."""

OUT_OF_MEMORY = "OUT_OF_MEMORY"
"""The state of jobs that were stopped because they needed more memory than they had."""

QUEUED_AT_MOST_S = 86_400.0
"""A job that never started and whose cancellation has no time leaves the queue after its request, or this."""

LEAST_S = 1.0
"""A job's end is known at the earliest this long after its submit, so that no job is known at its own submit."""


@dataclass(frozen=True, slots=True)
class History:
    """Arrays of equal length, one value a job, in order of submit (ties: of row); NaN and -1 are unknown."""

    # The job's row in JOBS.
    row: Ints
    submit_s: Floats
    # Infinite where the job has not started.
    start_s: Floats
    # When the runtime is known, or the job left the queue unstarted; infinite where neither has happened.
    end_s: Floats
    runtime_s: Floats
    """NaN where the job has not run to an end. In a `memory_history` this is the memory used, and `requested_s` that
    asked for, KiB per processor."""
    requested_s: Floats
    requested_mem_kib: Floats
    # GPUs allocated.
    gpus: Floats
    # Processors asked for (allocated ones where the log has no request).
    procs: Floats
    # Submit time as the site's clock showed it, s.
    local_s: Ints
    # Whether the job was killed at its limit: its full runtime would be longer.
    is_lower_bound: Bools
    # Whether the runtime is one to learn from.
    is_learnt: Bools
    # Per attribute, and for `who`, `what` and OTHERS, codes from 0 in order of first submit; -1 unknown.
    codes: dict[str, Ints]
    # Per attribute, the text of each code.
    names: dict[str, list[str]] = field(default_factory=dict)
    stale_s: float | None = None
    """None: an estimate knows all events up to its submit. A number: it knows those up to the last midnight (UTC) that
    is at least this many seconds before the submit."""

    def __len__(self) -> int:
        return len(self.submit_s)

    def as_submitted(self) -> "History":
        """The jobs as a question at their submit knows them: neither started nor ended, their runtimes unknown."""
        never_s = np.full(len(self), np.inf)
        return replace(self, start_s=never_s, end_s=never_s, runtime_s=np.full(len(self), np.nan))

    @property
    def has_run(self) -> Bools:
        """Whether the runtime is known."""
        return ~np.isnan(self.runtime_s)

    @property
    def known_s(self) -> Floats:
        """Per job, the time up to which its estimate may use events, s."""
        if self.stale_s is None:
            return self.submit_s
        return np.floor((self.submit_s - self.stale_s) / 86_400.0) * 86_400.0

    @property
    def by_end(self) -> Ints:
        """Places of the jobs to learn from in order of end: the order in which runtimes become known."""
        places = np.flatnonzero(self.has_run & self.is_learnt)
        return places[np.argsort(self.end_s[places], kind="stable")]

    @property
    def ended(self) -> Ints:
        """Per job, how many of `by_end` were known by its submit (an end at the very second counts)."""
        return np.searchsorted(self.end_s[self.by_end], self.known_s, side="right")

    def known_by(self, at_s: float) -> "History":
        """The jobs submitted by a time, without later events."""
        early = self.take(np.arange(np.searchsorted(self.submit_s, at_s, side="right")))
        is_open = early.end_s > at_s
        return replace(
            early,
            start_s=np.where(early.start_s > at_s, np.inf, early.start_s),
            end_s=np.where(is_open, np.inf, early.end_s),
            runtime_s=np.where(is_open, np.nan, early.runtime_s),
            is_lower_bound=early.is_lower_bound & ~is_open,
        )

    def take(self, places: Ints) -> "History":
        """The jobs at these places, which ascend."""
        arrays = {name: getattr(self, name)[places] for name in ARRAYS}
        return replace(self, **arrays, codes={name: codes[places] for name, codes in self.codes.items()})


ARRAYS = (
    "row", "submit_s", "start_s", "end_s", "runtime_s", "requested_s", "requested_mem_kib", "gpus", "procs",
    "local_s", "is_lower_bound", "is_learnt",
)  # fmt: skip


def newest_s(jobs: pa.Table, rows: Ints) -> float:
    """The newest submit, start or end of some rows of JOBS, s; minus infinity where there is none."""
    instants = [floats(jobs, name)[rows] for name in ("submit_s", "start_s", "end_s")]
    return max(float(np.max(values[~np.isnan(values)], initial=-np.inf)) for values in instants)


def history(jobs: pa.Table, timezone: str = "UTC", *, without_flagged: bool = False) -> History:
    """The History of all jobs with a known submit and processors; `without_flagged`: flagged jobs are not learnt from.

    A job has run where its runtime is positive and its state says that it ended.

    Parameters
    ----------
    jobs : pa.Table
        JOBS, n rows in any order.
    timezone : str
        IANA name of the site's time zone, for `local_s`.
    without_flagged : bool
        Whether jobs with a flag are left out of learning; they stay in the history.

    Returns
    -------
    History
        One value per usable job, in order of submit; times in s since 1970, durations in s; NaN and -1: unknown.

    Examples
    --------
    >>> log = history(tables["jobs"])
    >>> len(log) <= tables["jobs"].num_rows, bool((np.diff(log.submit_s) >= 0).all())
    (True, True)
    """
    submit_s, procs = floats(jobs, "submit_s"), _requested_procs(jobs)
    is_instant = (submit_s >= EARLIEST_S) & (submit_s < LATEST_S)
    rows = np.flatnonzero(~_has_flag(jobs, NO_JOB_FLAGS) & is_instant & ~np.isnan(procs))
    rows = rows[np.lexsort((rows, submit_s[rows]))]
    has_run = (floats(jobs, "runtime_s") > 0) & ~_has_flag(jobs, ("unfinished",)) & ~_is_open(jobs)
    start_s, end_s = _start_and_end_s(jobs, has_run)
    local_s = np.nan_to_num(submit_s).astype(np.int64)[rows]
    codes, names = _codes(jobs, rows)
    flagged = pc.is_valid(jobs.column("flag")).to_numpy() & without_flagged
    return History(
        row=rows,
        submit_s=submit_s[rows],
        start_s=start_s[rows],
        end_s=end_s[rows],
        runtime_s=np.where(has_run, floats(jobs, "runtime_s"), np.nan)[rows],
        requested_s=floats(jobs, "requested_s")[rows],
        requested_mem_kib=floats(jobs, "requested_mem_kib")[rows],
        gpus=floats(jobs, "gpus")[rows],
        procs=procs[rows],
        local_s=local_s + offset_s(local_s, timezone),
        is_lower_bound=(lower_bounds(jobs) & has_run)[rows],
        is_learnt=~flagged[rows],
        codes=codes,
        names=names,
    )


def memory_history(jobs: pa.Table, timezone: str = "UTC", *, without_flagged: bool = False) -> History:
    """The same jobs with memory in place of time: what estimates and limits runtimes then does so for memory.

    Parameters
    ----------
    jobs : pa.Table
        JOBS, n rows in any order.
    timezone : str
        IANA name of the site's time zone.
    without_flagged : bool
        Whether jobs with a flag are left out of learning.

    Returns
    -------
    History
        `runtime_s` and `requested_s` are memory used and asked for, KiB per processor; NaN unknown. A job that ended
        OUT_OF_MEMORY needed more than it asked for, whatever was measured: a lower bound. `start_s` is infinite: the
        time for which a job has run says nothing about its memory, and what it uses is known at its end.

    Examples
    --------
    >>> log = memory_history(tables["jobs"])
    >>> used_kib = log.runtime_s[log.has_run]
    >>> bool((used_kib > 0).all()), bool(np.isinf(log.start_s).all())
    (True, True)
    """
    past = history(jobs, timezone, without_flagged=without_flagged)
    used_kib, asked_kib = floats(jobs, "used_mem_kib")[past.row], past.requested_mem_kib
    ran_out = pc.fill_null(pc.equal(jobs.column("state").cast(pa.string()), OUT_OF_MEMORY), False).to_numpy()[past.row]
    used_kib = np.where(ran_out, np.fmax(used_kib, asked_kib), used_kib)
    return replace(
        past,
        start_s=np.full(len(past), np.inf),
        runtime_s=np.where(past.has_run & (used_kib > 0), used_kib, np.nan),
        requested_s=np.where(asked_kib > 0, asked_kib, np.nan),
        requested_mem_kib=np.full(len(past), np.nan),
        is_lower_bound=ran_out & past.has_run & (used_kib > 0),
    )


class Target(NamedTuple):
    """What of a job is estimated: the columns of JOBS that it is learnt from, and the History that they make."""

    columns: tuple[str, ...]
    history: Callable[..., History]


RUNTIME = Target(READ, history)
MEMORY = Target((*READ, "used_mem_kib"), memory_history)

LEARN_JOBS = 1_000_000
"""Least number of newest jobs that are learnt; at most half as many more are."""


def _has_flag(jobs: pa.Table, flags: Sequence[str]) -> Bools:
    found: Bools = pc.fill_null(pc.is_in(jobs.column("flag").cast(pa.string()), pa.array(flags)), False).to_numpy()
    return found


def _is_open(jobs: pa.Table) -> Bools:
    found: Bools = pc.fill_null(pc.is_in(jobs.column("state").cast(pa.string()), pa.array(NOT_ENDED)), False).to_numpy()
    return found


def _requested_procs(jobs: pa.Table) -> Floats:
    requested, allocated = floats(jobs, "requested_procs"), floats(jobs, "procs")
    chosen = np.where(requested > 0, requested, allocated)
    return np.where(chosen > 0, chosen, np.nan)


def _start_and_end_s(jobs: pa.Table, has_run: Bools) -> tuple[Floats, Floats]:
    """The end of a job that ran is end, start + runtime or submit + runtime, the first that is known."""
    submit_s, runtime_s = floats(jobs, "submit_s"), floats(jobs, "runtime_s")
    start_s, end_s = floats(jobs, "start_s"), floats(jobs, "end_s")
    ran_until_s = np.where(np.isnan(end_s), np.where(np.isnan(start_s), submit_s, start_s) + runtime_s, end_s)
    gone_s = np.where(np.isnan(end_s), start_s, end_s)
    wait_s = np.where(floats(jobs, "requested_s") > 0, floats(jobs, "requested_s"), QUEUED_AT_MOST_S)
    gone_s = np.where(np.isnan(gone_s), submit_s + wait_s, gone_s)
    is_open = ~has_run & (_is_open(jobs) | _has_flag(jobs, ("unfinished",)))
    known_s = np.where(has_run, ran_until_s, np.where(is_open, np.inf, gone_s))
    known_s = np.maximum(known_s, submit_s + LEAST_S)
    # The same start while the job runs and after its end, although runtimes are finer than instants.
    begun_s = np.maximum(np.where(np.isnan(start_s), known_s - runtime_s, np.minimum(start_s, known_s)), submit_s)
    has_started = has_run | (is_open & ~np.isnan(start_s))
    return np.where(has_started, begun_s, np.inf), known_s


def _codes(jobs: pa.Table, rows: Ints) -> tuple[dict[str, Ints], dict[str, list[str]]]:
    jobs = jobs.set_column(jobs.column_names.index("gpu_type"), "gpu_type", gpu_types(jobs))
    read = {name: category_codes(jobs, name) for name in dict.fromkeys((*ATTRIBUTES, *OTHERS, *WHO, *WHAT))}
    read = {name: (codes[rows], names) for name, (codes, names) in read.items()}
    read["who"], read["what"] = _first_known(read, WHO), _first_known(read, WHAT)
    coded = {name: in_order_of_use(*read[name]) for name in (*ATTRIBUTES, "job_name", *OTHERS, "who", "what")}
    return {name: codes for name, (codes, _) in coded.items()}, {name: names for name, (_, names) in coded.items()}


def _first_known(read: Mapping[str, tuple[Ints, list[str]]], columns: Sequence[str]) -> tuple[Ints, list[str]]:
    """Codes of the first known column per job; texts of all but the first column begin with their column's name."""
    found, names = read[columns[0]]
    found, names = found.copy(), list(names)
    for column in columns[1:]:
        codes, texts = read[column]
        found = np.where((found < 0) & (codes >= 0), codes + len(names), found)
        names += [f"{column} {text}" for text in texts]
    return found, names


def in_order_of_use(codes: Ints, names: Sequence[str]) -> tuple[Ints, list[str]]:
    """The same codes numbered in order of first use, so that later jobs change none; the names in use."""
    used, first = np.unique(codes, return_index=True)
    used, first = used[used >= 0], first[used >= 0]
    by_use = used[np.argsort(first, kind="stable")]
    place = np.full(len(names) + 1, -1, np.int64)
    place[by_use] = np.arange(len(by_use))
    return place[codes], [names[code] for code in by_use]
