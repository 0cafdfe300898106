"""`walltime apply` and `watch` on a real OpenPBS: waiting jobs get a soft_walltime, whatever their names are."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.pbs.cluster import Cluster
from tests.pbs.mix import LIMIT, MD, NAMES, held_job, left_alone, soft_s_of, walltime

ACCOUNTS = ('x";qdel', "$(reboot)", "a\nb", "a'b", "ü", "--yes")


@contextmanager
def without_hook(cluster: Cluster) -> Iterator[None]:
    cluster.call("qmgr", "-c", "set hook walltime enabled = false")
    try:
        yield
    finally:
        cluster.call("qmgr", "-c", "set hook walltime enabled = true")


def test_waiting_jobs_get_a_soft_walltime(cluster: Cluster, site: Path, hook: Path) -> None:
    with without_hook(cluster):
        named = [held_job(cluster, *LIMIT, name=name) for name in NAMES]
        named += [held_job(cluster, *LIMIT, "-A", account) for account in ACCOUNTS]
        array = held_job(cluster, "-J", "1-3", *LIMIT)
        alone = left_alone(cluster)
    assert all(named) and array
    assert {soft_s_of(cluster, job_id) for job_id in [*named, array, *alone]} == {None}
    dry = json.loads(walltime(cluster, site, "apply", "site.toml", "--dry-run", "--json"))
    assert {row["job_id"] for row in dry["changes"]} == {*named, array}
    assert {soft_s_of(cluster, job_id) for job_id in named} == {None}
    done = json.loads(walltime(cluster, site, "apply", "site.toml", "--yes", "--json"))
    assert (done["n_changed"], done["n_failed"]) == (len(named) + 1, 0)
    assert {soft_s_of(cluster, job_id) for job_id in [*named, array]} == {MD.runs_s}
    assert {soft_s_of(cluster, job_id) for job_id in alone} == {None}
    cluster.call("qdel", *named, array, *alone)


def test_watch_reads_what_the_accounting_has_new_and_applies_it(cluster: Cluster, site: Path, hook: Path) -> None:
    with without_hook(cluster):
        job_id = held_job(cluster, *LIMIT)
    # The mix has run since `walltime run`, and jobs of the test before left records that a line end cuts in two.
    said = walltime(cluster, site, "apply", "site.toml", "--once", "--yes", "--json")
    (found,) = [json.loads(line) for line in said.splitlines()]
    assert (found["failure"], found["applied"]["n_changed"], found["applied"]["n_failed"]) == ("", 1, 0)
    assert found["n_new"] >= 8
    assert soft_s_of(cluster, job_id) == MD.runs_s
    cluster.call("qdel", job_id)
