"""Recommended limits of a log: figures beside other rules, and per user or account unused hours and recommendations."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flows.services.logs.flagged_jobs import flagged_jobs, jobs_of_table
from flows.services.progress import running_stage
from flows.services.run.prepare import find_logs, resolve
from pipeline.arrays import Floats, Ints
from pipeline.errors import InputError, printable
from pipeline.estimate.baselines import largest_of_5, largest_of_15
from pipeline.estimate.estimate_rules import ESTIMATE_RULES
from pipeline.estimate.history import History
from pipeline.estimate.limit_choice import USER_TIMES, LimitSettings
from pipeline.estimate.limits import Recommended, recommend
from pipeline.estimate.score import QUANTILES
from pipeline.evaluate.backtest import past_of
from pipeline.evaluate.limit_figures import MANY_JOBS, Outcomes, limit_figures, outcomes, second_half
from pipeline.settings import RunSettings

MOST_CLASSES = 3
"""Requests (time and processors) of one user for which a limit is recommended, those with most jobs."""

HOUR_S = 3600.0
MOST_STRETCHED = 1000.0
ESTIMATE = QUANTILES.index(0.5)
LEAST_PROMISE, MOST_PROMISE = 0.5, 0.999


@dataclass(frozen=True, slots=True)
class LimitLog:
    """A log whose limits are recommended: its name, its jobs in order of submit, and the settings."""

    name: str
    past: History
    settings: RunSettings


def promise_of(text: str) -> float:
    """The promised share of jobs within their limits, from a text as 97% or .97; InputError for any other."""
    plain = text.strip()
    try:
        found = float(plain[:-1]) / 100 if plain.endswith("%") else float(plain)
    except ValueError:
        found = float("nan")
    if not LEAST_PROMISE <= found <= MOST_PROMISE:
        raise InputError(f"--promise {printable(text)}", "no such share", "a share from 50% to 99.9%, as in 97%")
    return found


def limit_log(given: Path) -> LimitLog:
    """The jobs of a config's logs, a log or a table of jobs; InputError where none has a request and a runtime."""
    if given.suffix == ".parquet":
        settings = RunSettings()
        jobs = jobs_of_table(given)
    else:
        is_config = given.suffix == ".toml"
        settings, paths = resolve(given) if is_config else (RunSettings(), find_logs([str(given)], Path()))
        jobs, _ = flagged_jobs(paths, settings)
    past = past_of(jobs, settings)
    if not (past.has_run & (past.requested_s > 0)).any():
        expected = "jobs with a runtime and a requested time"
        raise InputError(printable(str(given)), f"{jobs.num_rows} jobs, none with both", expected)
    name = settings.site.name if given.suffix == ".toml" else given.name
    return LimitLog(name, past, settings)


def advise(log: LimitLog, by: str, promise: float) -> dict[str, Any]:
    """The figures of the log's later half, and per user or account its unused hours and recommended limits.

    Limits are as of each job's submit; recommendations for the next job are as of the log's end.
    """
    past, first = log.past, second_half(log.past)
    codes, names = past.codes[by], past.names[by]
    if not (codes[first:] >= 0).any():
        raise InputError(f"--by {by}", f"no job with a known {by}", "a column of the log that says who submitted")
    chosen = LimitSettings(share=1.0 - promise)
    again = _last_of_classes(past, codes, first)
    with running_stage("recommend limits"):
        found = recommend(past, ESTIMATE_RULES, chosen, np.array([place for _, place, _ in again], np.int64))
    after = outcomes(past, found.limit_s, first)
    return {
        "log": log.name, "by": by, "promise": promise, "bound": USER_TIMES * chosen.share, "many_jobs": MANY_JOBS,
        "from_s": float(past.submit_s[first]), "until_s": float(past.submit_s[-1]),
        "figures": limit_figures(past, found.limit_s, first),
        "rows": _rows(past, codes, names, after, _recommendations(past, again, found)),
    }  # fmt: skip


