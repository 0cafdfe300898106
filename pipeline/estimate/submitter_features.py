"""Features of a job's submit and of its submitter's earlier jobs as of the submit, for boosted trees."""

import math
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.estimate.submits import Events, Jobs
from pipeline.kernels import entry_kernel, kernel

LAST = 3
"""Runtimes of the submitter's latest ended jobs that are features of their own."""

(
    REQUEST, PROCS, HOUR, WEEKDAY, SINCE_END, SINCE_SUBMIT, N_RUNNING, N_QUEUED, N_ENDED, SMOOTH, SMOOTH_SHARE,
    REQUEST_STEP, PROCS_STEP, SINCE_START, ALL_QUEUED, QUEUE, WHO, LAST_0,
) = range(18)  # fmt: skip
N_FEATURES = LAST_0 + LAST


class Submitters(NamedTuple):
    """Per submitter the current features, with instants of the last submit, start and end; number of queued jobs."""

    state: Floats
    n_queued: Ints


def no_submitters() -> Submitters:
    """The state before the first job: only the blank row."""
    state = np.full((1, N_FEATURES), np.nan)
    state[:, [N_RUNNING, N_QUEUED, N_ENDED]] = 0.0
    return Submitters(state, np.zeros(1, np.int64))


@entry_kernel
def submitter_features(jobs: Jobs, past: Jobs, events: Events, held: Submitters) -> Floats:
    """(jobs, features): logs of times, shares and counts, NaN where unknown; updates `held` with the events."""
    n = len(jobs.submit_s)
    found = np.full((n, N_FEATURES), np.nan)
    n_started = n_over = n_left = 0
    for job in range(n + 1):
        while n_started < events.started[job]:
            _start(events.by_start[n_started], past, held)
            n_started += 1
        while n_over < events.ended[job]:
            _end(events.by_end[n_over], past, held)
            n_over += 1
        while n_left < events.left[job]:
            who = past.who[events.by_leave[n_left]]
            held.n_queued[0] -= 1
            if who >= 0:
                held.state[who, N_QUEUED] -= 1
            n_left += 1
        if job < n:
            _describe(job, jobs, held, found[job])
            if events.first >= 0:
                _submit(job, jobs, held, found[job])
    return found


@kernel
def _start(begun: int, past: Jobs, held: Submitters) -> None:
    held.n_queued[0] -= 1
    who = past.who[begun]
    if who >= 0:
        held.state[who, N_RUNNING] += 1
        held.state[who, N_QUEUED] -= 1
        held.state[who, SINCE_START] = past.start_s[begun]


@kernel
def _end(over: int, past: Jobs, held: Submitters) -> None:
    who = past.who[over]
    if who < 0:
        return
    mine = held.state[who]
    mine[N_RUNNING] -= 1
    if not past.is_learnt[over]:
        return
    log_s = math.log(past.runtime_s[over])
    mine[N_ENDED] += 1
    mine[SINCE_END] = past.end_s[over]
    for k in range(LAST - 1, 0, -1):
        mine[LAST_0 + k] = mine[LAST_0 + k - 1]
    mine[LAST_0] = log_s
    mine[SMOOTH] = log_s if np.isnan(mine[SMOOTH]) else mine[SMOOTH] + 0.1 * (log_s - mine[SMOOTH])
    if past.requested_s[over] > 0:
        share, old = min(past.runtime_s[over] / past.requested_s[over], 1.2), mine[SMOOTH_SHARE]
        mine[SMOOTH_SHARE] = share if np.isnan(old) else old + 0.2 * (share - old)


@kernel
def _describe(job: int, jobs: Jobs, held: Submitters, found: Floats) -> None:
    who, now_s = jobs.who[job], jobs.submit_s[job]
    if who >= 0:
        found[:] = held.state[who]
        for k in (SINCE_END, SINCE_SUBMIT, SINCE_START):
            found[k] = math.log1p(max(now_s - found[k], 0.0))
        if held.state[who, N_RUNNING] == 0:
            found[SINCE_START] = np.nan
    found[REQUEST] = math.log(jobs.requested_s[job]) if jobs.requested_s[job] > 0 else np.nan
    found[PROCS] = math.log(jobs.procs[job])
    found[HOUR], found[WEEKDAY] = (jobs.local_s[job] // 3600) % 24, (jobs.local_s[job] // 86_400 + 3) % 7
    found[ALL_QUEUED], found[QUEUE], found[WHO] = held.n_queued[0], jobs.queue[job], who
    if who >= 0:
        found[REQUEST_STEP] = found[REQUEST] - held.state[who, REQUEST_STEP]
        found[PROCS_STEP] = found[PROCS] - held.state[who, PROCS_STEP]


@kernel
def _submit(job: int, jobs: Jobs, held: Submitters, found: Floats) -> None:
    held.n_queued[0] += 1
    who = jobs.who[job]
    if who >= 0:
        mine = held.state[who]
        mine[REQUEST_STEP], mine[PROCS_STEP] = found[REQUEST], found[PROCS]
        mine[SINCE_SUBMIT] = jobs.submit_s[job]
        mine[N_QUEUED] += 1
