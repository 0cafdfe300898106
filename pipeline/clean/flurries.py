"""Finds bursts in which one user submits faster than all other users together (Tsafrir & Feitelson 2006).

Each job of a user scores +1. Between jobs the score falls by R jobs a week, where R is the median number of jobs that
all other users submit in a week. The maximal scoring segments of this sequence (Ruzzo & Tompa 1999, ISMB, section 2)
are the periods in which the user alone was faster, at any time scale, found in linear time. The score over R is the
lead in machine-weeks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import DAY_S, WEEK_S, Floats, Ints
from pipeline.clean.job_arrays import JobArrays
from pipeline.kernels import entry_kernel, kernel

# A shorter log has too few weeks for a median; jobs are then counted by day.
SHORT_LOG_WEEKS = 8


def submit_rates(arrays: JobArrays, min_jobs: int) -> dict[str, float]:
    """By user with `min_jobs` jobs, the jobs that all other such users submit in a median week; empty for one user.

    Of the jobs only the users and the submit times are read.
    """
    codes, names = arrays.codes("user")
    rows = np.flatnonzero((codes >= 0) & ~np.isnan(arrays.submit_s))
    rows = rows[(np.bincount(codes[rows], minlength=len(names)) >= min_jobs)[codes[rows]]]
    active, place = np.unique(codes[rows], return_inverse=True)
    if len(active) < 2:
        return {}
    since_s = arrays.submit_s[rows] - arrays.submit_s[rows].min()
    unit_s = WEEK_S if since_s.max() >= SHORT_LOG_WEEKS * WEEK_S else DAY_S
    n_bins = int(since_s.max() // unit_s) + 1
    cells = place * n_bins + (since_s // unit_s).astype(np.int64)
    own = np.bincount(cells, minlength=len(active) * n_bins).reshape(len(active), n_bins)
    totals = own.sum(axis=0)
    # Weeks without any job do not count: the machine was down, or the log holds a stray date.
    others = (totals - own)[:, totals > 0]
    # Where most weeks are empty, the mean replaces the median.
    typical = np.where((median := np.median(others, axis=1)) > 0, median, others.mean(axis=1))
    return dict(zip([names[code] for code in active], (typical * WEEK_S / unit_s).tolist(), strict=True))


@kernel
def _one_user(
    times_s: Floats, begin: int, end: int, rate: float,
    first: Ints, last: Ints, left: Floats, right: Floats, lower: Ints,
) -> int:  # fmt: skip
    n, total = 0, 0.0
    for i in range(begin, end):
        if i > begin:
            total -= rate * (times_s[i] - times_s[i - 1])
        low, start, j = total, i, n - 1
        total += 1.0
        while True:
            # `lower` links to the last earlier segment with a lower start, so that all between are skipped at once.
            while j >= 0 and left[j] >= low:
                j = lower[j]
            if j < 0 or right[j] >= total:
                first[n], last[n], left[n], right[n], lower[n] = start, i, low, total, j
                n += 1
                break
            start, low, n, j = first[j], left[j], j, lower[j]
    return n


@entry_kernel
def maximal_segments(times_s: Floats, starts: Ints, rates: Floats, min_jobs: int) -> tuple[Ints, Ints, Floats]:
    """First and last index (both included) and score of each user's segments of at least `min_jobs` jobs.

    `times_s` ascends within the slice `starts[u]:starts[u + 1]` of user u. Each job scores 1 and each second subtracts
    `rates[u]`. Users with an infinite rate are skipped.
    """
    first, last = np.empty(len(times_s), np.int64), np.empty(len(times_s), np.int64)
    score = np.empty(len(times_s))
    longest = 0
    for user in range(len(starts) - 1):
        longest = max(longest, starts[user + 1] - starts[user])
    begins, ends = np.empty(longest, np.int64), np.empty(longest, np.int64)
    left, right, lower = np.empty(longest), np.empty(longest), np.empty(longest, np.int64)
    n_found = 0
    for user in range(len(starts) - 1):
        if starts[user + 1] - starts[user] < min_jobs or not np.isfinite(rates[user]):
            continue
        n = _one_user(times_s, starts[user], starts[user + 1], rates[user], begins, ends, left, right, lower)
        for k in range(n):
            if ends[k] - begins[k] + 1 >= min_jobs:
                first[n_found], last[n_found], score[n_found] = begins[k], ends[k], right[k] - left[k]
                n_found += 1
    return first[:n_found].copy(), last[:n_found].copy(), score[:n_found].copy()


@dataclass(frozen=True, slots=True)
class BurstRules:
    """Thresholds of the screens that find bursts; a study passes others to `clean`.

    A flurry, in which one user submits faster than all others together, is listed or set aside. Probes are many short
    jobs throughout the log with which staff or a monitor test whether the machine responds: each of their thresholds,
    halved or raised by half, finds the same ones in NASA's log. The thresholds of flurries were chosen on the archive's
    logs and their curators' removals (docs/decisions/cleaning-and-groups.md).
    """

    # Least number of jobs of a burst. Users with fewer jobs do not count as others.
    min_jobs: int = 100
    # Least lead of a burst that is set aside: normal weeks of all others' jobs (machine-weeks).
    remove_weeks: float = 1.5
    # Least share of such a burst in all jobs submitted during its span.
    remove_share: float = 0.5
    # Least share of its jobs that request the same number of processors.
    remove_alike: float = 0.5
    # Largest ratio of the 75% to the 25% quantile of its runtimes; unknown runtimes do not count.
    remove_spread: float = 1.4
    # Shorter runtimes count as this one in that ratio (s).
    spread_floor_s: float = 60.0
    # Least lead of a burst that is listed and kept (machine-weeks).
    suspect_weeks: float = 0.15
    # Slow bursts: least rate of submits as a share of all others' rate.
    slow_pace: float = 0.5
    # Least lead of a slow burst that is listed (machine-weeks).
    slow_weeks: float = 1.0
    # Probes: least number of jobs of one user, size and application.
    probe_min_jobs: int = 500
    # Least share in the jobs of the log.
    probe_log_share: float = 0.1
    # Least share of the days of its span on which such a job was submitted.
    probe_active_days: float = 0.5
    # Least number of days from its first to its last job.
    probe_min_span_days: float = 14.0
    # Largest 75% quantile of its runtimes (s).
    probe_max_runtime_s: float = 60.0
    # Largest ratio of its share of processor-seconds to its share of jobs.
    probe_work_share: float = 0.1


BURST_RULES = BurstRules()


def find_segments(
    arrays: JobArrays, rules: BurstRules, pace: float, weeks: float
) -> Iterator[tuple[Ints, float, float]]:
    """The periods in which a user's lead over `pace` times the rate of all others is at least `weeks` machine-weeks.

    Largest lead first: the rows of the user's jobs in order of submit, the lead in machine-weeks, and their share in
    the jobs that active users submitted during that time.
    """
    rest = rest_per_week(arrays, rules.min_jobs)
    times_s = arrays.submit_s[arrays.by_user]
    rates = np.where(rest > 0, pace * rest / WEEK_S, np.inf)
    first, last, score = maximal_segments(times_s, arrays.user_starts, rates, rules.min_jobs)
    users = arrays.codes("user")[0][arrays.by_user[first]]
    ahead = score / rest[users]
    found = ahead >= weeks
    first, last, ahead = first[found], last[found], ahead[found]
    share = _share(arrays, first, last, rules.min_jobs)
    for k in np.lexsort((first, -ahead)):
        yield arrays.by_user[first[k] : last[k] + 1], float(ahead[k]), float(share[k])


def rest_per_week(arrays: JobArrays, min_jobs: int) -> Floats:
    """Per user, the jobs of all other users in a median week of the log; 0 without another user to compare with.

    Users with fewer than `min_jobs` jobs do not count as others.
    """
    rest = arrays.rest_per_week
    if rest is None:
        rest = arrays.once(("rates", min_jobs), lambda: submit_rates(arrays, min_jobs))
    return np.array([rest.get(name, 0.0) for name in arrays.codes("user")[1]])


def smallest_burst_jobs(arrays: JobArrays, rules: BurstRules) -> int:
    """The number of jobs of the smallest burst at one instant that the screen could find in this log."""
    rest = rest_per_week(arrays, rules.min_jobs)
    return max(rules.min_jobs, int(np.ceil(rules.suspect_weeks * rest.max(initial=0.0))))


def _share(arrays: JobArrays, first: Ints, last: Ints, min_jobs: int) -> Floats:
    """Share of the segment in the jobs that active users submitted during its span."""
    counts = np.diff(arrays.user_starts)
    rows = arrays.by_submit[counts[arrays.codes("user")[0][arrays.by_submit]] >= min_jobs]
    times_s = arrays.submit_s[rows]
    begin_s, end_s = (arrays.submit_s[arrays.by_user[edge]] for edge in (first, last))
    meanwhile = np.searchsorted(times_s, end_s, side="right") - np.searchsorted(times_s, begin_s, side="left")
    share: Floats = (last - first + 1) / np.maximum(meanwhile, 1)
    return share
