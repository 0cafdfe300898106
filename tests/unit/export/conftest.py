"""What the tests of the Slurm plug-in share."""

from pathlib import Path

import pytest

from pipeline.export.lookup_file import lookup_file
from pipeline.export.scheduler_files import plugin
from pipeline.settings import ExportSettings
from tests.unit.export.slurm_plugin import table_of


@pytest.fixture
def installed(tmp_path: Path):
    """A function that writes a look-up of rows and gives the plug-in's text."""

    def install(*rows: dict[str, object], names: dict[str, str] | None = None, own: bool = False, **settings) -> str:
        (tmp_path / "walltime.lookup").write_bytes(lookup_file(table_of(*rows), names or {}))
        return plugin(ExportSettings(**settings), own, str(tmp_path / "walltime.lookup"))

    return install
