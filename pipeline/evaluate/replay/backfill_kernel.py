"""FCFS, EASY and EASY-SJBF, event by event.

At equal times passed predictions are corrected first, then jobs are submitted, then jobs end, one by one; a scheduling
pass follows each submit and each end. Free processors are those that the plan says are free: a job planned to end at
a second frees its processors for a job submitted at that second. Both are conventions of the simulator pyss.
"""

from pipeline.core.arrays import Floats, Ints
from pipeline.evaluate.replay.compiled import entry_kernel, kernel
from pipeline.evaluate.replay.event_heap import NEVER, pop, push
from pipeline.evaluate.replay.job_columns import (
    BACKFILLED,
    EXTRA,
    FREE,
    GUARD,
    HEAD,
    IS_LATE,
    IS_SETTLED,
    LEARNS,
    N_ENDED,
    N_LINE,
    N_RUNNING,
    N_STARTED,
    N_SUBMITTED,
    N_WAITING,
    PLANNED,
    POLICY,
    PROCS,
    PROMISE,
    REQUEST,
    RUN,
    SHADOW,
    START,
    SUBMIT,
)  # fmt: skip
from pipeline.evaluate.replay.predictions_kernel import correct, is_passed, learn, predict
from pipeline.evaluate.replay.running_jobs import END, HELD, JOB, freed_by, insert, remove

FCFS, EASY, EASY_SJBF = 0, 1, 2
"""As in options.Policy."""

LINE_PROCS, LINE_JOB, LINE_PLANNED = 0, 1, 2
"""Rows of the line of candidates."""


@entry_kernel
def backfill(
    jobs: Ints, order: Floats, result: Ints, ended: Ints, plan: Ints, asked: Ints, heap: Ints, started: Ints,
    line: Ints, keys: Floats, last_two: Ints, state: Ints, options: Ints,
) -> None:  # fmt: skip
    """Fills `result` and `ended` (the jobs in order of end); the other arrays are work space."""
    n = len(jobs)
    while state[N_ENDED] < n:
        next_end = heap[0] // n if state[N_RUNNING] else NEVER
        arriving = state[N_SUBMITTED]
        next_submit = jobs[arriving, SUBMIT] if arriving < n else NEVER
        time = min(next_end, next_submit)
        _correct_passed(time, jobs, result, plan, state, options)
        if next_submit == time:
            predict(arriving, jobs, result, last_two, options)
            needs_pass = _arrive(arriving, time, jobs, result, order, plan, line, keys, state, options)
        else:
            job = started[pop(heap, state[N_RUNNING]) % n]
            _end(job, jobs, result, plan, asked, ended, state, options)
            learn(job, jobs, last_two)
            needs_pass = state[N_WAITING] > 0
        if needs_pass:
            _pass(time, jobs, result, plan, asked, heap, started, line, keys, state, options)


@kernel
def _correct_passed(time: int, jobs: Ints, result: Ints, plan: Ints, state: Ints, options: Ints) -> None:
    """Corrects the predictions passed by this time. No pass follows, so that the order among them does not matter."""
    place = 0
    while place < state[N_RUNNING] and plan[END, place] <= time:
        job = plan[JOB, place]
        if not is_passed(job, jobs, result, time):
            place += 1  # it ends at this very second
            continue
        remove(plan, state[N_RUNNING], plan[END, place], job)
        while is_passed(job, jobs, result, time):
            correct(job, jobs, result, options)
        insert(plan, state[N_RUNNING] - 1, result[job, START] + jobs[job, PLANNED], job, jobs[job, PROCS])
        state[IS_SETTLED] = 0


@kernel
def _arrive(
    job: int, time: int, jobs: Ints, result: Ints, order: Floats, plan: Ints, line: Ints, keys: Floats, state: Ints,
    options: Ints,
) -> bool:  # fmt: skip
    """Adds a submitted job to the line; whether a pass could start any job."""
    key = 0.0
    if options[POLICY] == EASY_SJBF:
        key = float(jobs[job, PLANNED]) if options[LEARNS] == 1 else order[job]
    _join(job, key, jobs, line, keys, state)
    state[N_SUBMITTED] += 1
    state[N_WAITING] += 1
    if state[N_WAITING] == 1:
        return True
    is_late = options[GUARD] == 1 and time > result[state[HEAD], PROMISE]
    ends_now = state[N_RUNNING] > 0 and plan[END, 0] <= time
    if state[IS_SETTLED] == 0 or ends_now or is_late != (state[IS_LATE] == 1):
        return True
    # Nothing has changed since the last pass but the time, which lets no job start that could not start then.
    procs, duration = jobs[job, PROCS], jobs[job, REQUEST] if is_late else jobs[job, PLANNED]
    return bool(procs <= state[FREE] and (time + duration <= state[SHADOW] or procs <= state[EXTRA]))


@kernel
def _join(job: int, key: float, jobs: Ints, line: Ints, keys: Floats, state: Ints) -> None:
    """Puts a job into the line of candidates, after those with the same key."""
    place = state[N_LINE]
    while place > 0 and keys[place - 1] > key:
        keys[place] = keys[place - 1]
        for row in range(3):
            line[row, place] = line[row, place - 1]
        place -= 1
    keys[place] = key
    line[LINE_PROCS, place] = jobs[job, PROCS]
    line[LINE_JOB, place] = job
    line[LINE_PLANNED, place] = jobs[job, PLANNED]
    state[N_LINE] += 1


