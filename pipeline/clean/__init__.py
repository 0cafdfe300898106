"""Sets jobs aside, each for one stated reason; deletes and repairs nothing."""

from pipeline.clean.stage import RULES, clean

__all__ = ["RULES", "clean"]
