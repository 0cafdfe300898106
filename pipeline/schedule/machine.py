"""The machine of a replay, event by event: jobs are submitted, start, are planned for longer, and end.

All numbers of a replay are in the arrays and records of one `Replay`, which compiled functions hand on. At equal times
jobs that outlive their plans are planned for longer first, then jobs are submitted, then jobs end, one by one, and at
last planned starts come; a scheduling pass follows each submit and each end. The order is that of the simulator pyss.
So is what counts as free: a job planned to end at a second frees its processors for a job submitted at that second.

Under conservative backfilling, where no job outlives its plan, every waiting job holds processors from its planned
start on, which is found at its submit. Where a job ends early, planned starts move forward, in order of submit, never
back.
"""

from enum import IntEnum
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
    # Jobs in the line of candidates; under CONSERVATIVE steps of the profile, and the next planned start.
    "n_line", "n_steps", "next_start",
)])  # fmt: skip

LISTED = np.dtype([("key", np.int64), ("job", np.int64), ("procs", np.int64)])
"""A job of a list, which is in ascending order of the key."""

STEP = np.dtype([("time", np.int64), ("free", np.int64)])
"""A step of the profile of free processors, from its time to that of the next one; the last one never ends."""

STEPS_S = (60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000)
"""Tsafrir, Etsion and Feitelson (2007): added to what EASY++ plans first, in turn."""


class Policy(IntEnum):
    """The order in which waiting jobs start; jobs wait in order of submit."""

    FCFS = 0
    """Nothing starts before the first waiting job, the head."""
    EASY = 1
    """Later jobs may start where that does not delay the head's planned start; they are tried in order of submit."""
    EASY_SJBF = 2
    """EASY, in which later jobs are tried in ascending order of a key, as of the shortest first."""
    CONSERVATIVE = 3
    """Every waiting job has a planned start, which no later job may delay."""


FCFS, EASY_SJBF, CONSERVATIVE = int(Policy.FCFS), int(Policy.EASY_SJBF), int(Policy.CONSERVATIVE)


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
    """Under CONSERVATIVE the free processors over future time (STEP); in the last step all are free."""
    state: Any
    """A record STATE."""


@kernel
def run_events(until_started: int, r: Replay) -> None:
    """Fills the jobs' fields from `start` on, and `ended`; the other arrays are work space."""
    n = len(r.jobs)
    while r.state.n_ended < n and (until_started == 0 or r.state.n_started < n):
        next_end = r.due[0].key if r.state.n_running else NEVER
        arriving = r.state.n_submitted
        next_submit = r.jobs[arriving].submit if arriving < n else NEVER
        time = min(next_end, next_submit, r.state.next_start)
        plan_passed(time, r)
        needs_pass = False
        if next_submit == time:
            if r.state.learns == 1:
                learn_plan(arriving, r)
                if r.state.policy == EASY_SJBF:
                    r.order[arriving] = r.jobs[arriving].planned
            r.state.n_submitted += 1
            r.state.n_waiting += 1
            if r.state.policy == CONSERVATIVE:
                reserve(arriving, time, r)
            else:
                needs_pass = join(arriving, time, r)
        elif next_end == time:
            job = end_next(r)
            needs_pass = r.state.n_waiting > 0
            if r.state.policy == CONSERVATIVE:
                move_forward(job, time, r)
        if r.state.policy == CONSERVATIVE:
            start_planned(time, r)
        elif needs_pass:
            start_all(time, r)


@kernel
def plan_passed(time: int, r: Replay) -> None:
    """Plans jobs for longer that outlive their plans. No pass follows, so that the order among them does not matter."""
    place = 0
    while place < r.state.n_running and r.ends[place].key <= time + r.state.margin:
        job = r.ends[place].job
        if is_too_short(job, time, r):
            plan_longer(job, time, r)
        else:
            place += 1  # it ends at this very second, or its limit is its request


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
def join(job: int, time: int, r: Replay) -> bool:
    """Adds a submitted job to the line, after those with the same key; whether a pass could start any job."""
    insert(r.line, r.state.n_line, r.order[job], job, r.jobs[job].procs)
    r.state.n_line += 1
    could_start = r.state.n_waiting == 1 or r.state.is_settled == 0
    if not could_start:
        is_late = r.state.is_guarded == 1 and waits_too_long(time, r)
        ends_now = r.state.n_running > 0 and r.ends[0].key <= time
        # Else nothing has changed since the last pass but the time, which lets no job start that could not start then.
        procs, duration = r.jobs[job].procs, r.jobs[job].request if is_late else r.jobs[job].planned
        fits = procs <= r.state.free and (time + duration <= r.state.shadow or procs <= r.state.extra)
        could_start = ends_now or is_late != (r.state.is_late == 1) or fits
    return bool(could_start)


