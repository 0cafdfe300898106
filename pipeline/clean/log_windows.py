"""Finds windows of a log that are not its usual work: reserved times, and its edges.

Reserved times are named by the site or shown by the log. A log does not state reservations. A window counts as one if
all of this holds: its first job starts on an empty machine; for hours only jobs of one or two users start; and all the
while jobs of several other users wait that could have started: they fit beside the running jobs, wait in the same
queues, request no more time, and are eligible where the eligible time is known. A window reaches from its first start
to its last.

Not detected: a reservation of a part of the machine, one with a queue of its own, or one begun while others' jobs ran;
one for which nobody waited, or in a log without waits or requested times; one used by more than two users, or by one
job alone. A reservation looks the same as a fault of the scheduler, or a rule of the site, that let only few users'
jobs start. A site names such times itself: `[[clean.dedicated]]`.

Edges. Jobs at either end are cut off where a long gap separates them from the rest, as trial jobs before the first real
ones. A ramp at the beginning ends with the first week that has a stated share of a usual week's jobs. Nothing is cut
where that would remove more than a stated share of the log. Quiet weeks at the end stay: many logs end at a holiday.
On the archive's cleaned logs each of these screens sets aside less than 0.1% of the jobs.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from pipeline.arrays import DAY_S, EARLIEST_S, LATEST_S, Bools, Floats, Ints, floats
from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.occupancy import LARGEST, in_order, occupancy_of, sizes_at, sustained_procs
from pipeline.clean.record_masks import epoch_s
from pipeline.errors import printable
from pipeline.kernels import entry_kernel
from pipeline.report import Fact

Window = tuple[float, float]

# Largest number of users whose jobs start in a reserved window.
WINDOW_MAX_USERS = 2

# Least time from the first to the last of these starts (s).
WINDOW_MIN_S = 6 * 3600

# Least number of jobs that start in the window.
WINDOW_MIN_JOBS = 5

# Least number of other users with a job that waited throughout and would have fitted.
WINDOW_MIN_KEPT_OUT = 5


def dedicated_time(arrays: JobArrays) -> Bools:
    """True for a job that started in a reserved window, stated or found; without a start its submit time counts."""
    began_s = arrays.began_s
    within = np.zeros(len(began_s), bool)
    for since_s, until_s in _named(arrays):
        within |= (began_s >= since_s) & (began_s < until_s)
    for since_s, until_s in found_windows(arrays):
        within |= (arrays.start_s >= since_s) & (arrays.start_s <= until_s)
    return within


def dedicated_facts(arrays: JobArrays) -> dict[str, Fact]:
    """The number of jobs in each stated window, by its reason."""
    facts: dict[str, Fact] = {}
    began_s = arrays.began_s
    for one, (since_s, until_s) in zip(arrays.settings.dedicated, _named(arrays), strict=True):
        within = int(((began_s >= since_s) & (began_s < until_s)).sum())
        facts[f"dedicated: {printable(one.reason)}"] = within
    return facts


def found_windows(arrays: JobArrays) -> list[Window]:
    """First and last start (s since 1970) of each window found in the log, in order."""
    rows = np.flatnonzero((np.abs(arrays.start_s) < LARGEST) & (arrays.codes("user")[0] >= 0))
    if not len(rows):
        return []
    # Also by user: the order of equal starts is unknown and must not affect the result.
    starts_s, users = in_order(arrays.start_s[rows].astype(np.int64), arrays.codes("user")[0][rows])
    # A job with an unknown or impossible end does not show whether the machine is empty.
    ran = (arrays.end_s[rows] > arrays.start_s[rows]) & (arrays.end_s[rows] < LARGEST)
    ends_s = np.where(ran, arrays.end_s[rows], arrays.start_s[rows]).astype(np.int64)
    ends_s.sort()
    few_and_long = (WINDOW_MAX_USERS, WINDOW_MIN_S, WINDOW_MIN_JOBS)
    first, last = _stretches(starts_s, users, len(arrays.codes("user")[1]), ends_s, *few_and_long)
    windows = [(float(starts_s[i]), float(starts_s[j])) for i, j in zip(first, last, strict=True)]
    return [window for window in windows if _kept_others_out(arrays, window)] if windows else []


def _named(arrays: JobArrays) -> Iterator[Window]:
    zone = arrays.site.timezone
    return ((epoch_s(one.since, zone), epoch_s(one.until, zone)) for one in arrays.settings.dedicated)


@entry_kernel
def _stretches(
    starts_s: Ints, users: Ints, n_users: int, ends_s: Ints, max_users: int, min_s: int, min_jobs: int
) -> tuple[Ints, Ints]:
    """First and last place of each long enough run of starts by few users that begins on an empty machine."""
    first, last = np.empty(len(starts_s), np.int64), np.empty(len(starts_s), np.int64)
    held = np.zeros(n_users, np.int64)
    n, n_held, until, ended, passed = 0, 0, 0, 0, 0
    for i in range(len(starts_s)):
        while until < len(starts_s) and (held[users[until]] > 0 or n_held < max_users):
            n_held += held[users[until]] == 0
            held[users[until]] += 1
            until += 1
        while ended < len(ends_s) and ends_s[ended] <= starts_s[i]:
            ended += 1
        # `until` is the first start of one user too many: all starts in the same second are left out.
        stop = until
        while until < len(starts_s) and stop > i and starts_s[stop - 1] == starts_s[until]:
            stop -= 1
        is_empty = ended >= i and (i == 0 or starts_s[i - 1] < starts_s[i])
        if i >= passed and is_empty and stop - i >= min_jobs and starts_s[stop - 1] - starts_s[i] >= min_s:
            first[n], last[n] = i, stop - 1
            n, passed = n + 1, stop
        held[users[i]] -= 1
        n_held -= held[users[i]] == 0
    return first[:n], last[:n]


def _kept_others_out(arrays: JobArrays, window: Window) -> bool:
    since_s, until_s = window
    users, queues = (arrays.codes(name)[0] for name in ("user", "queue"))
    witnesses = (arrays.submit_s <= since_s) & (arrays.start_s > until_s) & (users >= 0)
    # A job that waits for a dependency or for a time its user gave shows no reservation.
    witnesses &= ~(floats(arrays.jobs, "eligible_s") > since_s)
    if len(np.unique(users[witnesses])) < WINDOW_MIN_KEPT_OUT:
        return False
    own = (arrays.start_s >= since_s) & (arrays.start_s <= until_s)
    witnesses &= ~np.isin(users, np.unique(users[own]))
    # Nor does a job that the opening hours of a queue or a limit on long jobs may have delayed.
    witnesses &= np.isin(queues, np.unique(queues[own]))
    witnesses &= arrays.requested_s <= np.nanmax(arrays.requested_s[own], initial=0)
    witnesses &= arrays.procs <= _size(arrays, since_s) - occupancy_of(arrays, own).busy.max(initial=0)
    return len(np.unique(users[witnesses])) >= WINDOW_MIN_KEPT_OUT


def _size(arrays: JobArrays, when_s: float) -> float:
    """The size of the machine as the site states it, else the sustained level of the log, which is rather too low."""
    stated = float(sizes_at(arrays, np.array([when_s]))[0])
    return arrays.once("sustained", lambda: sustained_procs(occupancy_of(arrays))) if np.isnan(stated) else stated


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
    few others are. A second with several records counts once. After a pause the log goes on as soon as records come at a
    twentieth of their usual rate.
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
    times_s = _ordered(arrays)
    if not len(times_s):
        return np.nan, np.nan
    n_head, n_tail = _parted(times_s)
    n_head = max(n_head, _ramp(times_s)) if arrays.begins_log else 0
    n_tail = n_tail if arrays.ends_log else 0
    return float(times_s[n_head]), float(times_s[len(times_s) - 1 - n_tail])


def _ordered(arrays: JobArrays) -> Floats:
    known = arrays.submit_s[~np.isnan(arrays.submit_s)]
    # A table from ingest is in order already; checking that takes a tenth of the time of sorting.
    return known if bool(np.all(known[1:] >= known[:-1])) else np.sort(known)


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
