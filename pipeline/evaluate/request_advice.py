"""What to request, per user or account: unused hours, and the requests that `pipeline/limits/advice.py` recommends."""

from collections import Counter
from typing import Any

import numpy as np

from pipeline.arrays import HOUR_S, Bools, Floats, Ints
from pipeline.errors import InputError
from pipeline.estimate.history import History
from pipeline.limits.advice import LONGER_SHARE, advice_of, kinds_of, runs_longer
from pipeline.limits.soft import saves_enough

MANY_JOBS = 200
"""Jobs of a submitter that a share of them means something for."""
MOST_KINDS = 3
"""Kinds that are listed for a user or account, those with most jobs."""


def recommended_requests(past: History, by: str) -> dict[str, Any]:
    """Per user or account what its jobs of the log's later half requested and used, and what to request from now on.

    Parameters
    ----------
    past : History
        n jobs in order of submit.
    by : str
        `user` or `account`.

    Returns
    -------
    dict
        `chance`, what a recommended request aims at; of the jobs of the later half that would have been told to request
        less (`saves_enough`) `n_told`, `n_longer` and `share_longer` (None without any); `rows`, one for each user or
        account, most unused processor-hours first, with `kinds`: those that are told to request less, in s.

    Raises
    ------
    InputError
        Where no job of the later half has a known user or account.
    """
    places = np.flatnonzero(past.has_run & (past.requested_s > 0))
    first = int(places[len(places) // 2]) if len(places) else 0
    codes, names = past.codes[by], past.names[by]
    if not (codes[first:] >= 0).any():
        expected = "a column of the log that names it"
        raise InputError(f"--by {by}", f"no job with a known {by}", expected, other_payer(past, by))
    instants = np.concatenate([past.submit_s, past.start_s, past.end_s])
    found = advice_of(past, float(np.max(instants[np.isfinite(instants)])))
    told = places[(places >= first) & saves_enough(found.told_s[places], past.requested_s[places])]
    is_longer = runs_longer(past, told, found.told_s[told])
    later = places[places >= first]
    kind, now_s = kinds_of(past), np.full(len(past) + 1, np.nan)
    now_s[[trial.kind for trial in found.trials]] = found.recommended_s
    recommended_s = now_s[np.where(kind >= 0, kind, -1)]
    kinds = told_kinds(past, later[saves_enough(recommended_s[later], past.requested_s[later])], by, "s", recommended_s)
    rows = []
    for code in np.unique(codes[later][codes[later] >= 0]).tolist():
        own = later[codes[later] == code]
        hours = past.procs[own] / HOUR_S
        requested, used = hours * past.requested_s[own], hours * past.runtime_s[own]
        rows.append({
            "name": names[code], "n_jobs": len(own), "requested_hours": float(requested.sum()),
            "used_hours": float(used.sum()), "unused_hours": float(np.maximum(requested - used, 0.0).sum()),
            "n_told": int((codes[told] == code).sum()),
            "n_longer": int(is_longer[codes[told] == code].sum()),
            "kinds": kinds.get(code, []),
        })  # fmt: skip
    return {
        "by": by, "chance": LONGER_SHARE, "from_s": float(past.submit_s[first]), "until_s": float(past.submit_s[-1]),
        "n_jobs": len(later), "n_told": len(told), "n_longer": int(is_longer.sum()),
        "share_longer": float(is_longer.mean()) if len(told) else None,
        "rows": sorted(rows, key=lambda row: (-row["unused_hours"], row["name"])),
    }  # fmt: skip


def told_kinds(past: History, chosen: Ints, by: str, unit: str, recommended: Floats) -> dict[int, list[dict[str, Any]]]:
    """Per user or account its kinds of the chosen jobs, at most MOST_KINDS, those with most jobs first.

    Requests and recommendations (jobs,) are in the unit; what is recommended to a kind's last job counts.
    """
    columns = (
        past.codes[by],
        past.codes["what"],
        np.nan_to_num(past.requested_s),
        past.procs,
        np.nan_to_num(past.gpus),
    )
    places = chosen[past.codes[by][chosen] >= 0]
    kinds = list(zip(*(values[places].tolist() for values in columns), strict=True))
    n_jobs, last = Counter(kinds), dict(zip(kinds, places.tolist(), strict=True))
    found: dict[int, list[dict[str, Any]]] = {}
    for one in sorted(n_jobs, key=lambda one: (-n_jobs[one], last[one])):
        code, what, requested, procs, gpus = one
        found.setdefault(code, []).append({
            "application": past.names["what"][what] if what >= 0 else None,
            f"requested_{unit}": round(requested) or None, "procs": int(procs), "gpus": int(gpus),
            "n_jobs": n_jobs[one], f"recommended_{unit}": round(recommended[last[one]]),
        })  # fmt: skip
    return {code: own[:MOST_KINDS] for code, own in found.items()}


def shares_of_submitters(who: Ints, is_beyond: Bools, many_jobs: int) -> Floats:
    """Share of jobs beyond their limits of each submitter with many jobs."""
    is_known = who >= 0
    n_jobs = np.bincount(who[is_known])
    n_beyond = np.bincount(who[is_known], is_beyond[is_known], minlength=len(n_jobs))
    has_many = n_jobs >= many_jobs
    return np.asarray(n_beyond[has_many] / n_jobs[has_many], np.float64)


def other_payer(past: History, by: str) -> str:
    """What to ask by instead, where the log knows accounts and no users, or users and no accounts."""
    other = {"user": "account", "account": "user"}[by]
    return f"this log has --by {other}" if (past.codes[other] >= 0).any() else ""
