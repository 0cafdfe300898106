"""What to request, per user or account: times, as `pipeline/limits/advice.py` recommends them, and memory.

Amounts of memory are as of the job's submit, in KiB per processor.
"""

from collections import Counter
from typing import Any

import numpy as np

from pipeline.arrays import DAY_S, HOUR_S, Floats, Ints
from pipeline.errors import InputError
from pipeline.estimate.estimates import price_of, prices, recommended_kib
from pipeline.estimate.history import History
from pipeline.estimate.state import RECORD_JOBS, walltime
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
    later = places[len(places) // 2 :]
    payers = _payers(past, by, later)
    instants = np.concatenate([past.submit_s, past.start_s, past.end_s])
    found = advice_of(past, float(np.max(instants[np.isfinite(instants)])))
    told = later[saves_enough(found.told_s[later], past.requested_s[later])]
    is_longer = runs_longer(past, told, found.told_s[told])
    kind, now_s = kinds_of(past), np.full(len(past) + 1, np.nan)
    now_s[[trial.kind for trial in found.trials]] = found.recommended_s
    recommended_s = now_s[np.where(kind >= 0, kind, -1)]
    kinds = told_kinds(past, later[saves_enough(recommended_s[later], past.requested_s[later])], by, "s", recommended_s)
    rows, codes = [], past.codes[by]
    for code, own in payers:
        hours = past.procs[own] / HOUR_S
        requested, used = hours * past.requested_s[own], hours * past.runtime_s[own]
        rows.append({
            "name": past.names[by][code], "n_jobs": len(own), "requested_hours": float(requested.sum()),
            "used_hours": float(used.sum()), "unused_hours": float(np.maximum(requested - used, 0.0).sum()),
            "n_told": int((codes[told] == code).sum()),
            "n_longer": int(is_longer[codes[told] == code].sum()),
            "kinds": kinds.get(code, []),
        })  # fmt: skip
    return {
        "by": by, "chance": LONGER_SHARE, "from_s": float(past.submit_s[later[0]]), "until_s": float(past.submit_s[-1]),
        "n_jobs": len(later), "n_told": len(told), "n_longer": int(is_longer.sum()),
        "share_longer": float(is_longer.mean()) if len(told) else None,
        "rows": sorted(rows, key=lambda row: (-row["unused_hours"], row["name"])),
    }  # fmt: skip


def told_kinds(past: History, chosen: Ints, by: str, unit: str, recommended: Floats) -> dict[int, list[dict[str, Any]]]:
    """Per user or account its kinds of the chosen jobs, at most MOST_KINDS, those with most jobs first.

    Requests and recommendations (jobs,) are in the unit; what is recommended to a kind's last job counts.
    """
    requested, gpus_of = np.nan_to_num(past.requested_s), np.nan_to_num(past.gpus)
    columns = (past.codes[by], past.codes["what"], requested, past.procs, gpus_of)
    places = chosen[past.codes[by][chosen] >= 0]
    kinds = list(zip(*(values[places].tolist() for values in columns), strict=True))
    n_jobs, last = Counter(kinds), dict(zip(kinds, places.tolist(), strict=True))
    found: dict[int, list[dict[str, Any]]] = {}
    for one in sorted(n_jobs, key=lambda one: (-n_jobs[one], last[one])):
        code, what, asked, procs, gpus = one
        found.setdefault(code, []).append({
            "application": past.names["what"][what] if what >= 0 else None,
            f"requested_{unit}": round(asked) or None, "procs": int(procs), "gpus": int(gpus),
            "n_jobs": n_jobs[one], f"recommended_{unit}": round(recommended[last[one]]),
        })  # fmt: skip
    return {code: own[:MOST_KINDS] for code, own in found.items()}


def _payers(past: History, by: str, chosen: Ints) -> list[tuple[int, Ints]]:
    """The code of each user or account of the chosen jobs, with their places; InputError where none is known."""
    codes, other = past.codes[by][chosen], {"user": "account", "account": "user"}[by]
    if not (codes >= 0).any():
        do = f"this log has --by {other}" if (past.codes[other] >= 0).any() else ""
        raise InputError(f"--by {by}", f"no job with a known {by}", "a column of the log that names it", do)
    return [(code, chosen[codes == code]) for code in np.unique(codes[codes >= 0]).tolist()]


SCORED_FROM = 2 / 3
"""The later third of the jobs is scored."""

GIB_KIB = 1024.0**2


def later_third(past: History) -> int:
    """The place of the job from which on the later third of the jobs with a known memory was submitted."""
    places = np.flatnonzero(past.has_run)
    return int(places[int(len(places) * SCORED_FROM)]) if len(places) else 0


def given_kib(past: History, wanted_kib: Floats) -> Floats:
    """(jobs,) what a job gets that asks for the wanted amount, KiB per processor: this, or its request without one."""
    return np.where(np.isnan(wanted_kib), past.requested_s, wanted_kib)


def memory_figures(past: History, amount_kib: Floats, first: int = 0) -> dict[str, Any]:
    """The figures of one rule's amounts over the jobs from the place `first` on; shares are from 0 to 1.

    Parameters
    ----------
    past : History
        n jobs in order of submit, a `memory_history`.
    amount_kib : Floats
        float64[n], what each job gets, KiB per processor; a job with NaN is not scored.
    first : int
        Place of the first job to score.

    Returns
    -------
    dict
        n_jobs; share_under: of them those that need more than they get; over_allocation: memory given and not used over
        memory used, each job once; n_submitters with many jobs, and worst_share under among these. None where there is
        nothing to divide by.

    Examples
    --------
    >>> from pipeline.estimate.history import memory_history
    >>> log = memory_history(tables["jobs"])
    >>> memory_figures(log, 2 * log.runtime_s)["share_under"]
    0.0
    """
    place = np.flatnonzero(past.has_run & ~np.isnan(amount_kib) & (np.arange(len(past)) >= first))
    used, given, procs = past.runtime_s[place], amount_kib[place], past.procs[place]
    is_under = used > given
    # Of each submitter with many jobs the share that got too little.
    who = past.codes["who"][place]
    n_jobs = np.bincount(who[who >= 0])
    n_under, has_many = np.bincount(who[(who >= 0) & is_under], minlength=len(n_jobs)), n_jobs >= MANY_JOBS
    shares = n_under[has_many] / n_jobs[has_many]
    spare, whole = float((procs * np.maximum(given - used, 0.0)).sum()), float((procs * used).sum())
    return {
        "n_jobs": len(place),
        "share_under": float(is_under.mean()) if len(place) else None,
        "over_allocation": spare / whole if whole else None,
        "n_submitters": len(shares),
        "worst_share": float(shares.max()) if len(shares) else None,
    }


def recommended_memory(past: History, by: str, promise: float) -> dict[str, Any]:
    """The figures of the log's later third, and per user or account its memory (GiB a job) and what to ask for.

    InputError where no job of the later third has a known user or account.
    """
    first = later_third(past)
    later = first + np.flatnonzero(past.has_run[first:])
    wanted_kib = recommended_as_of(past, walltime(past), promise)
    kinds = told_kinds(past, later, by, "mem_kib", wanted_kib)
    amounts = {"requested_gib": past.requested_s, "used_gib": past.runtime_s, "recommended_gib": wanted_kib}
    rows, given = [], given_kib(past, wanted_kib)
    for code, own in _payers(past, by, later):
        procs, used = past.procs[own], past.runtime_s[own]
        n_under = int((used > given[own]).sum())
        gib = {name: _mean_gib(procs * kib[own]) for name, kib in amounts.items()}
        rows.append({
            "name": past.names[by][code], "n_jobs": len(own), **gib,
            "spare_gib": _mean_gib(procs * np.maximum(past.requested_s[own] - used, 0.0)) or 0.0,
            "n_under": n_under, "share_within": 1.0 - n_under / len(own), "kinds": kinds.get(code, []),
        })  # fmt: skip
    return {
        "by": by, "promise": promise, "many_jobs": MANY_JOBS,
        "from_s": float(past.submit_s[first]), "until_s": float(past.submit_s[-1]),
        "figures": memory_figures(past, given, first),
        "asked": memory_figures(past, past.requested_s, first),
        "rows": sorted(rows, key=lambda row: (-row["n_jobs"] * row["spare_gib"], row["name"])),
    }  # fmt: skip


def _mean_gib(kib: Floats) -> float | None:
    """None where nothing is known."""
    known = kib[~np.isnan(kib)]
    return float(known.mean()) / GIB_KIB if len(known) else None


def recommended_as_of(past: History, quantiles_kib: Floats, promise: float) -> Floats:
    """(jobs,) what is recommended at each job's submit, KiB per processor, at the price of the midnight before."""
    needed, by_end, found = np.zeros(len(past)), past.by_end, np.full(len(past), np.nan)
    by_end = by_end[~np.isnan(quantiles_kib[by_end, 1])]
    needed[by_end] = prices(past.runtime_s[by_end], quantiles_kib[by_end], past.procs[by_end])
    day = np.floor(past.submit_s / DAY_S)
    for at in np.unique(day):
        known = by_end[: np.searchsorted(past.end_s[by_end], at * DAY_S, side="right")][-RECORD_JOBS:]
        own = np.flatnonzero(day == at)
        found[own], _ = recommended_kib(quantiles_kib[own], past.procs[own], price_of(needed[known], promise))
    return found
