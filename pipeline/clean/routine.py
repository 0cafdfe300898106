"""Finds jobs that programs submit: probes throughout the log, and timers at one hour of the day.

Probes are classes of one user's jobs of one size and application; timers are classes of one user's jobs in one hour of
the day. docs/decisions/cleaning-bursts.md says how the thresholds were chosen.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import DAY_S, Ints, row_codes
from pipeline.clean.job_arrays import JobArrays


@dataclass(frozen=True, slots=True)
class ProbeRules:
    """Probes: many short jobs throughout the log with which staff or a monitor test whether the machine responds.

    Each threshold, halved or raised by half, finds the same probes in NASA's log (docs/decisions/cleaning-bursts.md).
    """

    # Least number of jobs of one user, size and application.
    min_jobs: int = 500
    # Least share in the jobs of the log.
    log_share: float = 0.1
    # Least share of the days of its span on which such a job was submitted.
    active_days: float = 0.5
    # Least number of days from its first to its last job.
    min_span_days: float = 14.0
    # Largest 75% quantile of its runtimes (s).
    max_runtime_s: float = 60.0
    # Largest ratio of its share of processor-seconds to its share of jobs.
    work_share: float = 0.1


PROBE_RULES = ProbeRules()

# Least number of jobs of one user in one hour of local time.
TIMER_MIN_JOBS = 500

# Least share of the user's jobs in that hour.
TIMER_HOUR_SHARE = 0.8

# Least share of the days of a timer's span on which such a job was submitted.
TIMER_ACTIVE_DAYS = 0.5

# Least number of days from a timer's first to its last job.
TIMER_MIN_SPAN_DAYS = 14.0


def find_probes(arrays: JobArrays, rules: ProbeRules) -> list[Ints]:
    """Rows of each class (user, processors, application) that is a probe, each in order of submit."""
    needed = max(rules.min_jobs, rules.log_share * arrays.jobs.num_rows)
    rows = arrays.by_submit
    # A class has at most as many jobs as its user, so most users are excluded before sorting.
    rows = rows[(np.diff(arrays.user_starts) >= needed)[arrays.users[0][rows]]]
    work = arrays.proc_s.sum()
    return [one for one in _classes(rows, _codes(arrays, rows), needed) if _is_probe(arrays, one, rules, work)]


def find_timers(arrays: JobArrays) -> list[Ints]:
    """Rows of each user and hour of local time that hold nearly all jobs of the user, as a timer submits them."""
    rows, per_user = arrays.by_submit, np.diff(arrays.user_starts)
    codes = arrays.users[0][rows] * 24 + arrays.local_s[rows] // 3600 % 24
    needed = np.maximum(TIMER_MIN_JOBS, TIMER_HOUR_SHARE * np.repeat(per_user, 24))
    is_timed = (np.bincount(codes, minlength=len(needed)) >= needed)[codes]
    found = _classes(rows[is_timed], codes[is_timed], TIMER_MIN_JOBS)
    return [one for one in found if _is_routine(arrays, one, TIMER_ACTIVE_DAYS, TIMER_MIN_SPAN_DAYS)]


def active_days(times_s: Ints) -> float:
    """Share of days with at least one of the ascending times, from the first to the last day."""
    days = np.unique(times_s // DAY_S)
    return float(len(days) / (days[-1] - days[0] + 1))


def _codes(arrays: JobArrays, rows: Ints) -> Ints:
    """One code per (user, processors, application); an unknown size or application is a value of its own."""
    return row_codes(arrays.users[0][rows], np.nan_to_num(arrays.procs[rows]), arrays.applications[0][rows])


def _classes(rows: Ints, codes: Ints, needed: float) -> list[Ints]:
    """The rows of each code with at least `needed` rows; classes in order of their first row."""
    _, place, counts = np.unique(codes, return_inverse=True, return_counts=True)
    large = np.flatnonzero(counts[place] >= needed)
    order = large[np.argsort(place[large], kind="stable")]
    found = np.split(order, np.flatnonzero(np.diff(place[order])) + 1) if len(order) else []
    return [rows[places] for places in sorted(found, key=lambda places: int(places[0]))]


def _is_routine(arrays: JobArrays, rows: Ints, days_share: float, min_span_days: float) -> bool:
    span_s = arrays.submit_s[rows[-1]] - arrays.submit_s[rows[0]]
    return bool(span_s >= min_span_days * DAY_S) and active_days(arrays.local_s[rows]) >= days_share


def _is_probe(arrays: JobArrays, rows: Ints, rules: ProbeRules, work: float) -> bool:
    runtimes_s = arrays.runtime_s[rows]
    runtimes_s = runtimes_s[~np.isnan(runtimes_s)]
    return bool(
        len(runtimes_s)
        and np.quantile(runtimes_s, 0.75) <= rules.max_runtime_s
        and arrays.proc_s[rows].sum() <= rules.work_share * len(rows) / arrays.jobs.num_rows * work
        and _is_routine(arrays, rows, rules.active_days, rules.min_span_days)
    )
