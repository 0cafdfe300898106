"""Two nightly runs at once: the second one says who runs, and ends with an exit code of its own before any work."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.publish.store import BUSY_EXIT, take_run_lock
from tests.flows.support import Outcome


@pytest.mark.parametrize("plain", [["--plain"], []])
def test_a_second_run_ends_before_it_reads_anything(
    config: Path, tmp_path: Path, walltime: Callable[..., Outcome], plain: list[str]
) -> None:
    with take_run_lock(tmp_path / "out/work"):
        outcome = walltime("run", config, *plain)
        assert outcome.code == BUSY_EXIT == 75 and outcome.out == ""
        assert f"out: found another run that publishes here (process {os.getpid()} of " in outcome.err
        assert "expected one at a time; try again when it has ended.\n" in outcome.err
        assert [path.name for path in (tmp_path / "out/work").iterdir()] == [".lock"]
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["work"]
