"""Limits of a log: figures beside other rules, and per user or account unused hours and recommendations.

Each midnight's table is made, written as the look-up file, and read as a scheduler's plug-in reads it.
"""

import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints, Value
from pipeline.errors import InputError
from pipeline.estimate.baselines import largest_of_5, largest_of_15
from pipeline.estimate.history import History
from pipeline.estimate.score import QUANTILES, at_share
from pipeline.estimate.state import walltime
from pipeline.export.lookup_file import lookup_file
from pipeline.export.lookup_reader import Lookup
from pipeline.limits.limit_choice import LimitSettings
from pipeline.limits.limit_harm import MANY_JOBS, USER_TIMES
from pipeline.limits.limits import Rows, limits_table, nights, rows_at, submits_of
from pipeline.limits.own_jobs import DAY_S, values_of
from pipeline.tables import ESTIMATES


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
        n_jobs, n_limited, n_beyond, share_beyond, removed_share (of over-requested processor-seconds), lost_share (of
        used ones), n_submitters with many jobs, and worst_share among these; None where there is nothing to divide by.

    Examples
    --------
    >>> from pipeline.estimate.history import history as history_of
    >>> log = history_of(tables["jobs"])
    >>> limit_figures(log, log.requested_s)["n_beyond"]
    0
    """
    found = outcomes(past, limit_s, first)
    shares = shares_of_submitters(past.codes["who"][found.place], found.is_beyond, many_jobs)
    return {
        "n_jobs": len(found.place),
        "n_limited": int((limit_s < past.requested_s)[found.place].sum()),
        "n_beyond": int(found.is_beyond.sum()),
        "share_beyond": _share(found.is_beyond.sum(), len(found.place)),
        "removed_share": _share(found.removed.sum(), found.over.sum()),
        "lost_share": _share(found.lost.sum(), found.used.sum()),
        "n_submitters": len(shares),
        "worst_share": float(shares.max()) if len(shares) else None,
    }


def shares_of_submitters(who: Ints, is_beyond: Bools, many_jobs: int) -> Floats:
    """Share of jobs beyond their limits of each submitter with many jobs."""
    is_known = who >= 0
    n_jobs = np.bincount(who[is_known])
    n_beyond = np.bincount(who[is_known], is_beyond[is_known], minlength=len(n_jobs))
    has_many = n_jobs >= many_jobs
    return np.asarray(n_beyond[has_many] / n_jobs[has_many], np.float64)


def _share(part: float, whole: float) -> float | None:
    return float(part) / float(whole) if whole > 0 else None


MOST_KINDS = 3
"""Kinds of jobs (request and processors) of one user for which something is recommended, those with most jobs."""
Kind = tuple[tuple[Any, ...], int, int]

HOUR_S = 3600.0
MOST_STRETCHED = 1000.0
ESTIMATE = QUANTILES.index(0.5)


def look_up_of(rows: Rows) -> Lookup | None:
    """The look-up file of a table's rows, open; None without any row."""
    table = limits_table(rows, "log", "replay")
    return Lookup(io.BytesIO(lookup_file(ESTIMATES.empty(), table, {}))) if table.num_rows else None


def values_of_submits(past: History) -> dict[str, list[Value]]:
    """Per column of a limit's key the values that a plug-in sees at each submit; None where unknown."""
    found: dict[str, list[Value]] = {}
    for name, values in values_of(past).items():
        if values.dtype == np.float64:
            found[name] = [None if np.isnan(one) else one for one in values.tolist()]
        else:
            none = "" if name == "gpu_type" else None
            found[name] = [past.names[name][one] if one >= 0 else none for one in values.tolist()]
    return found


def limits_read(past: History, settings: LimitSettings, age_days: float, first: int = 0) -> Floats:
    """(jobs,) limits, s, NaN where the request stands, as read from the file of each midnight that is so old.

    Parameters
    ----------
    past : History
        n jobs in order of submit.
    settings : LimitSettings
        The promise, and how it is kept.
    age_days : float
        Least age at which a file is read (days).
    first : int
        Place of a job: those that read a file of an earlier midnight have NaN.

    Returns
    -------
    Floats
        float64[n], s.

    Examples
    --------
    >>> from pipeline.estimate.history import history as history_of
    >>> log = history_of(tables["jobs"])
    >>> limits_read(log, LimitSettings(), age_days=1.0).shape == (len(log),)
    True
    """
    found, submits, submit = np.full(len(past), np.nan), values_of_submits(past), submits_of(past)
    n_tasks = np.bincount(submit)
    of_submit = np.full(len(n_tasks), np.nan)
    log = replace(past, stale_s=age_days * DAY_S)
    for night in nights(log, settings, float(log.known_s[first]) if len(past) else 0.0):
        file, n_limited = look_up_of(night.rows), Counter[Value]()
        if file is None:
            continue
        for place in night.places[np.sort(np.unique(submit[night.places], return_index=True)[1])].tolist():
            job = {name: values[place] for name, values in submits.items()}
            limit_s = file.decide(job, n_limited, int(n_tasks[submit[place]])).limit_s
            of_submit[submit[place]] = np.nan if limit_s is None else limit_s
        found[night.places] = of_submit[submit[night.places]]
    return found


def other_payer(past: History, by: str) -> str:
    """What to ask by instead, where the log knows accounts and no users, or users and no accounts."""
    other = {"user": "account", "account": "user"}[by]
    return f"this log has --by {other}" if (past.codes[other] >= 0).any() else ""


