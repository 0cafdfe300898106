"""Finds the steady part of a log, without isolated jobs at its ends and without a ramp at its beginning.

Jobs at either end are cut off where a long gap separates them from the rest, as trial jobs before the first real ones.
A ramp at the beginning ends with the first week that has a stated share of a usual week's jobs. Nothing is cut where
that would remove more than a stated share of the log. Quiet weeks at the end stay: many logs end at a holiday.
"""

import numpy as np

from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.submit_rates import DAY_S
from pipeline.core.arrays import Bools, Floats
from pipeline.core.clean_settings import CleanSettings, EdgeSettings

WEEK_DAYS = 7


def log_edge(arrays: JobArrays, settings: CleanSettings) -> Bools:
    """True for a job submitted before the steady part of the log begins or after it ends."""
    since_s, until_s = steady_span(arrays, settings.edge)
    edge: Bools = (arrays.submit_s < since_s) | (arrays.submit_s > until_s)
    return edge


def steady_span(arrays: JobArrays, settings: EdgeSettings) -> tuple[float, float]:
    """First and last submit of the steady part, both included, s since 1970; NaN where no submit time is known."""
    times_s = _ordered(arrays)
    if not len(times_s):
        return np.nan, np.nan
    n_head, n_tail = _parted(times_s, settings)
    n_head = max(n_head, _ramp(times_s, settings)) if arrays.begins_log else 0
    n_tail = n_tail if arrays.ends_log else 0
    return float(times_s[n_head]), float(times_s[len(times_s) - 1 - n_tail])


def _ordered(arrays: JobArrays) -> Floats:
    known = arrays.submit_s[~np.isnan(arrays.submit_s)]
    # A table from ingest is in order already; checking that takes a tenth of the time of sorting.
    return known if bool(np.all(known[1:] >= known[:-1])) else np.sort(known)


def _parted(times_s: Floats, settings: EdgeSettings) -> tuple[int, int]:
    """The number of jobs before the last abnormal gap near the beginning and after the first one near the end."""
    gaps_s = np.diff(times_s)
    near = min(settings.near_jobs, int(settings.max_share * len(times_s)))
    if not near or len(gaps_s) < settings.min_jobs:
        return 0, 0
    abnormal_s = max(settings.gap_h * 3600, settings.gap_factor * float(np.quantile(gaps_s, 0.99)))
    head, tail = gaps_s[:near] > abnormal_s, gaps_s[::-1][:near] > abnormal_s
    return int(np.flatnonzero(head).max(initial=-1)) + 1, int(np.flatnonzero(tail).max(initial=-1)) + 1


def _ramp(times_s: Floats, settings: EdgeSettings) -> int:
    """The number of jobs before the last day of the first seven days that hold a full enough share of a usual week."""
    days = (times_s - times_s[0]) // DAY_S
    # With less than one job a day there is no usual week. This also bounds the memory for a stray date.
    if days[-1] < settings.ramp_min_days or days[-1] > len(times_s):
        return 0
    weeks = np.convolve(np.bincount(days.astype(np.int64)), np.ones(WEEK_DAYS, np.int64), "valid")
    full = np.median(weeks)
    if full < settings.ramp_min_week_jobs:
        return 0
    first = int(np.argmax(weeks >= settings.ramp_share * full))
    before = int(np.searchsorted(days, first + WEEK_DAYS - 1)) if first else 0
    return before if before <= settings.max_share * len(times_s) else 0
