"""Scores PREDICTIONS on the jobs that came after them: those of past nights of a log, and of published versions.

Also the answers of published States on later jobs. What a job is scored with knows no job that ended after its submit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import DAY_S, Bools, Floats, Ints, floats, lower_bounds
from pipeline.columns import INTERVALS
from pipeline.estimate.history import History, history
from pipeline.estimate.score import N_QUANTILES, scores
from pipeline.estimate.state import State, estimate
from pipeline.group import assign_groups, choose_template, with_chosen
from pipeline.large_tables import rows_of
from pipeline.publish import Manifest
from pipeline.run import tables_of
from pipeline.settings import GroupSettings, RunSettings
from pipeline.storage import read_table
from pipeline.tables import PREDICTIONS, TEMPLATES

N_NIGHTS = 12
HORIZONS = (1.0, 7.0)
ROUNDING = 1e-9
"""Runs of one length have an interval of this length, but for rounding."""


def later_scores(
    jobs: pa.Table,
    settings: RunSettings,
    shares: tuple[float, float] = (2 / 3, 0.98),
    horizons: Sequence[float] = HORIZONS,
    n_nights: int = N_NIGHTS,
) -> dict[float, pa.Table]:
    """Per horizon (days), the jobs submitted within it after each night, with the predictions of that night.

    `jobs` are flagged JOBS. The nights are evenly spaced between two shares of the jobs by submit. What ends after a
    night is not known at it; the template of a night is the previous one of the next. A row per job that a published
    row answers, as `answered` makes it, with `is_seen`, whether its group had run on its count by the night, and
    `age_days`, its submit after the night.
    """
    submit_s = floats(jobs, "submit_s")
    parts, previous = list[pa.Table](), ""
    first_s, last_s = np.quantile(submit_s[np.isfinite(submit_s)], shares)
    for night_s in np.linspace(first_s, last_s, n_nights):
        table, group = published(jobs, settings, float(night_s), previous)
        previous = "+".join(group.columns)
        parts.append(_scored(table, assign_groups(jobs, group)[0], float(night_s), max(horizons)))
    every = pa.concat_tables(parts)
    found = {days: every.filter(pc.less_equal(every["age_days"], days)) for days in horizons}
    return {days: one for days, one in found.items() if one.num_rows}


def published(
    jobs: pa.Table, settings: RunSettings, night_s: float, previous: str = ""
) -> tuple[pa.Table, GroupSettings]:
    """PREDICTIONS as a run at a time publishes them, and how it groups; `jobs` are flagged JOBS of any time."""
    known = jobs.filter(pa.array(_ends(jobs) <= night_s))
    templates, _ = choose_template(known, settings.group, previous)
    given = {"jobs_flagged": known, "templates": templates}
    table = rows_of(tables_of(settings, given, "predictions")["predictions"])
    return table, with_chosen(settings.group, templates)


def _scored(table: pa.Table, grouped: pa.Table, night_s: float, days: float) -> pa.Table:
    """The later jobs of a night that a row answers."""
    age_days = (floats(grouped, "submit_s") - night_s) / DAY_S
    is_later = (age_days > 0) & (age_days <= days) & (floats(grouped, "runtime_s") > 0)
    is_known = pc.is_valid(grouped.column("group_id")).to_numpy() & (_ends(grouped) <= night_s)
    ran, later = set(keys_of(grouped.filter(pa.array(is_known)))), grouped.filter(pa.array(is_later))
    found = answered(table, later).append_column("age_days", pa.array(age_days[is_later]))
    found = found.append_column("is_seen", pa.array([key in ran for key in keys_of(later)], pa.bool_()))
    return found.filter(found["is_ok"].is_valid())


def answered(table: pa.Table, grouped: pa.Table) -> pa.Table:
    """For each job the numbers of the row of PREDICTIONS of its group and count, and `is_ok`; null where it has none.

    `actual_s` is the job's runtime. An interval without an upper end holds every longer runtime.
    """
    rows = {key: row for row, key in enumerate(keys_of(table))}
    place = pa.array([rows.get(key) for key in keys_of(grouped)], pa.int64())
    numbers = {name: pc.fill_null(table[name], np.inf) if "hi" in name else table[name] for name in INTERVALS}
    found = pa.table({**numbers, "is_ok": pc.equal(table["reliability"].cast(pa.string()), "ok")}).take(place)
    return found.append_column("actual_s", grouped["runtime_s"])


def keys_of(table: pa.Table) -> list[tuple[str, int]]:
    """Group and count of each row."""
    return list(zip(table.column("group_id").to_pylist(), table.column("procs").to_pylist(), strict=True))


def _ends(jobs: pa.Table) -> Floats:
    end_s = floats(jobs, "end_s")
    return np.where(np.isnan(end_s), floats(jobs, "submit_s") + floats(jobs, "runtime_s"), end_s)


def figures(scored: pa.Table) -> dict[str, Any]:
    """Jobs; shares inside 80% and 95%; median width (hi over lo of 80%); median error; share of jobs on ok rows."""
    if not scored.num_rows:
        return {"jobs": 0}
    median_s, lo80, hi80, lo95, hi95 = (floats(scored, name) for name in INTERVALS)
    actual_s = floats(scored, "actual_s")
    inside = {
        name: float(((low <= actual_s * (1 + ROUNDING)) & (actual_s * (1 - ROUNDING) <= high)).mean())
        for name, low, high in (("in_80", lo80, hi80), ("in_95", lo95, hi95))
    }
    return {
        "jobs": actual_s.size,
        **inside,
        "width_80": float(np.median(hi80 / lo80)),
        "median_error": float(np.median(np.abs(median_s / actual_s - 1))),
        "ok_share": float(np.mean(scored["is_ok"].to_numpy())),
    }


_ESTIMATE_FIGURES = ("mae_s", "mae_over_mean", "median_abs_pct", "share_under", "coverage_80", "coverage_q95")


def later_jobs(jobs: pa.Table, after_s: float) -> pa.Table:
    """Kept jobs that were submitted after a time (s since 1970) and ran to their end."""
    is_kept = pc.is_null(jobs.column("flag")).to_numpy()
    runtime_s = floats(jobs, "runtime_s")
    chosen = is_kept & (floats(jobs, "submit_s") > after_s) & (runtime_s > 0) & ~lower_bounds(jobs)
    return jobs.filter(pa.array(chosen))


def prediction_figures(versions: Sequence[Manifest], jobs: pa.Table, timezone: str, seed: int) -> dict[str, Any]:
    """Per version the number of jobs that a row of PREDICTIONS answers; figures on those that both answer.

    `change` of their errors is as `error_change` gives it; None without such jobs.
    """
    found = [_answered_by(own, jobs) for own in versions]
    each = [one["is_ok"].is_valid() for one in found]
    both, change = pc.and_(each[0], each[1]), None
    figures_of = [figures(one.filter(both)) for one in found]
    if n_both := figures_of[0].pop("jobs"):
        past = history(jobs, timezone)
        chosen: Bools = both.to_numpy()[past.row]
        errors_s = [np.abs(floats(one, "runtime_s")[past.row] - past.runtime_s)[chosen] for one in found]
        change = error_change(errors_s[0], errors_s[1], _user_days(past, chosen), seed)
    return {
        "in_both": n_both,
        "each": [
            {"answered": pc.sum(one).as_py() or 0} | {name: value for name, value in own.items() if name != "jobs"}
            for one, own in zip(each, figures_of, strict=True)
        ],
        "change": change,
    }


def _user_days(past: History, chosen: Bools) -> Ints:
    """The number of the user and day of each chosen job."""
    pairs = np.stack([past.codes["who"], past.local_s // DAY_S])[:, chosen]
    return np.unique(pairs, axis=1, return_inverse=True)[1].ravel()


def _answered_by(own: Manifest, jobs: pa.Table) -> pa.Table:
    """The version's predictions for each job."""
    settings = GroupSettings.model_validate(own.settings["group"])
    chosen = with_chosen(settings, read_table(own.path(TEMPLATES.name), TEMPLATES))
    return answered(read_table(own.path(PREDICTIONS.name), PREDICTIONS), assign_groups(jobs, chosen)[0])