def score(log: LimitLog, promise: float) -> dict[str, Any]:
    """The figures of the recommended limits and of other rules on the log's later half, by name of the rule."""
    past, first, settings = log.past, second_half(log.past), ESTIMATE_RULES
    none = np.empty(0, np.int64)
    with running_stage("recommend limits"):
        found = recommend(past, settings, LimitSettings(share=1.0 - promise), none)
    rule_s = largest_of_15(past, settings)[:, ESTIMATE]
    rules = {
        "limits": found.limit_s,
        "MetaCentrum's rule": rule_s,
        "the rule, stretched": stretched(past, rule_s, first, 1.0 - promise),
        "max of five": largest_of_5(past, settings)[:, ESTIMATE],
        "plain quantile": plain_quantile(found.quantiles_s, promise),
    }
    rows = {name: limit_figures(past, limit_s, first) for name, limit_s in rules.items()}
    return {"log": log.name, "promise": promise, "many_jobs": MANY_JOBS, "rules": rows}


def stretched(past: History, limit_s: Floats, first: int, share: float) -> Floats:
    """Limits times the least factor with which at most `share` of the scored jobs exceed them, in hindsight."""
    low, high = 1.0, MOST_STRETCHED
    for _ in range(20):
        middle = (low * high) ** 0.5
        keeps = float(outcomes(past, middle * limit_s, first).is_beyond.mean()) <= share
        low, high = (low, middle) if keeps else (middle, high)
    keeps = float(outcomes(past, limit_s, first).is_beyond.mean()) <= share
    return limit_s if keeps else high * limit_s


def plain_quantile(quantiles_s: Floats, share: float) -> Floats:
    """(jobs,) the same quantile of every job, s, interpolated in the logarithm; the last one beyond the grid."""
    log_s = np.log(np.maximum(quantiles_s, 1.0))
    place = int(np.clip(np.searchsorted(QUANTILES, share) - 1, 0, len(QUANTILES) - 2))
    part = float(np.clip((share - QUANTILES[place]) / (QUANTILES[place + 1] - QUANTILES[place]), 0.0, 1.0))
    return np.exp(log_s[:, place] * (1.0 - part) + log_s[:, place + 1] * part)


def _last_of_classes(past: History, codes: Ints, first: int) -> list[tuple[int, int, int]]:
    """(code, place of the last job, number of jobs) of the most frequent requests of each user or account."""
    has_both = past.has_run & (past.requested_s > 0) & (codes >= 0) & (np.arange(len(past)) >= first)
    counts: dict[tuple[int, float, float], list[int]] = {}
    for place in np.flatnonzero(has_both).tolist():
        key = (int(codes[place]), float(past.requested_s[place]), float(past.procs[place]))
        held = counts.setdefault(key, [0, place])
        held[0], held[1] = held[0] + 1, place
    by_code: dict[int, list[tuple[int, int]]] = {}
    for (code, *_), (n_jobs, place) in counts.items():
        by_code.setdefault(code, []).append((n_jobs, place))
    most = ((code, sorted(own, key=lambda one: (-one[0], one[1]))[:MOST_CLASSES]) for code, own in by_code.items())
    return sorted(((code, place, n_jobs) for code, own in most for n_jobs, place in own), key=lambda one: one[1])


def _recommendations(
    past: History, again: list[tuple[int, int, int]], found: Recommended
) -> dict[int, list[dict[str, Any]]]:
    """Per user or account the recommended limits, the request with most jobs first."""
    by_code: dict[int, list[dict[str, Any]]] = {}
    for (code, place, n_jobs), next_s in zip(again, found.next_s.tolist(), strict=True):
        requested_s = float(past.requested_s[place])
        row = {"requested_s": requested_s, "procs": float(past.procs[place]), "n_jobs": n_jobs}
        by_code.setdefault(code, []).append(row | {"limit_s": min(_whole_minutes_s(next_s), requested_s)})
    return {code: sorted(rows, key=lambda row: -row["n_jobs"]) for code, rows in by_code.items()}


def _whole_minutes_s(limit_s: float) -> float:
    return float(np.ceil(limit_s / 60.0) * 60.0)


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
