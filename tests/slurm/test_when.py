"""`walltime when` on a real Slurm of two partitions, beside `squeue --start`, with a node drained in the middle."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.slurm.commands import ENDED, call, states, submit, wait_for
from tests.slurm.conftest import LOOP_SHAPE, first_port, running

SHAPE = LOOP_SHAPE | {
    "SLURM_NODES": "8", "SLURM_CLUSTER": "when", "SLURM_SCHED": "bf_interval=5",
    "SLURM_EXTRA": "PartitionName=left Nodes=n[01-04] State=UP\\nPartitionName=right Nodes=n[05-08] State=UP",
}  # fmt: skip
USERS = {"alice": (12, 2), "bob": (25, 3), "carol": (40, 4), "dave": (20, 10)}
"""By user how long a job runs (s), and the limit that it asks for (min)."""
CONFIG = """output_dir = "{out}"
[source]
kind = "sacct"
since = "2020-01-01"
[site]
name = "when"
[checks.newest_job]
mode = "off"
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    with running(SHAPE, first_port() + 80) as environment:
        yield environment


@pytest.fixture(scope="module")
def published(slurm: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a history of 48 jobs."""
    folder = tmp_path_factory.mktemp("when")
    folder.chmod(0o755)
    for user, (runs_s, minutes) in USERS.items():
        for partition in ("left", "right"):
            options = (f"--job-name={user}", "-n1", f"-t{minutes}", "--array=0-5", f"-p{partition}")
            submit(slurm, *options, script=f"sleep {runs_s}", user=user)
    wait_for("the history", 300, lambda: not call(slurm, "squeue", "-h"))
    wait_for("the accounting", 60, lambda: set(states(slurm)) <= ENDED)
    (folder / "site.toml").write_text(CONFIG.format(out=folder / "out"))
    walltime(slurm, "run", str(folder / "site.toml"), "--plain")
    return folder / "out"


def walltime(environment: Mapping[str, str], *arguments: str) -> str:
    command = [sys.executable, "-m", "flows.cli", *arguments]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def expected_s(environment: Mapping[str, str], published: Path) -> dict[str, float]:
    found = json.loads(walltime(environment, "when", "--from", str(published), "--json"))
    return {row["id"]: row["dispatch_time"] for row in found["jobs"] if row["status"] == "queued"}


def of_slurm_s(environment: Mapping[str, str]) -> dict[str, float]:
    said = call(environment, "squeue", "--start", "-h", "-o%i %S")
    rows = [line.split() for line in said.splitlines()]
    return {job: time.mktime(time.strptime(at, "%Y-%m-%dT%H:%M:%S")) for job, at in rows if at != "N/A"}


def started_s(environment: Mapping[str, str]) -> dict[str, float]:
    said = call(environment, "sacct", "-a", "-X", "-n", "-P", "-S2020-01-01", "--format=JobID,Start")
    rows = [line.split("|") for line in said.splitlines()]
    return {job: time.mktime(time.strptime(at, "%Y-%m-%dT%H:%M:%S")) for job, at in rows if at[:1].isdigit()}


def errors_s(said: Mapping[str, float], true: Mapping[str, float], jobs: set[str]) -> list[float]:
    return [abs(said[job] - true[job]) for job in sorted(jobs)]


def test_starts_are_nearer_than_those_of_squeue_also_after_a_drain(
    slurm: dict[str, str], published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = []
    for nth in range(40):
        user = list(USERS)[nth % 4]
        runs_s, minutes = USERS[user]
        options = (f"--job-name={user}", f"-n{(4, 8, 2, 4)[nth // 4 % 4]}", f"-t{minutes}")
        ids.append(submit(slurm, *options, f"-p{('left', 'right')[nth % 3 == 0]}", script=f"sleep {runs_s}", user=user))
    held = submit(slurm, "-H", "-n1", "-t2", "-pleft")
    after = submit(slurm, f"--dependency=afterok:{ids[-1]}", "-n1", "-t2", "-pleft")
    time.sleep(8)
    first = expected_s(slurm, published), of_slurm_s(slurm)
    assert not {held, after} & set(first[0])
    wait_for("some starts", 120, lambda: len(call(slurm, "squeue", "-h", "-tPD").splitlines()) < 26)
    call(slurm, "scontrol", "update", "NodeName=n02", "State=DRAIN", "Reason=test")
    time.sleep(8)
    second = expected_s(slurm, published), of_slurm_s(slurm)
    call(slurm, "scancel", held)
    wait_for("the jobs", 400, lambda: not call(slurm, "squeue", "-h"))
    wait_for("the accounting", 60, lambda: set(states(slurm)) <= ENDED)
    true = started_s(slurm)
    for when, (ours, slurms) in (("before", first), ("after", second)):
        jobs = set(ours) & set(slurms)
        own, other = (statistics.median(errors_s(said, true, jobs)) for said in (ours, slurms))
        with capsys.disabled():
            sys.stderr.write(f"\n{when} the drain: {len(jobs)} jobs, error {own:.0f} s, squeue --start {other:.0f} s\n")
        assert len(jobs) >= 10
        assert own < 0.5 * other
