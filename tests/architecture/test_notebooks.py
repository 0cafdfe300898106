"""The notebooks run from their first cell to their last one."""

import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.py"))


def test_there_are_two_notebooks_and_no_outputs() -> None:
    assert NOTEBOOKS == ["log_to_predictions", "replay_and_estimates"]
    assert not list(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_cell_runs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    known: dict[str, Any] = {}
    # Of the format py:percent: a mark begins a cell, and one of Markdown is a comment throughout.
    for cell in re.split(r"(?m)^# %%.*\n", (FOLDER / f"{name}.py").read_text()):
        exec(compile(cell, name, "exec"), known)
    assert plt.get_fignums(), "a notebook draws a plot"
    (axes,) = plt.gcf().axes
    assert axes.lines or axes.patches
    plt.close("all")
