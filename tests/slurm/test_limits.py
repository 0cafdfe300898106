"""Limits on a real Slurm: whose jobs are limited, whose are not, and what five jobs killed at their limits do."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from flows.services.schedulers import SLURM
from pipeline.export.published_tables import PublishedTables
from pipeline.export.scheduler_files import INSTALL_FILE, LOOKUP_FILE, PLUGIN_FILE, slurm_files
from pipeline.settings import ExportSettings, OptOut
from tests.slurm.commands import call, submit, wait_for
from tests.slurm.conftest import SHAPE, first_port, running, started
from tests.unit.export.slurm_plugin import limited, limits_of, table_of

KIND = "who+what+gpus"
LIMITS = (
    limited("alice", 720.0, template=KIND, what="relax", gpus=0, most_jobs=1000),
    limited("alice", 60.0, template=KIND, what="overrun", gpus=0, most_jobs=1000),
)
RELAX = ("-Jrelax_1.sh", "-t60", "-H")


@dataclass(frozen=True)
class Cluster:
    """A Slurm with the plug-in, and its look-up."""

    environment: Mapping[str, str]
    lookup: Path

    def minutes(self, job_id: str) -> list[str]:
        """The limit of each part of a job; squeue's JSON of 22.05 has all jobs whatever is asked for."""
        jobs = json.loads(call(self.environment, "squeue", "--json"))["jobs"]
        return [str(job["time_limit"]) for job in jobs if job_id in (str(job["job_id"]), str(job["het_job_id"]))]

    def submitted(self, *options: str, user: str = "alice") -> list[str]:
        """The limits of a held job."""
        return self.minutes(submit(self.environment, *options, user=user))


def exported(newest_end_s: int) -> Mapping[str, bytes]:
    rows = [row | {"newest_end_s": newest_end_s} for row in LIMITS]
    estimates = table_of({"template": "who", "chain_rank": 6, "who": "alice", "newest_end_s": newest_end_s})
    tables = PublishedTables(estimates, limits_of(*rows), {}, has_hashed_names=False, has_own_name_rules=False)
    return slurm_files(tables, ExportSettings(mode="limit", opt_out=OptOut()))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    port = first_port() + 80
    with running(SHAPE, port) as environment:
        work, files = Path(environment["SLURM_WORK"]), exported(int(time.time()))
        plugin = tmp_path_factory.mktemp("plugin") / PLUGIN_FILE
        plugin.write_bytes(files[PLUGIN_FILE])
        lookup = work / "etc" / LOOKUP_FILE
        lookup.write_bytes(files[LOOKUP_FILE])
        assert not started(work, {"SLURM_LUA": str(plugin)}, port)
        call(environment, "sacctmgr", "-i", "add", "qos", "short", "MaxWall=15", "Flags=DenyOnLimit")
        call(environment, "sacctmgr", "-i", "modify", "user", "alice", "set", "qos+=short")
        yield Cluster(environment, lookup)


def test_a_job_like_its_user_s_own_is_limited_and_the_user_is_told(cluster: Cluster) -> None:
    command = ["runuser", "-u", "alice", "--", "sbatch", "--parsable", "-o", "/dev/null", *RELAX, "--wrap=true"]
    done = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, cwd="/", check=True)
    assert cluster.minutes(done.stdout.strip()) == ["12"]
    assert "time limit lowered from 60 to 12 min" in done.stderr and "--comment=walltime:off" in done.stderr
    assert cluster.submitted("-a1-3", *RELAX) == ["12"]
    # The look-up allows 1000 limited jobs, and each task of an array is one.
    assert cluster.submitted("-a0-999%5", *RELAX) == ["60"]
    # The second part of a het job has a name of its own, of which no job has run.
    assert cluster.submitted(*RELAX, "-n2", ":", "-n1", "-t60") == ["12", "60"]


@pytest.mark.parametrize(
    ("options", "user", "limit"),
    [
        (("-t1-00:00:00", "-Jrelax_1.sh"), "bob", "1440"),
        (("-t20:00:00", "-Jnever_ran"), "alice", "1200"),
        (("-t10:00:00", "-Jnever_ran"), "alice", "600"),
        (("-t60", "-Jrelax_1.sh", "--comment=walltime:off"), "alice", "60"),
        (("-t60", "-Jrelax_1.sh", "--time-min=30"), "alice", "60"),
        (("-t60", "-Jrelax_1.sh", "--gpus=1"), "alice", "60"),
    ],
)  # fmt: skip
def test_a_request_that_is_not_for_us_stands(cluster: Cluster, options: tuple[str, ...], user: str, limit: str) -> None:
    """The three jobs that were once cut by other people's or other applications' jobs, two opt-outs, and a GPU."""
    assert cluster.submitted(*options, "-H", user=user) == [limit]


def test_a_qos_s_maximum_is_not_passed_by_a_limit_of_ours(cluster: Cluster) -> None:
    """Without a request the job gets the partition's default, which the QOS allows, as without the plug-in."""
    assert cluster.submitted("-Jrelax_1.sh", "-H", "--qos=short") == ["10"]
    assert cluster.submitted("-Jrelax_1.sh", "-t15", "-H", "--qos=short") == ["12"]


def test_an_interactive_job_is_left_alone(cluster: Cluster) -> None:
    call(cluster.environment, "salloc", "--no-shell", "-t60", "-Jrelax_1.sh", "-n1", user="alice")
    job_id = call(cluster.environment, "squeue", "-h", "-u", "alice", "-t", "R", "-o", "%A")
    assert cluster.minutes(job_id) == ["60"]
    call(cluster.environment, "scancel", job_id)


