"""EASY where a job may start on any of several processor counts, chosen when it is started or reserved.

The order of events is that of backfill_kernel. A job's choices are rows of one array, in ascending order of processors.
A choice costs the predicted end, and for every other waiting job the delay that the held processor-seconds mean:

    wait + planned * (1 + weight * (waiting + ahead) * procs / capacity)

where `ahead` stands for jobs that are still to come while the processors are held.

The first waiting job takes the choice of least cost, whether that starts now or is reserved. A later job starts on the
cheapest choice that does not delay the reservation, if waiting until the reservation for its best choice costs more.
Jobs with one choice are scheduled as EASY schedules them.
"""

from pipeline.core.arrays import Ints
from pipeline.evaluate.replay.compiled import entry_kernel, kernel
from pipeline.evaluate.replay.event_heap import NEVER, pop, push
from pipeline.evaluate.replay.running_jobs import END, HELD, JOB, freed_by, insert, remove

SUBMIT, FIRST_CHOICE, LAST_CHOICE, IN_FORCE = 0, 1, 2, 3
"""Columns of the jobs: submit, first and last row among the choices, and the planned runtime in force, s."""
PROCS, RUN, PLANNED = 0, 1, 2
"""Columns of the choices."""
START, TAKEN, CORRECTIONS, BACKFILLED = 0, 1, 2, 3
"""Columns of the result; TAKEN: the row of the choice that the job ran on."""
FREE, N_RUNNING, N_STARTED, N_ENDED, N_SUBMITTED, N_WAITING, SHADOW, EXTRA, HEAD_CHOICE, NOW = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
)
"""Places of the state. SHADOW: the planned start of the first waiting job, EXTRA: the processors to spare then."""
N_STATE = 10


@entry_kernel
def backfill_moldable(
    jobs: Ints, choices: Ints, result: Ints, ended: Ints, plan: Ints, heap: Ints, started: Ints, line: Ints,
    state: Ints, weight: float, ahead: float,
) -> None:  # fmt: skip
    """Fills `result` and `ended` (the jobs in order of end). `weight` is over the capacity."""
    n = len(jobs)
    while state[N_ENDED] < n:
        next_end = heap[0] // n if state[N_RUNNING] else NEVER
        arriving = state[N_SUBMITTED]
        next_submit = jobs[arriving, SUBMIT] if arriving < n else NEVER
        state[NOW] = min(next_end, next_submit)
        _correct_passed(jobs, choices, result, plan, state)
        if next_submit == state[NOW]:
            line[state[N_WAITING]] = arriving
            state[N_WAITING] += 1
            state[N_SUBMITTED] += 1
        else:
            _end(started[pop(heap, state[N_RUNNING]) % n], jobs, choices, result, plan, ended, state)
        if state[N_WAITING]:
            _pass(jobs, choices, result, plan, heap, started, line, state, weight, ahead)


@kernel
def _correct_passed(jobs: Ints, choices: Ints, result: Ints, plan: Ints, state: Ints) -> None:
    """Doubles the planned runtimes that jobs have outlived by now, until they are in the future."""
    place = 0
    while place < state[N_RUNNING] and plan[END, place] <= state[NOW]:
        job = plan[JOB, place]
        taken, start, in_force = result[job, TAKEN], result[job, START], jobs[job, IN_FORCE]
        if in_force >= choices[taken, RUN]:
            place += 1  # it ends at this very second
            continue
        remove(plan, state[N_RUNNING], start + in_force, job)
        while in_force < choices[taken, RUN] and start + in_force <= state[NOW]:
            in_force *= 2
            result[job, CORRECTIONS] += 1
        jobs[job, IN_FORCE] = in_force
        insert(plan, state[N_RUNNING] - 1, start + in_force, job, choices[taken, PROCS])


@kernel
def _end(job: int, jobs: Ints, choices: Ints, result: Ints, plan: Ints, ended: Ints, state: Ints) -> None:
    """Frees the processors of a job."""
    remove(plan, state[N_RUNNING], result[job, START] + jobs[job, IN_FORCE], job)
    state[N_RUNNING] -= 1
    state[FREE] += choices[result[job, TAKEN], PROCS]
    ended[state[N_ENDED]] = job
    state[N_ENDED] += 1