def estimate_figures(states: Sequence[State], jobs: pa.Table, seed: int) -> dict[str, Any]:
    """The errors and coverage of what `walltime query` would have answered from each State, and `change`, as
    `error_change` gives it; none without jobs.
    """
    nothing = {"jobs": 0, "each": [{} for _ in states], "change": None}
    if not jobs.num_rows:
        return nothing
    past = history(jobs, states[0].site["timezone"])
    questions = past.as_submitted()
    found = [estimate(state, questions)[:, :N_QUANTILES] for state in states]
    in_both: Bools = ~np.isnan(found[0][:, 1]) & ~np.isnan(found[1][:, 1])
    if not in_both.any():
        return nothing
    each = [scores(past.runtime_s, quantiles_s, in_both) for quantiles_s in found]
    errors_s = [np.abs(quantiles_s[in_both, 1] - past.runtime_s[in_both]) for quantiles_s in found]
    return {
        "jobs": int(in_both.sum()),
        "each": [{name: one[name] for name in _ESTIMATE_FIGURES} for one in each],
        "change": error_change(errors_s[0], errors_s[1], _user_days(past, in_both), seed),
    }


RESAMPLES = 2_000
FEWEST_USER_DAYS = 30
"""Intervals from fewer clusters are too narrow (Cameron, Gelbach & Miller 2008 study 5 to 30)."""


def error_change(first_s: Floats, second_s: Floats, user_days: Ints, seed: int) -> dict[str, Any]:
    """How the second mean absolute error differs from the first, as a share of it, with its 95% interval and a verdict.

    `first_s` and `second_s` are the absolute errors of the same jobs, s; `user_days` numbers the user and day of each.
    Jobs of one user on one day are alike, so that the bootstrap draws user-days. `verdict` is of the second: better,
    worse, no difference where the interval holds 0, or null where there are too few user-days to tell.
    """
    sums_s = np.stack([np.bincount(user_days, one) for one in (first_s, second_s)])
    n, random = sums_s.shape[1], np.random.default_rng(seed)
    about = {"user_days": n, "resamples": RESAMPLES, "seed": seed}
    if n < FEWEST_USER_DAYS or not (first_s > 0).any():
        return {"change": None, "lo95": None, "hi95": None, "verdict": None, **about}
    drawn = np.array([sums_s[:, random.integers(n, size=n)].sum(axis=1) for _ in range(RESAMPLES)])
    drawn = drawn[drawn[:, 0] > 0]
    lo95, hi95 = np.quantile(drawn[:, 1] / drawn[:, 0] - 1.0, (0.025, 0.975)).tolist()
    verdict = "better" if hi95 < 0 else "worse" if lo95 > 0 else "no difference"
    change = float(second_s.sum() / first_s.sum() - 1.0)
    return {"change": change, "lo95": lo95, "hi95": hi95, "verdict": verdict, **about}
