"""Prefect's task runners, in two processes or on Dask, give the bytes of a plain run, also where a worker is killed."""

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flows.services.progress import StageEvent, listening
from flows.services.run.running import run_and_publish
from pipeline.errors import InputError
from pipeline.publish import load_manifest
from pipeline.run import STEPS
from tests.flows.support import SAMPLES, Outcome

pytestmark = pytest.mark.usefixtures("prefect")

Walltime = Callable[..., Outcome]


def published(folder: Path) -> dict[str, bytes]:
    manifest = load_manifest(folder)
    return {name: manifest.path(name).read_bytes() for name in manifest.tables}


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("serial")
    run_and_publish(str(config_with(folder, "")), output_dir=str(folder / "out"))
    return published(folder / "out")


def config_with(folder: Path, run: str) -> Path:
    config = folder / "config.toml"
    config.write_text(f"logs = ['{SAMPLES / 'traps.swf'}']\n[site]\nname = 'oxbow'\n[run]\n{run}\n")
    return config


def test_two_processes_give_the_same_bytes_and_one_event_a_step(tmp_path: Path, serial: dict[str, bytes]) -> None:
    from flows.prefect.nightly import nightly

    events: list[StageEvent] = []
    with listening(events.append):
        nightly(str(config_with(tmp_path, "processes = 2")), output_dir=str(tmp_path / "out"))
    assert published(tmp_path / "out") == serial
    done = [event.stage for event in events if event.state == "done"]
    assert sorted(done) == sorted([*(step.name for step in STEPS), "publish"])


def test_a_failure_in_another_process_is_the_sentence_of_one_process(tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "empty.swf").write_bytes(b"")
    given = ("--log", tmp_path / "empty.swf", "--out", tmp_path / "out")
    outcomes = [walltime("run", config_with(tmp_path, run), *given) for run in ("", "processes = 2")]
    assert outcomes[0] == outcomes[1] and outcomes[0].code == 2
    assert not (tmp_path / "out").exists()


def test_an_error_is_the_same_in_another_process() -> None:
    error = InputError("a log", "nothing", "a job", "look for it")
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found), found.do) == (InputError, str(error), "look for it")


def test_no_scheduler_at_the_address_is_a_sentence(tmp_path: Path, walltime: Walltime) -> None:
    outcome = walltime("run", config_with(tmp_path, "dask = 'nowhere'"), "--out", tmp_path / "out")
    assert outcome.code == 2 and "run.dask: found no" in outcome.err


@pytest.fixture
def cluster() -> Iterator[object]:
    why = "the extra dask is not installed: nothing shows that Dask gives the same bytes"
    pytest.importorskip("prefect_dask", reason=why)
    distributed = pytest.importorskip("distributed", reason=why)
    with started(distributed) as one:
        yield one


def started(distributed: ModuleType) -> Any:
    """Two workers; distributed gives its own thread ten seconds to start, which a loaded machine can exceed."""
    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "dashboard_address": None,
        "host": "127.0.0.1",
        "processes": True,
    }
    for _ in range(4):
        with suppress(AssertionError):
            return distributed.LocalCluster(**options)
    return distributed.LocalCluster(**options)


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_bytes_also_where_a_worker_is_killed(
    tmp_path: Path, serial: dict[str, bytes], cluster: object
) -> None:
    from flows.prefect.nightly import nightly

    pids = [worker.pid for worker in cluster.workers.values()]  # type: ignore[attr-defined]
    killed: list[str] = []

    def kill(event: StageEvent) -> None:
        if event.stage == "learn" and event.state == "started":
            # Five steps have begun by then on the two workers, and as many have not.
            os.kill(pids[0], signal.SIGKILL)
            killed.append(event.stage)

    address = cluster.scheduler_address  # type: ignore[attr-defined]
    for name, listener in (("calm", print), ("killed", kill)):
        with listening(listener):
            config = config_with(tmp_path, f"dask = '{address}'")
            nightly(str(config), output_dir=str(tmp_path / name))
        assert published(tmp_path / name) == serial
    assert killed == ["learn"]
