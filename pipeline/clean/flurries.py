"""Finds bursts in which one user submits faster than all other users together (Tsafrir & Feitelson 2006).

Each job of a user scores +1. Between jobs the score falls by R jobs a week, where R is the median number of jobs that
all other users submit in a week. The maximal scoring segments of this sequence (Ruzzo & Tompa 1999, ISMB) are the
periods in which the user alone was faster, at any time scale, found in linear time. The score over R is the lead in
machine-weeks.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.segments import maximal_segments
from pipeline.clean.submit_rates import WEEK_S, submit_rates
from pipeline.core.arrays import Floats, Ints
from pipeline.core.clean_settings import FlurrySettings


@dataclass(frozen=True, slots=True)
class Segments:
    """Stretches of JobArrays.by_user, both ends included, with each one's lead over all other users and its share."""

    first: Ints
    last: Ints
    machine_weeks: Floats
    share: Floats


def find_segments(arrays: JobArrays, settings: FlurrySettings, pace: float, weeks: float) -> Segments:
    """The periods in which a user's lead over `pace` times the rate of all others is at least `weeks` machine-weeks."""
    rest = rest_per_week(arrays, settings.min_jobs)
    times_s = arrays.submit_s[arrays.by_user]
    rates = np.where(rest > 0, pace * rest / WEEK_S, np.inf)
    first, last, score = maximal_segments(times_s, arrays.user_starts, rates, settings.min_jobs)
    users = arrays.users[0][arrays.by_user[first]]
    ahead = score / rest[users]
    found = ahead >= weeks
    first, last = first[found], last[found]
    return Segments(first, last, ahead[found], _share(arrays, first, last, settings.min_jobs))


def rest_per_week(arrays: JobArrays, min_jobs: int) -> Floats:
    """Per user, the jobs of all other users in a median week of the log; 0 without another user to compare with.

    Users with fewer than `min_jobs` jobs do not count as others.
    """
    rates = arrays.rates or arrays.once(("rates", min_jobs), lambda: submit_rates([arrays], min_jobs))
    return np.array([rates.rest_per_week.get(name, 0.0) for name in arrays.users[1]])


def smallest_burst_jobs(arrays: JobArrays, settings: FlurrySettings) -> int:
    """The number of jobs of the smallest burst at one instant that the screen could find in this log."""
    rest = rest_per_week(arrays, settings.min_jobs)
    return max(settings.min_jobs, int(np.ceil(settings.suspect_weeks * rest.max(initial=0.0))))


def _share(arrays: JobArrays, first: Ints, last: Ints, min_jobs: int) -> Floats:
    """Share of the segment in the jobs that active users submitted during its span."""
    counts = np.diff(arrays.user_starts)
    rows = arrays.by_submit[counts[arrays.users[0][arrays.by_submit]] >= min_jobs]
    times_s = arrays.submit_s[rows]
    begin_s, end_s = (arrays.submit_s[arrays.by_user[edge]] for edge in (first, last))
    meanwhile = np.searchsorted(times_s, end_s, side="right") - np.searchsorted(times_s, begin_s, side="left")
    share: Floats = (last - first + 1) / np.maximum(meanwhile, 1)
    return share
