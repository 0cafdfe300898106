"""A module of these rooms has a name that no other room uses for something else."""

from collections import Counter
from pathlib import Path

PIPELINE = Path(__file__).resolve().parents[2] / "pipeline"
CHECKED = ("core", "clean", "group", "publish")
SAME_ROLE = {"__init__", "stage"}
"""Every stage is one `stage.py`."""


def test_no_two_rooms_use_one_module_name() -> None:
    # A wing of ingest is one format, and may name its files as another wing does.
    others = [path for path in PIPELINE.rglob("*.py") if path.relative_to(PIPELINE).parts[0] != "ingest"]
    counts = Counter(path.stem for path in others)
    checked = {path.stem for room in CHECKED for path in (PIPELINE / room).glob("*.py")} - SAME_ROLE
    assert checked and not sorted(name for name in checked if counts[name] > 1)
