"""Schedules a workload under EASY where the scheduler chooses each job's processors.

A job may start on any of its choices, which are rows of one array in ascending order of processors. A choice costs the
predicted end, and for every other waiting job the delay that the held processor-seconds mean:

    wait + planned * (1 + weight * (waiting + ahead) * procs / capacity)

where `ahead` stands for jobs that are still to come while the processors are held. The head takes the choice of least
cost, whether that starts now or is reserved. A later job starts on the cheapest choice that does not delay the
reservation, if waiting until the reservation for its best choice costs more. A job with one choice is an EASY job.

How jobs start, outlive their predictions and end is the code of `walltime replay`.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pipeline.arrays import Ints
from pipeline.kernels import kernel, uncounted_kernel
from pipeline.schedule.engine import ReplayOptions, Schedule, refuse, replay_arrays, rewind, schedule_of
from pipeline.schedule.machine import NEVER, Replay, end_next, freed_by, join, plan_head, plan_passed, shorten, start
from pipeline.schedule.workload import Workload

WAITING_WEIGHT = 2.0
"""Weight of the delay of the other waiting jobs: each waits for the share of the machine that a job holds."""

DOUBLINGS = 40
"""A job that outlives its plan is planned for twice as long, so often."""

JOBS_AHEAD = 8.0
"""Jobs counted as waiting beside those that do, because more are submitted while the processors are held."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The counts that each job of a workload may start on."""

    offsets: Ints
    """(jobs + 1,): the first choice of each job, and the number of choices."""
    procs: Ints
    """(choices,), in ascending order within a job."""
    run_s: Ints
    """The true runtime on so many processors, at least 1 s."""
    planned_s: Ints
    """The runtime that the scheduler plans with, at least 1 s; a job that outlives it is planned for twice the time."""


class Offer(NamedTuple):
    """The choices as the compiled functions take them."""

    offsets: Ints
    procs: Ints
    run_s: Ints
    planned_s: Ints
    weights: Any
    """The weight of others' delay, over the capacity, and the jobs that are expected to come."""