@kernel
def _end(job: int, jobs: Ints, result: Ints, plan: Ints, asked: Ints, ended: Ints, state: Ints, options: Ints) -> None:
    """Frees the processors of a job."""
    n, start = state[N_RUNNING], result[job, START]
    remove(plan, n, start + jobs[job, PLANNED], job)
    if options[GUARD] == 1:
        remove(asked, n, start + jobs[job, REQUEST], job)
    state[N_RUNNING] = n - 1
    state[FREE] += jobs[job, PROCS]
    ended[state[N_ENDED]] = job
    state[N_ENDED] += 1
    state[IS_SETTLED] = 0


@kernel
def _start(
    job: int, time: int, jobs: Ints, result: Ints, plan: Ints, asked: Ints, heap: Ints, started: Ints, state: Ints,
    options: Ints,
) -> None:  # fmt: skip
    """Starts a job. Ends at one second come in the order of the starts."""
    n, procs = state[N_RUNNING], jobs[job, PROCS]
    result[job, START] = time
    insert(plan, n, time + jobs[job, PLANNED], job, procs)
    if options[GUARD] == 1:
        insert(asked, n, time + jobs[job, REQUEST], job, procs)
    started[state[N_STARTED]] = job
    push(heap, n, (time + jobs[job, RUN]) * len(jobs) + state[N_STARTED])
    state[N_STARTED] += 1
    state[N_RUNNING] = n + 1
    state[FREE] -= procs
    state[N_WAITING] -= 1


@kernel
def _pass(
    time: int, jobs: Ints, result: Ints, plan: Ints, asked: Ints, heap: Ints, started: Ints, line: Ints, keys: Floats,
    state: Ints, options: Ints,
) -> None:  # fmt: skip
    """Starts every job that the policy lets start now."""
    ending = freed_by(plan, state[N_RUNNING], time)
    while state[N_WAITING] > 0:
        while result[state[HEAD], START] >= 0:
            state[HEAD] += 1
        if jobs[state[HEAD], PROCS] > state[FREE] + ending:
            break
        _start(state[HEAD], time, jobs, result, plan, asked, heap, started, state, options)
    _shorten(result, line, keys, state)
    if state[N_WAITING] == 0:
        return
    _note_promise(time, jobs, result, asked, state, options)
    if state[N_WAITING] == 1 or options[POLICY] == FCFS:
        return
    _plan_head(jobs[state[HEAD], PROCS], asked if state[IS_LATE] == 1 else plan, state)
    _fill(time, ending, jobs, result, plan, asked, heap, started, line, state, options)


@kernel
def _fill(
    time: int, ending: int, jobs: Ints, result: Ints, plan: Ints, asked: Ints, heap: Ints, started: Ints, line: Ints,
    state: Ints, options: Ints,
) -> None:  # fmt: skip
    """Starts the candidates that do not delay the head. `ending`: processors of jobs planned to end now."""
    for place in range(state[N_LINE]):
        free = state[FREE] + ending
        if free == 0:
            break
        procs = line[LINE_PROCS, place]
        if procs > free:
            continue
        job = line[LINE_JOB, place]
        duration = jobs[job, REQUEST] if state[IS_LATE] == 1 else line[LINE_PLANNED, place]
        ends_in_time = time + duration <= state[SHADOW]
        # The head itself does not fit, so that it is never taken here.
        if (ends_in_time or procs <= state[EXTRA]) and result[job, START] < 0:
            _start(job, time, jobs, result, plan, asked, heap, started, state, options)
            result[job, BACKFILLED] = 1
            state[EXTRA] -= 0 if ends_in_time else procs
    state[IS_SETTLED] = 1


@kernel
def _shorten(result: Ints, line: Ints, keys: Floats, state: Ints) -> None:
    """Removes the started jobs from the line, where they are most of it."""
    if state[N_LINE] <= 2 * state[N_WAITING] + 16 * (state[N_WAITING] > 0):
        return
    kept = 0
    for place in range(state[N_LINE]):
        if result[line[LINE_JOB, place], START] < 0:
            keys[kept] = keys[place]
            for row in range(3):
                line[row, kept] = line[row, place]
            kept += 1
    state[N_LINE] = kept


@kernel
def _note_promise(time: int, jobs: Ints, result: Ints, asked: Ints, state: Ints, options: Ints) -> None:
    """With the guard, notes a new head's first promised start, and whether the head is past its own."""
    if options[GUARD] == 0:
        return
    head = state[HEAD]
    if result[head, PROMISE] < 0:
        _plan_head(jobs[head, PROCS], asked, state)
        result[head, PROMISE] = state[SHADOW]
    state[IS_LATE] = 1 if time > result[head, PROMISE] else 0


@kernel
def _plan_head(needed: int, ends: Ints, state: Ints) -> None:
    """The first time at which the head fits, if jobs end as planned, and the processors to spare then."""
    free, place = state[FREE], 0
    while free < needed:
        free += ends[HELD, place]
        place += 1
    state[SHADOW] = ends[END, place - 1]
    while place < state[N_RUNNING] and ends[END, place] == state[SHADOW]:
        free += ends[HELD, place]
        place += 1
    state[EXTRA] = free - needed
