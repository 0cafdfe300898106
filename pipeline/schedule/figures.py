"""The jobs of a replay that are scored, and their figures."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pipeline.arrays import Array, Bools, Floats, Ints
from pipeline.schedule.engine import Schedule
from pipeline.schedule.workload import Workload


class Score(StrEnum):
    """Which jobs count."""

    NATURAL = "natural"
    """All but the first 1% of submissions, which meet an empty machine."""
    AVEBSLD = "avebsld"
    """As pyss and predictsim print it: without the first 1% in order of end, the jobs that ask for 1 s on 1 processor,
    and all that end after the last submit."""


def scored(work: Workload, done: Schedule, score: Score) -> Bools:
    """(jobs,): whether each job counts."""
    if score is Score.NATURAL:
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


def bounded_slowdown(work: Workload, done: Schedule, bound_s: float = 10.0) -> Floats:
    """(jobs,): response over runtime, runtimes under `bound_s` counted as that; at least 1."""
    return np.maximum(1.0, (done.end_s - work.submit_s) / np.maximum(work.run_s, bound_s))


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
    """The figures of the chosen jobs: `chosen` is `scored`, which says what the warm-up cut leaves out."""
    places = np.flatnonzero(chosen)
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
        utilisation=utilisation(work, done.start_s, done.end_s, places),
        share_backfilled=float(done.is_backfilled[places].mean()),
        share_corrected=float((done.n_corrections[places] > 0).mean()),
    )


def utilisation(work: Workload, start_s: Array, end_s: Array, places: Ints) -> float:
    """The share of the machine that the jobs at these places hold from the first one's submit to the last one's.

    NaN where the submits are at one second; a job whose start or end is NaN holds nothing.
    """
    begin_s, until_s = int(work.submit_s[places[0]]), int(work.submit_s[places[-1]])
    if until_s <= begin_s:
        return float("nan")
    inside_s = np.clip(end_s[places], begin_s, until_s) - np.clip(start_s[places], begin_s, until_s)
    return float(np.nansum(inside_s * work.procs[places]) / ((until_s - begin_s) * work.capacity))
