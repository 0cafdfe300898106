"""Figures of recommended limits: whether a promise was kept, what was freed, what was lost, and who was harmed."""

from typing import Any, NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.history import History

MANY_JOBS = 200
"""Jobs from which on a submitter's own share beyond the limits is compared with the bound of three promised shares.

A submitter with fewer jobs can pass the bound by the few exceedances that its credit allows.
"""


class Outcomes(NamedTuple):
    """Per job with a request and a runtime what a limit would have done, in processor-seconds; `place` in the log."""

    place: Ints
    is_beyond: Bools
    """Whether the job ran longer than a limit below its request."""
    over: Floats
    """What was requested and not used; 0 where a job ran longer than it requested."""
    removed: Floats
    """What the limit would have removed of it; 0 for a job beyond its limit, because it would have been lost."""
    lost: Floats
    """What a job beyond its limit had used when it passed it."""
    used: Floats


def outcomes(past: History, limit_s: Floats, first: int = 0) -> Outcomes:
    """Outcomes of (jobs,) limits, s; NaN counts as the request. Only jobs from the place `first` on."""
    has_both = past.has_run & (past.requested_s > 0) & (np.arange(len(past)) >= first)
    place = np.flatnonzero(has_both)
    requested_s, runtime_s, procs = past.requested_s[place], past.runtime_s[place], past.procs[place]
    known_s = np.where(np.isnan(limit_s[place]), requested_s, np.minimum(limit_s[place], requested_s))
    is_beyond = (known_s < requested_s) & (runtime_s > known_s)
    removed_s = np.where(is_beyond, 0.0, requested_s - np.maximum(known_s, runtime_s))
    return Outcomes(
        place, is_beyond, procs * np.maximum(requested_s - runtime_s, 0.0), procs * np.maximum(removed_s, 0.0),
        procs * np.where(is_beyond, known_s, 0.0), procs * runtime_s,
    )  # fmt: skip


def second_half(past: History) -> int:
    """The place of the job from which on the later half of the jobs with request and runtime was submitted."""
    places = np.flatnonzero(past.has_run & (past.requested_s > 0))
    return int(places[len(places) // 2]) if len(places) else 0


def limit_figures(past: History, limit_s: Floats, first: int = 0, many_jobs: int = MANY_JOBS) -> dict[str, Any]:
    """The figures of one method's limits over the jobs from the place `first` on; shares are from 0 to 1.

    Parameters
    ----------
    past : History
        n jobs in order of submit.
    limit_s : Floats
        float64[n], limits, s; NaN counts as the request.
    first : int
        Place of the first job to score.
    many_jobs : int
        Jobs that a submitter needs for `worst_share`.

    Returns
    -------
    dict
        n_jobs, n_beyond, share_beyond, removed_share (of over-requested processor-seconds), lost_share (of used ones),
        n_submitters with many jobs, and worst_share among these; shares are None where there is nothing to divide by.

    Examples
    --------
    >>> from pipeline.estimate.history import history as history_of
    >>> log = history_of(tables["jobs"])
    >>> limit_figures(log, log.requested_s)["n_beyond"]
    0
    """
    found = outcomes(past, limit_s, first)
    shares = _shares_of_submitters(past.codes["who"][found.place], found.is_beyond, many_jobs)
    return {
        "n_jobs": len(found.place),
        "n_beyond": int(found.is_beyond.sum()),
        "share_beyond": _share(found.is_beyond.sum(), len(found.place)),
        "removed_share": _share(found.removed.sum(), found.over.sum()),
        "lost_share": _share(found.lost.sum(), found.used.sum()),
        "n_submitters": len(shares),
        "worst_share": float(shares.max()) if len(shares) else None,
    }


def _shares_of_submitters(who: Ints, is_beyond: Bools, many_jobs: int) -> Floats:
    """Share of jobs beyond their limits of each submitter with many jobs."""
    is_known = who >= 0
    n_jobs = np.bincount(who[is_known])
    n_beyond = np.bincount(who[is_known], is_beyond[is_known], minlength=len(n_jobs))
    has_many = n_jobs >= many_jobs
    return np.asarray(n_beyond[has_many] / n_jobs[has_many], np.float64)


def _share(part: float, whole: float) -> float | None:
    return float(part) / float(whole) if whole > 0 else None
