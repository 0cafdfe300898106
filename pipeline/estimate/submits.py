"""Jobs as input of kernels: values known at each submit, starts and ends between submits, bursts and sessions."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.history import History
from pipeline.estimate.keys import MASK, hashes_of_names, mixed
from pipeline.kernels import kernel, uncounted_kernel
from pipeline.silent_requests import is_unused

if TYPE_CHECKING:
    from pipeline.estimate.estimate_rules import EstimateRules

ATTRIBUTES = ("what", "user_group", "queue", "account", "partition", "qos", "job_name", "problem_size", "gpu_type")
TRAITS = (*ATTRIBUTES, "memory")
MEMORY, PROBLEM_SIZE, GPU_TYPE = len(ATTRIBUTES), ATTRIBUTES.index("problem_size"), ATTRIBUTES.index("gpu_type")
"""What jobs are compared by beside their requested times and processors."""


class Jobs(NamedTuple):
    """One value a job, in order of submit; 0 s where no time was requested, -1 where a code is unknown."""

    submit_s: Floats
    start_s: Floats
    end_s: Floats
    runtime_s: Floats
    limit_s: Floats
    """The requested time."""
    requested_s: Floats
    """The same, 0 where the request says nothing of the runtime (with_meant_requests)."""
    procs: Floats
    gpus: Floats
    """0 where the job holds none."""
    is_lower_bound: Bools
    is_learnt: Bools
    who: Ints
    what: Ints
    traits: Ints
    """(jobs, TRAITS) codes of the attributes, and the bits of the memory requested."""
    request: Ints
    """Number of the requested time, -1 for none."""
    group: Ints
    """Number of (submitter, program, memory, problem size, type of GPUs), -1 where the submitter is unknown."""
    size: Ints
    """Number of the same with the processors and GPUs."""
    log_request: Floats
    log_size: Floats
    """Of the processors, times the GPUs of a job with GPUs: whichever of the two a group varies."""
    burst: Ints
    """Number of the burst: one submitter's jobs of one size, request and array without a long gap; -1: unknown
    submitter."""
    place: Floats
    """log(1 + earlier jobs of the burst)."""
    session: Ints
    """Number of the session: one submitter's submits without a long gap."""
    answered_s: Floats
    """The median that was answered at the submit; NaN until then."""
    array: Ints
    """Hash of the id of the job array; -1: a job of its own."""


class Events(NamedTuple):
    """Jobs, by their place, in the order in which they start, end and leave the queue unstarted.

    Per submit, and behind the last one for the end of the log, how many of each have happened by then.
    """

    by_start: Ints
    by_end: Ints
    by_leave: Ints
    started: Ints
    ended: Ints
    left: Ints
    known_s: Floats
    """Per submit, until when events are known, s."""
    first: int
    """Place of the first submit among the jobs; -1: the submits are queries, which change no state."""


def derived(requested_s: Floats, procs: Floats, gpus: Floats) -> dict[str, Floats]:
    """The columns of Jobs that follow from others."""
    log_request = np.log(np.where(requested_s > 0, requested_s, np.nan))
    log_size = np.log(procs) + np.log(np.maximum(gpus, 1.0))
    return {"log_request": log_request, "log_size": log_size}


def programs(jobs: Jobs) -> Ints:
    """Per job a number of its program, which is another one on each type of GPUs; -1 unknown, without GPUs."""
    on_gpus = mixed(np.maximum(jobs.traits[:, GPU_TYPE], 0), jobs.what)
    return np.where(jobs.gpus > 0, on_gpus, jobs.what)


def sizes(jobs: Jobs) -> Ints:
    """Per job a number of its processors and GPUs."""
    procs = np.ascontiguousarray(jobs.procs).view(np.int64)
    return np.where(jobs.gpus > 0, mixed(procs, jobs.gpus), procs)


def typed_sizes(jobs: Jobs) -> Ints:
    """Per job a number of its processors, GPUs and the type of these."""
    size = sizes(jobs)
    return np.where(jobs.gpus > 0, mixed(size, jobs.traits[:, GPU_TYPE]), size)


def jobs_of(history: History) -> Jobs:
    """A History's values; numbers of requests, bursts and sessions are -1 until they are set."""
    n, requested_s = len(history), np.where(history.requested_s > 0, history.requested_s, 0.0)
    gpus = np.where(history.gpus > 0, history.gpus, 0.0)
    unset = np.full(n, -1, np.int64)
    return Jobs(
        submit_s=history.submit_s, start_s=history.start_s, end_s=history.end_s, runtime_s=history.runtime_s,
        limit_s=requested_s, requested_s=requested_s, procs=history.procs, gpus=gpus,
        is_lower_bound=history.is_lower_bound, is_learnt=history.is_learnt,
        who=history.codes["who"], what=history.codes["what"], traits=_traits(history),
        request=unset, group=unset, size=unset,
        burst=unset, place=np.zeros(n), session=unset, answered_s=np.full(n, np.nan), array=_arrays(history),
        **derived(requested_s, history.procs, gpus),
    )  # fmt: skip