@kernel
def start_all(time: int, r: Replay) -> None:
    """Starts every job that the policy lets start now."""
    ending = freed_by(r.ends, r.state.n_running, time)
    fits = True
    while fits and r.state.n_waiting > 0:
        while r.jobs[r.state.head].start >= 0:
            r.state.head += 1
        fits = r.jobs[r.state.head].procs <= r.state.free + ending
        if fits:
            start(r.state.head, time, r)
    shorten(r)
    if r.state.n_waiting > 0 and r.state.is_guarded == 1:
        note_late(time, r)
        if r.state.is_late == 1:
            raise_all(time, r)
    if r.state.n_waiting > 1 and r.state.policy != FCFS:
        plan_head(r)
        fill(time, ending, r)


@kernel
def fill(time: int, ending: int, r: Replay) -> None:
    """Starts the candidates that do not delay the head. `ending`: processors of jobs planned to end now."""
    for place in range(r.state.n_line):
        free = r.state.free + ending
        if free == 0:
            break
        procs = r.line[place].procs
        if procs > free:
            continue
        job = r.line[place].job
        duration = r.jobs[job].request if r.state.is_late == 1 else r.jobs[job].planned
        ends_in_time = time + duration <= r.state.shadow
        # The head does not fit, so that it is never taken here.
        if r.jobs[job].start < 0 and (ends_in_time or procs <= r.state.extra):
            start(job, time, r)
            r.jobs[job].backfilled = 1
            r.state.extra -= 0 if ends_in_time else procs
    r.state.is_settled = 1


@kernel
def shorten(r: Replay) -> None:
    """Removes the started jobs from the line, where they are most of it."""
    if r.state.n_line > 2 * r.state.n_waiting + 16 * (r.state.n_waiting > 0):
        kept = 0
        for place in range(r.state.n_line):
            if r.jobs[r.line[place].job].start < 0:
                r.line[kept] = r.line[place]
                kept += 1
        r.state.n_line = kept


@kernel
def note_late(time: int, r: Replay) -> None:
    """Notes the start that is expected of a new head, and whether the head waits too long past its own."""
    head = r.state.head
    if r.jobs[head].expected < 0:
        plan_head(r)
        r.jobs[head].expected = r.state.shadow
    r.state.is_late = 1 if waits_too_long(time, r) else 0


@kernel
def raise_all(time: int, r: Replay) -> None:
    """Gives all running jobs their requests, so that the head is planned as if no limit had been set.

    Planned with limits the head would seem to start soon for hours, and nothing could be started before it.
    """
    place, n = 0, r.state.n_running
    while place < n:
        job = r.ends[place].job
        planned, request = r.jobs[job].planned, r.jobs[job].request
        if planned < request and r.ends[place].key > time:
            remove(r.ends, n, r.jobs[job].start + planned, job)
            r.jobs[job].planned = request
            insert(r.ends, n - 1, r.jobs[job].start + request, job, r.jobs[job].procs)
        else:
            place += 1


@kernel
def waits_too_long(time: int, r: Replay) -> bool:
    """As limits.soft.waits_too_long, of the head."""
    return bool(time > r.jobs[r.state.head].expected + r.jobs[r.state.head].patience)


@kernel
def plan_head(r: Replay) -> None:
    """The first time at which the head fits, if running jobs end as planned, and what is to spare then."""
    needed, free, place = r.jobs[r.state.head].procs, r.state.free, 0
    while free < needed:
        free += r.ends[place].procs
        place += 1
    r.state.shadow = r.ends[place - 1].key
    while place < r.state.n_running and r.ends[place].key == r.state.shadow:
        free += r.ends[place].procs
        place += 1
    r.state.extra = free - needed


