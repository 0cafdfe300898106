"""The reasons to set a job aside. A flagged job stays in JOBS unchanged; later rooms use only jobs without a flag."""

from enum import StrEnum


class Flag(StrEnum):
    """Reasons in order of precedence: where several apply, a job gets the first."""

    PARTIAL_EXECUTION = "partial_execution"
    UNFINISHED = "unfinished"
    CANCELLED_BEFORE_START = "cancelled_before_start"
    NEVER_RAN = "never_ran"
    IMPOSSIBLE_TIMES = "impossible_times"
    NO_PROCS = "no_procs"
    ELAPSED_DISAGREES = "elapsed_disagrees"
    SITE_DROP = "site_drop"
    DUPLICATE = "duplicate"
    CLOCK_JUMP = "clock_jump"
    OVER_LIMIT = "over_limit"
    OVER_CAPACITY = "over_capacity"
    LOG_EDGE = "log_edge"
    DEDICATED_TIME = "dedicated_time"
    PROBE = "probe"
    CRON = "cron"
    FLURRY = "flurry"
    NODE_FAILURE = "node_failure"
    OUT_OF_MEMORY = "out_of_memory"
    PREEMPTED = "preempted"
    SUSPENDED = "suspended"
    FAILED_START = "failed_start"
    HANG = "hang"

    @property
    def meaning(self) -> str:
        """One line for a person."""
        return _MEANINGS[self]


_MEANINGS = {
    Flag.PARTIAL_EXECUTION: "a part of a checkpointed job whose whole is counted in its summary record",
    Flag.UNFINISHED: "pending, running or suspended when the log ended: its runtime is not known yet",
    Flag.CANCELLED_BEFORE_START: "cancelled before it started",
    Flag.NEVER_RAN: "no start and no runtime, or a runtime of zero or less",
    Flag.IMPOSSIBLE_TIMES: "ends before it starts, starts before its submit, or no submit time (1970 to 2200)",
    Flag.NO_PROCS: "neither allocated nor requested processors are known and positive",
    Flag.ELAPSED_DISAGREES: "its recorded runtime and its end minus its start differ by more than suspension explains",
    Flag.SITE_DROP: "the site's config says so",
    Flag.DUPLICATE: "the same job as another one that is kept, read under a second id",
    Flag.CLOCK_JUMP: "waited or ran in a period that the log holds twice, because its clock was set back",
    Flag.OVER_LIMIT: "ran longer than the limit of its queue or of the machine, plus the grace",
    Flag.OVER_CAPACITY: "alone larger than the machine was when it started",
    Flag.LOG_EDGE: "submitted before the steady part of the log begins or after it ends",
    Flag.DEDICATED_TIME: "started while the machine was reserved for few users",
    Flag.PROBE: "one of many short jobs throughout the log that only test whether the machine responds",
    Flag.CRON: "submitted by a timer at one hour of the day",
    Flag.FLURRY: "part of a burst in which one user submits more than all others together",
    Flag.NODE_FAILURE: "ended by a failure of a node or of the boot",
    Flag.OUT_OF_MEMORY: "ended because it ran out of memory",
    Flag.PREEMPTED: "stopped to make room for another job",
    Flag.SUSPENDED: "suspended for a part of its runtime, which the log counts as running",
    Flag.FAILED_START: "ended within seconds, where similar jobs take far longer",
    Flag.HANG: "ran far longer than similar jobs and ended abnormally",
}
