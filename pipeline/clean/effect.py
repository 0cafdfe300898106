"""Computes the usual figures of a log before cleaning, after it, and for the jobs of each flag."""

import numpy as np
import pyarrow as pa

from pipeline.clean.job_arrays import DAY_S, JobArrays
from pipeline.core.arrays import Bools, Ints
from pipeline.core.flags import Flag
from pipeline.core.tables import EFFECT


def effect(arrays: JobArrays, flag_places: Ints, flags: list[Flag]) -> pa.Table:
    """EFFECT: the rows `before` and `after`, then one row per flag that occurs, in order of precedence."""
    days = _days(arrays)
    selections: dict[str, Bools] = {"before": np.ones(len(flag_places), bool), "after": flag_places < 0}
    counts = np.bincount(flag_places + 1, minlength=len(flags) + 1)[1:]
    selections |= {str(flag): flag_places == place for place, flag in enumerate(flags) if counts[place]}
    rows = [_row(arrays, name, chosen, days) for name, chosen in selections.items()]
    return EFFECT.build(**{name: [row[name] for row in rows] for name in rows[0]})


def _days(arrays: JobArrays) -> Ints:
    """Day of the log, from 0, per job; -1 where the submit time is unknown."""
    day = np.floor(arrays.submit_s / DAY_S)
    known = ~np.isnan(day)
    return np.where(known, day - np.min(day[known], initial=np.inf if known.any() else 0), -1).astype(np.int64)


def _row(arrays: JobArrays, name: str, chosen: Bools, days: Ints) -> dict[str, object]:
    n_days = int(days.max(initial=0)) + 1
    per_day = np.bincount(days[chosen & (days >= 0)], minlength=n_days)
    runtimes_s = arrays.runtime_s[chosen]
    runtimes_s = runtimes_s[runtimes_s > 0]
    procs = arrays.procs[chosen]
    procs = procs[~np.isnan(procs)]
    users = arrays.users[0][chosen]
    work_s = float(arrays.proc_s[chosen].sum())
    machine_s = (arrays.site.max_procs or 0) * n_days * DAY_S
    return {
        "selection": name,
        "n_jobs": int(chosen.sum()),
        "n_users": int(np.count_nonzero(np.bincount(users[users >= 0]))),
        "proc_hours": work_s / 3600,
        "runtime_s_mean": float(runtimes_s.mean()) if len(runtimes_s) else None,
        "runtime_s_median": float(np.median(runtimes_s)) if len(runtimes_s) else None,
        "procs_mean": float(procs.mean()) if len(procs) else None,
        "procs_median": float(np.median(procs)) if len(procs) else None,
        "jobs_per_day_mean": float(per_day.mean()),
        "jobs_per_day_median": float(np.median(per_day)),
        "load": work_s / machine_s if machine_s else None,
    }
