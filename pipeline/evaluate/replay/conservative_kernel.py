"""Conservative backfilling: every waiting job holds processors from its planned start on, found at its submit.

Where a job ends early, planned starts move forward, in order of submit, never back. Where a passed prediction is
corrected and the job's longer stay leaves too few processors for a planned start, all are planned anew in order of
submit. The order of events is that of backfill_kernel; a planned start is an event too.
"""

from pipeline.core.arrays import Ints
from pipeline.evaluate.replay.compiled import entry_kernel, kernel
from pipeline.evaluate.replay.event_heap import NEVER, pop, push
from pipeline.evaluate.replay.free_profile import earliest, least_free, merge, of_running, take
from pipeline.evaluate.replay.job_columns import (
    BACKFILLED,
    FREE,
    IS_BROKEN,
    N_ENDED,
    N_LINE,
    N_RUNNING,
    N_STARTED,
    N_STEPS,
    N_SUBMITTED,
    NEXT_START,
    PLANNED,
    PROCS,
    RUN,
    START,
    SUBMIT,
)  # fmt: skip
from pipeline.evaluate.replay.predictions_kernel import correct, is_passed, learn, predict
from pipeline.evaluate.replay.running_jobs import END, JOB, insert, remove


@entry_kernel
def conservative(
    jobs: Ints, result: Ints, ended: Ints, plan: Ints, heap: Ints, started: Ints, line: Ints, reserved: Ints,
    profile: Ints, last_two: Ints, state: Ints, options: Ints,
) -> None:  # fmt: skip
    """Fills `result` and `ended` (the jobs in order of end); the other arrays are work space."""
    n = len(jobs)
    while state[N_ENDED] < n:
        next_end = heap[0] // n if state[N_RUNNING] else NEVER
        arriving = state[N_SUBMITTED]
        next_submit = jobs[arriving, SUBMIT] if arriving < n else NEVER
        time = min(next_end, next_submit, state[NEXT_START] if state[N_LINE] else NEVER)
        _correct_passed(time, jobs, result, plan, profile, state, options)
        if next_submit == time:
            predict(arriving, jobs, result, last_two, options)
            _arrive(arriving, time, jobs, line, reserved, profile, state)
        elif next_end == time:
            job = started[pop(heap, state[N_RUNNING]) % n]
            _end(job, time, jobs, result, plan, ended, line, reserved, profile, state)
            learn(job, jobs, last_two)
        if state[IS_BROKEN] == 1:
            _plan_anew(time, jobs, plan, line, reserved, profile, state)
        _start_due(time, jobs, result, plan, heap, started, line, reserved, state)
        merge(profile, time, state)


@kernel
def _correct_passed(time: int, jobs: Ints, result: Ints, plan: Ints, profile: Ints, state: Ints, options: Ints) -> None:
    """Corrects the predictions passed by this time, and takes the processors for longer."""
    place = 0
    while place < state[N_RUNNING] and plan[END, place] <= time:
        job, end = plan[JOB, place], plan[END, place]
        if not is_passed(job, jobs, result, time):
            place += 1  # it ends at this very second
            continue
        remove(plan, state[N_RUNNING], end, job)
        while is_passed(job, jobs, result, time):
            correct(job, jobs, result, options)
        later = result[job, START] + jobs[job, PLANNED]
        insert(plan, state[N_RUNNING] - 1, later, job, jobs[job, PROCS])
        if state[IS_BROKEN] == 0 and least_free(profile, end, later, state) >= jobs[job, PROCS]:
            take(profile, end, later, jobs[job, PROCS], state)
        else:
            state[IS_BROKEN] = 1


@kernel
def _arrive(job: int, time: int, jobs: Ints, line: Ints, reserved: Ints, profile: Ints, state: Ints) -> None:
    """Gives a submitted job its planned start."""
    line[state[N_LINE]] = job
    state[N_LINE] += 1
    state[N_SUBMITTED] += 1
    if state[IS_BROKEN] == 0:
        _reserve(job, time, jobs, reserved, profile, state)


@kernel
def _reserve(job: int, time: int, jobs: Ints, reserved: Ints, profile: Ints, state: Ints) -> None:
    """Takes a job's processors from the first time at which they are free for its prediction."""
    begin = earliest(profile, time, jobs[job, PLANNED], jobs[job, PROCS], NEVER, state)
    reserved[job] = begin
    take(profile, begin, begin + jobs[job, PLANNED], jobs[job, PROCS], state)


@kernel
def _end(
    job: int, time: int, jobs: Ints, result: Ints, plan: Ints, ended: Ints, line: Ints, reserved: Ints, profile: Ints,
    state: Ints,
) -> None:  # fmt: skip
    """Frees the processors of a job, and moves planned starts forward if it ended early."""
    end = result[job, START] + jobs[job, PLANNED]
    remove(plan, state[N_RUNNING], end, job)
    state[N_RUNNING] -= 1
    state[FREE] += jobs[job, PROCS]
    ended[state[N_ENDED]] = job
    state[N_ENDED] += 1
    if end <= time or state[IS_BROKEN] == 1:
        return
    take(profile, time, end, -jobs[job, PROCS], state)
    for place in range(state[N_LINE]):
        waiting = line[place]
        procs, duration, old = jobs[waiting, PROCS], jobs[waiting, PLANNED], reserved[waiting]
        begin = earliest(profile, time, duration, procs, old, state)
        if begin < old:
            if state[N_STEPS] + 4 > profile.shape[1]:
                merge(profile, time, state)
            take(profile, old, old + duration, -procs, state)
            take(profile, begin, begin + duration, procs, state)
            reserved[waiting] = begin


@kernel
def _plan_anew(time: int, jobs: Ints, plan: Ints, line: Ints, reserved: Ints, profile: Ints, state: Ints) -> None:
    """Plans all waiting jobs again, in order of submit."""
    of_running(profile, plan, time, state)
    for place in range(state[N_LINE]):
        _reserve(line[place], time, jobs, reserved, profile, state)
    state[IS_BROKEN] = 0


@kernel
def _start_due(
    time: int, jobs: Ints, result: Ints, plan: Ints, heap: Ints, started: Ints, line: Ints, reserved: Ints, state: Ints
) -> None:
    """Starts the jobs whose planned start has come, and notes the next one."""
    kept = 0
    state[NEXT_START] = NEVER
    for place in range(state[N_LINE]):
        job = line[place]
        if reserved[job] > time:
            line[kept] = job
            kept += 1
            state[NEXT_START] = min(state[NEXT_START], reserved[job])
            continue
        n = state[N_RUNNING]
        result[job, START] = time
        result[job, BACKFILLED] = kept > 0
        insert(plan, n, time + jobs[job, PLANNED], job, jobs[job, PROCS])
        started[state[N_STARTED]] = job
        push(heap, n, (time + jobs[job, RUN]) * len(jobs) + state[N_STARTED])
        state[N_STARTED] += 1
        state[N_RUNNING] = n + 1
        state[FREE] -= jobs[job, PROCS]
    state[N_LINE] = kept
