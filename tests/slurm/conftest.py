"""A real Slurm on this machine, for `make test-slurm` and `make test-slurm-hour` alone.

`make test` collects only the tests of this folder that need no Slurm.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

SWITCH = "WALLTIME_TEST_SLURM"
LONG = {"test_hour.py": "WALLTIME_TEST_SLURM_HOUR", "test_guard_trial.py": "WALLTIME_TEST_SLURM_TRIAL"}
"""Tests with a switch of their own."""
OTHERS = {path.name for path in Path(__file__).parent.glob("test_*.py")} - {*LONG, "test_freshness.py"}
collect_ignore_glob = [
    *(() if os.environ.get(SWITCH) else sorted(OTHERS)),
    *(name for name, switch in LONG.items() if not os.environ.get(switch)),
]

SCRIPTS = Path(__file__).resolve().parents[3] / "shared" / "slurm"
UP_TIMEOUT_S = 600
SHAPE = {"SLURM_NODES": "3", "SLURM_CPUS": "8", "SLURM_MEM": "8000", "SLURM_GPUS": "1", "SLURM_USERS": "alice bob"}


LOOP_SHAPE = {
    "SLURM_NODES": "16", "SLURM_CPUS": "4", "SLURM_MEM": "4000", "SLURM_GPUS": "0",
    "SLURM_USERS": "alice bob carol dave", "SLURM_CLUSTER": "loop",
}  # fmt: skip


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    """The environment of the commands of a small Slurm."""
    with running(SHAPE, first_port()) as environment:
        yield environment


@pytest.fixture(scope="module")
def loop_slurm() -> Iterator[dict[str, str]]:
    """The environment of the commands of a Slurm of 16 nodes."""
    with running(LOOP_SHAPE, first_port() + 40) as environment:
        yield environment


def first_port() -> int:
    """Of a block of 120 ports."""
    return 20_000 + os.getpid() % 80 * 120


@contextmanager
def running(shape: Mapping[str, str], port: int) -> Iterator[dict[str, str]]:
    """The environment of a running Slurm's commands; skipped where there can be none, stopped and removed after."""
    if not (SCRIPTS / "up.sh").exists():
        pytest.skip("no shared/slurm/up.sh beside this checkout: the real Slurm is not tested")
    if os.geteuid() != 0:
        pytest.skip("not root: the real Slurm is not tested")
    # Short, and not pytest's own folder: a socket's path has a bound, and the daemons' users have to get there.
    work = Path(tempfile.mkdtemp(prefix="walltime-slurm-"))
    try:
        complaint = started(work, shape, port)
        if complaint and not (shutil.which("slurmctld") and shutil.which("slurmdbd")):
            pytest.skip(f"Slurm's packages cannot be installed here: {complaint[-300:]}")
        assert not complaint, complaint
        yield os.environ | {"SLURM_CONF": str(work / "etc" / "slurm.conf"), "SLURM_WORK": str(work)}
    finally:
        subprocess.run(["bash", str(SCRIPTS / "down.sh"), str(work), "--purge"], check=False, capture_output=True)


def started(work: Path, shape: Mapping[str, str], port: int) -> str:
    """Start a Slurm under `work`, or what has died of one; what its script complained of, where it failed."""
    settings = os.environ | shape | {"SLURM_PORT": str(port)}
    command = ["bash", str(SCRIPTS / "up.sh"), str(work)]
    try:
        done = subprocess.run(command, check=False, env=settings, capture_output=True, text=True, timeout=UP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"nothing after {UP_TIMEOUT_S} s"
    return (done.stderr.strip()[-3000:] or "no word") if done.returncode else ""
