"""Finds jobs that programs submit: probes throughout the log, and timers at one hour of the day.

Probes are classes of one user's jobs of one size and application; timers are classes of one user's jobs in one hour of
the day. docs/decisions/cleaning-bursts.md says how the thresholds were chosen.
"""

import numpy as np

from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.submit_rates import DAY_S
from pipeline.core.arrays import Ints
from pipeline.core.clean_settings import CronSettings, ProbeSettings


def find_probes(arrays: JobArrays, settings: ProbeSettings) -> list[Ints]:
    """Rows of each class (user, processors, application) that is a probe, each in order of submit."""
    needed = max(settings.min_jobs, settings.log_share * arrays.jobs.num_rows)
    rows = arrays.by_submit
    # A class has at most as many jobs as its user, so most users are excluded before sorting.
    rows = rows[(np.diff(arrays.user_starts) >= needed)[arrays.users[0][rows]]]
    work = arrays.proc_s.sum()
    return [one for one in _classes(rows, _codes(arrays, rows), needed) if _is_probe(arrays, one, settings, work)]


def find_timers(arrays: JobArrays, settings: CronSettings) -> list[Ints]:
    """Rows of each user and hour of local time that hold nearly all jobs of the user, as a timer submits them."""
    rows, per_user = arrays.by_submit, np.diff(arrays.user_starts)
    codes = arrays.users[0][rows] * 24 + arrays.local_s[rows] // 3600 % 24
    needed = np.maximum(settings.min_jobs, settings.hour_share * np.repeat(per_user, 24))
    is_timed = (np.bincount(codes, minlength=len(needed)) >= needed)[codes]
    found = _classes(rows[is_timed], codes[is_timed], settings.min_jobs)
    return [one for one in found if _is_routine(arrays, one, settings.active_days, settings.min_span_days)]


def active_days(times_s: Ints) -> float:
    """Share of days with at least one of the ascending times, from the first to the last day."""
    days = np.unique(times_s // DAY_S)
    return float(len(days) / (days[-1] - days[0] + 1))


def _codes(arrays: JobArrays, rows: Ints) -> Ints:
    """One code per (user, processors, application); an unknown size or application is a value of its own."""
    procs = np.unique(np.nan_to_num(arrays.procs[rows]), return_inverse=True)[1]
    applications = arrays.applications[0][rows] + 1
    codes: Ints = (arrays.users[0][rows] * (procs.max(initial=0) + 1) + procs) * (
        len(arrays.applications[1]) + 1
    ) + applications
    return codes


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


def _is_probe(arrays: JobArrays, rows: Ints, settings: ProbeSettings, work: float) -> bool:
    runtimes_s = arrays.runtime_s[rows]
    runtimes_s = runtimes_s[~np.isnan(runtimes_s)]
    return bool(
        len(runtimes_s)
        and np.quantile(runtimes_s, 0.75) <= settings.max_runtime_s
        and arrays.proc_s[rows].sum() <= settings.work_share * len(rows) / arrays.jobs.num_rows * work
        and _is_routine(arrays, rows, settings.active_days, settings.min_span_days)
    )
