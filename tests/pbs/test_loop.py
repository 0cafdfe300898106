"""The loop on a real OpenPBS: history, accounting files, `walltime run`, export, hook, and a new mix of jobs.

Every application has one runtime, but `sweep` has any. The new mix has generous walltimes: with them nothing can be
backfilled beside the blocking job, with the hook's soft_walltime every small job can.
"""

import logging
import statistics
from dataclasses import replace
from pathlib import Path

from tests.pbs.cluster import STOPPED_AT_LIMIT, Cluster, seconds_of, wait_for
from tests.pbs.mix import LATE_S, MD, SMALL, SWEEP, SWEEP_S, WIDE, Ran, look_up, planned_s

LOG = logging.getLogger(__name__)


def small(mixed: list[Ran]) -> list[Ran]:
    return [one for one in mixed if one.kind in SMALL]


def wide(mixed: list[Ran]) -> Ran:
    return next(one for one in mixed if one.kind is WIDE)


def test_with_requests_nothing_is_backfilled(with_requests: list[Ran]) -> None:
    assert all(one.started_s >= wide(with_requests).started_s for one in small(with_requests))
    assert {one.soft_s for one in with_requests} == {None}


def test_the_hook_sets_the_estimates_as_soft_walltime(hook: Path, with_hook: list[Ran]) -> None:
    content = look_up(hook.parent / "tables")
    for one in with_hook:
        kind = one.kind
        assert one.soft_s == planned_s(content, kind.user, kind.name, kind.walltime_s, kind.procs)
        assert one.soft_s <= kind.runs_s + LATE_S


def test_with_the_hook_small_jobs_start_earlier(with_requests: list[Ran], with_hook: list[Ran]) -> None:
    assert all(one.started_s < wide(with_hook).started_s for one in small(with_hook))
    before, after = (statistics.median(one.waited_s for one in small(of)) for of in (with_requests, with_hook))
    LOG.info("small jobs waited %g s with requests and %g s with the hook (median)", before, after)
    assert after < before / 2


def test_the_widest_job_does_not_wait_longer(with_requests: list[Ran], with_hook: list[Ran]) -> None:
    before, after = (wide(of).waited_s for of in (with_requests, with_hook))
    LOG.info("the widest job waited %g s with requests and %g s with the hook", before, after)
    # Every job runs over its median half of the time, and the end of a job is noticed late.
    assert after <= before + 2 * LATE_S


def test_nobody_is_killed(with_requests: list[Ran], with_hook: list[Ran]) -> None:
    for one in (*with_requests, *with_hook):
        assert one.exit_status == 0
        assert one.kind.runs_s <= one.runs_s


def test_jobs_that_pass_their_soft_walltime_run_on_to_their_ends(cluster: Cluster, hook: Path) -> None:
    jobs = [replace(SWEEP, runs_s=runs_s) for runs_s in SWEEP_S]
    ended = cluster.wait([job.submit(cluster, n) for n, job in enumerate(jobs)], 240)
    runs_s = [int(one["end"]) - int(one["start"]) for one in ended.values()]
    soft_s = [seconds_of(one["Resource_List.soft_walltime"]) for one in ended.values()]
    n_passed = sum(run > soft for run, soft in zip(runs_s, soft_s, strict=True))
    LOG.info("%d of %d jobs ran beyond their soft_walltime, up to %.1f times it", n_passed, len(jobs),
             max(run / soft for run, soft in zip(runs_s, soft_s, strict=True)))  # fmt: skip
    assert {one["Exit_status"] for one in ended.values()} == {"0"}
    assert all(run >= job.runs_s for run, job in zip(runs_s, jobs, strict=True))
    assert n_passed >= len(jobs) / 2


def test_a_job_beyond_its_soft_walltime_is_prolonged_again_and_again(cluster: Cluster, hook: Path) -> None:
    job_id = replace(MD, runs_s=6 * MD.runs_s).submit(cluster, 7)
    planned_s = seconds_of(cluster.job(job_id)["Resource_List"]["soft_walltime"])
    assert planned_s <= MD.runs_s + LATE_S

    def prolonged_s() -> int:
        return seconds_of(cluster.job(job_id).get("estimated", {}).get("soft_walltime", "00:00:00"))

    wait_for("the prolongation", 30, lambda: prolonged_s() > planned_s)
    assert prolonged_s() % planned_s == 0
    record = cluster.wait([job_id], 60)[job_id]
    assert int(record["Exit_status"]) == 0
    assert int(record["end"]) - int(record["start"]) >= 6 * MD.runs_s


def test_a_job_beyond_its_own_walltime_is_still_killed(cluster: Cluster, hook: Path) -> None:
    job_id = replace(MD, walltime_s=20, runs_s=60).submit(cluster, 8)
    record = cluster.wait([job_id], 60)[job_id]
    assert int(record["Exit_status"]) == STOPPED_AT_LIMIT
    assert seconds_of(record["Resource_List.soft_walltime"]) < 20 <= int(record["end"]) - int(record["start"])
