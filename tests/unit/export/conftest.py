"""What the tests of the Slurm plug-in share."""

import time
from pathlib import Path

import pytest

from pipeline.export.lookup_file import lookup_file
from pipeline.export.scheduler_files import HEARTBEAT_FILE, plugin
from pipeline.settings import ExportSettings
from pipeline.tables import ESTIMATES
from tests.unit.export.slurm_plugin import memory_of, table_of


@pytest.fixture
def installed(tmp_path: Path):
    """A function that writes a look-up of rows and gives the plug-in's text."""

    def install(*rows, names=None, own=False, memory=(), beats=True, listed=None, **settings) -> str:
        estimates = table_of(*rows) if rows else ESTIMATES.empty()
        file = lookup_file(estimates, names or {}, memory_of(*memory), **(listed or {}))
        (tmp_path / "walltime.lookup").write_bytes(file)
        if beats:
            (tmp_path / HEARTBEAT_FILE).write_text(f"{time.time():.0f}\n")
        return plugin(ExportSettings(**settings), own, str(tmp_path / "walltime.lookup"))

    return install
