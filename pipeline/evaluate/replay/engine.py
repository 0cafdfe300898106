"""Schedules a workload again under a policy with given predictions."""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Array, Bools, Floats, Ints
from pipeline.evaluate.replay.backfill_kernel import backfill
from pipeline.evaluate.replay.conservative_kernel import conservative
from pipeline.evaluate.replay.job_columns import (
    BACKFILLED,
    CORRECTION,
    CORRECTIONS,
    FIRST,
    FREE,
    GUARD,
    LEARNS,
    N_JOB_COLUMNS,
    N_OPTIONS,
    N_RESULT_COLUMNS,
    N_STATE,
    N_STEPS,
    PLANNED,
    POLICY,
    PROCS,
    PROMISE,
    REQUEST,
    RUN,
    START,
    SUBMIT,
    USER,
)  # fmt: skip
from pipeline.evaluate.replay.options import Policy, ReplayOptions
from pipeline.evaluate.replay.workload import Workload

GUARDED = (Policy.EASY, Policy.EASY_SJBF)
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

    Raises
    ------
    ValueError
        Arrays are of different lengths; the workload is not one that `workload` makes (submits ascend, sizes from 1 to
        the capacity, runtimes from 1 to the request); or its times are too large.
    """
    planned = predictions(work, reservation_s)
    keys = planned.astype(np.float64) if order is None else np.asarray(order, np.float64)
    _check(work, reservation_s=planned, order=keys)
    zero_s = int(work.submit_s[0]) if len(work) else 0
    result, by_end = _run(_jobs(work, planned, zero_s), np.nan_to_num(keys, nan=np.inf), work.capacity, options)
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


def _check(work: Workload, **predicted: Array) -> None:
    """Kernels do not look whether an index is inside an array, so that what they rely on is checked before."""
    for name, values in {"run_s": work.run_s, "request_s": work.request_s, "procs": work.procs, **predicted}.items():
        if values.shape != work.submit_s.shape:
            raise ValueError(f"{name} has shape {values.shape}, expected one value for each of {len(work)} jobs")
    rules = {
        "submit_s must ascend": np.diff(work.submit_s) >= 0,
        "procs must be from 1 to the capacity": (work.procs >= 1) & (work.procs <= work.capacity),
        "run_s must be from 1 to request_s": (work.run_s >= 1) & (work.run_s <= work.request_s),
        # The next end and the job's number share one whole number of 64 bits.
        "times must be smaller": (np.ptp(work.submit_s) + work.request_s.sum(dtype=float)) * len(work) < 2.0**62
        if len(work)
        else True,
    }
    for rule, holds in rules.items():
        if not np.all(holds):
            raise ValueError(f"this workload cannot be replayed: {rule}")


def _jobs(work: Workload, planned: Ints, zero_s: int) -> Ints:
    jobs = np.empty((len(work), N_JOB_COLUMNS), np.int64)
    columns = {SUBMIT: work.submit_s - zero_s, RUN: work.run_s, REQUEST: work.request_s, PROCS: work.procs}
    for column, values in (columns | {USER: work.user, PLANNED: planned}).items():
        jobs[:, column] = values
    return jobs


def _run(jobs: Ints, order: Floats, capacity: int, options: ReplayOptions) -> tuple[Ints, Ints]:
    """The result's columns (jobs, N_RESULT_COLUMNS), and the jobs in order of end."""
    n = len(jobs)
    result = np.full((n, N_RESULT_COLUMNS), -1)
    result[:, [CORRECTIONS, BACKFILLED]] = 0
    # At one second the jobs that end may still be there when as many have started.
    ended, started, heap = _ints(n), _ints(n), _ints(min(n, 2 * capacity) + 1)
    plan, asked = _ints(3, len(heap)), _ints(3, len(heap))
    last_two = np.full((jobs[:, USER].max(initial=-1) + 1, 2), -1)
    state, numbers = np.zeros(N_STATE, np.int64), np.zeros(N_OPTIONS, np.int64)
    state[FREE] = capacity
    numbers[[POLICY, CORRECTION, GUARD, LEARNS]] = (
        options.policy, options.correction, options.guard and options.policy in GUARDED, options.learns_last_two,
    )  # fmt: skip
    if options.policy is Policy.CONSERVATIVE:
        profile = _ints(2, 4 * n + 16)
        profile[:, 0] = 0, capacity
        state[N_STEPS] = 1
        conservative(jobs, result, ended, plan, heap, started, _ints(n), _ints(n), profile, last_two, state, numbers)
    else:
        line = _ints(3, n), np.empty(n)
        backfill(jobs, order, result, ended, plan, asked, heap, started, *line, last_two, state, numbers)
    return result, ended


def _ints(*shape: int) -> Ints:
    return np.empty(shape, np.int64)
