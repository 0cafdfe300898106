"""`python -m tools.notebook_pairs docs/notebooks`: writes the .md of each notebook's .py, both in jupytext's formats.

The .py (py:percent) is the source. The .md is what a reader sees without Jupyter; jupytext opens either of them.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

_HEADER = re.compile(r"\A# ---\n((?:#.*\n)*?)# ---\n")
_CELL = re.compile(r"(?m)^# %%( \[markdown\])?\n")


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a notebook: its text, and whether it is code."""

    text: str
    is_code: bool


def cells(text: str) -> list[Cell]:
    """The cells of a notebook in the format py:percent, without its header; comment marks of Markdown are removed."""
    _, *parts = _CELL.split(_HEADER.sub("", text))
    found = []
    for mark, body in zip(parts[::2], parts[1::2], strict=True):
        markdown = re.sub(r"(?m)^# ?", "", body.strip("\n"))
        found.append(Cell(body.strip("\n") if mark is None else markdown, mark is None))
    return found


def markdown(text: str) -> str:
    """The same notebook in jupytext's format for Markdown."""
    header = _HEADER.match(text)
    top = f"---\n{re.sub(r'(?m)^# ?', '', header[1])}---\n\n" if header else ""
    bodies = [f"```python\n{cell.text}\n```" if cell.is_code else cell.text for cell in cells(text)]
    return top + "\n\n".join(bodies) + "\n"


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).glob("*.py")):
        path.with_suffix(".md").write_text(markdown(path.read_text(encoding="utf-8")), encoding="utf-8")
