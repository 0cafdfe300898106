"""A command whose package is not installed ends with one sentence that says what to install."""

import sys
import tomllib
from pathlib import Path

import pytest

from flows.cli import EXTRAS, main

ROOT = Path(__file__).parents[3]


def test_each_package_stands_in_the_extra_that_the_sentence_names() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert all(any(one.startswith(package) for one in extras[extra]) for package, extra in EXTRAS.items())


def command(monkeypatch: pytest.MonkeyPatch, *words: object) -> object:
    """The exit code of a command."""
    monkeypatch.setattr(sys, "argv", ["walltime", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_a_workbook_without_its_package_is_one_sentence_and_a_page_needs_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs, page, book = tmp_path / "jobs.parquet", tmp_path / "page.html", tmp_path / "jobs.xlsx"
    assert not command(monkeypatch, "ingest", ROOT / "data_samples/traps.swf", "--out", jobs)
    for package in ("matplotlib", "xlsxwriter"):
        monkeypatch.setitem(sys.modules, package, None)
    assert not command(monkeypatch, "clean", jobs, "--out", tmp_path / "clean.parquet", "--report", page)
    assert "<svg" in page.read_text()
    assert command(monkeypatch, "show", "jobs", "--from", jobs, "--out", book) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == "walltime: this needs the package xlsxwriter, which is not installed: pip install 'walltime[xlsx]'."