def replay_moldable(
    work: Workload, choices: Choices, waiting_weight: float = WAITING_WEIGHT, n_ahead: float = JOBS_AHEAD
) -> tuple[Workload, Schedule]:
    """The jobs with the sizes and runtimes that they had, and what became of each; ValueError for wrong choices.

    Of `work` submits, users and capacity count; sizes, runtimes and requests are those of `choices`, at least one for
    each job. With one count a job, its runtime and its request, the schedule is that of `replay` under EASY with
    requests. With a `waiting_weight` of 0 only the job's own end counts. `n_ahead` jobs count as waiting beside
    those that do. In the schedule `planned_s` is the plan in force at the job's end.
    """
    _check(work, choices)
    first = choices.offsets[:-1]
    # The line of candidates is sought for jobs whose least count fits. No request bounds how long a job is planned for.
    least = replace(work, procs=choices.procs[first], request_s=np.full(len(work), NEVER // 2))
    doubled_s = choices.planned_s[first, None] << np.arange(DOUBLINGS)
    r = replay_arrays(least, ReplayOptions(), doubled_s)
    weights = np.array([waiting_weight / work.capacity, n_ahead])
    run_moldable(r, Offer(choices.offsets, choices.procs, choices.run_s, choices.planned_s, weights))
    procs, run_s = r.jobs["procs"].copy(), r.jobs["run"].copy()
    ran = replace(work, procs=procs, run_s=run_s, request_s=np.maximum(work.request_s, run_s))
    return ran, schedule_of(ran, r, r.jobs["planned"])


def _check(work: Workload, choices: Choices) -> None:
    counts, total = np.diff(choices.offsets), len(choices.procs)
    same_job = np.repeat(np.arange(len(counts)), np.maximum(counts, 0))
    refuse({
        "one range of choices for each job": len(choices.offsets) == len(work) + 1
        and choices.offsets[0] == 0 and choices.offsets[-1] == total and bool(np.all(counts >= 1)),
        "as many runtimes as counts": choices.run_s.shape == choices.planned_s.shape == (total,),
        "submit_s must ascend": np.diff(work.submit_s) >= 0,
        "procs must be from 1 to the capacity": (choices.procs >= 1) & (choices.procs <= work.capacity),
    })  # fmt: skip
    longest_s = np.maximum(choices.run_s, 2 * choices.planned_s).sum(dtype=float)
    refuse({
        "procs must ascend within a job": (np.diff(choices.procs) > 0) | (np.diff(same_job) > 0),
        "runtimes must be at least 1 s": (choices.run_s >= 1) & (choices.planned_s >= 1),
        "times must be smaller": work.submit_s.max(initial=0) + longest_s < NEVER,
    })  # fmt: skip


@uncounted_kernel
def run_moldable(r: Replay, offer: Offer) -> None:
    """Fills the jobs' fields, and `ended`. The order of the events is that of machine.run_events."""
    n = len(r.jobs)
    rewind(r.state.free, r)
    while r.state.n_ended < n:
        next_end = r.due[0].key if r.state.n_running else NEVER
        arriving = r.state.n_submitted
        next_submit = r.jobs[arriving].submit if arriving < n else NEVER
        time = min(next_end, next_submit)
        plan_passed(time, r)
        if next_submit == time:
            r.state.n_submitted += 1
            r.state.n_waiting += 1
            # Costs of choices change with every job that waits, so that every submit needs a pass.
            join(arriving, time, r)
        else:
            end_next(r)
        if r.state.n_waiting > 0:
            start_chosen(time, r, offer)


@kernel
def start_chosen(time: int, r: Replay, offer: Offer) -> None:
    """Starts every job that may start now on one of its choices."""
    ending = freed_by(r.ends, r.state.n_running, time)
    fits = True
    while fits and r.state.n_waiting > 0:
        while r.jobs[r.state.head].start >= 0:
            r.state.head += 1
        choose_for_head(time, ending, r, offer)
        fits = r.jobs[r.state.head].procs <= r.state.free + ending
        if fits:
            start(r.state.head, time, r)
    shorten(r)
    if r.state.n_waiting > 1:
        plan_head(r)
        fill_chosen(time, ending, r, offer)


@kernel
def fill_chosen(time: int, ending: int, r: Replay, offer: Offer) -> None:
    """Starts the candidates that do not delay the head. `ending`: processors of jobs planned to end now."""
    for place in range(r.state.n_line):
        free = r.state.free + ending
        if free == 0:
            break
        job = r.line[place].job
        if r.line[place].procs > free or r.jobs[job].start >= 0 or job == r.state.head:
            continue
        if choose_beside_head(job, time, free, r, offer):
            ends_in_time = time + r.jobs[job].planned <= r.state.shadow
            start(job, time, r)
            r.jobs[job].backfilled = 1
            r.state.extra -= 0 if ends_in_time else r.jobs[job].procs


@kernel
def choose_for_head(time: int, ending: int, r: Replay, offer: Offer) -> None:
    """Gives the head its cheapest choice."""
    head, free, place, found, least = r.state.head, r.state.free, 0, 0, 1e300
    for choice in range(offer.offsets[head], offer.offsets[head + 1]):
        procs, begin = offer.procs[choice], time
        while free < procs:
            free += r.ends[place].procs
            place += 1
        if procs > r.state.free + ending:
            begin = r.ends[place - 1].key
        cost = begin - time + held_cost(choice, r, offer)
        if cost < least:
            found, least = choice, cost
    take_choice(head, found, r, offer)


@kernel
def choose_beside_head(job: int, time: int, free: int, r: Replay, offer: Offer) -> bool:
    """Gives a job its cheapest choice that delays no reservation; whether that is cheaper than to wait for the head."""
    found, least, later = -1, 1e300, 1e300
    for choice in range(offer.offsets[job], offer.offsets[job + 1]):
        procs = offer.procs[choice]
        cost = held_cost(choice, r, offer)
        later = min(later, cost + (r.state.shadow - time))
        ends_in_time = time + offer.planned_s[choice] <= r.state.shadow
        if procs <= free and (ends_in_time or procs <= r.state.extra) and cost < least:
            found, least = choice, cost
    is_cheaper = found >= 0 and least <= later
    if is_cheaper:
        take_choice(job, found, r, offer)
    return is_cheaper


@kernel
def held_cost(choice: int, r: Replay, offer: Offer) -> float:
    """The planned runtime, and the delay of the others that wait for the processors held, s."""
    n_others = r.state.n_waiting - 1 + offer.weights[1]
    return float(offer.planned_s[choice] * (1.0 + offer.weights[0] * n_others * offer.procs[choice]))


@kernel
def take_choice(job: int, choice: int, r: Replay, offer: Offer) -> None:
    """Makes a choice the job's size, runtime and prediction."""
    r.jobs[job].procs = offer.procs[choice]
    r.jobs[job].run = offer.run_s[choice]
    for nth in range(DOUBLINGS):
        r.limits[job, nth] = offer.planned_s[choice] << nth
    r.jobs[job].planned = r.limits[job, 0]
