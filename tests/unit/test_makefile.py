"""`make clean` removes what make made, and nothing that a user's own run published."""

import re
from pathlib import Path

MAKEFILE = Path(__file__).resolve().parents[2] / "Makefile"


def test_clean_leaves_the_default_output_folder() -> None:
    removed = re.search(r"^clean:\n\trm -rf (.*)$", MAKEFILE.read_text(), re.MULTILINE)
    assert removed is not None
    assert "out/sample" in removed[1].split() and not {"out", "out/", "."} & set(removed[1].split())
