"""What the tests of the Slurm plug-in share."""

from pathlib import Path

import pytest

from pipeline.export.lookup_file import lookup_file
from pipeline.export.scheduler_files import plugin
from pipeline.settings import ExportSettings
from pipeline.tables import ESTIMATES
from tests.unit.export.slurm_plugin import limits_of, memory_of, table_of


@pytest.fixture
def installed(tmp_path: Path):
    """A function that writes a look-up of rows and gives the plug-in's text."""

    def install(*rows, names=None, own=False, limits=(), memory=(), gpu_types=None, **settings) -> str:
        estimates = table_of(*rows) if rows else ESTIMATES.empty()
        file = lookup_file(estimates, limits_of(*limits), names or {}, memory_of(*memory), gpu_types)
        (tmp_path / "walltime.lookup").write_bytes(file)
        return plugin(ExportSettings(**settings), own, str(tmp_path / "walltime.lookup"))

    return install
