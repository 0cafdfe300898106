"""Finds where a log lies in time: its plausible times, and its edges.

Edges. Jobs at either end are cut off where a long gap separates them from the rest, as trial jobs before the first real
ones. A ramp at the beginning ends with the first week that has a stated share of a usual week's jobs. Nothing is cut
where that would remove more than a stated share of the log. Quiet weeks at the end stay: many logs end at a holiday.
On the archive's cleaned logs each of these screens sets aside less than 0.1% of the jobs.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from pipeline.arrays import DAY_S, EARLIEST_S, LATEST_S, Bools, Floats, Ints, floats
from pipeline.clean.job_arrays import JobArrays

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
    since_s, until_s = steady_span(arrays)
    return (arrays.submit_s < since_s) | (arrays.submit_s > until_s)


def steady_span(arrays: JobArrays) -> tuple[float, float]:
    """First and last submit of the steady part, both included, s since 1970; NaN where no submit time is known."""
    # A stable sort takes linear time for a table from ingest, which is in order already.
    times_s = np.sort(arrays.submit_s[~np.isnan(arrays.submit_s)], kind="stable")
    if not len(times_s):
        return np.nan, np.nan
    n_head, n_tail = _parted(times_s)
    n_head = max(n_head, _ramp(times_s)) if arrays.begins_log else 0
    n_tail = n_tail if arrays.ends_log else 0
    return float(times_s[n_head]), float(times_s[len(times_s) - 1 - n_tail])


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
