"""Figures of a replay with moldable jobs beside the rigid replay of the same jobs."""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.evaluate.replay.metrics import metrics
from pipeline.evaluate.replay.moldable_replay import MoldableSchedule, as_replayed
from pipeline.evaluate.replay.workload import Workload

LEAST_JOBS = 10
"""Users with fewer scored jobs do not count as the worst one: the mean of a few jobs changes by chance."""


@dataclass(frozen=True, slots=True)
class MoldableFigures:
    """Figures over the scored jobs; times in s; turnaround: wait and runtime."""

    n_jobs: int
    turnaround_mean_s: float
    turnaround_median_s: float
    wait_mean_s: float
    wait_median_s: float
    slowdown_mean: float
    makespan_s: float
    """From the first scored submit to the last end."""
    utilisation: float
    proc_hours_held: float
    """Processor-hours that the scored jobs held."""
    share_resized: float
    """Share of the jobs that ran on another count than the preferred one."""
    share_corrected: float
    """Share of the jobs that outlived their planned runtime."""
    worst_user_change: float
    """The largest relative change of a user's mean turnaround from the rigid replay, over users with enough jobs."""
    worst_user_added_s: float
    """The largest growth of a user's mean turnaround, s; not necessarily the same user's."""
    share_users_harmed: float
    """Share of these users whose mean turnaround grew by more than 1%."""


def moldable_figures(work: Workload, done: MoldableSchedule, rigid: MoldableSchedule, scored: Bools) -> MoldableFigures:
    """The figures of the scored jobs of `done`; `rigid` is the schedule of the same jobs on their preferred counts."""
    found = metrics(*as_replayed(work, done), scored)
    turnaround_s = (done.end_s - work.submit_s)[scored].astype(np.float64)
    wait_s = (done.start_s - work.submit_s)[scored].astype(np.float64)
    own_s, own_rigid_s = user_means(
        work.user[scored], turnaround_s, (rigid.end_s - work.submit_s)[scored].astype(np.float64)
    )
    change, added_s = own_s / own_rigid_s - 1.0, own_s - own_rigid_s
    return MoldableFigures(
        n_jobs=found.n_jobs,
        turnaround_mean_s=found.response_mean_s,
        turnaround_median_s=float(np.median(turnaround_s)) if len(turnaround_s) else float("nan"),
        wait_mean_s=found.wait_mean_s,
        wait_median_s=float(np.median(wait_s)) if len(wait_s) else float("nan"),
        slowdown_mean=found.slowdown_mean,
        makespan_s=float(done.end_s[scored].max() - work.submit_s[scored].min()) if len(wait_s) else float("nan"),
        utilisation=found.utilisation,
        proc_hours_held=float((done.procs * done.run_s)[scored].sum() / 3600),
        share_resized=float((done.procs != work.procs)[scored].mean()) if len(wait_s) else float("nan"),
        share_corrected=found.share_corrected,
        worst_user_change=float(change.max()) if len(change) else float("nan"),
        worst_user_added_s=float(added_s.max()) if len(change) else float("nan"),
        share_users_harmed=float((change > 0.01).mean()) if len(change) else float("nan"),
    )


def user_means(user: Ints, *values_s: Floats) -> tuple[Floats, ...]:
    """The means of some values by user, over known users with at least LEAST_JOBS jobs."""
    known = user >= 0
    counts = np.bincount(user[known])
    enough = counts >= LEAST_JOBS
    return tuple(np.bincount(user[known], values[known])[enough] / counts[enough] for values in values_s)
