"""What the user's jobs of one request and size tell, and how full the machine is, for boosted trees: as of the submit.

A kind is (submitter, request, processors): `features` describes the submitter, this the very thing submitted.
"""

import math
from typing import NamedTuple

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.estimate.compiled import entry_kernel, kernel
from pipeline.estimate.keys import mixed
from pipeline.estimate.submits import Events, Jobs

(
    LATEST, ONE_BEFORE, SMOOTH, N_ENDED, N_RUNNING, N_QUEUED, SINCE_END, SINCE_SUBMIT, LONGEST_RUNNING,
    SHARE_STOPPED, SHARE_SHORT, ALL_RUNNING, ALL_QUEUED,
) = range(13)  # fmt: skip
N_FEATURES = ALL_QUEUED + 1
N_KIND = SINCE_SUBMIT + 1
"""The first columns are kept per kind."""

N_STARTED = 16
"""Started jobs remembered of a kind, to know which has been running longest."""

SHORT_S = 120.0
"""What ends this soon did not do its work."""

STOPPED_SHARE = 0.95
"""A job that ran for this share of its request was stopped, or nearly."""


class Kinds(NamedTuple):
    """Per kind: its columns (times of the last end and submit as they are) and the places of the latest started jobs.

    `shares`: per submitter, of jobs stopped at their limit and of short ones; `procs`: running and queued, of all.
    """

    state: Floats
    started: Ints
    n_started: Ints
    shares: Floats
    procs: Floats


def no_kinds() -> Kinds:
    """No kind yet: the blank rows alone."""
    state = np.full((1, N_KIND), np.nan)
    state[:, N_ENDED : N_QUEUED + 1] = 0.0
    started = np.full((1, N_STARTED), -1, np.int64)
    return Kinds(state, started, np.zeros(1, np.int64), np.full((1, 2), np.nan), np.zeros(2))


def digests_of(jobs: Jobs) -> Ints:
    """A hash of each job's kind; -1 where the submitter is unknown."""
    return mixed(jobs.who, jobs.requested_s, jobs.procs)


@entry_kernel
def kind_features(jobs: Jobs, past: Jobs, events: Events, kind: Ints, past_kind: Ints, held: Kinds) -> Floats:
    """(jobs, 13): logs of times and of processors, counts, shares; NaN where unknown; `held` changes with the events.

    `kind` and `past_kind` are numbers of the kinds of the submits and of the past.
    """
    n = len(jobs.submit_s)
    found = np.full((n, N_FEATURES), np.nan)
    n_started = n_over = n_left = 0
    for job in range(n + 1):
        while n_started < events.started[job]:
            begun = events.by_start[n_started]
            held.procs[0] += past.procs[begun]
            held.procs[1] -= past.procs[begun]
            _start(begun, past_kind[begun], held)
            n_started += 1
        while n_over < events.ended[job]:
            over = events.by_end[n_over]
            held.procs[0] -= past.procs[over]
            _end(over, past_kind[over], past, held)
            n_over += 1
        while n_left < events.left[job]:
            gone = events.by_leave[n_left]
            held.procs[1] -= past.procs[gone]
            if past_kind[gone] >= 0:
                held.state[past_kind[gone], N_QUEUED] -= 1
            n_left += 1
        if job < n:
            _describe(job, kind[job], events.known_s[job], jobs, past, held, found[job])
            if events.first >= 0:
                held.procs[1] += jobs.procs[job]
                if kind[job] >= 0:
                    held.state[kind[job], N_QUEUED] += 1
                    held.state[kind[job], SINCE_SUBMIT] = jobs.submit_s[job]
    return found


@kernel
def _start(begun: int, key: int, kinds: Kinds) -> None:
    if key >= 0:
        kinds.state[key, N_RUNNING] += 1
        kinds.state[key, N_QUEUED] -= 1
        kinds.started[key, kinds.n_started[key] % N_STARTED] = begun
        kinds.n_started[key] += 1


@kernel
def _end(over: int, key: int, past: Jobs, kinds: Kinds) -> None:
    if key < 0:
        return
    mine, limit_s = kinds.state[key], past.requested_s[over]
    mine[N_RUNNING] -= 1
    if not past.is_learnt[over]:
        return
    log_s = math.log(past.runtime_s[over])
    mine[N_ENDED] += 1
    mine[ONE_BEFORE], mine[LATEST], mine[SINCE_END] = mine[LATEST], log_s, past.end_s[over]
    mine[SMOOTH] = _smoothed(mine[SMOOTH], log_s, 0.3)
    is_stopped = limit_s > 0 and past.runtime_s[over] >= STOPPED_SHARE * limit_s
    known = kinds.shares[past.who[over]]
    known[0] = _smoothed(known[0], 1.0 if is_stopped else 0.0, 0.1)
    known[1] = _smoothed(known[1], 1.0 if past.runtime_s[over] < SHORT_S else 0.0, 0.1)


@kernel
def _smoothed(old: float, new: float, share: float) -> float:
    return new if np.isnan(old) else old + share * (new - old)


@kernel
def _describe(job: int, key: int, known_s: float, jobs: Jobs, past: Jobs, kinds: Kinds, found: Floats) -> None:
    """The kind as it is before this submit."""
    found[ALL_RUNNING] = math.log1p(max(kinds.procs[0], 0.0))
    found[ALL_QUEUED] = math.log1p(max(kinds.procs[1], 0.0))
    if key < 0:
        return
    mine, now_s, longest_s = kinds.state[key], jobs.submit_s[job], 0.0
    found[:N_KIND] = mine
    found[SINCE_END] = math.log1p(max(now_s - mine[SINCE_END], 0.0))
    found[SINCE_SUBMIT] = math.log1p(max(now_s - mine[SINCE_SUBMIT], 0.0))
    for place in range(min(kinds.n_started[key], N_STARTED)):
        begun = kinds.started[key, place]
        if begun >= 0 and past.end_s[begun] > known_s:
            longest_s = max(longest_s, known_s - past.start_s[begun])
    found[LONGEST_RUNNING] = math.log1p(longest_s)
    found[SHARE_STOPPED], found[SHARE_SHORT] = kinds.shares[jobs.who[job]]
