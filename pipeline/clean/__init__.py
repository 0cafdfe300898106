"""Sets jobs aside, each for one stated reason; deletes and repairs nothing."""

from pipeline.clean.stage import BURST_FLAGS, RULES, clean
from pipeline.tables import SET_LATER

SCREENED = (
    "site", "cluster", "job_id", "restart", "user", "account", "application", "queue", "submit_s", "start_s", "end_s",
    "procs", "runtime_s", "suspended_s", "requested_procs", "requested_s", "limit_set_s", "limit_set_by",
    "state", "source_file", "source_line",
)  # fmt: skip
"""The columns of JOBS that cleaning reads; the other columns of a large table need not be in memory."""

# The columns of JOBS that cleaning sets.
SET = SET_LATER[:-1]

__all__ = ["BURST_FLAGS", "RULES", "SCREENED", "SET", "clean"]
