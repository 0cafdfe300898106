"""The policy of the guard: the limit that each job of a queue is to have now; and the limit that a query states.

`plan_round` is a pure function of what a round has seen: a running job that is near its limit gets a longer one, at
most its request; a waiting job gets the limit that the plug-in would set, or its request back.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pipeline.arrays import Value
from pipeline.ingest.slurm_texts import limit_comment, may_be_set, set_s_of, without_ours
from pipeline.limits.soft import (
    MINUTE_S,
    SOFT_RULES,
    SoftRules,
    extensions_of,
    medians_left,
    next_limits,
    planned_limits,
    rules_of,
)
from pipeline.settings import QUANTILES, ExportSettings, Whose


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A job that waits or runs: its id as the scheduler's programs take it, and its values by columns of JOBS."""

    job_id: str
    values: Mapping[str, Value]
    submit_s: float | None
    asked_s: float | None
    """The time that the user asked for (s); None: unknown or unlimited."""
    planned_s: float | None
    """The time that the scheduler plans with now (s)."""
    comment: str = ""
    """Slurm's AdminComment."""
    n_tasks: int = 1
    """Of an array the tasks that wait, which may all fail."""
    fault: str = ""
    """In Slurm why the job is to keep its request; empty where nothing says so."""
    end_s: float = math.nan
    """When the scheduler would end a running job at its limit; time that it was suspended is in it."""
    raw_id: int = 0
    """The number in the accounting, in Slurm."""
    start_s: float | None = None
    """When the job started, NaN where that is unknown; None: it waits."""
    held: str = ""
    """Why the job waits for more than processors, so that its start is not expected; empty where it does not."""
    priority: float = math.nan
    nodes: tuple[str, ...] = ()
    """The names of the nodes that the job runs on."""


class Change(NamedTuple):
    """A job's new limit (s), the reason, and its new AdminComment; None: as it is."""

    job: PendingJob
    to_s: float
    why: str
    comment: str | None = None


class Reservation(NamedTuple):
    """When a reservation begins and ends, s since 1970, and its nodes."""

    start_s: float
    end_s: float
    nodes: frozenset[str]


class Seen(NamedTuple):
    """What a round has seen."""

    now_s: float
    jobs: Sequence[PendingJob]
    export: ExportSettings
    rules: SoftRules
    quantiles_s: Mapping[str, Sequence[float]]
    """By job id the quantiles of the runtime; jobs without an estimate are missing."""
    signals: Mapping[int, bool]
    """By raw id whether the submit line asks for a signal; of jobs that are missing it is not known."""
    unknown: frozenset[int]
    """Raw ids of jobs of which sacct should know the submit line by now, and does not."""
    reservations: Sequence[Reservation] | None
    """None: not known."""
    late: frozenset[str]
    """Partitions in which a job waits too long."""
    is_leaving: bool = False
    """Whether every job is to get its request back."""


class Planned(NamedTuple):
    """The changes of a round, running jobs first, and how many jobs were left alone by reason."""

    changes: list[Change]
    left: Counter[str]


def plan_round(seen: Seen) -> Planned:
    """The changes that the jobs need now."""
    left = Counter[str]()
    running, waiting = list[Change](), list[Change]()
    for job in seen.jobs:
        first_s, limit_s = set_s_of(job.comment), job.planned_s or math.inf
        if job.start_s is not None:
            is_ours = first_s is not None and first_s <= limit_s < (job.asked_s or 0)
            change = _raised(job, float(first_s or 0), seen) if is_ours else None
            running += [change] if change else []
        elif first_s is not None and limit_s != first_s:
            left["its limit was changed"] += 1
        elif change := _waiting(job, first_s is not None, seen, left):
            waiting.append(change)
    return Planned([*running, *waiting], left)


def _raised(job: PendingJob, first_s: float, seen: Seen) -> Change | None:
    """The next limit of a running job; its request where it should not have had a limit of ours."""
    asked_s, limit_s = float(job.asked_s or 0), float(job.planned_s or 0)
    if why := _why_not(job, seen) or _why_late(job, seen):
        return Change(job, asked_s, why, _left_comment(job) if seen.is_leaving else None)
    left_s = 0.0 if math.isnan(job.end_s) else job.end_s - seen.now_s
    if left_s >= seen.rules.margin_s:
        return None
    quantiles_s = seen.quantiles_s.get(job.job_id)
    to_s = np.array([limit_s])
    # More than one extension where the guard was away and the job is past its limit.
    while to_s[0] < asked_s and left_s + to_s[0] - limit_s < seen.rules.margin_s:
        median_s = np.full(1, np.nan)
        if quantiles_s is not None:
            median_s = medians_left(np.array([quantiles_s]), QUANTILES, to_s)
        n = extensions_of(to_s, np.array([first_s]), seen.rules)
        to_s = next_limits(to_s, np.array([asked_s]), n, median_s, seen.rules)
    return Change(job, float(to_s[0]), f"{max(left_s, 0.0) / MINUTE_S:.0f} min were left")