@kernel
def freed_by(ends: Any, n: int, time: int) -> int:
    """The processors of the jobs whose planned end is not after a time."""
    found, place = 0, 0
    while place < n and ends[place].key <= time:
        found += ends[place].procs
        place += 1
    return found


@kernel
def reserve(job: int, time: int, r: Replay) -> None:
    """Gives a submitted job its planned start: the first at which its processors are free for as long as planned."""
    begin = earliest(r.profile, time, r.jobs[job].planned, r.jobs[job].procs, NEVER, r.state)
    r.line[r.state.n_line].job, r.line[r.state.n_line].key = job, begin
    r.state.n_line += 1
    take(r.profile, begin, begin + r.jobs[job].planned, r.jobs[job].procs, r.state)


@kernel
def move_forward(job: int, time: int, r: Replay) -> None:
    """Moves planned starts forward, where a job has ended before its planned end."""
    end = r.jobs[job].start + r.jobs[job].planned
    if end > time:
        take(r.profile, time, end, -r.jobs[job].procs, r.state)
        for place in range(r.state.n_line):
            waiting, old = r.line[place].job, r.line[place].key
            procs, duration = r.jobs[waiting].procs, r.jobs[waiting].planned
            begin = earliest(r.profile, time, duration, procs, old, r.state)
            if begin < old:
                if r.state.n_steps + 4 > len(r.profile):
                    merge(r.profile, time, r.state)
                take(r.profile, old, old + duration, -procs, r.state)
                take(r.profile, begin, begin + duration, procs, r.state)
                r.line[place].key = begin


@kernel
def start_planned(time: int, r: Replay) -> None:
    """Starts the jobs whose planned start has come, and notes the next one."""
    kept = 0
    r.state.next_start = NEVER
    for place in range(r.state.n_line):
        job = r.line[place].job
        if r.line[place].key > time:
            r.line[kept] = r.line[place]
            r.state.next_start = min(r.state.next_start, r.line[kept].key)
            kept += 1
        else:
            start(job, time, r)
            r.jobs[job].backfilled = kept > 0
    r.state.n_line = kept
    merge(r.profile, time, r.state)


@kernel
def step_at(profile: Any, n: int, time: int) -> int:
    """The last of the first n steps that begins by a time; the first one, if none does."""
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) >> 1
        if profile[middle].time <= time:
            low = middle
        else:
            high = middle
    return low


@kernel
def split(profile: Any, time: int, state: Any) -> int:
    """The step that begins at a time, which is made where there is none."""
    at = step_at(profile, state.n_steps, time)
    if profile[at].time != time:
        for place in range(state.n_steps, at + 1, -1):
            profile[place] = profile[place - 1]
        profile[at + 1].time = time
        profile[at + 1].free = profile[at].free
        state.n_steps += 1
        at += 1
    return at


@kernel
def take(profile: Any, begin: int, end: int, procs: int, state: Any) -> None:
    """Takes processors from `begin` until `end`; a negative number gives them back."""
    first = split(profile, begin, state)
    for place in range(first, split(profile, end, state)):
        profile[place].free -= procs


@kernel
def earliest(profile: Any, time: int, duration: int, procs: int, latest: int, state: Any) -> int:
    """The first time from `time` on at which so many processors are free for so long; `latest` if none is earlier.

    A job that holds processors from `latest` on for `duration` finds its own earlier start so: what overlaps its own
    hold is free for it, so that only the time before `latest` needs to be looked at.
    """
    begin = time
    n = state.n_steps
    for place in range(step_at(profile, n, time), n):
        if profile[place].time >= latest:
            break
        if profile[place].free < procs:
            begin = profile[place + 1].time
        elif place + 1 == n or profile[place + 1].time - begin >= duration:
            break
    return min(begin, latest)


@kernel
def merge(profile: Any, time: int, state: Any) -> None:
    """Removes the steps that ended by a time, and joins neighbours of the same height."""
    first = step_at(profile, state.n_steps, time)
    kept = 0
    for place in range(first, state.n_steps):
        if kept == 0 or profile[place].free != profile[kept - 1].free:
            profile[kept] = profile[place]
            kept += 1
    state.n_steps = kept


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
