"""What conservative backfilling starts: every waiting job holds processors from its planned start on.

A planned start is found at the job's submit. Where a job ends early, planned starts move forward, in order of submit,
never back. Where a job is planned for longer and its longer stay leaves too few processors for a planned start, all are
planned anew in order of submit.

The profile has the free processors over future time as a step function: rows STEP_TIME and STEP_FREE, one column a
step. The last step lasts for ever, and all processors are free in it.
"""

from typing import Any

from pipeline.arrays import Ints
from pipeline.kernels import kernel
from pipeline.schedule.machine import JOB, KEY, NEVER, PROCS, Replay, freed_by, start

STEP_TIME, STEP_FREE = 0, 1
"""Rows of the profile."""


@kernel
def reserve_submitted(job: int, time: int, r: Replay) -> None:
    """Gives a submitted job its planned start."""
    place = r.state.n_line
    r.line[JOB, place] = job
    r.state.n_line = place + 1
    if r.state.is_broken == 0:
        reserve(place, time, r)


@kernel
def reserve(place: int, time: int, r: Replay) -> None:
    """Takes a waiting job's processors from the first time at which they are free for what it is planned with."""
    job = r.line[JOB, place]
    begin = earliest(r.profile, time, r.jobs[job].planned, r.jobs[job].procs, NEVER, r.state)
    r.line[KEY, place] = begin
    take(r.profile, begin, begin + r.jobs[job].planned, r.jobs[job].procs, r.state)


@kernel
def hold_longer(job: int, end: int, r: Replay) -> None:
    """Takes a running job's processors from its planned end on until the later one of a longer plan."""
    later = r.jobs[job].start + r.jobs[job].planned
    if r.state.is_broken == 0 and least_free(r.profile, end, later, r.state) >= r.jobs[job].procs:
        take(r.profile, end, later, r.jobs[job].procs, r.state)
    else:
        r.state.is_broken = 1


@kernel
def move_forward(job: int, time: int, r: Replay) -> None:
    """Moves planned starts forward, where a job has ended before its planned end."""
    end = r.jobs[job].start + r.jobs[job].planned
    if end > time and r.state.is_broken == 0:
        take(r.profile, time, end, -r.jobs[job].procs, r.state)
        for place in range(r.state.n_line):
            waiting, old = r.line[JOB, place], r.line[KEY, place]
            procs, duration = r.jobs[waiting].procs, r.jobs[waiting].planned
            begin = earliest(r.profile, time, duration, procs, old, r.state)
            if begin < old:
                if r.state.n_steps + 4 > r.profile.shape[1]:
                    merge(r.profile, time, r.state)
                take(r.profile, old, old + duration, -procs, r.state)
                take(r.profile, begin, begin + duration, procs, r.state)
                r.line[KEY, place] = begin


@kernel
def start_planned(time: int, r: Replay) -> None:
    """Starts the jobs whose planned start has come, and notes the next one."""
    if r.state.is_broken == 1:
        plan_anew(time, r)
    kept = 0
    r.state.next_start = NEVER
    for place in range(r.state.n_line):
        job = r.line[JOB, place]
        if r.line[KEY, place] > time:
            r.line[JOB, kept] = job
            r.line[KEY, kept] = r.line[KEY, place]
            r.state.next_start = min(r.state.next_start, r.line[KEY, kept])
            kept += 1
        else:
            start(job, time, r)
            r.jobs[job].backfilled = kept > 0
    r.state.n_line = kept
    merge(r.profile, time, r.state)


@kernel
def plan_anew(time: int, r: Replay) -> None:
    """Plans all waiting jobs again, in order of submit, around the running ones."""
    r.profile[STEP_TIME, 0] = time
    r.profile[STEP_FREE, 0] = r.state.free + freed_by(r.ends, r.state.n_running, time)
    n = 1
    for place in range(r.state.n_running):
        end = r.ends[KEY, place]
        if end > r.profile[STEP_TIME, n - 1]:
            r.profile[STEP_TIME, n] = end
            r.profile[STEP_FREE, n] = r.profile[STEP_FREE, n - 1]
            n += 1
        if end > time:
            r.profile[STEP_FREE, n - 1] += r.ends[PROCS, place]
    r.state.n_steps = n
    for place in range(r.state.n_line):
        reserve(place, time, r)
    r.state.is_broken = 0


@kernel
def step_at(profile: Ints, n: int, time: int) -> int:
    """The last of the first n steps that begins by a time; the first one, if none does."""
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) >> 1
        if profile[STEP_TIME, middle] <= time:
            low = middle
        else:
            high = middle
    return low


@kernel
def split(profile: Ints, time: int, state: Any) -> int:
    """The step that begins at a time, which is made where there is none."""
    at = step_at(profile, state.n_steps, time)
    if profile[STEP_TIME, at] != time:
        for place in range(state.n_steps, at + 1, -1):
            profile[STEP_TIME, place] = profile[STEP_TIME, place - 1]
            profile[STEP_FREE, place] = profile[STEP_FREE, place - 1]
        profile[STEP_TIME, at + 1] = time
        profile[STEP_FREE, at + 1] = profile[STEP_FREE, at]
        state.n_steps += 1
        at += 1
    return at


@kernel
def take(profile: Ints, begin: int, end: int, procs: int, state: Any) -> None:
    """Takes processors from `begin` until `end`; a negative number gives them back."""
    first = split(profile, begin, state)
    for place in range(first, split(profile, end, state)):
        profile[STEP_FREE, place] -= procs


@kernel
def least_free(profile: Ints, begin: int, end: int, state: Any) -> int:
    """The smallest number of free processors from `begin` until `end`."""
    place = step_at(profile, state.n_steps, begin)
    least = profile[STEP_FREE, place]
    while place + 1 < state.n_steps and profile[STEP_TIME, place + 1] < end:
        place += 1
        least = min(least, profile[STEP_FREE, place])
    return int(least)


@kernel
def earliest(profile: Ints, time: int, duration: int, procs: int, latest: int, state: Any) -> int:
    """The first time from `time` on at which so many processors are free for so long; `latest` if none is earlier.

    A job that holds processors from `latest` on for `duration` finds its own earlier start so: what overlaps its own
    hold is free for it, so that only the time before `latest` needs to be looked at.
    """
    begin = time
    n = state.n_steps
    for place in range(step_at(profile, n, time), n):
        if profile[STEP_TIME, place] >= latest:
            break
        if profile[STEP_FREE, place] < procs:
            begin = profile[STEP_TIME, place + 1]
        elif place + 1 == n or profile[STEP_TIME, place + 1] - begin >= duration:
            break
    return min(begin, latest)


@kernel
def merge(profile: Ints, time: int, state: Any) -> None:
    """Removes the steps that ended by a time, and joins neighbours of the same height."""
    first = step_at(profile, state.n_steps, time)
    kept = 0
    for place in range(first, state.n_steps):
        if kept == 0 or profile[STEP_FREE, place] != profile[STEP_FREE, kept - 1]:
            profile[STEP_TIME, kept] = profile[STEP_TIME, place]
            profile[STEP_FREE, kept] = profile[STEP_FREE, place]
            kept += 1
    state.n_steps = kept