def _waiting(job: PendingJob, is_ours: bool, seen: Seen, left: Counter[str]) -> Change | None:
    """The first limit of a waiting job, or its request back; None where it keeps what it has."""
    asked_s, limit_s = float(job.asked_s or 0), float(job.planned_s or 0)
    why = _why_not(job, seen) or _why_not_now(job, seen)
    quantiles_s = None if why else seen.quantiles_s.get(job.job_id)
    wanted_s = math.nan
    if quantiles_s is not None:
        quantile_s = np.array([quantiles_s[QUANTILES.index(seen.rules.quantile)]])
        wanted_s = float(planned_limits(quantile_s, np.array([asked_s]), seen.rules)[0])
    why = why or ("" if wanted_s > 0 else "no estimate far enough below its request")
    if why and not is_ours:
        left[why] += 1
        return None
    if why:
        comment = _left_comment(job) if seen.is_leaving else _our_comment(job, None, asked_s)
        return Change(job, asked_s, why, comment)
    if abs(wanted_s - limit_s) < MINUTE_S:
        return None
    return Change(job, wanted_s, "as estimated", _our_comment(job, wanted_s, asked_s))


def _why_not(job: PendingJob, seen: Seen) -> str:
    """Why a job is to have its request, whether it waits or runs; empty where a shorter limit may stand."""
    export = seen.export
    if seen.is_leaving:
        return "limits are withdrawn"
    if job.fault or seen.signals.get(job.raw_id):
        return job.fault or "it has a --signal"
    if job.raw_id in seen.unknown:
        return "its submit line is not known"
    if _is_named(job, export.opt_out):
        return "its user, account or partition has opted out"
    return "" if not export.opt_in or _is_named(job, export.opted_in) else "nobody has opted it in"


def _why_not_now(job: PendingJob, seen: Seen) -> str:
    """The same of a job that waits: what may change until it starts."""
    if not job.asked_s or not job.planned_s:
        return "no time limit of its own"
    if not may_be_set(job.comment):
        return "the plug-in has not seen it, or leaves it alone"
    # A new job of ours keeps its limit until sacct should know it.
    if job.raw_id not in seen.signals and set_s_of(job.comment) is None:
        return "its submit line is not known"
    if seen.reservations is None:
        return "reservations are not known"
    # Which nodes it will get is not known: any reservation counts.
    if any(seen.now_s < one.start_s < seen.now_s + job.asked_s for one in seen.reservations):
        return "its request would reach a reservation"
    return _why_late(job, seen)


def _why_late(job: PendingJob, seen: Seen) -> str:
    # Of running jobs too: only then is it planned when nodes are free for the job that waits.
    return "a job of its partition waits too long" if seen.late & names_of(job, "queue") else ""


def names_of(job: PendingJob, column: str) -> set[str]:
    """The names in a column; a job may wait for several partitions."""
    return set(str(job.values.get(column) or "").split(",")) - {""}


def _is_named(job: PendingJob, whose: Whose) -> bool:
    lists = {"user": whose.users, "account": whose.accounts, "queue": whose.partitions}
    return any(names_of(job, column) & set(names) for column, names in lists.items())


def _our_comment(job: PendingJob, limit_s: float | None, asked_s: float) -> str:
    limit_min = None if limit_s is None else round(limit_s / MINUTE_S)
    ours = limit_comment("limit", "run=guard", limit_min, round(asked_s / MINUTE_S))
    others = without_ours(job.comment)
    return f"{others}; {ours}" if others else ours


def _left_comment(job: PendingJob) -> str | None:
    """The AdminComment without ours; None where it has characters that scontrol cannot be given."""
    return without_ours(job.comment) if re.fullmatch(r"[ !#-&(-\[\]-~]*", job.comment) else None


def scheduler_of(settings: Mapping[str, Any]) -> str:
    """The scheduler of a run, slurm or pbs; `settings` as a version keeps them."""
    return str(settings.get("guard", {}).get("scheduler", "slurm"))


def limit_answer(settings: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The first limit of a job that has been answered, or on OpenPBS its soft_walltime; `settings` as a version keeps
    them.

    In the answer `planned_s` is what its estimate gives, None where the request stands, and `limit_s` what the mode of
    the run sets. `why_none` is no_request, opted_out, no_gain or the mode; None where the limit is set.
    """
    job, export = found["job"], settings.get("export", {})
    out, mode = export.get("opt_out", {}), export.get("mode", "dry_run")
    named = {"user": "users", "account": "accounts", "queue": "partitions"}
    rules = rules_of(export.get("quantile", SOFT_RULES.quantile), export.get("over_time_limit_min", 0.0))
    quantile_s = np.array([found[f"runtime_s_q{round(100 * rules.quantile)}"]], np.float64)
    requested_s = float(job.get("requested_s") or np.nan)
    if scheduler_of(settings) == "pbs":
        # The hook takes the quantile as it is: OpenPBS itself gives a job more time, so that nothing is lost.
        whole_s = float(np.ceil(quantile_s[0]))
        planned_s = whole_s if whole_s < requested_s else math.nan
    else:
        planned_s = float(planned_limits(quantile_s, np.array([requested_s]), rules)[0])
    reasons = {
        "no_request": not job.get("requested_s"),
        "opted_out": any(job.get(column) in out.get(names, ()) for column, names in named.items()),
        "no_gain": not planned_s > 0,
        mode: mode != "limit",
    }
    why = next((word for word, holds in reasons.items() if holds), None)
    return {
        "limit_s": None if why else planned_s, "why_none": why, "mode": mode,
        "planned_s": planned_s if planned_s > 0 else None, "quantile": rules.quantile,
    }  # fmt: skip
