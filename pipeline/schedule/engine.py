"""Schedules a workload again under a policy, with limits that jobs are planned with."""

from dataclasses import dataclass, replace

import numpy as np

from pipeline.arrays import Array, Bools, Ints
from pipeline.kernels import kernel, uncounted_kernel
from pipeline.limits.soft import SOFT_RULES, SoftRules, patience_s
from pipeline.schedule.machine import JOBS, LISTED, NEVER, STATE, STEP, STEPS_S, Policy, Replay, run_events
from pipeline.schedule.workload import Workload

__all__ = ["EASY_PLUS_PLUS", "Policy", "ReplayOptions", "Schedule", "replay", "replay_draws"]


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
        the capacity, runtimes from 1 to the request); its times are too large; or limits are raised under CONSERVATIVE.
    """
    _check(work, limits_s=limits_s, order=order)
    r = replay_arrays(work, options, limits_s, order)
    if options.policy is Policy.CONSERVATIVE:
        is_raised = options.rules is not None or options.learns_last_two
        refuse({"under CONSERVATIVE no job may outlive its limit": (r.limits[:, 0] >= work.run_s) & (not is_raised)})
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
    s.shadow, s.extra, s.is_settled, s.is_late, s.n_line, s.n_steps = 0, 0, 0, 0, 0, 1
    s.next_start = NEVER
    r.profile[0].time, r.profile[0].free = 0, capacity
    for job in range(len(r.jobs)):
        r.jobs[job].planned = r.limits[job, 0]
        r.jobs[job].start, r.jobs[job].expected, r.jobs[job].n_longer, r.jobs[job].backfilled = -1, -1, 0, 0
