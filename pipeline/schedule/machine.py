"""The machine of a replay: how a job starts on it, is planned for longer and ends.

All numbers of a replay are in the arrays and records of one `Replay`, which compiled functions hand on.
"""

from typing import Any, NamedTuple

import numpy as np

from pipeline.arrays import Ints
from pipeline.kernels import kernel

NEVER = 2**62
"""A time in s after every event."""

JOBS = np.dtype([(name, np.int64) for name in (
    # In order of submit; `planned`: how long the scheduler plans the job to run, s; `user`: a code, -1: unknown.
    "submit", "run", "request", "procs", "user", "planned",
    # What became of a job: start, how often it was planned for longer, the start that was expected when it became the
    # head (-1: it did not), and whether a job submitted before was still waiting.
    "start", "n_longer", "expected", "backfilled",
    # How long past its expected start a head may wait, s.
    "patience",
)])  # fmt: skip
STATE = np.dtype([(name, np.int64) for name in (
    # What the replay was asked for (constant).
    "policy", "learns", "is_guarded", "margin", "round",
    # Free processors, numbers of jobs, and the first waiting job.
    "free", "n_running", "n_started", "n_ended", "n_submitted", "n_waiting", "head",
    # The head's planned start, the processors to spare then, whether both still hold, and whether the head waits too
    # long, so that others are planned with their requests.
    "shadow", "extra", "is_settled", "is_late",
    # Jobs in the line of candidates; under CONSERVATIVE steps of the profile, whether too few processors are free for
    # the planned starts, and the next planned start.
    "n_line", "n_steps", "is_broken", "next_start",
)])  # fmt: skip

LISTED = np.dtype([("key", np.int64), ("job", np.int64), ("procs", np.int64)])
"""A job of a list, which is in ascending order of the key."""

STEP = np.dtype([("time", np.int64), ("free", np.int64)])
"""A step of the profile of free processors over time, from its time to that of the next one."""

STEPS_S = (60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000)
"""Tsafrir, Etsion and Feitelson (2007): added to what EASY++ plans first, in turn."""


class Replay(NamedTuple):
    """The arrays and records of a replay."""

    jobs: Any
    """(jobs,) records JOBS."""
    limits: Ints
    """(jobs, steps): how long each job is planned to run at first, and after each time that this was too short, s. The
    last one is its request."""
    ends: Any
    """The list of running jobs (LISTED) by their planned ends, s."""
    due: Any
    """The list of running jobs by their true ends, s."""
    ended: Ints
    """Jobs in order of end."""
    line: Any
    """The list of waiting jobs by `order`, also with jobs that have started, until it is shortened; under CONSERVATIVE
    in order of submit, and the keys are the planned starts."""
    order: Ints
    """(jobs,): in which order later jobs are tried."""
    last_two: Ints
    """(users, 2): runtimes of the last jobs that ended, -1: none."""
    profile: Any
    """Under CONSERVATIVE free processors over time (STEP). The last step lasts for ever, and all are free in it."""
    state: Any
    """A record STATE."""


@kernel
def start(job: int, time: int, r: Replay) -> None:
    """Starts a job. Ends at one second come in the order of the starts."""
    n, procs = r.state.n_running, r.jobs[job].procs
    r.jobs[job].start = time
    insert(r.ends, n, time + r.jobs[job].planned, job, procs)
    insert(r.due, n, time + r.jobs[job].run, job, procs)
    r.state.n_started += 1
    r.state.n_running = n + 1
    r.state.free -= procs
    r.state.n_waiting -= 1


@kernel
def end_next(r: Replay) -> int:
    """Ends the job that ends first, which is returned, and frees its processors."""
    n = r.state.n_running
    job = r.due[0].job
    remove(r.due, n, r.due[0].key, job)
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
def learn_plan(job: int, r: Replay) -> None:
    """Plans a submitted job as EASY++ does: with the mean of the user's last two jobs that ended, then by STEPS_S."""
    user, request = r.jobs[job].user, r.jobs[job].request
    first = request
    if user >= 0 and r.last_two[user, 1] >= 0:
        first = min(max((r.last_two[user, 0] + r.last_two[user, 1]) // 2, 1), request)
    r.jobs[job].planned = r.limits[job, 0] = first
    for nth in range(len(STEPS_S)):
        r.limits[job, nth + 1] = min(first + STEPS_S[nth], request)


@kernel
def is_too_short(job: int, time: int, r: Replay) -> bool:
    """Whether a running job's planned end has come by this time, and the job runs on.

    With the guard whether the job had less than the margin left when the guard last looked, and is not planned with its
    request.
    """
    planned = r.jobs[job].planned
    if r.state.is_guarded == 1:
        looked = time - time % r.state.round
        is_near = r.jobs[job].start + planned - looked < r.state.margin
        return bool(planned < r.jobs[job].request and is_near and r.jobs[job].start <= looked)
    return bool(planned < r.jobs[job].run and r.jobs[job].start + planned <= time)


@kernel
def plan_longer(job: int, time: int, r: Replay) -> None:
    """Plans a running job with its next limits, until one is not too short."""
    n = r.state.n_running
    remove(r.ends, n, r.jobs[job].start + r.jobs[job].planned, job)
    while is_too_short(job, time, r):
        r.jobs[job].n_longer += 1
        r.jobs[job].planned = r.limits[job, min(r.jobs[job].n_longer, r.limits.shape[1] - 1)]
    insert(r.ends, n - 1, r.jobs[job].start + r.jobs[job].planned, job, r.jobs[job].procs)
    r.state.is_settled = 0


@kernel
def insert(listed: Any, n: int, key: int, job: int, procs: int) -> None:
    """Adds a job to a list of n jobs, after those with the same key."""
    place = n
    while place > 0 and listed[place - 1].key > key:
        listed[place] = listed[place - 1]
        place -= 1
    listed[place].key = key
    listed[place].job = job
    listed[place].procs = procs


@kernel
def remove(listed: Any, n: int, key: int, job: int) -> None:
    """Removes a job with this key from a list of n jobs."""
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if listed[middle].key < key:
            low = middle + 1
        else:
            high = middle
    while listed[low].job != job:
        low += 1
    for place in range(low, n - 1):
        listed[place] = listed[place + 1]


@kernel
def freed_by(ends: Any, n: int, time: int) -> int:
    """The processors of the jobs whose planned end is not after a time."""
    found, place = 0, 0
    while place < n and ends[place].key <= time:
        found += ends[place].procs
        place += 1
    return found
