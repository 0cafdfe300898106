"""Schedules a workload again under a policy with given predictions."""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Array, Bools, Ints
from pipeline.evaluate.replay.backfill_kernel import backfill
from pipeline.evaluate.replay.conservative_kernel import conservative
from pipeline.evaluate.replay.job_columns import (
    BACKFILLED,
    CAPACITY,
    CORRECTION,
    CORRECTIONS,
    FIRST,
    GUARD,
    LEARNS,
    N_JOB_COLUMNS,
    N_OPTIONS,
    POLICY,
    PROMISE,
    START,
)  # fmt: skip
from pipeline.evaluate.replay.options import Policy, ReplayOptions
from pipeline.evaluate.replay.workload import Workload


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
    """With the guard: the first start promised to the job, planned with requests when it became the head; -1: it never
    waited as the head. Without the guard always -1."""


def replay(
    work: Workload, options: ReplayOptions, reservation_s: Array | None = None, order: Array | None = None
) -> Schedule:
    """The schedule of a workload.

    Parameters
    ----------
    work
        The jobs.
    options
        Policy, correction of passed predictions, and guard.
    reservation_s
        (jobs,) in s: the predictions that planned starts and ends are computed from. They are rounded up to whole
        seconds, at least 1 and at most the request; NaN stands for the request. None: the requests.
    order
        (jobs,) under EASY_SJBF: later jobs are tried in ascending order of this, ties in order of submit; any unit,
        NaN last. None: the reservation's predictions.

    Returns
    -------
    Schedule
        Nobody is killed for a passed prediction: each job runs for its `run_s`.
    """
    planned = predictions(work, reservation_s)
    keys = planned.astype(np.float64) if order is None else np.asarray(order, np.float64)
    for name, values in (("reservation_s", planned), ("order", keys)):
        if values.shape != work.submit_s.shape:
            raise ValueError(f"{name} has shape {values.shape}, expected one value for each of {len(work)} jobs")
    if np.any(work.run_s > work.request_s):
        raise ValueError("a job runs longer than its request: make the workload with workload()")
    zero_s = work.submit_s[0] if len(work) else 0
    jobs = np.empty((len(work), N_JOB_COLUMNS), np.int64)
    for column, values in enumerate(
        (work.submit_s - zero_s, work.run_s, work.request_s, work.procs, work.user, planned)
    ):
        jobs[:, column] = values
    numbers = _numbers(options, work.capacity)
    if options.policy is Policy.CONSERVATIVE:
        result, by_end = conservative(jobs, n_users(work), numbers)
    else:
        result, by_end = backfill(jobs, np.nan_to_num(keys, nan=np.inf), n_users(work), numbers)
    start_s = result[:, START] + zero_s
    return Schedule(
        start_s=start_s,
        end_s=start_s + work.run_s,
        by_end=by_end,
        is_backfilled=result[:, BACKFILLED] == 1,
        prediction_s=result[:, FIRST],
        n_corrections=result[:, CORRECTIONS],
        promised_s=np.where(result[:, PROMISE] < 0, -1, result[:, PROMISE] + zero_s),
    )


def predictions(work: Workload, given_s: Array | None) -> Ints:
    """Predictions in whole s, from 1 to the request; NaN and None are the request."""
    if given_s is None:
        return work.request_s
    given = np.asarray(given_s, np.float64)
    known = np.where(np.isnan(given), np.inf, np.ceil(given))
    return np.clip(known, 1, work.request_s).astype(np.int64)


def n_users(work: Workload) -> int:
    """One more than the largest code of a user."""
    return int(work.user.max(initial=-1)) + 1


def _numbers(options: ReplayOptions, capacity: int) -> Ints:
    numbers = np.zeros(N_OPTIONS, np.int64)
    numbers[POLICY], numbers[CORRECTION] = options.policy, options.correction
    numbers[GUARD] = options.guard and options.policy in (Policy.EASY, Policy.EASY_SJBF)
    numbers[LEARNS], numbers[CAPACITY] = options.learns_last_two, capacity
    return numbers
