"""Sets jobs aside, each for one stated reason; deletes and repairs nothing."""

from pipeline.clean.stage import BURST_FLAGS, RULES, clean

__all__ = ["BURST_FLAGS", "RULES", "clean"]
