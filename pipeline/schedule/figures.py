"""The jobs of a replay that are scored, and their figures."""

import numpy as np

from pipeline.arrays import Array, Bools, Floats, Ints
from pipeline.schedule.engine import Schedule
from pipeline.schedule.workload import Convention, Workload


def scored(work: Workload, done: Schedule, convention: Convention) -> Bools:
    """(jobs,): whether each job counts.

    NATURAL: all but the first 1% of submissions, which meet an empty machine. PYSS, as pyss and predictsim print their
    score: without the first 1% in order of end, the jobs that ask for 1 s on 1 processor, and all that end after the
    last submit.
    """
    if convention is Convention.NATURAL:
        return np.arange(len(work)) >= len(work) // 100
    # The 1% is of the jobs without the tiny ones met so far: so pyss counts them.
    by_end = done.by_end
    is_tiny = (work.request_s[by_end] == 1) & (work.procs[by_end] == 1)
    size = len(work) - np.cumsum(is_tiny)
    is_warm = (size < 100) | (np.arange(1, len(work) + 1) > size // 100)
    in_time = done.end_s[by_end] <= work.submit_s.max(initial=0)
    chosen = np.zeros(len(work), bool)
    chosen[by_end] = ~is_tiny & is_warm & in_time
    return chosen


def bounded_slowdown(work: Workload, done: Schedule) -> Floats:
    """(jobs,): response over runtime, runtimes under 10 s counted as that; at least 1."""
    return np.maximum(1.0, (done.end_s - work.submit_s) / np.maximum(work.run_s, 10.0))


WIDE_SHARE = 0.1

OF_GROUP = ("slowdown_mean", "wait_mean_s", "wait_longest_s")
"""The figures of a size class or of a user, columns of REPLAY."""

OF_ALL = (
    *OF_GROUP, "slowdown_median", "wait_p99_s", "wait_wide_mean_s", "response_mean_s", "utilisation",
    "share_backfilled", "share_corrected",
)  # fmt: skip
"""The figures of all scored jobs, columns of REPLAY."""


def metrics(work: Workload, done: Schedule, chosen: Bools) -> dict[str, float]:
    """The figures OF_ALL of the chosen jobs, and their number n_jobs; NaN where there is no job.

    `chosen` is `scored`, which says what the warm-up cut leaves out. The 99% quantile is interpolated linearly. Wide
    are the tenth of the jobs with the most processors, and all others of that size.
    """
    places = np.flatnonzero(chosen)
    if not len(places):
        return dict.fromkeys(OF_ALL, float("nan")) | {"n_jobs": 0}
    wait_s = (done.start_s - work.submit_s)[places].astype(np.float64)
    slowdown = bounded_slowdown(work, done)[places]
    procs = work.procs[places]
    is_wide = procs >= np.sort(procs)[-max(1, round(WIDE_SHARE * len(procs)))]
    values = (
        slowdown.mean(), wait_s.mean(), wait_s.max(), np.median(slowdown), np.quantile(wait_s, 0.99),
        wait_s[is_wide].mean(), wait_s.mean() + work.run_s[places].mean(),
        utilisation(work, done.start_s, done.end_s, places), done.is_backfilled[places].mean(),
        (done.n_longer[places] > 0).mean(),
    )  # fmt: skip
    return dict(zip(OF_ALL, map(float, values), strict=True)) | {"n_jobs": len(places)}


def group_metrics(work: Workload, done: Schedule, chosen: Bools, code: Ints, n: int) -> Floats:
    """(n groups, OF_GROUP + 1): the figures of the chosen jobs of each group, and their number; NaN where none is.

    `code` is the group of each chosen job.
    """
    wait_s = (done.start_s - work.submit_s)[chosen].astype(np.float64)
    n_jobs, longest_s = np.bincount(code, minlength=n), np.full(n, np.nan)
    np.fmax.at(longest_s, code, wait_s)
    slowdown, waited_s = (np.bincount(code, one, n) for one in (bounded_slowdown(work, done)[chosen], wait_s))
    with np.errstate(invalid="ignore"):
        return np.column_stack([slowdown / n_jobs, waited_s / n_jobs, longest_s, n_jobs])


def utilisation(work: Workload, start_s: Array, end_s: Array, places: Ints) -> float:
    """The share of the machine that the jobs at these places hold from the first one's submit to the last one's.

    NaN where the submits are at one second; a job whose start or end is NaN holds nothing.
    """
    begin_s, until_s = int(work.submit_s[places[0]]), int(work.submit_s[places[-1]])
    if until_s <= begin_s:
        return float("nan")
    inside_s = np.clip(end_s[places], begin_s, until_s) - np.clip(start_s[places], begin_s, until_s)
    return float(np.nansum(inside_s * work.procs[places]) / ((until_s - begin_s) * work.capacity))
