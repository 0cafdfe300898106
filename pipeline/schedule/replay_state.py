"""The machine of a replay: how a job starts on it, outlives its prediction and ends.

All numbers of a replay are in the arrays and records of one `Replay`, which compiled functions hand on.
"""

from typing import Any, NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.kernels import inner_uncounted as kernel

NEVER = 2**62
"""A time in s after every event."""

JOBS = np.dtype([(name, np.int64) for name in (
    # In order of submit; `planned`: the prediction in force, s; `user`: a code, -1: unknown.
    "submit", "run", "request", "procs", "user", "planned", "given",
    # What became of a job: start, first prediction, number of corrections, first promised start as the head (-1: none),
    # and whether a job submitted before was still waiting.
    "start", "first", "corrections", "promise", "backfilled",
    # With fairness: how long past its promised start a head may wait, s.
    "patience",
)])  # fmt: skip
STATE = np.dtype([(name, np.int64) for name in (
    # What the replay was asked for (constant).
    "policy", "correction", "fair", "learns", "margin", "round",
    # Free processors, numbers of jobs, and the first waiting job.
    "free", "n_running", "n_started", "n_ended", "n_submitted", "n_waiting", "head",
    # The head's planned start, the processors to spare then, whether both still hold, and whether the head waits too
    # long, so that others are planned with their requests.
    "shadow", "extra", "is_settled", "is_late",
    # Jobs in the line of candidates; under CONSERVATIVE steps of the profile, whether too few processors are free for
    # the planned starts, and the next planned start.
    "n_line", "n_steps", "is_broken", "next_start",
)])  # fmt: skip

# Rows of the running jobs in order of their planned ends.
END, JOB, HELD = 0, 1, 2

REQUEST_AT_ONCE, INCREMENTS, DOUBLING, LIMITS = 0, 1, 2, 3
"""As in engine.Correction."""

STEPS_S = (60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000)
"""Tsafrir, Etsion and Feitelson (2007): added to the first prediction at the first, second ... correction."""


class Replay(NamedTuple):
    """The arrays and records of a replay."""

    jobs: Any
    """(jobs,) records JOBS."""
    ends: Ints
    heap: Ints
    """Ends of running jobs as end * jobs + number of the start, the earliest first; `started` has that start's job."""
    started: Ints
    ended: Ints
    """Jobs in order of end."""
    line: Ints
    """Candidates; see backfilling and conservative."""
    keys: Floats
    """What the line is sorted by."""
    order: Floats
    """(jobs,): the keys under EASY-SJBF."""
    last_two: Ints
    """(users, 2): runtimes of the last jobs that ended, -1: none."""
    profile: Ints
    """Under CONSERVATIVE free processors over time."""
    limits: Ints
    """(jobs, steps): under LIMITS each job's limits in turn, s, from the first to its request."""
    state: Any
    """A record STATE."""


@kernel
def start(job: int, time: int, r: Replay) -> None:
    """Starts a job. Ends at one second come in the order of the starts."""
    n, procs = r.state.n_running, r.jobs[job].procs
    r.jobs[job].start = time
    insert(r.ends, n, time + r.jobs[job].planned, job, procs)
    r.started[r.state.n_started] = job
    push(r.heap, n, (time + r.jobs[job].run) * len(r.jobs) + r.state.n_started)
    r.state.n_started += 1
    r.state.n_running = n + 1
    r.state.free -= procs
    r.state.n_waiting -= 1


@kernel
def end_next(r: Replay) -> int:
    """Ends the job that ends first, which is returned, and frees its processors."""
    n = r.state.n_running
    job = r.started[pop(r.heap, n) % len(r.jobs)]
    remove(r.ends, n, r.jobs[job].start + r.jobs[job].planned, job)
    r.state.n_running = n - 1
    r.state.free += r.jobs[job].procs
    r.ended[r.state.n_ended] = job
    r.state.n_ended += 1
    r.state.is_settled = 0
    user = r.jobs[job].user
    if user >= 0:
        r.last_two[user, 1] = r.last_two[user, 0]
        r.last_two[user, 0] = r.jobs[job].run
    return int(job)


