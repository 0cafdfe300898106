"""What conservative backfilling starts: every waiting job holds processors from its planned start on.

A planned start is found at the job's submit. Where a job ends early, planned starts move forward, in order of submit,
never back. Where a job is planned for longer and its longer stay leaves too few processors for a planned start, all are
planned anew in order of submit.
"""

from typing import Any

from pipeline.kernels import kernel
from pipeline.schedule.machine import NEVER, Replay, freed_by, start


@kernel
def reserve_submitted(job: int, time: int, r: Replay) -> None:
    """Gives a submitted job its planned start."""
    place = r.state.n_line
    r.line[place].job = job
    r.state.n_line = place + 1
    if r.state.is_broken == 0:
        reserve(place, time, r)


@kernel
def reserve(place: int, time: int, r: Replay) -> None:
    """Takes a waiting job's processors from the first time at which they are free for what it is planned with."""
    job = r.line[place].job
    begin = earliest(r.profile, time, r.jobs[job].planned, r.jobs[job].procs, NEVER, r.state)
    r.line[place].key = begin
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
    if r.state.is_broken == 1:
        plan_anew(time, r)
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
def plan_anew(time: int, r: Replay) -> None:
    """Plans all waiting jobs again, in order of submit, around the running ones."""
    r.profile[0].time = time
    r.profile[0].free = r.state.free + freed_by(r.ends, r.state.n_running, time)
    n = 1
    for place in range(r.state.n_running):
        end = r.ends[place].key
        if end > r.profile[n - 1].time:
            r.profile[n].time = end
            r.profile[n].free = r.profile[n - 1].free
            n += 1
        if end > time:
            r.profile[n - 1].free += r.ends[place].procs
    r.state.n_steps = n
    for place in range(r.state.n_line):
        reserve(place, time, r)
    r.state.is_broken = 0


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
def least_free(profile: Any, begin: int, end: int, state: Any) -> int:
    """The smallest number of free processors from `begin` until `end`."""
    place = step_at(profile, state.n_steps, begin)
    least = profile[place].free
    while place + 1 < state.n_steps and profile[place + 1].time < end:
        place += 1
        least = min(least, profile[place].free)
    return int(least)


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
