"""A night that a check blocks: the flow fails, the command exits with 4, yesterday's tables stay published."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.publish import load_manifest
from pipeline.publish.store import step_folders
from tests.flows.support import SAMPLES, Outcome

pytestmark = pytest.mark.usefixtures("prefect")


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """The first eleven jobs of the sample, of ninety-five."""
    path = tmp_path / "short.swf"
    path.write_bytes(b"".join((SAMPLES / "traps.swf").read_bytes().splitlines(keepends=True)[:40]))
    return path


def test_a_blocked_version_in_the_flow_and_in_the_plain_run(
    config: Path, short: Path, tmp_path: Path, walltime: Callable[..., Outcome]
) -> None:
    from flows.prefect.nightly import nightly

    out = tmp_path / "out"
    assert walltime("run", config, "--plain", "--quiet") == Outcome(0, "", "")
    checked = walltime("doctor", "--checks", "--from", out, "--json")
    assert checked.code == 0 and json.loads(checked.out)["passed"]
    first = (out / "manifest.json").read_bytes()
    n_steps = len(step_folders(out / "work"))

    state = nightly(str(config), [str(short)], return_state=True)
    assert state.is_failed() and "Check fewer_rows failed: jobs: found" in str(state.message)
    assert (out / "manifest.json").read_bytes() == first
    assert len(step_folders(out / "work")) == n_steps  # steps of blocked nights do not pile up
    (blocked,) = (out / "blocked").glob("[!.]*")
    stored = {path.name: path.read_bytes() for path in blocked.glob("versions/*/*.parquet")}

    plain = walltime("run", config, "--log", short, "--plain", "--quiet")
    assert plain.code == 4 and plain.out == ""
    assert plain.err.startswith("walltime: Check fewer_rows failed: jobs: found") and plain.err.count("\n") == 1
    assert (out / "manifest.json").read_bytes() == first
    assert {path.name: path.read_bytes() for path in blocked.glob("versions/*/*.parquet")} == stored

    config.write_text(config.read_text() + "[checks.fewer_rows]\nmode = 'warn'\n")
    warned = walltime("run", config, "--log", short)
    assert warned.code == 0 and "Note: Check fewer_rows failed: jobs: found" in warned.out
    assert load_manifest(out).run_id == blocked.name
    shown = walltime("doctor", "--checks", "--from", out)
    assert shown.code == 0 and "fewer_rows: jobs: found" in shown.out
