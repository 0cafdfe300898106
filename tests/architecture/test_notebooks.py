"""The notebooks run from their first cell to their last one, and both files of a pair are the same notebook."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from tools.notebook_pairs import cells, markdown

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.py"))


def test_there_are_two_notebooks_and_no_outputs() -> None:
    assert NOTEBOOKS == ["log_to_predictions", "replay_and_estimates"]
    assert not list(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_both_files_are_one_notebook(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text()
    assert (FOLDER / f"{name}.md").read_text() == markdown(text), "run python -m tools.notebook_pairs docs/notebooks"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_cell_runs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    known: dict[str, Any] = {}
    for cell in cells((FOLDER / f"{name}.py").read_text()):
        if cell.is_code:
            exec(compile(cell.text, name, "exec"), known)
    assert plt.get_fignums(), "a notebook draws a plot"
    (axes,) = plt.gcf().axes
    assert axes.lines or axes.patches
    plt.close("all")
