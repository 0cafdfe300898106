"""How published versions did on the jobs that came after them: the figures of two versions on the same later jobs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, Ints, floats, lower_bounds
from pipeline.estimate.history import History, history
from pipeline.estimate.score import N_QUANTILES, scores
from pipeline.estimate.state import State, estimate
from pipeline.evaluate.later_scores import NUMBERS, Scored, figures, keys_of
from pipeline.group import assign_groups, with_chosen
from pipeline.publish import Manifest
from pipeline.settings import GroupSettings
from pipeline.storage import read_table
from pipeline.tables import PREDICTIONS, TEMPLATES

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
    found = [_matched(own, jobs) for own in versions]
    answered = [np.isfinite(columns["runtime_s"]) for columns in found]
    both = answered[0] & answered[1]
    actual_s = floats(jobs, "runtime_s")[both]
    each = [
        {"answered": int(one.sum())} | _later_figures(actual_s, {name: v[both] for name, v in columns.items()})
        for one, columns in zip(answered, found, strict=True)
    ]
    change = None
    if both.any():
        past = history(jobs, timezone)
        chosen: Bools = both[past.row]
        errors_s = [np.abs(columns["runtime_s"][past.row] - past.runtime_s)[chosen] for columns in found]
        change = error_change(errors_s[0], errors_s[1], _user_days(past, chosen), seed)
    return {"in_both": int(both.sum()), "each": each, "change": change}


def _user_days(past: History, chosen: Bools) -> Ints:
    """The number of the user and day of each chosen job."""
    pairs = np.stack([past.codes["who"], past.local_s // DAY_S])[:, chosen]
    return np.unique(pairs, axis=1, return_inverse=True)[1].ravel()


def _later_figures(actual_s: Floats, columns: Mapping[str, Floats]) -> dict[str, Any]:
    unknown = np.full(actual_s.size, np.nan)
    never = np.zeros(actual_s.size, np.bool_)
    # An open interval has no upper end: it holds every longer runtime.
    ends = {
        name: np.where(np.isnan(columns[name]), np.inf, columns[name]) if "hi" in name else columns[name]
        for name in NUMBERS
    }
    scored = Scored(actual_s, ends, columns["is_ok"] > 0, never, unknown)
    wanted = ("in_80", "in_95", "width_80", "median_error", "ok_share")
    return {name: value for name, value in figures(scored).items() if name in wanted}


def _matched(own: Manifest, jobs: pa.Table) -> dict[str, Floats]:
    """Columns of the version's predictions for each job, NaN where it has no row for the job's group and processors."""
    settings = GroupSettings.model_validate(own.settings["group"])
    chosen = with_chosen(settings, read_table(own.path(TEMPLATES.name), TEMPLATES))
    grouped, _ = assign_groups(jobs, chosen)
    table = read_table(own.path(PREDICTIONS.name), PREDICTIONS)
    rows = {key: row for row, key in enumerate(keys_of(table))}
    place = np.array([rows.get(key, -1) for key in keys_of(grouped)], np.int64)
    is_ok = pc.equal(table.column("reliability").cast(pa.string()), "ok").to_numpy(zero_copy_only=False)
    columns = {name: floats(table, name) for name in NUMBERS} | {"is_ok": is_ok.astype(np.float64)}
    # The last place, of jobs without a row, is unknown.
    return {name: np.append(values, np.nan)[place] for name, values in columns.items()}


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
    answered: Bools = ~np.isnan(found[0][:, 1]) & ~np.isnan(found[1][:, 1])
    if not answered.any():
        return nothing
    each = [scores(past.runtime_s, quantiles_s, answered) for quantiles_s in found]
    errors_s = [np.abs(quantiles_s[answered, 1] - past.runtime_s[answered]) for quantiles_s in found]
    return {
        "jobs": int(answered.sum()),
        "each": [{name: one[name] for name in _ESTIMATE_FIGURES} for one in each],
        "change": error_change(errors_s[0], errors_s[1], _user_days(past, answered), seed),
    }


DAY_S = 86_400
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
    return {
        "change": float(second_s.sum() / first_s.sum() - 1.0),
        "lo95": lo95,
        "hi95": hi95,
        "verdict": verdict,
        **about,
    }
