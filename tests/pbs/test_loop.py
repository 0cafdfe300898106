"""The loop on a real OpenPBS: history, accounting files, `walltime run`, export, hook, and a new mix of jobs.

Every user has one law. The new mix has generous walltimes: with them nothing can be backfilled beside the blocking job,
with the hook's soft_walltime every small job can.
"""

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.pbs.cluster import STOPPED_AT_LIMIT, Cluster, seconds_of, wait_for

CHECKOUT = Path(__file__).resolve().parents[2]
LATE_S = 4
"""OpenPBS notices the end of a job this much later, and longer on a busy machine."""


@dataclass(frozen=True)
class Kind:
    """Jobs of one user: name, chunks, walltime and real runtime (s), and how many there are in the history."""

    user: str
    name: str
    select: str
    walltime_s: int
    runs_s: float
    n_history: int

    def submit(self, cluster: Cluster, number: int, *options: str) -> str:
        return cluster.submit(self.user, f"{self.name}_{number}", self.select, self.walltime_s, self.runs_s, *options)


BLOCKER = Kind("dave", "fft", "2:ncpus=8", 600, 25, 8)
WIDE = Kind("alice", "relax", "4:ncpus=8", 600, 6, 8)
MD = Kind("bob", "md", "1:ncpus=4", 900, 3, 16)
SMALL = (MD, Kind("carol", "post", "1:ncpus=2", 900, 2, 16))
KINDS = (BLOCKER, WIDE, *SMALL)


@dataclass(frozen=True)
class Ran:
    """A job of the mix: what it waited and ran, when it started, its end and its soft_walltime; times in s."""

    kind: Kind
    started_s: int
    waited_s: int
    runs_s: int
    exit_status: int
    soft_s: int | None


def walltime(folder: Path, *words: str) -> str:
    """What a command of Walltime prints; it has to succeed."""
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-m", "flows.cli", *words]
    done = subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


@pytest.fixture(scope="module")
def history(cluster: Cluster) -> dict[str, Kind]:
    """Ids of ended jobs with their kinds, run on a machine wide enough for most of them at once."""
    assert not cluster.up(PBS_CPUS="64")
    ids = {kind.submit(cluster, n): kind for kind in KINDS for n in range(kind.n_history)}
    cluster.wait(list(ids), 240)
    assert not cluster.up(PBS_CPUS="8")
    return ids


