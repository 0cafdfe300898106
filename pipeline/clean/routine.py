"""Jobs a machine submits: probes all through the log, and timers at one hour of the day.

Both are read off a whole class of jobs (one user's jobs of one size and application; one user's jobs of one hour of
the day). Where the thresholds come from is measured in CONTRIBUTING.
"""

import numpy as np

from pipeline.clean.view import DAY_S, View
from pipeline.core.arrays import Ints
from pipeline.core.clean_settings import CronSettings, ProbeSettings


def find_probes(view: View, settings: ProbeSettings) -> list[Ints]:
    """Rows of each class (user, processors, application) that is a probe, each in order of submit."""
    needed = max(settings.min_jobs, settings.log_share * view.jobs.num_rows)
    rows = view.by_submit
    # A class is no larger than its user: all but a few users are out before anything is sorted.
    rows = rows[(np.diff(view.user_starts) >= needed)[view.users[0][rows]]]
    work = view.proc_s.sum()
    return [one for one in _classes(rows, _codes(view, rows), needed) if _is_probe(view, one, settings, work)]


def find_timers(view: View, settings: CronSettings) -> list[Ints]:
    """Rows of each user's hour of the site's clock into which a timer puts nearly all his jobs."""
    rows, per_user = view.by_submit, np.diff(view.user_starts)
    codes = view.users[0][rows] * 24 + view.local_s[rows] // 3600 % 24
    needed = np.maximum(settings.min_jobs, settings.hour_share * np.repeat(per_user, 24))
    is_timed = (np.bincount(codes, minlength=len(needed)) >= needed)[codes]
    found = _classes(rows[is_timed], codes[is_timed], settings.min_jobs)
    return [one for one in found if _is_routine(view, one, settings.active_days, settings.min_span_days)]


def active_days(times_s: Ints) -> float:
    """Share of the days from the first to the last of ascending times that have one."""
    days = np.unique(times_s // DAY_S)
    return float(len(days) / (days[-1] - days[0] + 1))


def _codes(view: View, rows: Ints) -> Ints:
    """One code per (user, processors, application); sizes and applications not known are one more of their kind."""
    procs = np.unique(np.nan_to_num(view.procs[rows]), return_inverse=True)[1]
    applications = view.applications[0][rows] + 1
    codes: Ints = (view.users[0][rows] * (procs.max(initial=0) + 1) + procs) * (
        len(view.applications[1]) + 1
    ) + applications
    return codes


def _classes(rows: Ints, codes: Ints, needed: float) -> list[Ints]:
    """The rows of each code that has at least `needed`, in their order; the classes in order of their first row."""
    _, place, counts = np.unique(codes, return_inverse=True, return_counts=True)
    large = np.flatnonzero(counts[place] >= needed)
    order = large[np.argsort(place[large], kind="stable")]
    found = np.split(order, np.flatnonzero(np.diff(place[order])) + 1) if len(order) else []
    return [rows[places] for places in sorted(found, key=lambda places: int(places[0]))]


def _is_routine(view: View, rows: Ints, days_share: float, min_span_days: float) -> bool:
    span_s = view.submit_s[rows[-1]] - view.submit_s[rows[0]]
    return bool(span_s >= min_span_days * DAY_S) and active_days(view.local_s[rows]) >= days_share


def _is_probe(view: View, rows: Ints, settings: ProbeSettings, work: float) -> bool:
    runtimes_s = view.runtime_s[rows]
    runtimes_s = runtimes_s[~np.isnan(runtimes_s)]
    return bool(
        len(runtimes_s)
        and np.quantile(runtimes_s, 0.75) <= settings.max_runtime_s
        and view.proc_s[rows].sum() <= settings.work_share * len(rows) / view.jobs.num_rows * work
        and _is_routine(view, rows, settings.active_days, settings.min_span_days)
    )
