"""Schedules a workload again under a policy with given predictions, event by event.

At equal times passed predictions are corrected first, then jobs are submitted, then jobs end, one by one, and at last
planned starts come; a scheduling pass follows each submit and each end. The order is that of the simulator pyss.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from pipeline.arrays import Array, Bools, Ints
from pipeline.kernels import inner_uncounted as kernel
from pipeline.kernels import uncounted
from pipeline.limits.soft import SoftRules, patience_s
from pipeline.schedule.backfilling import join, start_all
from pipeline.schedule.conservative import CONSERVATIVE, hold_longer, move_forward, reserve_submitted, start_planned
from pipeline.schedule.replay_state import (
    END,
    JOB,
    JOBS,
    NEVER,
    STATE,
    Replay,
    end_next,
    is_passed,
    predict,
    predict_longer,
)
from pipeline.schedule.workload import Workload


class Policy(IntEnum):
    """The order in which waiting jobs start; jobs wait in order of submit."""

    FCFS = 0
    """Nothing starts before the first waiting job, the head."""
    EASY = 1
    """Later jobs may start where that does not delay the head's planned start; they are tried in order of submit."""
    EASY_SJBF = 2
    """EASY, in which later jobs are tried in ascending order of `Predictions.order`, the shortest first."""
    CONSERVATIVE = 3
    """Every waiting job has a planned start, which no later job may delay."""


class Correction(IntEnum):
    """The new prediction of a job that outlives its own, never above the request."""

    REQUEST = 0
    INCREMENTS = 1
    """The first prediction plus 1, 5, 15, 30 min, 1, 2, 5, 10, 20, 50, 100 h in turn (Tsafrir et al. 2007)."""
    DOUBLING = 2
    LIMITS = 3
    """The next of the job's limits, when a round of the guard finds it nearer to its limit than the margin."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How the jobs are scheduled."""

    policy: Policy = Policy.EASY
    correction: Correction = Correction.REQUEST
    rules: SoftRules | None = None
    """The guard's margin and rounds; and its fairness: while a head waits too long past the start that was planned
    first for it, running jobs get their requests, and those that would start before it are planned with theirs. Without
    effect under FCFS and CONSERVATIVE. None: neither."""
    learns_last_two: bool = False
    """Whether predictions are the mean of the user's last two jobs that ended in the replay (Tsafrir et al. 2007),
    and the request until there are two; the predictions given are not used then."""


EASY_PLUS_PLUS = ReplayOptions(policy=Policy.EASY_SJBF, correction=Correction.INCREMENTS, learns_last_two=True)
"""EASY++ of Tsafrir, Etsion and Feitelson (2007)."""

WITH_HEAD = (Policy.EASY, Policy.EASY_SJBF)
"""The policies that have a head whose delay can be bounded."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """What became of each job of a workload, in its order."""

    start_s: Ints
    end_s: Ints
    by_end: Ints
    """Places of the jobs in the order in which they ended."""
    is_backfilled: Bools
    """Whether the job started while one submitted before it was waiting."""
    prediction_s: Ints
    """The prediction at submit, s."""
    n_corrections: Ints
    promised_s: Ints
    """With rules: the first start planned for the job when it became the head; -1: it never waited as the head.
    Without rules always -1."""


def replay(
    work: Workload,
    options: ReplayOptions,
    reservation_s: Array | None = None,
    order: Array | None = None,
    limits_s: Ints | None = None,
) -> Schedule:
    """The schedule of a workload.

    Parameters
    ----------
    work
        The jobs.
    options
        Policy, correction of passed predictions, and the guard's rules.
    reservation_s
        (jobs,) in s: the predictions that planned starts and ends are computed from. They are rounded up to whole
        seconds, at least 1 and at most the request; NaN stands for the request. None: the requests.
    order
        (jobs,) under EASY_SJBF: later jobs are tried in ascending order of this, ties in order of submit; any unit,
        NaN last. None: the reservation's predictions.
    limits_s
        (jobs, steps) under LIMITS: each job's limits in turn, s, the last its request; the first is its prediction
        instead of a reservation.

    Returns
    -------
    Schedule
        Nobody is killed for a passed prediction: each job runs for its `run_s`.

    Raises
    ------
    ValueError
        Arrays are of different lengths; the workload is not one that `workload` makes (submits ascend, sizes from 1 to
        the capacity, runtimes from 1 to the request); or its times are too large.
    """
    planned = predictions(work, reservation_s if limits_s is None else limits_s[:, 0])
    keys = planned.astype(np.float64) if order is None else np.asarray(order, np.float64)
    _check(work, reservation_s=planned, order=keys)
    limits = np.empty((0, 1), np.int64) if limits_s is None else np.ascontiguousarray(limits_s, np.int64)
    r = replay_arrays(work, options, planned)._replace(order=np.nan_to_num(keys, nan=np.inf), limits=limits)
    run_draws(r, work.run_s[None], np.empty((1, len(work)), np.int64))
    return schedule_of(work, r, r.jobs["first"])


def replay_draws(work: Workload, run_s: Ints, planned_s: Ints) -> Ints:
    """(draws, jobs): starts under EASY, a row for each row of runtimes, s after the first submit.

    Runtimes are at most the requests of the workload; a job that outlives what is planned is planned with its request.
    """
    _check(replace(work, run_s=run_s.min(axis=0)), longest_s=run_s.max(axis=0), planned_s=planned_s)
    refuse({"runtimes must be at most request_s": run_s <= work.request_s})
    start_s = np.empty(run_s.shape, np.int64)
    run_draws(replay_arrays(work, ReplayOptions(), planned_s), np.ascontiguousarray(run_s), start_s)
    return start_s


@uncounted
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
    r.profile[0, 0], r.profile[1, 0] = 0, capacity
    for job in range(len(r.jobs)):
        r.jobs[job].planned = r.jobs[job].given
        r.jobs[job].start, r.jobs[job].promise, r.jobs[job].corrections, r.jobs[job].backfilled = -1, -1, 0, 0


@kernel
def run_events(until_started: int, r: Replay) -> None:
    """Fills the jobs' fields from `start` on, and `ended`; the other arrays are work space."""
    n = len(r.jobs)
    while r.state.n_ended < n and (until_started == 0 or r.state.n_started < n):
        next_end = r.heap[0] // n if r.state.n_running else NEVER
        arriving = r.state.n_submitted
        next_submit = r.jobs[arriving].submit if arriving < n else NEVER
        time = min(next_end, next_submit, r.state.next_start)
        correct_passed(time, r)
        needs_pass = False
        if next_submit == time:
            predict(arriving, r)
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
def correct_passed(time: int, r: Replay) -> None:
    """Corrects the predictions passed by this time. No pass follows, so that the order among them does not matter."""
    place = 0
    while place < r.state.n_running and r.ends[END, place] <= time + r.state.margin:
        job, end = r.ends[JOB, place], r.ends[END, place]
        if is_passed(job, time, r):
            predict_longer(job, time, r)
            if r.state.policy == CONSERVATIVE:
                hold_longer(job, end, r)
        else:
            place += 1  # it ends at this very second, or its limit is its request


