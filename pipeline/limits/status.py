"""What shorter limits have done, or in a dry run would have done, by week: from JOBS alone."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Floats, floats
from pipeline.limits.soft import SOFT_RULES, SoftRules, extensions_of

READ = ("end_s", "runtime_s", "procs", "requested_s", "limit_set_s", "limit_set_by", "state")
WEEK_S, FIRST_MONDAY_S, HOUR_S = 7 * 86_400, 4 * 86_400, 3600.0
NEAR_S = 120.0
"""Slurm ends a job up to so long after its limit, and a job within this time of its request was ended by that."""


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
    week = ((floats(own, "end_s") - FIRST_MONDAY_S) // WEEK_S).astype(np.int64)
    is_noted = np.asarray(pc.fill_null(pc.starts_with(own["limit_set_by"].cast(pa.string()), "dry_run"), False))
    is_raised = run_s > limit_s - rules.margin_s
    reached_s = np.minimum(run_s + rules.margin_s, requested_s)
    n_extensions = np.where(is_raised, np.maximum(extensions_of(reached_s, limit_s, rules), 1), 0)
    state = own["state"].cast(pa.string())
    is_ended = np.asarray(pc.fill_null(pc.equal(state, "TIMEOUT"), False)) & (run_s < requested_s - NEAR_S) & ~is_noted
    hours = floats(own, "procs") * (requested_s - limit_s) / HOUR_S
    weeks, row = np.unique(week, return_inverse=True)

    def total(values: Floats) -> list[float]:
        sums: list[float] = np.bincount(row, np.nan_to_num(values), minlength=len(weeks)).tolist()
        return sums

    columns = {
        "n_planned": total(np.ones(len(row))), "n_dry_run": total(is_noted), "n_raised": total(is_raised),
        "n_extensions": total(n_extensions), "earlier_proc_hours": total(hours), "n_ended": total(is_ended),
    }  # fmt: skip
    rows = [
        {"week": datetime.fromtimestamp(monday, UTC).date().isoformat()}
        | {name: value[n] if name.endswith("hours") else int(value[n]) for name, value in columns.items()}
        for n, monday in enumerate((weeks * WEEK_S + FIRST_MONDAY_S).tolist())
    ]
    return rows[::-1]
