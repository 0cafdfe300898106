"""Sets jobs aside, each for one stated reason; deletes and repairs nothing."""

from pipeline.clean.stage import BURST_FLAGS, RULES, clean
from pipeline.tables import SET_LATER

# The columns of JOBS that cleaning sets.
SET = SET_LATER[:-1]

__all__ = ["BURST_FLAGS", "RULES", "SET", "clean"]
