"""Figures of a replay, over the scored jobs, by size class and by user."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.core.arrays import Bools, Ints
from pipeline.evaluate.figures import size_classes, size_name
from pipeline.evaluate.replay.engine import Schedule
from pipeline.evaluate.replay.scores import bounded_slowdown
from pipeline.evaluate.replay.workload import Workload

WIDE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class ReplayMetrics:
    """Figures of some jobs of a replay; times in s; NaN where there is no job."""

    n_jobs: int
    slowdown_mean: float
    """Bounded slowdown: response over runtime, runtimes under 10 s counted as 10 s, at least 1."""
    slowdown_median: float
    wait_mean_s: float
    wait_p99_s: float
    """99% quantile, interpolated linearly."""
    wait_longest_s: float
    wait_wide_mean_s: float
    """Mean wait of the tenth of the jobs with the most processors, and of all others of that size."""
    response_mean_s: float
    """Wait and runtime."""
    utilisation: float
    """Processor-seconds that these jobs held from the first scored submit to the last, over those the machine has."""
    share_backfilled: float
    """Share of the jobs that started while one submitted before was waiting."""
    share_corrected: float
    """Share of the jobs that outlived a prediction."""


def metrics(work: Workload, done: Schedule, chosen: Bools) -> ReplayMetrics:
    """The figures of the chosen jobs: `chosen` is `scores.scored`, which says what the warm-up cut leaves out."""
    return _metrics(work, done, np.flatnonzero(chosen), _window(work, chosen))


def metrics_by_size(work: Workload, done: Schedule, chosen: Bools) -> dict[str, ReplayMetrics]:
    """The figures per class of processors (1, 2, 3-4, 5-8 ...), in ascending order."""
    return _by(size_classes(work.procs.astype(np.float64)), size_name, work, done, chosen)


def metrics_by_user(work: Workload, done: Schedule, chosen: Bools) -> dict[int, ReplayMetrics]:
    """The figures per user code, in ascending order; -1: jobs of unknown users."""
    return _by(work.user, int, work, done, chosen)


def _by(
    codes: Ints, name: Callable[[int], Any], work: Workload, done: Schedule, chosen: Bools
) -> dict[Any, ReplayMetrics]:
    places, window = np.flatnonzero(chosen), _window(work, chosen)
    order = places[np.argsort(codes[places], kind="stable")]
    parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else []
    return {name(int(codes[own[0]])): _metrics(work, done, own, window) for own in parts}


def _window(work: Workload, chosen: Bools) -> tuple[int, int]:
    submit_s = work.submit_s[chosen]
    return (int(submit_s[0]), int(submit_s[-1])) if len(submit_s) else (0, 0)


def _metrics(work: Workload, done: Schedule, places: Ints, window: tuple[int, int]) -> ReplayMetrics:
    if not len(places):
        return ReplayMetrics(0, *[float("nan")] * 10)
    wait_s = (done.start_s - work.submit_s)[places].astype(np.float64)
    slowdown = bounded_slowdown(work, done)[places]
    procs = work.procs[places]
    wide = procs >= np.sort(procs)[-max(1, round(WIDE_SHARE * len(procs)))]
    return ReplayMetrics(
        n_jobs=len(places),
        slowdown_mean=float(slowdown.mean()),
        slowdown_median=float(np.median(slowdown)),
        wait_mean_s=float(wait_s.mean()),
        wait_p99_s=float(np.quantile(wait_s, 0.99)),
        wait_longest_s=float(wait_s.max()),
        wait_wide_mean_s=float(wait_s[wide].mean()),
        response_mean_s=float(wait_s.mean() + work.run_s[places].mean()),
        utilisation=_utilisation(work, done, places, window),
        share_backfilled=float(done.is_backfilled[places].mean()),
        share_corrected=float((done.n_corrections[places] > 0).mean()),
    )


def _utilisation(work: Workload, done: Schedule, places: Ints, window: tuple[int, int]) -> float:
    begin_s, end_s = window
    if end_s <= begin_s:
        return float("nan")
    inside_s: Ints = np.clip(done.end_s[places], begin_s, end_s) - np.clip(done.start_s[places], begin_s, end_s)
    return float((inside_s * work.procs[places]).sum() / ((end_s - begin_s) * work.capacity))
