"""Figures and scores of replays small enough to check by hand."""

import numpy as np
import pytest

from pipeline.schedule.engine import Policy, ReplayOptions, Schedule, replay
from pipeline.schedule.what_if import bounded_slowdown, metrics, scored
from pipeline.schedule.workload import Convention, Workload, workload


def three_jobs() -> tuple[Workload, Schedule]:
    """On 4 processors, under FCFS: 3 of them from 0 to 100, all from 100 to 105, 1 from 105 to 305."""
    sizes = np.array([3, 4, 1])
    work = workload(
        submit_s=np.array([0, 0, 200]) - np.array([0, 0, 100]), runtime_s=np.array([100, 5, 200]),
        requested_s=np.array([100, 5, 300]), requested_procs=sizes, allocated_procs=sizes, user=np.array([0, 1, 0]),
        capacity=4,
    )  # fmt: skip
    return work, replay(work, ReplayOptions(policy=Policy.FCFS))


def test_metrics_by_hand() -> None:
    work, done = three_jobs()
    assert done.start_s.tolist() == [0, 100, 105]
    assert bounded_slowdown(work, done).tolist() == [1.0, 10.5, 205 / 200]
    found = metrics(work, done, np.ones(3, bool))
    assert found["n_jobs"] == 3
    assert found["slowdown_mean"] == pytest.approx((1 + 10.5 + 1.025) / 3)
    assert found["slowdown_median"] == 1.025
    assert (found["wait_mean_s"], found["wait_longest_s"], found["wait_wide_mean_s"]) == (35.0, 100.0, 100.0)
    assert found["wait_p99_s"] == pytest.approx(5 + 0.98 * 95)
    assert found["response_mean_s"] == pytest.approx(35 + 305 / 3)
    # Up to the last submit, at 100, three of four processors are busy.
    assert found["utilisation"] == 0.75
    assert (found["share_backfilled"], found["share_corrected"]) == (0.0, 0.0)


def test_no_scored_job_has_no_figures() -> None:
    work, done = three_jobs()
    nothing = metrics(work, done, np.zeros(3, bool))
    assert nothing["n_jobs"] == 0
    assert all(np.isnan(value) for name, value in nothing.items() if name != "n_jobs")


def test_scores_leave_out_the_warm_up() -> None:
    n = 250
    run_s = np.where(np.arange(n) % 5 == 0, -1, 30)
    sizes = np.ones(n)
    work = workload(
        np.arange(n) * 10, run_s, np.full(n, 60), sizes, sizes, np.zeros(n, int), 100, convention=Convention.PYSS
    )
    done = replay(work, ReplayOptions())
    assert np.flatnonzero(~scored(work, done, Convention.NATURAL)).tolist() == [0, 1]
    chosen = scored(work, done, Convention.PYSS)
    # Every fifth job asks for 1 s on 1 processor and does not count. Jobs 0, 5, 10 ... end at once, before those that
    # run: the first two places in order of end are those of the jobs 0 and 5. The last three end after the last submit.
    late = done.end_s > work.submit_s[-1]
    assert late.sum() > 1
    expected = (np.arange(n) % 5 != 0) & ~late
    expected[done.by_end[: (n - 2) // 100]] = False
    assert chosen.tolist() == expected.tolist()