@pytest.fixture(scope="module")
def site(cluster: Cluster, history: dict[str, Kind], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a config, and the tables that the nightly flow published from the accounting files."""
    folder = tmp_path_factory.mktemp("site")
    lines = [
        f'logs = ["{cluster.accounting}"]', 'output_dir = "tables"', "[site]", 'name = "loop"', 'timezone = "UTC"',
        "[export]", 'opt_out_users = ["erin"]', "soft_renew_after_s = 0",
    ]  # fmt: skip
    (folder / "site.toml").write_text("\n".join(lines), "utf-8")
    walltime(folder, "run", "site.toml")
    return folder


@pytest.fixture(scope="module")
def with_requests(cluster: Cluster, site: Path) -> list[Ran]:
    """The mix, planned with the users' walltimes."""
    return mix(cluster)


@pytest.fixture(scope="module")
def hook(cluster: Cluster, site: Path, with_requests: list[Ran]) -> Path:
    """The exported files, installed by the commands that stand in them."""
    exported = site / "exported"
    walltime(site, "export", "exported", "--for", "pbs", "--from", "tables")
    commands = (exported / "INSTALL.txt").read_text("utf-8").partition("Every night")[0]
    cluster.call("bash", "-ec", "\n".join(re.findall("^    (.*)$", commands, re.MULTILINE)), folder=exported)
    return exported


@pytest.fixture(scope="module")
def with_hook(cluster: Cluster, hook: Path) -> list[Ran]:
    """The same mix, planned with soft_walltime."""
    return mix(cluster)


def mix(cluster: Cluster) -> list[Ran]:
    """A job that takes half of the machine, one that needs all of it, and small ones of two users."""
    kinds = [BLOCKER, WIDE, *SMALL * 3]
    ids = [kind.submit(cluster, 100 + n) for n, kind in enumerate(kinds)]
    ended = cluster.wait(ids, 180)
    return [ran_of(kind, ended[job_id]) for kind, job_id in zip(kinds, ids, strict=True)]


def ran_of(kind: Kind, record: dict[str, str]) -> Ran:
    submit_s, start_s, end_s = (int(record[name]) for name in ("ctime", "start", "end"))
    soft = record.get("Resource_List.soft_walltime")
    return Ran(
        kind, start_s, start_s - submit_s, end_s - start_s, int(record["Exit_status"]), soft and seconds_of(soft)
    )


def small(mixed: list[Ran]) -> list[Ran]:
    return [one for one in mixed if one.kind in SMALL]


def wide(mixed: list[Ran]) -> Ran:
    return next(one for one in mixed if one.kind is WIDE)


def test_with_requests_nothing_is_backfilled(with_requests: list[Ran]) -> None:
    assert all(one.started_s >= wide(with_requests).started_s for one in small(with_requests))
    assert {one.soft_s for one in with_requests} == {None}


def test_the_hook_sets_the_laws_as_soft_walltime(with_hook: list[Ran]) -> None:
    for one in with_hook:
        assert one.soft_s is not None
        assert one.kind.runs_s <= one.soft_s <= one.kind.runs_s + LATE_S


def test_with_the_hook_small_jobs_start_earlier(with_requests: list[Ran], with_hook: list[Ran]) -> None:
    assert all(one.started_s < wide(with_hook).started_s for one in small(with_hook))
    before, after = (statistics.median(one.waited_s for one in small(of)) for of in (with_requests, with_hook))
    assert after < before / 2, (before, after)


def test_the_widest_job_does_not_wait_longer(with_requests: list[Ran], with_hook: list[Ran]) -> None:
    # Every job runs over its median half of the time, and the end of a job is noticed late.
    assert wide(with_hook).waited_s <= wide(with_requests).waited_s + 2 * LATE_S


def test_nobody_is_killed(with_requests: list[Ran], with_hook: list[Ran]) -> None:
    for one in (*with_requests, *with_hook):
        assert one.exit_status == 0
        assert one.kind.runs_s <= one.runs_s


def test_a_job_beyond_its_prediction_is_prolonged_and_not_killed(cluster: Cluster, hook: Path) -> None:
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
    job_id = replace(MD, walltime_s=5, runs_s=60).submit(cluster, 8)
    record = cluster.wait([job_id], 60)[job_id]
    assert int(record["Exit_status"]) == STOPPED_AT_LIMIT
    assert seconds_of(record["Resource_List.soft_walltime"]) <= 5


@pytest.fixture
def held(cluster: Cluster, hook: Path) -> Iterator[str]:
    """A job of bob that is held back, with a soft_walltime; deleted after."""
    job_id = MD.submit(cluster, 9, "-h")
    yield job_id
    cluster.tried("qdel", "-W", "force", job_id)


def soft_s_of(cluster: Cluster, job_id: str) -> int | None:
    soft = cluster.job(job_id)["Resource_List"].get("soft_walltime")
    return soft and seconds_of(soft)


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
    stamp = re.search(rb"newest_end_s=(\d+)", published)
    assert stamp is not None
    try:
        # As a look-up would read that was exported after the submit, with other runtimes.
        later = published.replace(stamp[0], b"newest_end_s=%d" % (time.time() + 60))
        lookup.write_bytes(re.sub(rb"(\|900\|4\t\d+\t)([\d.]+)\t3\t", rb"\1\2\t9\t", later))
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
    ids = {
        way: cluster.call("qsub", "-h", "-N", "md_3", *options, "--", "/bin/true", user="bob")
        for way, options in ways.items()
    }
    assert {way: soft_s_of(cluster, job_id) for way, job_id in ids.items()} == {
        "nodes": 3, "arrays": 3, "none": None, "range": None,
    }  # fmt: skip
    ids["opted out"] = replace(MD, user="erin").submit(cluster, 4, "-h")
    assert soft_s_of(cluster, ids["opted out"]) is None
    cluster.call("qdel", *ids.values())