@kernel
def _start(
    job: int, choice: int, jobs: Ints, choices: Ints, result: Ints, plan: Ints, heap: Ints, started: Ints, state: Ints
) -> None:
    """Starts a job on a choice. Ends at one second come in the order of the starts."""
    n, now = state[N_RUNNING], state[NOW]
    result[job, START] = now
    result[job, TAKEN] = choice
    jobs[job, IN_FORCE] = choices[choice, PLANNED]
    insert(plan, n, now + choices[choice, PLANNED], job, choices[choice, PROCS])
    started[state[N_STARTED]] = job
    push(heap, n, (now + choices[choice, RUN]) * len(jobs) + state[N_STARTED])
    state[N_STARTED] += 1
    state[N_RUNNING] = n + 1
    state[FREE] -= choices[choice, PROCS]
    state[N_WAITING] -= 1


@kernel
def _pass(
    jobs: Ints, choices: Ints, result: Ints, plan: Ints, heap: Ints, started: Ints, line: Ints, state: Ints,
    weight: float, ahead: float,
) -> None:  # fmt: skip
    """Starts every job that may start now, in order of submit, and closes the gaps in the line."""
    ending = freed_by(plan, state[N_RUNNING], state[NOW])
    n_line, head = state[N_WAITING], 0
    while head < n_line:
        _plan_head(line[head], ending, jobs, choices, plan, state, weight, ahead)
        if choices[state[HEAD_CHOICE], PROCS] > state[FREE] + ending or state[SHADOW] > state[NOW]:
            break
        _start(line[head], state[HEAD_CHOICE], jobs, choices, result, plan, heap, started, state)
        head += 1
    _fill(head + 1, n_line, ending, jobs, choices, result, plan, heap, started, line, state, weight, ahead)
    kept = 0
    for place in range(head, n_line):
        if result[line[place], START] < 0:
            line[kept] = line[place]
            kept += 1


@kernel
def _plan_head(
    job: int, ending: int, jobs: Ints, choices: Ints, plan: Ints, state: Ints, weight: float, ahead: float
) -> None:
    """The first waiting job's cheapest choice, when it fits if jobs end as planned, and what is spare then."""
    free, place, least = state[FREE], 0, 1e300
    for choice in range(jobs[job, FIRST_CHOICE], jobs[job, LAST_CHOICE] + 1):
        procs, begin = choices[choice, PROCS], state[NOW]
        while free < procs:
            free += plan[HELD, place]
            place += 1
        if procs > state[FREE] + ending:
            begin = plan[END, place - 1]
        cost = begin - state[NOW] + _held_cost(choice, choices, state, weight, ahead)
        if cost < least:
            least = cost
            state[HEAD_CHOICE] = choice
            state[SHADOW] = begin
    needed = choices[state[HEAD_CHOICE], PROCS]
    state[EXTRA] = state[FREE] + freed_by(plan, state[N_RUNNING], state[SHADOW]) - needed


@kernel
def _held_cost(choice: int, choices: Ints, state: Ints, weight: float, ahead: float) -> float:
    """The planned runtime, and the delay of the others that wait for the processors held, s."""
    n_others = state[N_WAITING] - 1 + ahead
    return float(choices[choice, PLANNED] * (1.0 + weight * n_others * choices[choice, PROCS]))


@kernel
def _fill(
    begin: int, n_line: int, ending: int, jobs: Ints, choices: Ints, result: Ints, plan: Ints, heap: Ints,
    started: Ints, line: Ints, state: Ints, weight: float, ahead: float,
) -> None:  # fmt: skip
    """Starts the jobs from a place of the line on that do not delay the first. `ending`: as in _pass."""
    for place in range(begin, n_line):
        free = state[FREE] + ending
        if free == 0:
            break
        job = line[place]
        if choices[jobs[job, FIRST_CHOICE], PROCS] > free:
            continue
        choice = _startable(job, free, jobs, choices, state, weight, ahead)
        if choice < 0:
            continue
        _start(job, choice, jobs, choices, result, plan, heap, started, state)
        result[job, BACKFILLED] = 1
        if state[NOW] + choices[choice, PLANNED] > state[SHADOW]:
            state[EXTRA] -= choices[choice, PROCS]


@kernel
def _startable(job: int, free: int, jobs: Ints, choices: Ints, state: Ints, weight: float, ahead: float) -> int:
    """The cheapest choice that delays no reservation; -1: none, or waiting for the reservation's start is cheaper."""
    found, least, later = -1, 1e300, 1e300
    for choice in range(jobs[job, FIRST_CHOICE], jobs[job, LAST_CHOICE] + 1):
        procs = choices[choice, PROCS]
        cost = _held_cost(choice, choices, state, weight, ahead)
        later = min(later, cost + (state[SHADOW] - state[NOW]))
        ends_in_time = state[NOW] + choices[choice, PLANNED] <= state[SHADOW]
        if procs <= free and (ends_in_time or procs <= state[EXTRA]) and cost < least:
            found, least = choice, cost
    return found if least <= later else -1