def _traits(history: History) -> Ints:
    memory = np.where(history.requested_mem_kib > 0, history.requested_mem_kib, -1.0)
    return np.column_stack([
        *(history.codes[name] for name in ATTRIBUTES), np.where(memory > 0, memory.view(np.int64), -1)
    ])  # fmt: skip


def _arrays(history: History) -> Ints:
    """Hashes of texts, because a State would hold the name of every array for ever."""
    codes = history.codes["array_id"].astype(np.int64)
    hashes = hashes_of_names(history.names["array_id"]).view(np.uint64) & MASK
    # The code of no array is -1: the last place.
    return np.append(hashes.view(np.int64), -1)[codes]


def part(jobs: Jobs, places: Ints | slice) -> Jobs:
    """The jobs at these places."""
    return Jobs._make(np.ascontiguousarray(column[places]) for column in jobs)


def joined(first: Jobs, second: Jobs) -> Jobs:
    """The jobs of both."""
    return Jobs(*(np.concatenate(columns) for columns in zip(first, second, strict=True)))


def events_of(jobs: Jobs, first: int, known_s: Floats, until_s: float, is_over: Bools, has_started: Bools) -> Events:
    """The starts, ends and departures of jobs until a time; `is_over` and `has_started` mark earlier events.

    The submits are the jobs from `first` on; `known_s` is the time up to which each knows events. A job that starts in
    the second of its submit counts as not started for itself and for earlier submits of that second.
    """
    is_open = ~is_over
    by_start = _in_order(jobs.start_s, is_open & ~has_started, until_s)
    by_end = _in_order(jobs.end_s, is_open & ~np.isnan(jobs.runtime_s), until_s)
    by_leave = _in_order(jobs.end_s, is_open & np.isnan(jobs.runtime_s) & np.isinf(jobs.start_s), until_s)
    return Events(
        by_start, by_end, by_leave,
        np.append(_started(jobs, by_start, first, known_s), len(by_start)),
        np.append(_happened(jobs.end_s, by_end, known_s), len(by_end)),
        np.append(_happened(jobs.end_s, by_leave, known_s), len(by_leave)),
        known_s, first,
    )  # fmt: skip


def _in_order(times_s: Floats, chosen: Bools, until_s: float) -> Ints:
    places = np.flatnonzero(chosen & (times_s <= until_s))
    return places[np.argsort(times_s[places], kind="stable")]


def _happened(times_s: Floats, places: Ints, known_s: Floats) -> Ints:
    return np.searchsorted(times_s[places], known_s, side="right")


def _started(jobs: Jobs, by_start: Ints, first: int, known_s: Floats) -> Ints:
    submit_s = jobs.submit_s[first:]
    is_at_once = jobs.start_s[first:] == submit_s
    n_at_once = np.append(0, np.cumsum(is_at_once))
    later = n_at_once[np.searchsorted(submit_s, submit_s, side="right")] - n_at_once[:-1]
    return _happened(jobs.start_s, by_start, known_s) - np.where(known_s == submit_s, later, 0)


def capped(values_s: Floats, requested_s: Floats) -> Floats:
    """Values no longer than the request, where there is one."""
    limit_s = np.where(requested_s > 0, requested_s, np.inf)
    return np.minimum(values_s, limit_s if values_s.ndim == 1 else limit_s[:, None])


class LastSubmits(NamedTuple):
    """Per submitter the last submit: time, requested runtime, processors, GPUs, numbers of burst and session, burst
    size, array."""

    submit_s: Floats
    requested_s: Floats
    procs: Floats
    gpus: Floats
    burst: Ints
    n_burst: Ints
    session: Ints
    array: Ints


def no_submits() -> LastSubmits:
    """The state before the first submit: only the blank row."""
    unknown, none = np.full(1, np.nan), np.full(1, -1, np.int64)
    no_burst = np.zeros(1, np.int64)
    return LastSubmits(
        unknown, unknown.copy(), unknown.copy(), unknown.copy(), none, no_burst, none.copy(), none.copy()
    )


def with_sessions(
    jobs: Jobs, held: LastSubmits, n_before: int, gaps_s: tuple[float, float], *, registers: bool
) -> Jobs:
    """The jobs with burst, place in the burst, and session.

    A burst or session has the number of its first job; the first of `jobs` has number `n_before`. `gaps_s` are the
    longest gaps within a burst and within a session. With `registers` the submits are written to `held`.
    """
    n = len(jobs.who)
    burst, place, session = np.full(n, -1, np.int64), np.zeros(n), np.full(n, -1, np.int64)
    _assign_sessions(jobs, held, n_before, gaps_s, registers, burst, place, session)
    return jobs._replace(burst=burst, place=np.log1p(place), session=session)