def predictions(work: Workload, given_s: Array | None) -> Ints:
    """Predictions in whole s, from 1 to the request; NaN and None are the request."""
    if given_s is None:
        return work.request_s
    given = np.asarray(given_s, np.float64)
    known = np.where(np.isnan(given), np.inf, np.ceil(given))
    return np.clip(known, 1, work.request_s).astype(np.int64)


def replay_arrays(work: Workload, options: ReplayOptions, planned: Ints) -> Replay:
    """The arrays of a replay before its first event, of jobs that _check has passed."""
    n, capacity = len(work), work.capacity
    jobs = _records(
        JOBS, n, submit=work.submit_s - _zero_s(work), run=work.run_s, request=work.request_s, procs=work.procs,
        user=work.user, given=planned,
    )  # fmt: skip
    rules, is_raised = options.rules or SoftRules(), options.correction is Correction.LIMITS
    if options.rules is not None:
        jobs["patience"] = np.floor(patience_s(work.request_s, rules))
    state = _records(
        STATE, 1, policy=options.policy, correction=options.correction, learns=options.learns_last_two, free=capacity,
        fair=options.rules is not None and options.policy in WITH_HEAD, margin=rules.margin_s if is_raised else 0,
        round=rules.round_s, n_steps=1, next_start=NEVER,
    )[0]  # fmt: skip
    # At one second the jobs that end may still be there when as many have started.
    n_running = min(n, 2 * capacity) + 1
    profile = _ints(2, 4 * n + 16 if options.policy is Policy.CONSERVATIVE else 1)
    profile[:, 0] = 0, capacity
    return Replay(
        jobs=jobs, ends=_ints(3, n_running), heap=_ints(n_running), started=_ints(n), ended=_ints(n),
        line=_ints(3, n), keys=np.empty(n), order=np.empty(0), last_two=np.full((work.user.max(initial=-1) + 1, 2), -1),
        profile=profile, limits=_ints(0, 1), state=state,
    )  # fmt: skip


def _records(kind: np.dtype[Any], n: int, **values: Any) -> Any:
    """Records with these values of their fields, 0 in the others."""
    made = np.zeros(n, kind)
    for name, value in values.items():
        made[name] = value
    return made


def _ints(*shape: int) -> Ints:
    return np.empty(shape, np.int64)


def _zero_s(work: Workload) -> int:
    return int(work.submit_s[0]) if len(work) else 0


def schedule_of(work: Workload, r: Replay, prediction_s: Ints) -> Schedule:
    """What a replay that has ended says of each job."""
    zero_s, promised = _zero_s(work), r.jobs["promise"]
    start_s = r.jobs["start"] + zero_s
    return Schedule(
        start_s=start_s,
        end_s=start_s + work.run_s,
        by_end=r.ended,
        is_backfilled=r.jobs["backfilled"] == 1,
        prediction_s=prediction_s.copy(),
        n_corrections=r.jobs["corrections"].copy(),
        promised_s=np.where(promised < 0, -1, promised + zero_s),
    )


def _check(work: Workload, **predicted: Array) -> None:
    """Kernels do not look whether an index is inside an array, so that what they rely on is checked before."""
    for name, values in {"run_s": work.run_s, "request_s": work.request_s, "procs": work.procs, **predicted}.items():
        if values.shape != work.submit_s.shape:
            raise ValueError(f"{name} has shape {values.shape}, expected one value for each of {len(work)} jobs")
    refuse({
        "submit_s must ascend": np.diff(work.submit_s) >= 0,
        "procs must be from 1 to the capacity": (work.procs >= 1) & (work.procs <= work.capacity),
        "run_s must be from 1 to request_s": (work.run_s >= 1) & (work.run_s <= work.request_s),
        "times must be smaller": is_short(work, work.request_s.sum(dtype=float)),
    })  # fmt: skip


def is_short(work: Workload, longest_s: float) -> bool:
    """Whether the next end and the job's number, which share one whole number of 64 bits, have room there."""
    return not len(work) or (float(np.ptp(work.submit_s)) + longest_s) * len(work) < 2.0**62


def refuse(rules: dict[str, Bools | bool]) -> None:
    """ValueError, which names the first rule that does not hold."""
    for rule, holds in rules.items():
        if not np.all(holds):
            raise ValueError(f"this workload cannot be replayed: {rule}")
