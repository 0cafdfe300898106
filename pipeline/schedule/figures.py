"""The jobs of a replay that are scored, and their figures; those of moldable jobs beside a rigid replay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

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


LEAST_JOBS = 10
"""Users with fewer scored jobs do not count as the worst one: the mean of a few jobs changes by chance."""


def moldable_figures(
    work: Workload, ran: Workload, done: Schedule, rigid: Schedule, scored: Bools
) -> dict[str, float | int]:
    """The figures of MOLDABLE over the scored jobs, of which there are some.

    `work` has the preferred counts, `ran` those that the jobs had under `done`; `rigid` is the schedule of the same
    jobs on their preferred counts.
    """
    found = metrics(ran, done, scored)
    turnaround_s, rigid_s = ((one.end_s - work.submit_s)[scored].astype(np.float64) for one in (done, rigid))
    own_s, own_rigid_s = user_means(work.user[scored], turnaround_s, rigid_s)
    change, added_s = own_s / own_rigid_s - 1.0, own_s - own_rigid_s
    return {
        "n_jobs": found.n_jobs,
        "turnaround_mean_s": found.response_mean_s,
        "turnaround_median_s": float(np.median(turnaround_s)),
        "wait_mean_s": found.wait_mean_s,
        "wait_median_s": float(np.median((done.start_s - work.submit_s)[scored])),
        "slowdown_mean": found.slowdown_mean,
        "makespan_s": float(done.end_s[scored].max() - work.submit_s[scored].min()),
        "utilisation": found.utilisation,
        "proc_hours_held": float((ran.procs * ran.run_s)[scored].sum() / 3600),
        "share_resized": float((ran.procs != work.procs)[scored].mean()),
        "share_corrected": found.share_corrected,
        "worst_user_change": float(change.max()) if len(change) else float("nan"),
        "worst_user_added_s": float(added_s.max()) if len(change) else float("nan"),
        "share_users_harmed": float((change > 0.01).mean()) if len(change) else float("nan"),
    }


def user_means(user: Ints, *values_s: Floats) -> tuple[Floats, ...]:
    """The means of some values by user, over known users with at least LEAST_JOBS jobs."""
    known = user >= 0
    counts = np.bincount(user[known])
    enough = counts >= LEAST_JOBS
    return tuple(np.bincount(user[known], values[known])[enough] / counts[enough] for values in values_s)


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The medians over the seeds of every share and chooser, with the changes from the rigid replay of the same seed.

    `gain_of_true` is the gain in mean turnaround over that of the true curves; None where these gain nothing.
    """
    rigid = {row["seed"]: row for row in rows if row["chooser"] == "rigid"}
    keys = list(dict.fromkeys((row["share"], row["chooser"]) for row in rows))
    found = [_summed([row for row in rows if (row["share"], row["chooser"]) == key], rigid) for key in keys]
    best = {row["share"]: row["turnaround_change"] for row in found if row["chooser"] == "true"}
    for row in found:
        gained = best.get(row["share"], 0.0)
        row["gain_of_true"] = row["turnaround_change"] / gained if gained < 0 else None
    return found


_MEDIANS = (
    "n_moldable", "turnaround_mean_s", "turnaround_median_s", "wait_mean_s", "wait_median_s", "slowdown_mean",
    "makespan_s", "utilisation", "proc_hours_held", "share_resized", "share_corrected", "worst_user_change",
    "worst_user_added_s", "share_users_harmed",
)  # fmt: skip
_CHANGES = {"turnaround": "turnaround_mean_s", "turnaround_median": "turnaround_median_s", "wait": "wait_mean_s",
            "makespan": "makespan_s", "proc_hours": "proc_hours_held"}  # fmt: skip


def _change(value: float, before: float) -> float:
    """The relative change; NaN from 0, as of the waits on a machine where nobody waited."""
    return value / before - 1.0 if before else 0.0 if value == before else float("nan")


def _summed(own: Sequence[Mapping[str, Any]], rigid: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    facts = {"share": own[0]["share"], "chooser": own[0]["chooser"], "n_seeds": len(own)}
    medians = {name: float(np.median([row[name] for row in own])) for name in _MEDIANS}
    changes: dict[str, float] = {}
    for name, column in _CHANGES.items():
        ratios = [_change(row[column], rigid[row["seed"]][column]) for row in own]
        low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
        changes |= {f"{name}_change": float(middle)}
        if name == "turnaround":
            changes |= {"turnaround_change_q25": float(low), "turnaround_change_q75": float(high)}
    worst = float(np.max([row["worst_user_change"] for row in own]))
    return facts | medians | changes | {"worst_user_change_any_seed": worst}
