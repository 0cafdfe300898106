"""What the tests of the Slurm plug-in share."""

from pathlib import Path

import pytest

from pipeline.export.lookup_file import lookup_file
from pipeline.export.scheduler_files import plugin
from pipeline.settings import ExportSettings
from pipeline.tables import ESTIMATES
from tests.unit.export.slurm_plugin import limits_of, table_of


@pytest.fixture
def installed(tmp_path: Path):
    """A function that writes a look-up of rows and gives the plug-in's text."""

    def install(*rows: dict[str, object], names: dict[str, str] | None = None, own=False, limits=(), **settings) -> str:
        file = lookup_file(table_of(*rows) if rows else ESTIMATES.empty(), limits_of(*limits), names or {})
        (tmp_path / "walltime.lookup").write_bytes(file)
        return plugin(ExportSettings(**settings), own, str(tmp_path / "walltime.lookup"))

    return install
