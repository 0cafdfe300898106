"""Bursts of one user that outrun everybody else together (Tsafrir & Feitelson 2006: "surges that dominate").

A user's jobs score +1 each and lose what everybody else would have submitted meanwhile: R jobs a week, the median
week of all others. The maximal scoring segments of that sequence (Ruzzo & Tompa 1999, ISMB) are the stretches in which
the user alone was faster, at any scale and in linear time; score over R is how many machine-weeks they were ahead.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.clean.job_arrays import DAY_S, WEEK_S, JobArrays
from pipeline.clean.segments import maximal_segments
from pipeline.core.arrays import Floats, Ints
from pipeline.core.clean_settings import FlurrySettings

SHORT_LOG_WEEKS = 8
"""A log shorter than this has too few weeks for a median; its days are counted instead."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Stretches of JobArrays.by_user, both ends included, with each one's lead over all other users and its share."""

    first: Ints
    last: Ints
    machine_weeks: Floats
    share: Floats


def find_segments(arrays: JobArrays, settings: FlurrySettings, pace: float, weeks: float) -> Segments:
    """The stretches in which a user outran `pace` times everybody else by at least `weeks` machine-weeks."""
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
    """Per user, jobs of all others in a median week; 0 where nobody else is there to compare with.

    Users with fewer than `min_jobs` jobs do not count: so a quiet user's jobs change nothing for anybody else.
    """
    return arrays.once(("rest", min_jobs), lambda: _rest_per_week(arrays, min_jobs))


def _rest_per_week(arrays: JobArrays, min_jobs: int) -> Floats:
    counts = np.diff(arrays.user_starts)
    rest = np.zeros(len(counts))
    loud = np.flatnonzero(counts >= min_jobs)
    if len(loud) < 2:
        return rest
    own, unit_s = _counts(arrays, loud)
    totals = own.sum(axis=0)
    # A week without any job is no week of the machine's life: it was down, or one stray date stretched the log.
    others = (totals - own)[:, totals > 0]
    # In a log that is empty more often than not, the mean.
    typical = np.where((median := np.median(others, axis=1)) > 0, median, others.mean(axis=1))
    rest[loud] = typical * WEEK_S / unit_s
    return rest


def smallest_burst_jobs(arrays: JobArrays, settings: FlurrySettings) -> int:
    """Jobs of the smallest burst within an instant that this log could have shown, whoever submits it."""
    rest = rest_per_week(arrays, settings.min_jobs)
    return max(settings.min_jobs, int(np.ceil(settings.suspect_weeks * rest.max(initial=0.0))))


def _counts(arrays: JobArrays, loud: Ints) -> tuple[Ints, int]:
    """Jobs per loud user and week (day in a short log) from the first loud job on; the unit in s."""
    place = np.full(len(arrays.users[1]), -1, np.int64)
    place[loud] = np.arange(len(loud))
    whose = place[arrays.users[0][arrays.by_submit]]
    times_s, whose = arrays.submit_s[arrays.by_submit][whose >= 0], whose[whose >= 0]
    unit_s = WEEK_S if times_s[-1] - times_s[0] >= SHORT_LOG_WEEKS * WEEK_S else DAY_S
    bins = ((times_s - times_s[0]) // unit_s).astype(np.int64)
    n_bins = int(bins[-1]) + 1
    return np.bincount(whose * n_bins + bins, minlength=len(loud) * n_bins).reshape(len(loud), n_bins), unit_s


def _share(arrays: JobArrays, first: Ints, last: Ints, min_jobs: int) -> Floats:
    """Share of the jobs that loud users submitted in each stretch's span."""
    counts = np.diff(arrays.user_starts)
    rows = arrays.by_submit[counts[arrays.users[0][arrays.by_submit]] >= min_jobs]
    times_s = arrays.submit_s[rows]
    begin_s, end_s = (arrays.submit_s[arrays.by_user[edge]] for edge in (first, last))
    meanwhile = np.searchsorted(times_s, end_s, side="right") - np.searchsorted(times_s, begin_s, side="left")
    share: Floats = (last - first + 1) / np.maximum(meanwhile, 1)
    return share
