"""The hook on a real OpenPBS: what it renews, lowers and leaves alone, and what its faults cost (nothing)."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pbs.cluster import Cluster, seconds_of, wait_for
from tests.pbs.mix import MD, held_job, look_up, soft_s_of


@pytest.fixture
def held(cluster: Cluster, hook: Path) -> Iterator[str]:
    """A job of bob that is held back, with a soft_walltime; deleted after."""
    job_id = MD.submit(cluster, 9, "-h")
    yield job_id
    cluster.tried("qdel", "-W", "force", job_id)


def test_a_user_can_lower_the_walltime_below_the_prediction(cluster: Cluster, held: str) -> None:
    cluster.call("qmgr", "-c", "set hook walltime event -= modifyjob")
    assert "Illegal attribute" in cluster.tried("qalter", "-l", "walltime=1", held, user="bob").stderr
    cluster.call("qmgr", "-c", "set hook walltime event += modifyjob")
    cluster.call("qalter", "-l", "walltime=1", held, user="bob")
    assert soft_s_of(cluster, held) == 1
    cluster.call("qalter", "-l", "walltime=90", held, user="bob")
    assert soft_s_of(cluster, held) == 1


def test_a_job_that_waited_is_renewed_at_its_start(cluster: Cluster, hook: Path, held: str) -> None:
    before = soft_s_of(cluster, held)
    lookup = cluster.home / "server_priv" / "walltime.lookup"
    published = lookup.read_bytes()
    try:
        # A look-up that was exported after the submit, with other runtimes.
        lookup.write_bytes(look_up(hook.parent / "tables", int(time.time()) + 60, md_s=9.0))
        cluster.call("qrls", held, user="bob")
        record = cluster.wait([held], 60)[held]
    finally:
        lookup.write_bytes(published)
    assert (before, seconds_of(record["Resource_List.soft_walltime"])) == (3, 9)


def test_whatever_fails_costs_nobody_a_job(cluster: Cluster, hook: Path) -> None:
    lookup = cluster.home / "server_priv" / "walltime.lookup"
    published = lookup.read_bytes()
    n_lines = len(cluster.log_lines("walltime: a job is left"))
    try:
        lookup.write_bytes(published[:-1])
        job_id = MD.submit(cluster, 1, "-h")
    finally:
        lookup.write_bytes(published)
    assert soft_s_of(cluster, job_id) is None
    assert len(cluster.log_lines("walltime: a job is left")) == n_lines + 1
    cluster.call("qdel", job_id)


def test_other_ways_to_ask_are_looked_up_or_left_alone(cluster: Cluster, hook: Path) -> None:
    ways = {
        "nodes": ("-l", "nodes=1:ppn=4", "-l", f"walltime={MD.walltime_s}"),
        "arrays": ("-J", "1-3", "-l", "ncpus=4", "-l", f"walltime={MD.walltime_s}"),
        "none": ("-l", "ncpus=4"),
        "range": ("-l", "min_walltime=10", "-l", "max_walltime=900"),
    }
    ids = {way: held_job(cluster, *options) for way, options in ways.items()}
    assert {way: soft_s_of(cluster, job_id) for way, job_id in ids.items()} == {
        "nodes": 3, "arrays": 3, "none": None, "range": None,
    }  # fmt: skip
    ids["opted out"] = replace(MD, user="erin").submit(cluster, 4, "-h")
    assert soft_s_of(cluster, ids["opted out"]) is None
    cluster.call("qdel", *ids.values())


def test_a_killed_server_loses_neither_jobs_nor_hook(cluster: Cluster, hook: Path, held: str) -> None:
    running = replace(MD, runs_s=8).submit(cluster, 6)
    wait_for("the start", 20, lambda: cluster.job(running)["job_state"] == "R")
    cluster.kill_server()
    assert not cluster.up()
    assert soft_s_of(cluster, held) == soft_s_of(cluster, running) == 3
    later = MD.submit(cluster, 6)
    ended = cluster.wait([running, later], 60)
    assert {record["Exit_status"] for record in ended.values()} == {"0"}
    assert seconds_of(ended[later]["Resource_List.soft_walltime"]) == 3
