"""Where Prefect keeps its database: at home, or beside the work where there is no home to write to."""

import os
from pathlib import Path

import pytest

from flows.prefect.session import prefect_session


@pytest.mark.parametrize(
    ("home", "given", "expected"),
    [("here", None, None), ("/proc/none", None, "out/kept/work/prefect"), ("/proc/none", "elsewhere", "elsewhere")],
)
def test_a_home_that_cannot_be_written_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, given: str | None, expected: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / home))
    monkeypatch.delenv("PREFECT_HOME", raising=False)
    monkeypatch.setenv("PREFECT_LOGGING_LEVEL", "INFO")
    if given is not None:
        monkeypatch.setenv("PREFECT_HOME", given)
    with prefect_session(Path("out/kept"), verbose=False):
        pass
    found = os.environ.get("PREFECT_HOME")
    assert found == (str(tmp_path / expected) if expected and expected != given else expected)
    assert (tmp_path / "out/kept/work/prefect").is_dir() == (expected == "out/kept/work/prefect")