@uncounted_kernel
def _assign_sessions(
    jobs: Jobs, held: LastSubmits, n_before: int, gaps_s: tuple[float, float], registers: bool,
    burst: Ints, place: Floats, session: Ints,
) -> None:  # fmt: skip
    for job in range(len(jobs.who)):
        who = jobs.who[job]
        if who < 0:
            continue
        gap_s = jobs.submit_s[job] - held.submit_s[who]
        is_same = held.requested_s[who] == jobs.requested_s[job] and held.procs[who] == jobs.procs[job]
        is_same = is_same and held.gpus[who] == jobs.gpus[job] and held.array[who] == jobs.array[job]
        goes_on = gap_s <= gaps_s[0] and is_same
        burst[job] = held.burst[who] if goes_on else n_before + job
        place[job] = held.n_burst[who] if goes_on else 0
        session[job] = held.session[who] if gap_s <= gaps_s[1] else n_before + job
        if registers:
            held.submit_s[who], held.requested_s[who] = jobs.submit_s[job], jobs.requested_s[job]
            held.procs[who], held.gpus[who], held.array[who] = jobs.procs[job], jobs.gpus[job], jobs.array[job]
            held.burst[who], held.n_burst[who], held.session[who] = burst[job], int(place[job]) + 1, session[job]


NAMED_JOBS, MOST_NEW = 100, 0.5
"""Jobs that a judgement of names needs; the share of programs per job beyond which a program's name says nothing."""


def with_known_programs(jobs: Jobs, n_names: Ints, n_submits: Ints) -> Jobs:
    """The jobs without names of programs where, as of the submit, most jobs have a name that no other job has.

    Some logs number each job's script. `n_names` and `n_submits`: per job, programs and jobs of the log up to it.
    """
    says_nothing = (n_submits >= NAMED_JOBS) & (n_names > MOST_NEW * n_submits)
    what = np.where(says_nothing, -1, jobs.what)
    return jobs._replace(what=what, traits=np.column_stack([what, jobs.traits[:, 1:]]))


class Use(NamedTuple):
    """Per number of a request, and for the log in the one row of `of_log`: runs that ended, and the longest, s.

    `of_log` has the first submit, s, too: infinite before it. `typical`: the logarithm of the median runtime (log s) of
    the log's ended runs, the latest most, and how many it is from.
    """

    of_request: Floats
    of_log: Floats
    typical: Floats


def no_use() -> Use:
    """The state before the first end: only the blank row."""
    return Use(np.zeros((1, 2)), np.array([[0.0, 0.0, np.inf]]), np.zeros(2))


def with_meant_requests(jobs: Jobs, past: Jobs, events: Events, held: Use, rules: "EstimateRules") -> Jobs:
    """The jobs without requests that say nothing as of the submit; `held` is updated with the ends.

    `is_unused` says which: a limit that is everybody's default, or none at all.
    """
    if rules.counts_every_request:
        return jobs
    meant_s = jobs.limit_s.copy()
    _drop_unused(jobs, past, events, held, meant_s)
    log_request = derived(meant_s, jobs.procs, jobs.gpus)["log_request"]
    return jobs._replace(requested_s=meant_s, log_request=log_request)


@uncounted_kernel
def _drop_unused(jobs: Jobs, past: Jobs, events: Events, held: Use, meant_s: Floats) -> None:
    n, n_over, of_log = len(jobs.who), 0, held.of_log[0]
    for job in range(n):
        while n_over < events.ended[job]:
            _use(events.by_end[n_over], past, held)
            n_over += 1
        own, limit_s = held.of_request[jobs.request[job]], jobs.limit_s[job]
        if is_unused(limit_s, own[0], own[1], of_log[0], of_log[1], jobs.submit_s[job] - of_log[2]):
            meant_s[job] = 0.0
    while n_over < events.ended[n]:
        _use(events.by_end[n_over], past, held)
        n_over += 1


@kernel
def _use(over: int, past: Jobs, held: Use) -> None:
    if not past.is_learnt[over]:
        return
    _count(past.runtime_s[over], held.of_log[0])
    held.of_log[0, 2] = min(held.of_log[0, 2], past.submit_s[over])
    if past.request[over] >= 0:
        _count(past.runtime_s[over], held.of_request[past.request[over]])


@kernel
def _count(runtime_s: float, row: Floats) -> None:
    row[0] += 1
    row[1] = max(row[1], runtime_s)
