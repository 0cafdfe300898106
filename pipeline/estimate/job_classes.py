"""Features of a job's class and of the machine's load as of the submit, for boosted trees.

A job class is (submitter, requested runtime, processors). Features of the submitter alone: submitter_features.py.
"""

import math
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.estimate.keys import mixed
from pipeline.estimate.submits import Events, Jobs
from pipeline.kernels import entry_kernel, kernel

(
    LATEST, ONE_BEFORE, SMOOTH, N_ENDED, N_RUNNING, N_QUEUED, SINCE_END, SINCE_SUBMIT, LONGEST_RUNNING,
    SHARE_STOPPED, SHARE_SHORT, ALL_RUNNING, ALL_QUEUED,
) = range(13)  # fmt: skip
N_FEATURES = ALL_QUEUED + 1
N_PER_CLASS = SINCE_SUBMIT + 1
"""The first columns are kept per class."""

N_STARTED = 16
"""Started jobs kept per class, to find the one running longest."""

SHORT_S = 120.0
"""A job that ends sooner counts as a short (failed) run."""

STOPPED_SHARE = 0.95
"""A job that ran for at least this share of its request counts as stopped at its limit."""


class JobClasses(NamedTuple):
    """Per class: its features (the last end and submit as instants, s) and the places of its latest started jobs.

    `shares`: per submitter, the shares of jobs stopped at their limit and of short jobs. `procs`: running and queued
    processors of all jobs.
    """

    state: Floats
    started: Ints
    n_started: Ints
    shares: Floats
    procs: Floats


def no_job_classes() -> JobClasses:
    """The state before the first job: only the blank rows."""
    state = np.full((1, N_PER_CLASS), np.nan)
    state[:, N_ENDED : N_QUEUED + 1] = 0.0
    started = np.full((1, N_STARTED), -1, np.int64)
    return JobClasses(state, started, np.zeros(1, np.int64), np.full((1, 2), np.nan), np.zeros(2))


def digests_of(jobs: Jobs) -> Ints:
    """A hash of each job's class; -1 where the submitter is unknown."""
    return mixed(jobs.who, jobs.requested_s, jobs.procs)


@entry_kernel
def job_class_features(
    jobs: Jobs, past: Jobs, events: Events, job_class: Ints, past_class: Ints, held: JobClasses
) -> Floats:
    """(jobs, 13): logs of times and of processors, counts, shares; NaN where unknown; updates `held` with the events.

    `job_class` and `past_class` are the class numbers of the submitted and of the earlier jobs.
    """
    n = len(jobs.submit_s)
    found = np.full((n, N_FEATURES), np.nan)
    n_started = n_over = n_left = 0
    for job in range(n + 1):
        while n_started < events.started[job]:
            begun = events.by_start[n_started]
            held.procs[0] += past.procs[begun]
            held.procs[1] -= past.procs[begun]
            _start(begun, past_class[begun], held)
            n_started += 1
        while n_over < events.ended[job]:
            over = events.by_end[n_over]
            held.procs[0] -= past.procs[over]
            _end(over, past_class[over], past, held)
            n_over += 1
        while n_left < events.left[job]:
            gone = events.by_leave[n_left]
            held.procs[1] -= past.procs[gone]
            if past_class[gone] >= 0:
                held.state[past_class[gone], N_QUEUED] -= 1
            n_left += 1
        if job < n:
            _describe(job, job_class[job], events.known_s[job], jobs, past, held, found[job])
            if events.first >= 0:
                held.procs[1] += jobs.procs[job]
                if job_class[job] >= 0:
                    held.state[job_class[job], N_QUEUED] += 1
                    held.state[job_class[job], SINCE_SUBMIT] = jobs.submit_s[job]
    return found


@kernel
def _start(begun: int, key: int, classes: JobClasses) -> None:
    if key >= 0:
        classes.state[key, N_RUNNING] += 1
        classes.state[key, N_QUEUED] -= 1
        classes.started[key, classes.n_started[key] % N_STARTED] = begun
        classes.n_started[key] += 1


@kernel
def _end(over: int, key: int, past: Jobs, classes: JobClasses) -> None:
    if key < 0:
        return
    mine, limit_s = classes.state[key], past.requested_s[over]
    mine[N_RUNNING] -= 1
    if not past.is_learnt[over]:
        return
    log_s = math.log(past.runtime_s[over])
    mine[N_ENDED] += 1
    mine[ONE_BEFORE], mine[LATEST], mine[SINCE_END] = mine[LATEST], log_s, past.end_s[over]
    mine[SMOOTH] = _smoothed(mine[SMOOTH], log_s, 0.3)
    is_stopped = limit_s > 0 and past.runtime_s[over] >= STOPPED_SHARE * limit_s
    known = classes.shares[past.who[over]]
    known[0] = _smoothed(known[0], 1.0 if is_stopped else 0.0, 0.1)
    known[1] = _smoothed(known[1], 1.0 if past.runtime_s[over] < SHORT_S else 0.0, 0.1)


@kernel
def _smoothed(old: float, new: float, share: float) -> float:
    return new if np.isnan(old) else old + share * (new - old)


@kernel
def _describe(job: int, key: int, known_s: float, jobs: Jobs, past: Jobs, classes: JobClasses, found: Floats) -> None:
    """Write the features of the class as of just before this submit."""
    found[ALL_RUNNING] = math.log1p(max(classes.procs[0], 0.0))
    found[ALL_QUEUED] = math.log1p(max(classes.procs[1], 0.0))
    if key < 0:
        return
    mine, now_s, longest_s = classes.state[key], jobs.submit_s[job], 0.0
    found[:N_PER_CLASS] = mine
    found[SINCE_END] = math.log1p(max(now_s - mine[SINCE_END], 0.0))
    found[SINCE_SUBMIT] = math.log1p(max(now_s - mine[SINCE_SUBMIT], 0.0))
    for place in range(min(classes.n_started[key], N_STARTED)):
        begun = classes.started[key, place]
        if begun >= 0 and past.end_s[begun] > known_s:
            longest_s = max(longest_s, known_s - past.start_s[begun])
    found[LONGEST_RUNNING] = math.log1p(longest_s)
    found[SHARE_STOPPED], found[SHARE_SHORT] = classes.shares[jobs.who[job]]
