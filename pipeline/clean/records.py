"""Masks that need only records: impossible and unfinished jobs, states, limits, the site's rules, repeats, and edges.

A job that lost its node or was preempted would have run longer, and `is_lower_bound` is true for it. It is set aside
nevertheless: nodes are often slow before they fail, and a preempted job may continue from a checkpoint. A site can
switch the flag off; such jobs then count as lower bounds. A job that ran out of memory is no lower bound.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import DAY_S, EARLIEST_S, LATEST_S, Bools, Floats, Ints, category_codes, floats, matching_places
from pipeline.clean.job_arrays import JobArrays
from pipeline.kernels import entry_kernel
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

    False for a running job with a known runtime so far, which is a lower bound.
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
    found, submit_s = np.zeros(jobs.num_rows, np.bool_), floats(jobs, "submit_s")
    found[matching_places(jobs, rule.model_dump(include=set(TEXTS_OF_RULES), exclude_none=True))] = True
    if rule.burst is not None:
        found &= False if burst_ids is None else _equals(burst_ids, rule.burst)
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


# ---------------- what occurs twice
# Jobs. Ingest has already merged records that share an id. Equal values under two ids prove nothing, because
# thousands of array tasks share all their times. So two jobs are the same only if cluster, submit, start, end, size,
# user, queue, application and request are all equal and one of these holds:
# - the ids contain the same number and differ only in the name of a cluster or server before or after it;
# - nearly all jobs of one file, in the time that both files cover, occur in another file too: the same log, read
# twice.
#
# Not detected: jobs copied within one file under new numbers, single copies, and copies with changed values.
#
# Clocks. A server assigns ids in order of submit, so submit times rise with the ids. Where submit times step back,
# and jobs fill the repeated period both before and after the step, as in the hour at the end of summer time, the
# clock was set back by that much. Jobs that were resubmitted under an old id do not show this pattern, because
# nothing fills the period before the step.
#
# Not detected: clocks set forward (they look like idle time), steps across fewer than ten jobs, anything in SWF logs
# (their jobs are sorted and renumbered), and logs whose ids do not follow the clock (several servers, restarted ids).
# On the archive's cleaned logs neither screen sets a job aside.

# The number of an id (with its array index), between optional names of servers.
_NAMED = re.compile(r"(?:[A-Za-z][\w-]*[-.:/])?(\d+(?:\[\d*\]|_\d+)?)(?:[.@:/][A-Za-z][\w.-]*)?")

# Least number of jobs of a file that another file also holds before the two can be the same log.
COPY_MIN_JOBS = 100

# Least share of these in the file's jobs in the time that both files cover.
COPY_MIN_SHARE = 0.95


def duplicate(arrays: JobArrays) -> Bools:
    """True for the second job of each pair, in order of id or of file."""
    found = np.zeros(arrays.jobs.num_rows, bool)
    files, file_names = category_codes(arrays.jobs, "source_file")
    ids = arrays.jobs.column("job_id")
    if len(file_names) < 2 and not pc.any(pc.match_substring_regex(ids, "[a-z]")).as_py():
        return found
    import pandas as pd  # noqa: PLC0415  (most logs do without)

    # Jobs with the same values; unknown is a value of its own.
    known = np.flatnonzero(~np.isnan(arrays.submit_s + arrays.start_s + arrays.end_s) & (arrays.end_s > arrays.start_s))
    times = (arrays.submit_s, arrays.start_s, arrays.end_s, arrays.procs, arrays.requested_s)
    codes = (arrays.codes(name)[0] for name in ("cluster", "user", "queue", "application"))
    values = (*times, *codes, floats(arrays.jobs, "restart"))
    alike = pd.DataFrame({place: np.nan_to_num(one[known], nan=-1.0) for place, one in enumerate(values)}, index=known)
    alike = alike[alike.duplicated(keep=False)]
    if alike.empty:
        return found
    jobs = pd.DataFrame({"key": alike.groupby(list(alike.columns)).ngroup(), "file": files[alike.index]})
    jobs["id"] = ids.take(pa.array(alike.index.to_numpy())).to_pylist()
    jobs["number"] = [match[1] if (match := _NAMED.fullmatch(one)) else f"\0{one}" for one in jobs["id"]]
    jobs = jobs.sort_values("id", kind="stable")
    found[jobs.index[jobs.duplicated(["key", "number"])]] = True
    # A job may be the kth of its values in its file, where the file before it that has a kth is the same log.
    jobs["nth"] = jobs.groupby(["key", "file"]).cumcount()
    jobs["earlier"] = jobs.sort_values("file", kind="stable").groupby(["key", "nth"])["file"].shift()
    for pair, own in jobs.dropna(subset="earlier").groupby(["earlier", "file"]):
        n_common = _in_common_time(arrays, files, pair)
        if (own["nth"] == 0).sum() >= COPY_MIN_JOBS and len(own) >= COPY_MIN_SHARE * n_common:
            found[own.index] = True
    return found


def _in_common_time(arrays: JobArrays, files: Ints, pair: Iterable[float]) -> int:
    """Jobs of the file that has fewer, among those submitted while both files have jobs."""
    submits_s = [arrays.submit_s[(files == name) & (arrays.end_s > arrays.start_s)] for name in pair]
    since_s, until_s = max(np.nanmin(s) for s in submits_s), min(np.nanmax(s) for s in submits_s)
    return min(int(((s >= since_s) & (s <= until_s)).sum()) for s in submits_s)


# Least step back of a clock (s).
CLOCK_MIN_BACK_S = 60

# Least number of jobs submitted in the repeated period, each time.
CLOCK_MIN_JOBS = 5

# Longest gap between these jobs, as a share of the period.
CLOCK_MAX_GAP_SHARE = 0.5

# If a larger share of ids steps back, ids do not follow the clock and nothing is set aside.
CLOCK_DISORDER_SHARE = 0.05


def clock_jump(arrays: JobArrays) -> Bools:
    """True for a job that waits or runs at any time in a period that occurs twice in the log."""
    touched = np.zeros(arrays.jobs.num_rows, bool)
    for since_s, until_s in repeated_stretches(arrays):
        last_s = np.fmax(np.fmax(arrays.submit_s, arrays.start_s), arrays.end_s)
        touched |= (arrays.submit_s <= until_s) & (last_s >= since_s)
    return touched


def repeated_stretches(arrays: JobArrays) -> list[tuple[float, float]]:
    """The periods that occur twice in the log, in order: start and end in s since 1970, as written in the log."""
    times_s = _by_number(arrays)
    if len(times_s) < 2 * CLOCK_MIN_JOBS:
        return []
    back = np.flatnonzero(np.diff(times_s) <= -CLOCK_MIN_BACK_S) + 1
    if not len(back) or len(back) > CLOCK_DISORDER_SHARE * len(times_s):
        return []
    gap_s = _filled(times_s, back, CLOCK_MIN_JOBS, CLOCK_MAX_GAP_SHARE)
    # The clock was set at an unknown time between two submits: the period is extended by the longest gap.
    stretches = [(float(times_s[i] - s), float(times_s[i - 1] + s)) for i, s in zip(back, gap_s, strict=True) if s >= 0]
    return sorted(stretches)


def _by_number(arrays: JobArrays) -> Ints:
    """Submit times of first records, in order of the leading number of their id, then of submit time."""
    numbers = leading_numbers(arrays.jobs.column("job_id"))
    known = (numbers >= 0) & ~np.isnan(arrays.submit_s) & (floats(arrays.jobs, "restart") == 0)
    submit_s = arrays.submit_s[known].astype(np.int64)
    ordered: Ints = submit_s[np.lexsort((submit_s, numbers[known]))]
    return ordered


def leading_numbers(ids: pa.ChunkedArray) -> Ints:
    """The leading digits of each id as a number (at most 18 digits); -1 where there are none."""
    found = pc.struct_field(pc.extract_regex(ids, r"^(?P<number>[0-9]{1,18})"), "number")
    numbers: Ints = pc.fill_null(found.cast(pa.int64()), -1).to_numpy()
    return numbers


@entry_kernel
def _filled(times_s: Ints, back: Ints, min_jobs: int, gap_share: float) -> Ints:
    """For each step back, the longest gap (s) between the jobs that fill the repeated period; -1 where they do not.

    The jobs before and after the step are visited alternately. Where one side does not fill the period, its walk ends
    early, so that the time is linear in practice.
    """
    found = np.full(len(back), -1, np.int64)
    for place in range(len(back)):
        i = back[place]
        low, high = times_s[i], times_s[i - 1]
        most = gap_share * (high - low)
        before, after, above, below = i - 1, i, high, low
        n_before, n_after = 1, 1
        is_open, widest = True, 0
        while is_open and widest < most:
            is_open = False
            if above > low:
                before -= 1
                at = low if before < 0 or times_s[before] <= low else times_s[before]
                is_open = True
                if at <= above:
                    n_before += at > low
                    widest = max(widest, above - at)
                    above = at
            if below < high:
                after += 1
                at = high if after >= len(times_s) or times_s[after] >= high else times_s[after]
                is_open = True
                if at >= below:
                    n_after += at < high
                    widest = max(widest, at - below)
                    below = at
        if widest < most and n_before >= min_jobs and n_after >= min_jobs:
            found[place] = widest
    return found


# ---------------- where a log lies in time
# Edges. Jobs at either end are cut off where a long gap separates them from the rest, as trial jobs before the first
# real ones. A ramp at the beginning ends with the first week that has a stated share of a usual week's jobs. Nothing
# is cut where that would remove more than a stated share of the log. Quiet weeks at the end stay: many logs end at a
# holiday. On the archive's cleaned logs each of these screens sets aside less than 0.1% of the jobs.

# A log's last plausible time lies this long after its last busy day, and its first one as long before the first (days).
REACH_DAYS = 90

# In a log with fewer active days: this many median gaps between them instead.
REACH_GAPS = 10

# A day is busy if the days within reach before it have this share of the usual number of submits and ends...
BUSY_SHARE = 0.05

# ... which all but this share of the submits and ends have or exceed, ...
USUAL_SHARE = 0.25

# ... and at least so many: one job has two.
BUSY_LEAST = 3

# Largest share of a log's submits and ends that can be found implausible at either end.
FAR_SHARE = 0.05


def plausible_span(parts: Iterable[pa.Table]) -> tuple[float, float]:
    """The times between which a log plausibly lies (s since 1970; the end is excluded), from its parts.

    A record from the future, or with a sentinel or a shifted clock for a time, stands far from the other records, where
    few others are. A second with several records counts once. After a pause the log goes on as soon as records come at
    a twentieth of their usual rate.
    """
    per_day = np.zeros(LATEST_S // DAY_S, np.int64)
    for part in parts:
        times_s = np.concatenate([floats(part, name) for name in ("submit_s", "end_s")])
        known = np.unique(times_s[(times_s >= EARLIEST_S) & (times_s < LATEST_S)])
        per_day += np.bincount((known // DAY_S).astype(np.int64), minlength=len(per_day))
    if not per_day.any():
        return EARLIEST_S, LATEST_S
    first, last = len(per_day) - _last_plausible_day(per_day[::-1]), _last_plausible_day(per_day) + 1
    return max(first * DAY_S, EARLIEST_S), min(last * DAY_S, LATEST_S)


def _last_plausible_day(per_day: Ints) -> float:
    days = np.flatnonzero(per_day)
    counts, until = per_day[days], np.cumsum(per_day[days])
    # Without the longest gap, which may lead to what is far.
    gaps = np.sort(np.diff(days))[:-1]
    reach = max(REACH_DAYS, REACH_GAPS * float(np.median(gaps))) if len(gaps) else REACH_DAYS
    within = until - np.append(0, until)[np.searchsorted(days, days - reach)]
    order = np.argsort(within, kind="stable")
    usual = within[order][np.searchsorted(np.cumsum(counts[order]), USUAL_SHARE * until[-1])]
    is_busy = within >= max(BUSY_LEAST, BUSY_SHARE * usual)
    is_busy |= until - counts <= (1 - FAR_SHARE) * (until[-1] - 1)
    return float(days[is_busy].max() + reach)


WEEK_DAYS = 7

# Least number of jobs of a log that is searched for abnormal gaps.
EDGE_MIN_JOBS = 1000

# An edge ends at an abnormal gap among this many jobs at either end.
EDGE_NEAR_JOBS = 100

# Largest share of the log's jobs in an edge; a larger edge is not cut.
EDGE_MAX_SHARE = 0.05

# Least length of an abnormal gap (s).
EDGE_GAP_S = 6 * 3600.0

# Least length of an abnormal gap in multiples of the 99% quantile of gaps.
EDGE_GAP_FACTOR = 5.0

# The ramp ends with the first 7 days that have this share of the jobs of a median 7 days.
RAMP_SHARE = 0.25

# Least length of a log that is searched for a ramp (days).
RAMP_MIN_DAYS = 56

# Least number of jobs in a median 7 days of such a log.
RAMP_MIN_WEEK_JOBS = 28


def log_edge(arrays: JobArrays) -> Bools:
    """True for a job submitted before the steady part of the log begins or after it ends."""
    # A stable sort takes linear time for a table from ingest, which is in order already.
    times_s = np.sort(arrays.submit_s[~np.isnan(arrays.submit_s)], kind="stable")
    if not len(times_s):
        return np.zeros(arrays.jobs.num_rows, np.bool_)
    n_head, n_tail = _parted(times_s)
    n_head = max(n_head, _ramp(times_s)) if arrays.begins_log else 0
    n_tail = n_tail if arrays.ends_log else 0
    since_s, until_s = float(times_s[n_head]), float(times_s[len(times_s) - 1 - n_tail])
    return (arrays.submit_s < since_s) | (arrays.submit_s > until_s)


def _parted(times_s: Floats) -> tuple[int, int]:
    """The number of jobs before the last abnormal gap near the beginning and after the first one near the end."""
    gaps_s = np.diff(times_s)
    near = min(EDGE_NEAR_JOBS, int(EDGE_MAX_SHARE * len(times_s)))
    if not near or len(gaps_s) < EDGE_MIN_JOBS:
        return 0, 0
    abnormal_s = max(EDGE_GAP_S, EDGE_GAP_FACTOR * float(np.quantile(gaps_s, 0.99)))
    head, tail = gaps_s[:near] > abnormal_s, gaps_s[::-1][:near] > abnormal_s
    return int(np.flatnonzero(head).max(initial=-1)) + 1, int(np.flatnonzero(tail).max(initial=-1)) + 1


def _ramp(times_s: Floats) -> int:
    """The number of jobs before the last day of the first seven days that hold a full enough share of a usual week."""
    days = (times_s - times_s[0]) // DAY_S
    # With less than one job a day there is no usual week. This also bounds the memory for a stray date.
    if days[-1] < RAMP_MIN_DAYS or days[-1] > len(times_s):
        return 0
    weeks = np.convolve(np.bincount(days.astype(np.int64)), np.ones(WEEK_DAYS, np.int64), "valid")
    full = np.median(weeks)
    if full < RAMP_MIN_WEEK_JOBS:
        return 0
    first = int(np.argmax(weeks >= RAMP_SHARE * full))
    before = int(np.searchsorted(days, first + WEEK_DAYS - 1)) if first else 0
    return before if before <= EDGE_MAX_SHARE * len(times_s) else 0
