"""Schedules a workload whose jobs may start on one of several processor counts."""

from dataclasses import dataclass, replace

import numpy as np

from pipeline.core.arrays import Bools, Ints
from pipeline.evaluate.replay.engine import Schedule
from pipeline.evaluate.replay.moldable_kernel import (
    BACKFILLED,
    CORRECTIONS,
    FREE,
    IN_FORCE,
    N_STATE,
    START,
    TAKEN,
    backfill_moldable,
)  # fmt: skip
from pipeline.evaluate.replay.workload import Workload

WAITING_WEIGHT = 2.0
"""Weight of the delay of the other waiting jobs: each waits for the share of the machine that a job holds."""

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
    """The runtime that the scheduler plans with, at least 1 s; a job that outlives it is planned anew, not killed."""


@dataclass(frozen=True, slots=True)
class MoldableSchedule:
    """What became of each job, in the workload's order."""

    start_s: Ints
    end_s: Ints
    by_end: Ints
    is_backfilled: Bools
    procs: Ints
    """The processors that it ran on."""
    run_s: Ints
    planned_s: Ints
    n_corrections: Ints


def rigid_choices(work: Workload) -> Choices:
    """Every job on its own count alone, planned with its request."""
    return Choices(np.arange(len(work) + 1), work.procs, work.run_s, work.request_s)


def replay_moldable(
    work: Workload, choices: Choices, waiting_weight: float = WAITING_WEIGHT, n_ahead: float = JOBS_AHEAD
) -> MoldableSchedule:
    """The EASY schedule of a workload in which the scheduler chooses each job's processors.

    Parameters
    ----------
    work
        Submits, users and capacity; sizes, runtimes and requests are those of `choices`.
    choices
        At least one count for each job. With one count a job, its runtime and its request, the schedule is that of
        `replay` under EASY without predictions.
    waiting_weight
        How much the delay of the other waiting jobs counts in the cost of a choice; see moldable_kernel. 0: only the
        job's own end counts.

    Returns
    -------
    MoldableSchedule
        Starts, ends and sizes, job by job.

    Raises
    ------
    ValueError
        The choices are not what Choices says, or times are too large.
    """
    _check(work, choices)
    zero_s = int(work.submit_s[0]) if len(work) else 0
    n, table = len(work), np.stack([choices.procs, choices.run_s, choices.planned_s], axis=1).astype(np.int64)
    jobs = np.stack(
        [work.submit_s - zero_s, choices.offsets[:-1], choices.offsets[1:] - 1, np.zeros(n, np.int64)], axis=1
    )
    result, ended = np.zeros((n, 4), np.int64), np.empty(n, np.int64)
    result[:, [START, TAKEN]] = -1
    heap, state = np.empty(min(n, 2 * work.capacity) + 1, np.int64), np.zeros(N_STATE, np.int64)
    state[FREE] = work.capacity
    plan, started, line = np.empty((3, len(heap)), np.int64), np.empty(n, np.int64), np.empty(n + 1, np.int64)
    weight = waiting_weight / work.capacity
    backfill_moldable(jobs, table, result, ended, plan, heap, started, line, state, weight, n_ahead)
    start_s, taken = result[:, START] + zero_s, result[:, TAKEN]
    return MoldableSchedule(
        start_s=start_s,
        end_s=start_s + choices.run_s[taken],
        by_end=ended,
        is_backfilled=result[:, BACKFILLED] == 1,
        procs=choices.procs[taken],
        run_s=choices.run_s[taken],
        planned_s=jobs[:, IN_FORCE],
        n_corrections=result[:, CORRECTIONS],
    )


def as_replayed(work: Workload, done: MoldableSchedule) -> tuple[Workload, Schedule]:
    """Workload and schedule as the metrics of replays take them: each job with the size and runtime that it had."""
    request_s = np.maximum(work.request_s, done.run_s)
    ran = replace(work, procs=done.procs, run_s=done.run_s, request_s=request_s)
    none = np.full(len(work), -1)
    told = done.start_s, done.end_s, done.by_end, done.is_backfilled, done.planned_s, done.n_corrections
    return ran, Schedule(*told, promised_s=none)


def _check(work: Workload, choices: Choices) -> None:
    """The kernel does not look whether an index is inside an array."""
    counts, total = np.diff(choices.offsets), len(choices.procs)
    same_job = np.repeat(np.arange(len(counts)), np.maximum(counts, 0))
    rules = {
        "one range of choices for each job": len(choices.offsets) == len(work) + 1
        and choices.offsets[0] == 0 and choices.offsets[-1] == total and bool(np.all(counts >= 1)),
        "as many runtimes as counts": choices.run_s.shape == choices.planned_s.shape == (total,),
        "submit_s must ascend": bool(np.all(np.diff(work.submit_s) >= 0)),
        "procs must be from 1 to the capacity": bool(np.all((choices.procs >= 1) & (choices.procs <= work.capacity))),
    }  # fmt: skip
    if all(rules.values()):
        ascends = (np.diff(choices.procs) > 0) | (np.diff(same_job) > 0)
        longest = max(float(np.maximum(choices.run_s, 2 * choices.planned_s).sum(dtype=float)), 1.0)
        rules |= {
            "procs must ascend within a job": bool(np.all(ascends)),
            "runtimes must be at least 1 s": bool(np.all((choices.run_s >= 1) & (choices.planned_s >= 1))),
            "times must be smaller": (float(np.ptp(work.submit_s)) + longest) * len(work) < 2.0**62
            if len(work)
            else True,
        }
    for rule, holds in rules.items():
        if not holds:
            raise ValueError(f"these choices cannot be replayed: {rule}")
