"""A rerun as a Prefect flow: the bytes of the plain rerun, nothing published or left, one sentence for faults."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.publish import load_manifest
from pipeline.publish.store import WORK
from pipeline.publish.versions import find_version
from tests.flows.support import SAMPLES, Outcome

pytestmark = pytest.mark.usefixtures("prefect")

Walltime = Callable[..., Outcome]


def made(out: Path, name: str) -> dict[str, bytes]:
    manifest = find_version(out, name).manifest
    assert manifest is not None and manifest.name == name
    return {table: manifest.path(table).read_bytes() for table in manifest.tables}


def states() -> dict[str, str | None]:
    """The state of each flow run that Prefect knows, by name."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return {run.name: run.state_name for run in client.read_flow_runs()}


def test_flow_and_plain_give_the_same_bytes_and_publish_nothing(
    config: Path, tmp_path: Path, walltime: Walltime
) -> None:
    out = tmp_path / "out"
    assert walltime("run", config, "--quiet") == Outcome(0, "", "")
    published, steps = load_manifest(out), sorted(path.name for path in (out / WORK).iterdir())
    change = ("--set", "scaling.counts=[3]")
    assert walltime("rerun", config, *change, "--name", "flow", "--quiet") == Outcome(0, "", "")
    assert walltime("rerun", config, *change, "--name", "plain", "--plain", "--quiet") == Outcome(0, "", "")
    assert states()["rerun flow"] == "Completed" and "rerun plain" not in states()
    assert made(out, "flow") == made(out, "plain")
    assert made(out, "flow")["predictions"] != published.path("predictions").read_bytes()
    assert load_manifest(out) == published
    # The next night finds the steps of the last one, and no others.
    assert sorted(path.name for path in (out / WORK).iterdir()) == steps


@pytest.mark.parametrize(
    ("more", "found"),
    [
        (("--until", "1980-01"), "none of them submitted"),
        (("--set", "group.templat=user"), "did you mean template"),
        (("--log", SAMPLES / "none.swf"), "none.swf"),
        (("--name", "../try"), "found ../try, expected up to 64 letters"),
    ],
)
def test_a_rerun_that_fails_is_one_sentence_and_leaves_nothing(
    more: tuple[object, ...], found: str, config: Path, tmp_path: Path, walltime: Walltime
) -> None:
    done = walltime("rerun", config, "--name", "try-7", *more, "--quiet")
    assert done.code == 2 and found in done.err and done.err.count("\n") == 1 and "Traceback" not in done.err
    assert not (tmp_path / "out" / "versions").exists()
