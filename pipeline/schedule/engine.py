"""Schedules a workload again under a policy, with limits that jobs are planned with, event by event.

At equal times jobs that outlive their plans are planned for longer first, then jobs are submitted, then jobs end, one
by one, and at last planned starts come; a scheduling pass follows each submit and each end. The order is that of the
simulator pyss. So is what counts as free: a job planned to end at a second frees its processors for a job submitted at
that second.
"""

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from pipeline.arrays import Array, Bools, Ints
from pipeline.kernels import kernel, uncounted_kernel
from pipeline.limits.soft import SOFT_RULES, SoftRules, patience_s
from pipeline.schedule.conservative import hold_longer, move_forward, reserve_submitted, start_planned
from pipeline.schedule.machine import (
    JOBS,
    LISTED,
    NEVER,
    STATE,
    STEP,
    STEPS_S,
    Replay,
    end_next,
    freed_by,
    insert,
    is_too_short,
    learn_plan,
    plan_longer,
    remove,
    start,
)
from pipeline.schedule.workload import Workload


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


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How the jobs are scheduled. Without rules a job gets its next limit when it outlives the present one."""

    policy: Policy = Policy.EASY
    rules: SoftRules | None = None
    """The guard's margin and rounds: a job gets its next limit when a round finds it nearer to the present one than the
    margin. And its fairness: while a head waits too long past the start that was expected of it first, running jobs get
    their requests, and those that would start before it are planned with theirs."""
    learns_last_two: bool = False
    """Whether jobs are planned as EASY++ does, whatever limits are given: with the mean of the user's last two jobs
    that ended in the replay, and the request until there are two; then with that and STEPS_S."""


EASY_PLUS_PLUS = ReplayOptions(policy=Policy.EASY_SJBF, learns_last_two=True)
"""EASY++ of Tsafrir, Etsion and Feitelson (2007)."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """What became of each job of a workload, in its order."""

    start_s: Ints
    end_s: Ints
    by_end: Ints
    """Places of the jobs in the order in which they ended."""
    is_backfilled: Bools
    """Whether the job started while one submitted before it was waiting."""
    planned_s: Ints
    """How long the job was planned to run at first, s."""
    n_longer: Ints
    """How often it was planned for longer."""
    expected_s: Ints
    """With rules: the start that was expected of the job when it became the head; -1: it never waited as the head."""


def replay(
    work: Workload, options: ReplayOptions, limits_s: Array | None = None, order: Array | None = None
) -> Schedule:
    """The schedule of a workload.

    Parameters
    ----------
    work
        The jobs.
    options
        The policy, and the guard's rules.
    limits_s
        (jobs,) or (jobs, steps) in s: what planned starts and ends are computed from, at first and after each time that
        it was too short; then comes the request. They are rounded up to whole seconds, at least 1 and at most the
        request; NaN stands for the request. None: the requests.
    order
        (jobs,) under EASY_SJBF: later jobs are tried in ascending order of this, ties in order of submit; any unit,
        NaN last. None: the first limits.

    Returns
    -------
    Schedule
        Nobody is killed at a limit: each job runs for its `run_s`.

    Raises
    ------
    ValueError
        Arrays are of different lengths; the workload is not one that `workload` makes (submits ascend, sizes from 1 to
        the capacity, runtimes from 1 to the request); or its times are too large.
    """
    _check(work, limits_s=limits_s, order=order)
    r = replay_arrays(work, options, limits_s, order)
    run_draws(r, work.run_s[None], np.empty((1, len(work)), np.int64))
    return schedule_of(work, r, r.limits[:, 0])


def replay_draws(work: Workload, run_s: Ints, planned_s: Ints) -> Ints:
    """(draws, jobs): starts under EASY, a row for each row of runtimes, s after the first submit.

    Runtimes are at most the requests of the workload; a job that outlives what is planned is planned with its request.
    """
    for longest_s in (run_s.min(axis=0), run_s.max(axis=0)):
        _check(replace(work, run_s=longest_s), planned_s=planned_s)
    start_s = np.empty(run_s.shape, np.int64)
    run_draws(replay_arrays(work, ReplayOptions(), planned_s), np.ascontiguousarray(run_s), start_s)
    return start_s


def replay_arrays(
    work: Workload, options: ReplayOptions, limits_s: Array | None = None, order: Array | None = None
) -> Replay:
    """The arrays of a replay before its first event, of jobs that _check has passed."""
    n, capacity, rules = len(work), work.capacity, options.rules or SOFT_RULES
    given = work.request_s if limits_s is None else np.asarray(limits_s)
    steps = (
        np.empty((n, 1 + len(STEPS_S)))
        if options.learns_last_two
        else given.reshape(n, given.shape[-1] if given.ndim > 1 else 1)
    )
    whole = np.clip(np.ceil(np.nan_to_num(steps, nan=np.inf)), 1, work.request_s[:, None])
    limits = np.ascontiguousarray(np.column_stack([whole, work.request_s]), np.int64)
    jobs, state = np.zeros(n, JOBS), np.zeros(1, STATE)[0]
    jobs["submit"] = work.submit_s - _zero_s(work)
    for name, values in {"run": work.run_s, "request": work.request_s, "procs": work.procs, "user": work.user}.items():
        jobs[name] = values
    jobs["patience"] = np.floor(patience_s(work.request_s, rules))
    state["policy"], state["learns"], state["free"] = options.policy, options.learns_last_two, capacity
    if options.rules is not None:
        state["is_guarded"], state["margin"], state["round"] = 1, rules.margin_s, rules.round_s
    rank = np.arange(n)
    if options.policy is Policy.EASY_SJBF:
        rank[np.argsort(limits[:, 0] if order is None else np.asarray(order), kind="stable")] = np.arange(n)
    # At one second the jobs that end may still be there when as many have started.
    n_running, n_profile = min(n, 2 * capacity) + 1, 4 * n + 16 if options.policy is Policy.CONSERVATIVE else 1
    ends, due, line = (np.empty(size, LISTED) for size in (n_running, n_running, n))
    last_two = np.full((work.user.max(initial=-1) + 1, 2), -1)
    ended, profile = np.empty(n, np.int64), np.empty(n_profile, STEP)
    return Replay(jobs, limits, ends, due, ended, line, rank, last_two, profile, state)


def schedule_of(work: Workload, r: Replay, planned_s: Ints) -> Schedule:
    """What a replay that has ended says of each job."""
    zero_s, expected = _zero_s(work), r.jobs["expected"]
    start_s = r.jobs["start"] + zero_s
    expected_s = np.where(expected < 0, -1, expected + zero_s)
    is_backfilled, n_longer = r.jobs["backfilled"] == 1, r.jobs["n_longer"].copy()
    return Schedule(start_s, start_s + work.run_s, r.ended, is_backfilled, planned_s.copy(), n_longer, expected_s)


def _zero_s(work: Workload) -> int:
    return int(work.submit_s[0]) if len(work) else 0


def _check(work: Workload, **more: Array | None) -> None:
    """Kernels do not look whether an index is inside an array, so that what they rely on is checked before."""
    for name, values in {"run_s": work.run_s, "request_s": work.request_s, "procs": work.procs, **more}.items():
        if values is not None and np.shape(values)[:1] != work.submit_s.shape:
            raise ValueError(f"{name} has shape {np.shape(values)}, expected one value for each of {len(work)} jobs")
    last_s = work.submit_s.max(initial=0) - work.submit_s.min(initial=0) + work.request_s.sum(dtype=float)
    refuse({
        "submit_s must ascend": np.diff(work.submit_s) >= 0,
        "procs must be from 1 to the capacity": (work.procs >= 1) & (work.procs <= work.capacity),
        "run_s must be from 1 to request_s": (work.run_s >= 1) & (work.run_s <= work.request_s),
        "times must be smaller": last_s < NEVER,
    })  # fmt: skip


def refuse(rules: dict[str, Bools | bool]) -> None:
    """ValueError, which names the first rule that does not hold."""
    for rule, holds in rules.items():
        if not np.all(holds):
            raise ValueError(f"this workload cannot be replayed: {rule}")


@uncounted_kernel
def run_draws(r: Replay, run_s: Ints, start_s: Ints) -> None:
    """Fills `start_s`, a row for each row of runtimes, each from the same beginning; it ends when all have started.

    Of the last row, which goes on until all have ended, the jobs' fields from `start` on and `ended` are filled, too.
    """
    n, capacity = len(r.jobs), r.state.free
    for draw in range(len(run_s)):
        rewind(capacity, r)
        for job in range(n):
            r.jobs[job].run = run_s[draw, job]
        run_events(0 if draw == len(run_s) - 1 else 1, r)
        for job in range(n):
            start_s[draw, job] = r.jobs[job].start


@kernel
def rewind(capacity: int, r: Replay) -> None:
    """Makes the replay's arrays and records what they were before the first event."""
    s = r.state
    s.free, s.n_running, s.n_started, s.n_ended, s.n_submitted, s.n_waiting, s.head = capacity, 0, 0, 0, 0, 0, 0
    s.shadow, s.extra, s.is_settled, s.is_late, s.n_line, s.n_steps, s.is_broken = 0, 0, 0, 0, 0, 1, 0
    s.next_start = NEVER
    r.profile[0].time, r.profile[0].free = 0, capacity
    for job in range(len(r.jobs)):
        r.jobs[job].planned = r.limits[job, 0]
        r.jobs[job].start, r.jobs[job].expected, r.jobs[job].n_longer, r.jobs[job].backfilled = -1, -1, 0, 0


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
                reserve_submitted(arriving, time, r)
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
        job, end = r.ends[place].job, r.ends[place].key
        if is_too_short(job, time, r):
            plan_longer(job, time, r)
            if r.state.policy == CONSERVATIVE:
                hold_longer(job, end, r)
        else:
            place += 1  # it ends at this very second, or its limit is its request


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
