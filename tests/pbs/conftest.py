"""A real OpenPBS on this machine, for `make test-pbs` alone: `make test` does not collect this folder."""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.pbs.cluster import Cluster
from tests.pbs.mix import KINDS, Kind, Ran, mix, walltime

SWITCH = "WALLTIME_TEST_PBS"
collect_ignore_glob = [] if os.environ.get(SWITCH) else ["*"]

SCRIPTS = Path(__file__).resolve().parents[3] / "shared" / "pbs"
PREFIX = os.environ.get("PBS_PREFIX") or str(Path(tempfile.gettempdir()) / "walltime-openpbs")
"""Where OpenPBS is built, once: outside the folder of a test's cluster, so that a second run needs no build."""

CONFIG = """
output_dir = "tables"
[source]
kind = "folder"
folder = "{accounting}"
[site]
name = "loop"
timezone = "UTC"
[export]
mode = "limit"
opt_out = {{ users = ["erin"], accounts = ["own"] }}
[guard]
scheduler = "pbs"
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests with GPUs first: two servers at a time do not start, and the other one stays up to the end."""
    items.sort(key=lambda item: "gpu_cluster" not in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running OpenPBS."""
    with running(first_port()) as found:
        yield found


@pytest.fixture(scope="module")
def gpu_cluster() -> Iterator[Cluster]:
    """A running OpenPBS of one node with eight GPUs."""
    lines = ("create resource ngpus type=long,flag=hn", "set node n01 resources_available.ngpus=8")
    with running(first_port() + 10, PBS_CPUS="32", PBS_NODES="1", PBS_QMGR="\\n".join(lines)) as found:
        yield found


def first_port() -> int:
    """Of a block of 20 ports."""
    return 10_000 + os.getpid() % 400 * 20


@contextmanager
def running(port: int, **options: str) -> Iterator[Cluster]:
    """A running OpenPBS; skipped where there can be none, stopped and removed after."""
    if not (SCRIPTS / "up.sh").exists():
        pytest.skip("no shared/pbs/up.sh beside this checkout: the real OpenPBS is not tested")
    if os.geteuid() != 0:
        pytest.skip("not root: the real OpenPBS is not tested")
    # Users have to reach it, which they cannot in pytest's own folder.
    found = Cluster(SCRIPTS, Path(tempfile.mkdtemp(prefix="walltime-pbs-")), PREFIX, port)
    try:
        complaint = found.up(**options)
        if complaint and not (Path(PREFIX) / ".built").exists():
            pytest.skip(f"OpenPBS cannot be built here: {complaint[-300:]}")
        assert not complaint, complaint
        yield found
    finally:
        down = ["bash", str(SCRIPTS / "down.sh"), str(found.work), "--purge"]
        subprocess.run(down, check=False, capture_output=True)


@pytest.fixture(scope="session")
def history(cluster: Cluster) -> dict[str, Kind]:
    """Ids of ended jobs with their kinds, run on a machine wide enough for most of them at once."""
    assert not cluster.up(PBS_CPUS="64")
    ids = {kind.submit(cluster, n): kind for kind in KINDS for n in range(kind.n_history)}
    cluster.wait(list(ids), 240)
    assert not cluster.up(PBS_CPUS="8")
    return ids


@pytest.fixture(scope="session")
def site(cluster: Cluster, history: dict[str, Kind], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a config, and tables that the nightly flow made of the accounting."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "site.toml").write_text(CONFIG.format(accounting=cluster.accounting), "utf-8")
    walltime(cluster, folder, "run", "site.toml")
    return folder


@pytest.fixture(scope="session")
def with_requests(cluster: Cluster, site: Path) -> list[Ran]:
    """The mix, planned with the users' walltimes."""
    return mix(cluster)


@pytest.fixture(scope="session")
def hook(cluster: Cluster, site: Path, with_requests: list[Ran]) -> Path:
    """The exported files, installed by the commands that stand in them."""
    return installed(cluster, site)


def installed(cluster: Cluster, site: Path) -> Path:
    """The exported files of a folder's tables, installed by the commands that stand in them."""
    exported = site / "exported"
    walltime(cluster, site, "export", "exported", "--for", "pbs", "--from", "tables")
    # A job of the tests waits for seconds, and is renewed all the same.
    config = exported / "walltime_hook.json"
    config.write_text(json.dumps(json.loads(config.read_text("utf-8")) | {"renew_after_s": 0}), "utf-8")
    commands = (exported / "INSTALL.txt").read_text("utf-8").partition("Every night")[0]
    cluster.call("bash", "-ec", "\n".join(re.findall("^    (.*)$", commands, re.MULTILINE)), folder=exported)
    return exported


@pytest.fixture(scope="session")
def with_hook(cluster: Cluster, hook: Path) -> list[Ran]:
    """The same mix, planned with soft_walltime."""
    return mix(cluster)
