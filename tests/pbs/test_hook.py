"""The hook on a real OpenPBS: what it renews, lowers and leaves alone, and what its faults cost (nothing)."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.application_names import application_of
from tests.pbs.cluster import Cluster, seconds_of, wait_for
from tests.pbs.mix import LIMIT, MD, NAMES, held_job, left_alone, look_up, md_planned_s, planned_s, soft_s_of

ACCOUNTS = ('x";qdel', "$(reboot)", "a\nb", "a'b", "ü", "--yes")


@pytest.fixture(scope="session")
def md_s(hook: Path) -> int:
    """The soft_walltime of bob's jobs."""
    return md_planned_s(look_up(hook.parent / "tables"))


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


def test_everybody_whom_the_estimate_knows_is_planned_with_it(cluster: Cluster, hook: Path) -> None:
    """Known applications, those new to their users, a new user, and whatever they are called."""
    content, asked_s = look_up(hook.parent / "tables"), MD.walltime_s
    asked = [("bob", name, ()) for name in ("md_3", "never_ran", *NAMES)]
    asked += [("carol", "md_3", ()), ("nobody", "never_ran", ()), *(("bob", "md_3", ("-A", one)) for one in ACCOUNTS)]
    ids = [held_job(cluster, *LIMIT, *options, name=name, user=user) for user, name, options in asked]
    assert all(ids)
    wanted_s = [
        planned_s(content, user, application_of(name) or f"job_name {name}", asked_s, 1) for user, name, _ in asked
    ]
    assert [soft_s_of(cluster, job_id) for job_id in ids] == wanted_s
    assert max(wanted_s) < asked_s
    cluster.call("qdel", *ids)


def test_a_job_that_waited_is_renewed_at_its_start(cluster: Cluster, hook: Path, held: str, md_s: int) -> None:
    before = soft_s_of(cluster, held)
    lookup = cluster.home / "server_priv" / "walltime.lookup"
    published = lookup.read_bytes()
    # A look-up that was exported after the submit, with other runtimes.
    newer = look_up(hook.parent / "tables", int(time.time()) + 60, times=3.0)
    try:
        lookup.write_bytes(newer)
        cluster.call("qrls", held, user="bob")
        record = cluster.wait([held], 60)[held]
    finally:
        lookup.write_bytes(published)
    assert (before, seconds_of(record["Resource_List.soft_walltime"])) == (md_s, md_planned_s(newer))
    assert md_planned_s(newer) > md_s


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


BROKEN: Mapping[str, Callable[[bytes, Path], bytes | None]] = {
    "missing": lambda *_: None,
    "half-written": lambda whole, _: whole[: len(whole) // 2],
    "damaged digits": lambda whole, _: re.sub(rb"(?m)\t\d(\d*)$", rb"\t0\1", whole),
    "huge": lambda whole, _: whole + b"x" * 300_000_000,
    "stale": lambda _, tables: look_up(tables, int(time.time()) - 30 * 86_400),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_look_up_that_is_not_whole_and_new_sets_nothing(cluster: Cluster, hook: Path, how: str, md_s: int) -> None:
    lookup = cluster.home / "server_priv" / "walltime.lookup"
    whole = lookup.read_bytes()
    broken = BROKEN[how](whole, hook.parent / "tables")
    assert broken != whole
    try:
        lookup.unlink()
        if broken is not None:
            lookup.write_bytes(broken)
        left = MD.submit(cluster, 3, "-h")
    finally:
        lookup.write_bytes(whole)
    found = MD.submit(cluster, 3, "-h")
    assert (soft_s_of(cluster, left), soft_s_of(cluster, found)) == (None, md_s)
    cluster.call("qdel", left, found)


def test_under_a_dry_run_nothing_is_set_and_the_log_says_what_would_be(cluster: Cluster, hook: Path, md_s: int) -> None:
    config = hook / "walltime_hook.json"
    trial = hook / "trial.json"
    trial.write_text(json.dumps(json.loads(config.read_text("utf-8")) | {"mode": "dry_run"}), "utf-8")
    said = f"walltime: nothing is set (mode dry_run), else soft_walltime {md_s} of 900 s"
    n_lines = len(cluster.log_lines(said))
    try:
        cluster.call("qmgr", "-c", f"import hook walltime application/x-config default {trial}")
        job_id = MD.submit(cluster, 3, "-h")
    finally:
        cluster.call("qmgr", "-c", f"import hook walltime application/x-config default {config}")
    assert soft_s_of(cluster, job_id) is None
    assert len(cluster.log_lines(said)) == n_lines + 1
    cluster.call("qdel", job_id)


def test_other_ways_to_ask_are_looked_up_or_left_alone(cluster: Cluster, hook: Path, md_s: int) -> None:
    ways = {
        "nodes": ("-l", "nodes=1:ppn=4", "-l", f"walltime={MD.walltime_s}"),
        "arrays": ("-J", "1-3", "-l", "ncpus=4", "-l", f"walltime={MD.walltime_s}"),
    }
    ids = {way: held_job(cluster, *options) for way, options in ways.items()}
    assert {way: soft_s_of(cluster, job_id) for way, job_id in ids.items()} == dict.fromkeys(ways, md_s)
    alone = left_alone(cluster)
    assert {soft_s_of(cluster, job_id) for job_id in alone} == {None}
    cluster.call("qdel", *ids.values(), *alone)


def test_a_killed_server_loses_neither_jobs_nor_hook(cluster: Cluster, hook: Path, held: str, md_s: int) -> None:
    running = replace(MD, runs_s=8).submit(cluster, 6)
    wait_for("the start", 20, lambda: cluster.job(running)["job_state"] == "R")
    cluster.kill_server()
    assert not cluster.up()
    assert soft_s_of(cluster, held) == soft_s_of(cluster, running) == md_s
    later = MD.submit(cluster, 6)
    ended = cluster.wait([running, later], 60)
    assert {record["Exit_status"] for record in ended.values()} == {"0"}
    assert seconds_of(ended[later]["Resource_List.soft_walltime"]) == md_s