@kernel
def predict(job: int, r: Replay) -> None:
    """Notes a submitted job's first prediction: the one given, or what EASY++ has learnt."""
    user = r.jobs[job].user
    if r.state.learns == 1:
        r.jobs[job].planned = r.jobs[job].request
        if user >= 0 and r.last_two[user, 1] >= 0:
            mean = (r.last_two[user, 0] + r.last_two[user, 1]) // 2
            r.jobs[job].planned = min(max(mean, 1), r.jobs[job].request)
    r.jobs[job].first = r.jobs[job].planned


@kernel
def is_passed(job: int, time: int, r: Replay) -> bool:
    """Whether a running job's prediction ends by this time, and the job after its prediction.

    Under LIMITS whether it had less than the margin left when the guard last looked, and the limit is not the request.
    """
    planned = r.jobs[job].planned
    if r.state.correction == LIMITS:
        looked = time - time % r.state.round
        is_near = r.jobs[job].start + planned - looked < r.state.margin
        return bool(planned < r.jobs[job].request and is_near and r.jobs[job].start <= looked)
    return bool(planned < r.jobs[job].run and r.jobs[job].start + planned <= time)


@kernel
def predict_longer(job: int, time: int, r: Replay) -> None:
    """Corrects a running job's prediction, never above the request, until it is not passed."""
    n, request = r.state.n_running, r.jobs[job].request
    remove(r.ends, n, r.jobs[job].start + r.jobs[job].planned, job)
    while is_passed(job, time, r):
        nth, longer = r.jobs[job].corrections, request
        if r.state.correction == INCREMENTS and nth < len(STEPS_S):
            longer = r.jobs[job].first + STEPS_S[nth]
        elif r.state.correction == DOUBLING:
            longer = 2 * r.jobs[job].planned
        elif r.state.correction == LIMITS:
            longer = r.limits[job, min(nth + 1, r.limits.shape[1] - 1)]
        r.jobs[job].planned = min(longer, request)
        r.jobs[job].corrections = nth + 1
    insert(r.ends, n - 1, r.jobs[job].start + r.jobs[job].planned, job, r.jobs[job].procs)
    r.state.is_settled = 0


@kernel
def insert(ends: Ints, n: int, end: int, job: int, held: int) -> None:
    """Adds a job to the first n columns, after those with the same end."""
    place = n
    while place > 0 and ends[END, place - 1] > end:
        for row in range(3):
            ends[row, place] = ends[row, place - 1]
        place -= 1
    ends[END, place] = end
    ends[JOB, place] = job
    ends[HELD, place] = held


@kernel
def remove(ends: Ints, n: int, end: int, job: int) -> None:
    """Removes a job with this end from the first n columns."""
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if ends[END, middle] < end:
            low = middle + 1
        else:
            high = middle
    while ends[JOB, low] != job:
        low += 1
    for place in range(low, n - 1):
        for row in range(3):
            ends[row, place] = ends[row, place + 1]


@kernel
def freed_by(ends: Ints, n: int, time: int) -> int:
    """The processors of the jobs whose planned end is not after a time."""
    found, place = 0, 0
    while place < n and ends[END, place] <= time:
        found += ends[HELD, place]
        place += 1
    return found


@kernel
def push(heap: Ints, n: int, key: int) -> None:
    """Adds a key to the first n places of a binary heap, the least first."""
    place = n
    while place > 0 and heap[(place - 1) >> 1] > key:
        heap[place] = heap[(place - 1) >> 1]
        place = (place - 1) >> 1
    heap[place] = key


@kernel
def pop(heap: Ints, n: int) -> int:
    """Removes the least of the first n keys, and returns it."""
    least = heap[0]
    last = heap[n - 1]
    place = 0
    while 2 * place + 1 < n - 1:
        child = 2 * place + 1
        if child + 1 < n - 1 and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= last:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = last
    return int(least)
