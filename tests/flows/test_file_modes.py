"""Modes of the files of a run: nothing is open to writers of the world, even where the umask takes nothing away."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.flows.support import Outcome

Walltime = Callable[..., Outcome]


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A umask that takes nothing away, as a careless service has."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_no_file_of_a_run_or_an_export_can_be_written_by_all(config: Path, tmp_path: Path, walltime: Walltime) -> None:
    out = tmp_path / "out"
    assert walltime("run", config, "--plain", "--quiet").code == 0
    assert walltime("export", "--for", "slurm", tmp_path / "slurm", "--from", out, "--config", config).code == 0
    assert walltime("export", "--for", "csv", tmp_path / "csv", "--from", out, "--config", config).code == 0
    folders = [tmp_path / name for name in ("out", "slurm", "csv")]
    found = [*folders, *(path for folder in folders for path in folder.rglob("*"))]
    assert {"state.parquet", "walltime.lookup", "walltime.csv"} <= {path.name for path in found}
    assert [path for path in found if path.stat().st_mode & stat.S_IWOTH] == []