def test_a_requeued_job_is_left_alone_by_apply(cluster: Cluster) -> None:
    job_id = submit(cluster.environment, "-Jrelax_1.sh", "-t60", "--comment=walltime:off", script="sleep 300")
    wait_for("a start", 60, lambda: call(cluster.environment, "squeue", "-h", "-j", job_id, "-o", "%T") == "RUNNING")
    call(cluster.environment, "scontrol", "requeuehold", job_id)
    wait_for("the queue", 60, lambda: job_id in {job.job_id for job in SLURM.pending(cluster.environment)})
    call(cluster.environment, "scontrol", "update", f"JobId={job_id}", "Comment=")
    (job,) = [job for job in SLURM.pending(cluster.environment) if job.job_id == job_id]
    assert job.fault == "it was requeued"
    call(cluster.environment, "scancel", job_id)


BROKEN: Mapping[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda _: None,
    "half-written": lambda whole: whole[: len(whole) // 2],
    "damaged digits": lambda whole: whole.replace(b"\t720\t", b"\t120\t"),
    "huge": lambda whole: whole + b"x" * 300_000_000,
    "stale": lambda _: exported(int(time.time()) - 30 * 86_400)[LOOKUP_FILE],
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_look_up_that_is_not_whole_and_new_limits_nothing(cluster: Cluster, how: str) -> None:
    whole = cluster.lookup.read_bytes()
    draft, broken = cluster.lookup.with_suffix(".draft"), BROKEN[how](whole)
    try:
        if broken is None:
            cluster.lookup.unlink()
        else:
            draft.write_bytes(broken)
            draft.replace(cluster.lookup)
        assert cluster.submitted(*RELAX) == ["60"]
    finally:
        draft.write_bytes(whole)
        draft.replace(cluster.lookup)
    assert cluster.submitted(*RELAX) == ["12"]


def test_five_jobs_killed_at_their_limits_switch_limiting_off_for_their_user(cluster: Cluster, tmp_path: Path) -> None:
    environment = cluster.environment
    ids = [submit(environment, "-Joverrun_7", "-t60", script="sleep 400") for _ in range(5)]
    done = ["sacct", "-a", "-X", "-n", "-P", "-j", ",".join(ids), "--format=State"]
    wait_for("five TIMEOUTs", 240, lambda: call(environment, *done).split() == ["TIMEOUT"] * 5)
    config = tmp_path / "site.toml"
    config.write_text(
        f'output_dir = "{tmp_path}/out"\n[site]\nname = "here"\n[source]\nkind = "sacct"\nsince = "2020-01-01"\n'
    )
    for arguments in (("run", config, "--plain", "--quiet"), ("limits", config, "--status", "--json")):
        command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
        said = subprocess.run(command, env=os.environ | dict(environment), capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)
    # They are also too many for the site's week.
    assert {one["user"] for one in found["off"]} == {"alice", None}
    (own,) = [row for row in found["weeks"] if row["user"] == "alice"]
    assert own["n_beyond"] == own["n_limited"] == 5


def test_a_job_that_its_node_s_failure_requeued_keeps_its_limit_and_is_left_alone(cluster: Cluster) -> None:
    environment = cluster.environment
    job_id = submit(environment, "-Jrelax_1.sh", "-t60", "--requeue", script="sleep 300")
    state = ("squeue", "-h", "-j", job_id, "-o", "%T %N")
    wait_for("a start", 60, lambda: call(environment, *state).startswith("RUNNING"))
    node = call(environment, *state).split()[1]
    call(environment, "scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    try:
        wait_for("the queue", 60, lambda: call(environment, *state).startswith("PENDING"))
        (job,) = [job for job in SLURM.pending(environment) if job.job_id == job_id]
    finally:
        # A node that has registered again is back already.
        if "down" in call(environment, "sinfo", "-h", "-n", node, "-o", "%T"):
            call(environment, "scontrol", "update", f"NodeName={node}", "State=RESUME")
    assert (job.fault, cluster.minutes(job_id)) == ("it was requeued", ["12"])
    call(environment, "scancel", job_id)


def test_it_is_switched_off_and_removed_as_the_instructions_say(cluster: Cluster) -> None:
    """The last test: the plug-in is gone after it."""
    folder = cluster.lookup.parent
    conf = folder / "slurm.conf"
    lines = exported(0)[INSTALL_FILE].decode("ascii").replace("/etc/slurm", str(folder)).splitlines()
    commands = [line.strip() for line in lines if re.match(r" +(mv|rm|scontrol)\b", line)]
    off, on, reconfigure, remove, give_back = commands[-5:]
    assert cluster.submitted(*RELAX) == ["12"]
    subprocess.run(off, shell=True, check=True)
    assert cluster.submitted(*RELAX) == ["60"]
    subprocess.run(on, shell=True, check=True)
    limited_id = submit(cluster.environment, *RELAX)
    assert cluster.minutes(limited_id) == ["12"]
    conf.write_text("".join(line for line in conf.open() if not line.startswith("JobSubmitPlugins")))
    call(cluster.environment, *reconfigure.split())
    subprocess.run(remove, shell=True, check=True)
    assert not cluster.lookup.exists() and cluster.submitted(*RELAX) == ["60"]
    call(cluster.environment, *give_back.replace("JOBID", limited_id).replace("MINUTES", "60").split())
    assert cluster.minutes(limited_id) == ["60"]
