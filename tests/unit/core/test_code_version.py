"""What changes the version of the code."""

import runpy
import shutil
from pathlib import Path

import pytest

PIPELINE = Path(__file__).parents[3] / "pipeline"


@pytest.mark.parametrize("name", ["tables.py", "columns.tsv"])
def test_a_change_of_code_or_of_a_column_is_another_version(tmp_path: Path, name: str) -> None:
    """Steps that an earlier code finished are not used by a later one."""
    for one in ("__init__.py", "tables.py", "columns.tsv"):
        shutil.copy(PIPELINE / one, tmp_path)

    def version() -> str:
        return str(runpy.run_path(str(tmp_path / "__init__.py"))["code_version"]())

    before = version()
    assert version() == before
    (tmp_path / name).write_text((tmp_path / name).read_text() + "\n")
    assert version() != before
