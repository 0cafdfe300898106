"""Why a job is set aside. A flagged job stays in JOBS, unchanged; later rooms look only at jobs without a flag."""

from enum import StrEnum


class Flag(StrEnum):
    """Reasons in order of precedence: where several hold, the first is kept."""

    PARTIAL_EXECUTION = "partial_execution"
    UNFINISHED = "unfinished"
    CANCELLED_BEFORE_START = "cancelled_before_start"
    NEVER_RAN = "never_ran"
    IMPOSSIBLE_TIMES = "impossible_times"
    NO_PROCS = "no_procs"

    @property
    def meaning(self) -> str:
        """One line for a person."""
        return _MEANINGS[self]


_MEANINGS = {
    Flag.PARTIAL_EXECUTION: "a part of a checkpointed job whose whole is counted in its summary record",
    Flag.UNFINISHED: "pending, running or suspended when the log ended: its runtime is not known yet",
    Flag.CANCELLED_BEFORE_START: "cancelled before it started",
    Flag.NEVER_RAN: "no start and no runtime, or a runtime of zero or less",
    Flag.IMPOSSIBLE_TIMES: "ends before it starts, starts before its submit, or has no submit time",
    Flag.NO_PROCS: "neither allocated nor requested processors are known and positive",
}