def recommended_limits(past: History, by: str, promise: float) -> dict[str, Any]:
    """The figures of the log's later half, and per user or account its unused hours and recommended limits (s).

    Limits are those of the table of each midnight; recommendations for the next job are those of the table at the
    log's end. InputError where no job of the later half has a known user or account.
    """
    first = second_half(past)
    codes, names = past.codes[by], past.names[by]
    if not (codes[first:] >= 0).any():
        expected = "a column of the log that names it"
        raise InputError(f"--by {by}", f"no job with a known {by}", expected, other_payer(past, by))
    chosen = LimitSettings(share=1.0 - promise)
    limit_s = limits_read(past, chosen, 0.0, first)
    after = outcomes(past, limit_s, first)
    return {
        "by": by, "promise": promise, "bound": USER_TIMES * chosen.share, "many_jobs": MANY_JOBS,
        "from_s": float(past.submit_s[first]), "until_s": float(past.submit_s[-1]),
        "figures": limit_figures(past, limit_s, first),
        "rows": _rows(past, codes, names, after, _recommendations(past, codes, first, chosen)),
    }  # fmt: skip


def figures_of_rules(past: History, promise: float, age_days: float = 0.0) -> dict[str, dict[str, Any]]:
    """The figures of the limits and of other rules on the log's later half, by name of the rule.

    `age_days`: age of the files that limits are read from; the other rules know all until each submit.
    """
    first, rule_s = second_half(past), largest_of_15(past)[:, ESTIMATE]
    rules = {
        "limits": limits_read(past, LimitSettings(share=1.0 - promise), age_days, first),
        "MetaCentrum's rule": rule_s,
        "the rule, stretched": stretched(past, rule_s, first, 1.0 - promise),
        "max of five": largest_of_5(past)[:, ESTIMATE],
        "plain quantile": at_share(walltime(past), promise),
    }
    return {name: limit_figures(past, limit_s, first) for name, limit_s in rules.items()}


def stretched(past: History, limit_s: Floats, first: int, share: float) -> Floats:
    """Limits times the least factor with which at most `share` of the scored jobs exceed them, in hindsight."""

    def keeps(factor: float) -> bool:
        return float(outcomes(past, factor * limit_s, first).is_beyond.mean()) <= share

    if keeps(1.0):
        return limit_s
    low, high = 1.0, MOST_STRETCHED
    for _ in range(20):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high * limit_s


def usual_kinds(chosen: Bools, codes: Ints, *columns: Floats | Ints) -> dict[int, list[Kind]]:
    """Per user or account its kinds of the chosen jobs, at most MOST_KINDS, those with most jobs first.

    A kind is the values of the columns, then comes the place of its last job, and its number of jobs.
    """
    places = np.flatnonzero(chosen & (codes >= 0))
    kinds = list(zip(*(values[places].tolist() for values in (codes, *columns)), strict=True))
    n_jobs, last = Counter(kinds), dict(zip(kinds, places.tolist(), strict=True))
    found: dict[int, list[Kind]] = {}
    for one in sorted(n_jobs, key=lambda one: (-n_jobs[one], last[one])):
        found.setdefault(one[0], []).append((one[1:], last[one], n_jobs[one]))
    return {code: own[:MOST_KINDS] for code, own in found.items()}


def _recommendations(past: History, codes: Ints, first: int, chosen: LimitSettings) -> dict[int, list[dict[str, Any]]]:
    """Per user or account the limits of the table at the log's end, the request with most jobs first."""
    has_both = past.has_run & (past.requested_s > 0) & (np.arange(len(past)) >= first)
    kinds = usual_kinds(has_both, codes, past.requested_s, past.procs, np.nan_to_num(past.gpus))
    instants = np.concatenate([past.submit_s, past.start_s, past.end_s])
    rows = rows_at(past, float(np.max(instants[np.isfinite(instants)])), chosen)
    file, submits = look_up_of(rows), values_of_submits(past)
    found: dict[int, list[dict[str, Any]]] = {}
    for code, own in kinds.items():
        for (requested_s, procs, gpus), place, n_jobs in own:
            job = {name: values[place] for name, values in submits.items()}
            limit_s = file.decide(job, Counter()).limit_s if file else None
            row = {"requested_s": requested_s, "procs": procs, "gpus": int(gpus), "n_jobs": n_jobs}
            found.setdefault(code, []).append(row | {"limit_s": requested_s if limit_s is None else limit_s})
    return found


def _rows(
    past: History, codes: Ints, names: list[str], after: Outcomes, recommended: Mapping[int, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """One row per user or account, most unused hours first."""
    own, asked = codes[after.place], past.procs[after.place] * past.requested_s[after.place]
    known, n_codes = own >= 0, len(names)

    def total(values: Floats) -> list[float]:
        sums: list[float] = np.bincount(own[known], values[known], minlength=n_codes).tolist()
        return sums

    n_jobs, n_beyond = total(np.ones(len(own))), total(after.is_beyond.astype(float))
    hours = {
        f"{name}_hours": [value / HOUR_S for value in total(values)]
        for name, values in (("requested", asked), ("used", after.used), ("unused", after.over),
                             ("removed", after.removed), ("lost", after.lost))
    }  # fmt: skip
    rows = [
        {
            "name": names[code], "n_jobs": int(n_jobs[code]), "n_beyond": int(n_beyond[code]),
            "share_within": 1.0 - n_beyond[code] / n_jobs[code],
            **{name: values[code] for name, values in hours.items()}, "limits": recommended.get(code, []),
        }
        for code in range(n_codes)
        if n_jobs[code]
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-row["unused_hours"], row["name"]))
