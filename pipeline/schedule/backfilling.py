"""What FCFS, EASY and EASY-SJBF start: the head, and later jobs that do not delay the head's planned start.

Free processors are those that the plan says are free: a job planned to end at a second frees its processors for a job
submitted at that second, a convention of the simulator pyss.
"""

from pipeline.kernels import inner_uncounted as kernel
from pipeline.schedule.replay_state import END, HELD, JOB, Replay, freed_by, insert, remove, start

FCFS, EASY, EASY_SJBF = 0, 1, 2
"""As in engine.Policy."""

LINE_PROCS, LINE_JOB, LINE_PLANNED = 0, 1, 2
"""Rows of the line of candidates, which also has jobs that have started, until it is shortened."""


@kernel
def join(job: int, time: int, r: Replay) -> bool:
    """Adds a submitted job to the line, after those with the same key; whether a pass could start any job."""
    key = 0.0
    if r.state.policy == EASY_SJBF:
        key = float(r.jobs[job].planned) if r.state.learns == 1 else r.order[job]
    place = r.state.n_line
    while place > 0 and r.keys[place - 1] > key:
        r.keys[place] = r.keys[place - 1]
        for row in range(3):
            r.line[row, place] = r.line[row, place - 1]
        place -= 1
    r.keys[place] = key
    r.line[LINE_PROCS, place] = r.jobs[job].procs
    r.line[LINE_JOB, place] = job
    r.line[LINE_PLANNED, place] = r.jobs[job].planned
    r.state.n_line += 1
    could_start = r.state.n_waiting == 1 or r.state.is_settled == 0
    if not could_start:
        is_late = r.state.fair == 1 and waits_too_long(time, r)
        ends_now = r.state.n_running > 0 and r.ends[END, 0] <= time
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
    if r.state.n_waiting > 0 and r.state.fair == 1:
        note_promise(time, r)
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
        procs = r.line[LINE_PROCS, place]
        if procs > free:
            continue
        job = r.line[LINE_JOB, place]
        duration = r.jobs[job].request if r.state.is_late == 1 else r.line[LINE_PLANNED, place]
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
            if r.jobs[r.line[LINE_JOB, place]].start < 0:
                r.keys[kept] = r.keys[place]
                for row in range(3):
                    r.line[row, kept] = r.line[row, place]
                kept += 1
        r.state.n_line = kept


@kernel
def note_promise(time: int, r: Replay) -> None:
    """Notes a new head's first planned start, and whether the head waits too long past its own."""
    head = r.state.head
    if r.jobs[head].promise < 0:
        plan_head(r)
        r.jobs[head].promise = r.state.shadow
    r.state.is_late = 1 if waits_too_long(time, r) else 0


@kernel
def raise_all(time: int, r: Replay) -> None:
    """Gives all running jobs their requests, so that the head is planned as if no limit had been set.

    Planned with limits the head would seem to start soon for hours, and nothing could be started before it.
    """
    place, n = 0, r.state.n_running
    while place < n:
        job = r.ends[JOB, place]
        planned, request = r.jobs[job].planned, r.jobs[job].request
        if planned < request and r.ends[END, place] > time:
            remove(r.ends, n, r.jobs[job].start + planned, job)
            r.jobs[job].planned = request
            insert(r.ends, n - 1, r.jobs[job].start + request, job, r.jobs[job].procs)
        else:
            place += 1


@kernel
def waits_too_long(time: int, r: Replay) -> bool:
    """As limits.soft.waits_too_long, of the head."""
    return bool(time > r.jobs[r.state.head].promise + r.jobs[r.state.head].patience)


@kernel
def plan_head(r: Replay) -> None:
    """The first time at which the head fits, if running jobs end as planned, and what is to spare then."""
    needed, free, place = r.jobs[r.state.head].procs, r.state.free, 0
    while free < needed:
        free += r.ends[HELD, place]
        place += 1
    r.state.shadow = r.ends[END, place - 1]
    while place < r.state.n_running and r.ends[END, place] == r.state.shadow:
        free += r.ends[HELD, place]
        place += 1
    r.state.extra = free - needed
