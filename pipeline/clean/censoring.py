"""Marks runtimes that are lower bounds: the job would have run longer than it was allowed to."""

import numpy as np

from pipeline.clean.job_arrays import JobArrays
from pipeline.core.arrays import Bools
from pipeline.core.clean_settings import CleanSettings, LimitSettings

KILLED_AT_LIMIT = ("TIMEOUT", "DEADLINE")
STILL_RUNNING = ("RUNNING", "COMPLETING")
STOPPED_FROM_OUTSIDE = ("NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "PREEMPTED")


def lower_bounds(arrays: JobArrays, settings: CleanSettings) -> tuple[Bools, Bools]:
    """Where a job's runtime is a lower bound, and where that is known.

    A runtime is a lower bound if the job was killed at its limit (its state says so, or it did not complete and reached
    its request), was running when the log ended, or was stopped by a node failure or for another job. It is unknown
    where there is no positive runtime, and where a job of unknown state reached its request. A job that failed, ran out
    of memory or was cancelled before its limit is no lower bound: more time would not have helped it.
    """
    return arrays.once(("bounds", settings.limit), lambda: _lower_bounds(arrays, settings))


def _lower_bounds(arrays: JobArrays, settings: CleanSettings) -> tuple[Bools, Bools]:
    reached = reached_limit(arrays, settings.limit)
    is_unknown = arrays.states[0] < 0
    unsuccessful = ~arrays.state_is("COMPLETED") & ~is_unknown
    bound = arrays.state_is(*KILLED_AT_LIMIT, *STILL_RUNNING, *STOPPED_FROM_OUTSIDE) | (reached & unsuccessful)
    ran = arrays.runtime_s > 0
    return bound & ran, ran & ~(reached & is_unknown)


def reached_limit(arrays: JobArrays, limits: LimitSettings) -> Bools:
    """Where the runtime reached the requested time, less the grace."""
    requested_s = arrays.requested_s
    grace_s = np.minimum(limits.grace_s, limits.grace_share * requested_s)
    reached: Bools = (requested_s > 0) & (arrays.runtime_s >= requested_s - grace_s)
    return reached
