"""Where Prefect keeps its database: at home, or beside the work where there is no home to write to."""

import os
from pathlib import Path

import pytest

from flows.prefect.settings import set_prefect_home


@pytest.mark.parametrize(
    ("home", "given", "expected"),
    [("here", None, None), ("/proc/none", None, "out/kept/prefect"), ("/proc/none", "elsewhere", "elsewhere")],
)
def test_a_home_that_cannot_be_written_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, given: str | None, expected: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / home))
    monkeypatch.delenv("PREFECT_HOME", raising=False)
    if given is not None:
        monkeypatch.setenv("PREFECT_HOME", given)
    set_prefect_home(Path("out/kept/prefect"))
    found = os.environ.get("PREFECT_HOME")
    assert found == (str(tmp_path / expected) if expected and expected != given else expected)
    assert (tmp_path / "out/kept/prefect").is_dir() == (expected == "out/kept/prefect")
