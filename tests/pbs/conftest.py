"""A real OpenPBS on this machine, for `make test-pbs` alone: `make test` does not collect this folder."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pbs.cluster import Cluster

SWITCH = "WALLTIME_TEST_PBS"
collect_ignore_glob = [] if os.environ.get(SWITCH) else ["*"]

SCRIPTS = Path(__file__).resolve().parents[3] / "shared" / "pbs"
PREFIX = os.environ.get("PBS_PREFIX") or str(Path(tempfile.gettempdir()) / "walltime-openpbs")
"""Where OpenPBS is built, once: outside the folder of a test's cluster, so that a second run needs no build."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running OpenPBS; skipped where there can be none, stopped and removed after."""
    if not (SCRIPTS / "up.sh").exists():
        pytest.skip("no shared/pbs/up.sh beside this checkout: the real OpenPBS is not tested")
    if os.geteuid() != 0:
        pytest.skip("not root: the real OpenPBS is not tested")
    # Users have to reach it, which they cannot in pytest's own folder.
    found = Cluster(SCRIPTS, Path(tempfile.mkdtemp(prefix="walltime-pbs-")), PREFIX, 10_000 + os.getpid() % 400 * 20)
    try:
        complaint = found.up()
        if complaint and not (Path(PREFIX) / ".built").exists():
            pytest.skip(f"OpenPBS cannot be built here: {complaint[-300:]}")
        assert not complaint, complaint
        yield found
    finally:
        down = ["bash", str(SCRIPTS / "down.sh"), str(found.work), "--purge"]
        subprocess.run(down, check=False, capture_output=True)
