"""What shorter limits have done, or in a dry run would have done, by week, and which kinds of jobs end early by them:
from JOBS alone.
"""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import HOUR_S, MONDAY_S, WEEK_S, Bools, Floats, Ints, floats
from pipeline.limits.soft import SOFT_RULES, SoftRules, extensions_of

READ = (
    "end_s", "runtime_s", "procs", "requested_s", "limit_set_s", "limit_set_by", "state", "user", "application",
    "job_name",
)  # fmt: skip
NEAR_S = 120.0
"""Slurm ends a job up to so long after its limit, and a job within this time of its request was ended by that."""

EARLY_SHARE, EARLY_JOBS = 0.2, 10
"""A kind of job is left alone of which this share of at least so many planned jobs ended early (`early_kinds`)."""


def planned_weeks(jobs: pa.Table, rules: SoftRules = SOFT_RULES) -> list[dict[str, Any]]:
    """A row for each week (from Monday, UTC) in which a planned job ended, newest first.

    Parameters
    ----------
    jobs : pa.Table
        The columns READ of JOBS, of whose jobs `limit_set_s` is the first limit (s) where the job had one of ours.
    rules : SoftRules
        The margin and the increments that the guard has.

    Returns
    -------
    list of dict
        `week`, the day; `n_planned`, jobs with a shorter first limit; `n_dry_run`, those of them for which it was only
        noted; `n_raised`, jobs that ran into its margin; `n_extensions`, at least so many were needed;
        `earlier_proc_hours`, by how much the first limits were below the requests; `n_ended`, jobs that Slurm ended
        at a limit below their requests, of which there should be none.
    """
    limit_s, requested_s, run_s = (floats(jobs, name) for name in ("limit_set_s", "requested_s", "runtime_s"))
    # OpenPBS extends soft_walltime by itself, and nothing tells what has set it.
    is_ours = (limit_s < requested_s) & np.asarray(pc.is_valid(jobs["limit_set_by"])) & (floats(jobs, "end_s") > 0)
    if not is_ours.any():
        return []
    own = jobs.filter(pa.array(is_ours))
    limit_s, requested_s, run_s = limit_s[is_ours], requested_s[is_ours], run_s[is_ours]
    week = ((floats(own, "end_s") - MONDAY_S) // WEEK_S).astype(np.int64)
    is_noted = _is_noted(own)
    is_raised = run_s > limit_s - rules.margin_s
    reached_s = np.minimum(run_s + rules.margin_s, requested_s)
    n_extensions = np.where(is_raised, np.maximum(extensions_of(reached_s, limit_s, rules), 1), 0)
    state = own["state"].cast(pa.string())
    is_ended = np.asarray(pc.fill_null(pc.equal(state, "TIMEOUT"), False)) & (run_s < requested_s - NEAR_S) & ~is_noted
    hours = floats(own, "procs") * (requested_s - limit_s) / HOUR_S
    weeks, row = np.unique(week, return_inverse=True)

    def total(values: Floats | Bools) -> list[float]:
        sums: list[float] = np.bincount(row, np.nan_to_num(values), minlength=len(weeks)).tolist()
        return sums

    columns = {
        "n_planned": total(np.ones(len(row))), "n_dry_run": total(is_noted), "n_raised": total(is_raised),
        "n_extensions": total(n_extensions), "earlier_proc_hours": total(hours), "n_ended": total(is_ended),
    }  # fmt: skip
    rows = [
        {"week": datetime.fromtimestamp(monday, UTC).date().isoformat()}
        | {name: value[n] if name.endswith("hours") else int(value[n]) for name, value in columns.items()}
        for n, monday in enumerate((weeks * WEEK_S + MONDAY_S).tolist())
    ]
    return rows[::-1]


def early_kinds(jobs: pa.Table, rules: SoftRules = SOFT_RULES) -> list[dict[str, Any]]:
    """The kinds of jobs that are to keep their requests, because their runs seem to stop themselves before limits.

    A program that asks Slurm how much time is left sees the first limit. Of such a kind many planned jobs end within
    the margin before their first limits, and few of the jobs that were not planned ended at these runtimes.

    Parameters
    ----------
    jobs : pa.Table
        The columns READ of JOBS.
    rules : SoftRules
        The margin that the guard has.

    Returns
    -------
    list of dict
        `user` and `what`, as ESTIMATES name them; `n_planned`, and how many of them ended early, `n_early`.
    """
    limit_s, requested_s, run_s = (floats(jobs, name) for name in ("limit_set_s", "requested_s", "runtime_s"))
    user, name, application = (jobs[column].cast(pa.string()) for column in ("user", "job_name", "application"))
    what = pc.coalesce(application, pc.binary_join_element_wise("job_name", name, " "))
    kinds = pc.binary_join_element_wise(user, what, "\0").combine_chunks().dictionary_encode()
    kind = kinds.indices.fill_null(-1).to_numpy()
    is_set = np.asarray(pc.is_valid(jobs["limit_set_by"])) & ~_is_noted(jobs)
    is_known = (kind >= 0) & (run_s > 0)
    planned = np.flatnonzero(is_known & is_set & (limit_s < requested_s))
    others = np.flatnonzero(is_known & ~is_set)

    def n_of(jobs_of: Ints, weights: Floats | Bools | None = None) -> Floats:
        return np.bincount(kind[jobs_of], weights, len(kinds.dictionary)).astype(np.float64)

    def is_early(jobs_of: Ints, at_s: Floats) -> Bools:
        return (run_s[jobs_of] > at_s - rules.margin_s) & (run_s[jobs_of] <= at_s)

    n_planned, n_early = n_of(planned), n_of(planned, is_early(planned, limit_s[planned]))
    with np.errstate(invalid="ignore"):
        mean_s = n_of(planned, limit_s[planned]) / n_planned
        share_before = np.nan_to_num(n_of(others, is_early(others, mean_s[kind[others]])) / n_of(others))
    found = (n_planned >= EARLY_JOBS) & (n_early >= np.maximum(EARLY_SHARE, 2.0 * share_before) * n_planned)
    return [
        dict(zip(("user", "what"), kinds.dictionary[one].as_py().split("\0"), strict=True))
        | {"n_planned": int(n_planned[one]), "n_early": int(n_early[one])}
        for one in np.flatnonzero(found).tolist()
    ]


def _is_noted(jobs: pa.Table) -> Bools:
    """Of which jobs a dry run has noted a limit, and set none."""
    return np.asarray(pc.fill_null(pc.starts_with(jobs["limit_set_by"].cast(pa.string()), "dry_run"), False))
