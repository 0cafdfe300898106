"""Masks that need only a job's own record: impossible or unfinished jobs, final states, limits, and rules of the site.

A job that lost its node or was preempted would have run longer, and `is_lower_bound` is true for it. It is set aside
nevertheless: nodes are often slow before they fail, and a preempted job may continue from a checkpoint. A site can
switch the flag off; such jobs then count as lower bounds. A job that ran out of memory is no lower bound.
"""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, floats
from pipeline.clean.job_arrays import JobArrays
from pipeline.settings import SiteRule

KILLED_AT_LIMIT = ("TIMEOUT", "DEADLINE")
STILL_RUNNING = ("RUNNING", "COMPLETING")
STOPPED_FROM_OUTSIDE = ("NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "PREEMPTED")

# Largest difference (s) of request and runtime where a job that did not complete counts as killed at its limit.
LIMIT_GRACE_S = 60.0

# The same as a share of the request; the smaller of both applies.
LIMIT_GRACE_SHARE = 0.05


def lower_bounds(arrays: JobArrays) -> tuple[Bools, Bools]:
    """Where a job's runtime is a lower bound, and where that is known.

    A runtime is a lower bound if the job was killed at its limit (its state says so, or it did not complete and reached
    it), was running when the log ended, or was stopped by a node failure or for another job. It is unknown
    where there is no positive runtime, and where a job of unknown state reached its request. A job that failed, ran out
    of memory or was cancelled before its limit is no lower bound: more time would not have helped it.
    """
    return arrays.once("bounds", lambda: _lower_bounds(arrays))


def _lower_bounds(arrays: JobArrays) -> tuple[Bools, Bools]:
    reached = reached_limit(arrays)
    is_unknown = arrays.codes("state")[0] < 0
    unsuccessful = ~arrays.state_is("COMPLETED") & ~is_unknown
    bound = arrays.state_is(*KILLED_AT_LIMIT, *STILL_RUNNING, *STOPPED_FROM_OUTSIDE) | (reached & unsuccessful)
    ran = arrays.runtime_s > 0
    return bound & ran, ran & ~(reached & is_unknown)


def reached_limit(arrays: JobArrays) -> Bools:
    """Where the runtime reached the limit that held at the job's end, less the grace."""
    limit_s = arrays.requested_s
    grace_s = np.minimum(LIMIT_GRACE_S, LIMIT_GRACE_SHARE * limit_s)
    return (limit_s > 0) & (arrays.runtime_s >= limit_s - grace_s)


NOT_ENDED = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING", "STOPPED")

# Difference (s) of the recorded runtime and end minus start that a prologue and an epilogue explain.
ELAPSED_TOLERANCE_S = 60.0

# The same as a share of the runtime; the larger of both applies.
ELAPSED_TOLERANCE_SHARE = 0.01


def partial_execution(arrays: JobArrays) -> Bools:
    """True for a partial execution whose job also has a summary record (SWF 2.2, field 11, codes 2 to 4)."""
    parts = arrays.state_is("PARTIAL")
    if not parts.any():
        return parts
    ids = pc.binary_join_element_wise(arrays.jobs.column("site").cast(pa.string()), arrays.jobs.column("job_id"), "\0")
    has_whole: Bools = pc.is_in(ids, ids.filter(pa.array(~parts)).combine_chunks()).to_numpy()
    return parts & has_whole


def unfinished(arrays: JobArrays) -> Bools:
    """True for a job in an unfinished state, and for a job with a start, no runtime, and a state other than CANCELLED.

    False for a running job with a known runtime so far, which is a lower bound (censoring.py).
    """
    started = ~np.isnan(arrays.start_s) & np.isnan(arrays.runtime_s)
    has_runtime = arrays.state_is(*STILL_RUNNING) & (arrays.runtime_s > 0)
    return (arrays.state_is(*NOT_ENDED) & ~has_runtime) | (started & ~arrays.state_is("CANCELLED"))


def cancelled_before_start(arrays: JobArrays) -> Bools:
    """True for a cancelled job without a positive runtime."""
    return arrays.state_is("CANCELLED") & ~(arrays.runtime_s > 0)


def never_ran(arrays: JobArrays) -> Bools:
    """True for a runtime of zero or less, and where neither start nor runtime is known."""
    unknown = np.isnan(arrays.runtime_s) & np.isnan(arrays.start_s)
    return (arrays.runtime_s <= 0) | unknown


def impossible_times(arrays: JobArrays) -> Bools:
    """True where the submit is unknown, a time lies far outside the log, or submit, start and end are out of order."""
    submit_s, start_s, end_s = arrays.submit_s, arrays.start_s, arrays.end_s
    return np.isnan(submit_s) | arrays.has_far_time | (start_s < submit_s) | (end_s < start_s) | (end_s < submit_s)


def no_procs(arrays: JobArrays) -> Bools:
    """True where neither allocated nor requested processors are known and positive."""
    return np.isnan(arrays.procs)


def elapsed_disagrees(arrays: JobArrays) -> Bools:
    """True where the recorded runtime and end minus start differ by more than suspension explains.

    A batch system measures the runtime apart from start and end, so that a clock that was set, or a number that was
    damaged, shows in their difference. Suspension may stand in the runtime or be left out of it. Unknown values are
    never held against a job.
    """
    missing_s = arrays.end_s - arrays.start_s - arrays.runtime_s
    tolerance_s = np.maximum(ELAPSED_TOLERANCE_S, ELAPSED_TOLERANCE_SHARE * arrays.runtime_s)
    return (missing_s < -tolerance_s) | (missing_s > np.nan_to_num(arrays.suspended_s) + tolerance_s)


# Tolerance (s), because start, end and durations are each truncated to whole seconds.
CLOCK_S = 2.0

# Share of suspension in the recorded runtime above which a job is set aside.
SUSPENDED_SHARE = 0.1


def suspended(arrays: JobArrays) -> Bools:
    """True where suspension that the log counts as runtime exceeds SUSPENDED_SHARE of the runtime.

    That suspension is runtime + suspended time - (end - start). Where one of these is unknown, it counts as zero.
    """
    hidden_s = np.minimum(arrays.runtime_s + arrays.suspended_s - (arrays.end_s - arrays.start_s), arrays.suspended_s)
    return (hidden_s > CLOCK_S) & (hidden_s > SUSPENDED_SHARE * arrays.runtime_s)


# Time beyond its limit (s) that the end of a job may take.
OVERRUN_GRACE_S = 3600.0

# The same as a share of the limit; the longer of both applies.
OVERRUN_GRACE_SHARE = 0.1

# Least number of jobs with a request from which to judge whether a queue enforces requests.
ENFORCED_MIN_JOBS = 100

# A queue where a larger share of these jobs exceeds request and grace does not enforce requests.
ENFORCED_OVERRUN_SHARE = 0.01


def over_limit(arrays: JobArrays) -> Bools:
    """True for a job that ran longer than its longest applicable limit plus the grace."""
    # The last element is for jobs without a queue (code -1).
    queue = arrays.codes("queue")[0]
    stated, observed = _stated(arrays)[queue], _observed(arrays)[queue]
    longest_s = np.where(np.isfinite(stated) | ~(arrays.requested_s > 0), stated, observed)
    return arrays.runtime_s > _with_grace(longest_s)


def _stated(arrays: JobArrays) -> Floats:
    """Per queue code the stated limit, infinite where there is none; the last element is for jobs without a queue."""
    limits_s = arrays.settings.maximum.queue_runtime_s
    machine_s = limits_s.get("*", np.inf)
    stated_s = (limits_s.get(name, np.inf) for name in arrays.codes("queue")[1])
    return np.array([*(min(queue_s, machine_s) for queue_s in stated_s), machine_s])


def _observed(arrays: JobArrays) -> Floats:
    """Per queue code its largest request if it enforces requests, else infinite; the last element is for no queue."""
    n = len(arrays.codes("queue")[1]) + 1
    has_request = (arrays.requested_s > 0) & (arrays.runtime_s > 0)
    queues, requested_s = arrays.codes("queue")[0][has_request] % n, arrays.requested_s[has_request]
    overran = arrays.runtime_s[has_request] > _with_grace(requested_s)
    jobs, overruns = np.bincount(queues, minlength=n), np.bincount(queues[overran], minlength=n)
    largest_s = np.zeros(n)
    np.maximum.at(largest_s, queues, requested_s)
    return np.where((jobs >= ENFORCED_MIN_JOBS) & (overruns <= ENFORCED_OVERRUN_SHARE * jobs), largest_s, np.inf)


def _with_grace(limit_s: Floats) -> Floats:
    return limit_s + np.maximum(OVERRUN_GRACE_S, OVERRUN_GRACE_SHARE * limit_s)


TEXTS_OF_RULES = ("user", "account", "application", "queue")


def matches(jobs: pa.Table, zone: str, rule: SiteRule, burst_ids: pa.Array | None = None) -> Bools:
    """The jobs that match all values of a rule, with submits as the log has them; without `burst_ids` none has one."""
    found, submit_s = np.full(jobs.num_rows, rule.burst is None or burst_ids is not None), floats(jobs, "submit_s")
    for name in TEXTS_OF_RULES:
        if (wanted := getattr(rule, name)) is not None:
            found &= _equals(jobs.column(name), wanted)
    if rule.burst is not None and burst_ids is not None:
        found &= _equals(burst_ids, rule.burst)
    if rule.since is not None:
        found &= submit_s >= epoch_s(rule.since, zone)
    if rule.until is not None:
        found &= submit_s < epoch_s(rule.until, zone)
    return found


def _equals(column: pa.Array | pa.ChunkedArray, wanted: str) -> Bools:
    same = pc.fill_null(pc.equal(column.cast(pa.string()), wanted), False)
    return np.asarray(same)


def epoch_s(when: datetime, zone: str) -> float:
    """An instant in s since 1970; a time without a zone is in the given zone."""
    return (when if when.tzinfo else when.replace(tzinfo=ZoneInfo(zone))).timestamp()
