"""Scores what two published versions say of the jobs that came after both: their PREDICTIONS, and their States."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import DAY_S, Bools, Floats, Ints, floats, lower_bounds
from pipeline.estimate.history import History, history
from pipeline.estimate.score import N_QUANTILES, scores
from pipeline.estimate.state import State, estimate
from pipeline.group import assign_groups, with_chosen
from pipeline.publish import Manifest
from pipeline.settings import GroupSettings
from pipeline.storage import read_table
from pipeline.tables import INTERVALS, PREDICTIONS, TEMPLATES

ROUNDING = 1e-9
"""Runs of one length have an interval of this length, but for rounding."""


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


def figures(scored: pa.Table) -> dict[str, Any]:
    """Jobs; shares inside 80% and 95%; median width (hi over lo of 80%); median error; share of jobs on ok rows."""
    if not scored.num_rows:
        return {"jobs": 0}
    median_s, lo80, hi80, lo95, hi95 = (floats(scored, name) for name in INTERVALS)
    actual_s = floats(scored, "actual_s")
    in_80, in_95 = (
        float(((low <= actual_s * (1 + ROUNDING)) & (actual_s * (1 - ROUNDING) <= high)).mean())
        for low, high in ((lo80, hi80), (lo95, hi95))
    )
    return {
        "jobs": actual_s.size, "in_80": in_80, "in_95": in_95,
        "width_80": float(np.median(hi80 / lo80)),
        "median_error": float(np.median(np.abs(median_s / actual_s - 1))),
        "ok_share": float(np.mean(scored["is_ok"].to_numpy())),
    }  # fmt: skip


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
    found = list[pa.Table]()
    for own in versions:
        templates = read_table(own.path(TEMPLATES.name), TEMPLATES)
        chosen = with_chosen(GroupSettings.model_validate(own.settings["group"]), templates)
        predictions = read_table(own.path(PREDICTIONS.name), PREDICTIONS)
        found.append(answered(predictions, assign_groups(jobs, chosen)[0]))
    is_answered = [one["is_ok"].is_valid() for one in found]
    both = pc.and_(*is_answered)
    each = [figures(one.filter(both)) for one in found]
    n_both, _ = (one.pop("jobs") for one in each)
    counts = [{"answered": pc.sum(one).as_py() or 0} for one in is_answered]
    change = None
    if n_both:
        past = history(jobs, timezone)
        change = _change(past, [floats(one, "runtime_s")[past.row] for one in found], both.to_numpy()[past.row], seed)
    return {"in_both": n_both, "each": [one | own for one, own in zip(counts, each, strict=True)], "change": change}


def estimate_figures(states: Sequence[State], jobs: pa.Table, seed: int) -> dict[str, Any]:
    """The errors and coverage of what `walltime query` would have answered from each State, and `change`, as
    `error_change` gives it; none without jobs.
    """
    past = history(jobs, states[0].site["timezone"])
    questions = past.as_submitted()
    found = [estimate(state, questions)[:, :N_QUANTILES] for state in states]
    in_both: Bools = ~np.isnan(found[0][:, 1]) & ~np.isnan(found[1][:, 1])
    if not in_both.any():
        return {"jobs": 0, "each": [{} for _ in states], "change": None}
    each = [scores(past.runtime_s, quantiles_s, in_both) for quantiles_s in found]
    return {
        "jobs": int(in_both.sum()),
        "each": [{name: one[name] for name in _ESTIMATE_FIGURES} for one in each],
        "change": _change(past, [quantiles_s[:, 1] for quantiles_s in found], in_both, seed),
    }


def _change(past: History, medians_s: Sequence[Floats], chosen: Bools, seed: int) -> dict[str, Any]:
    """As `error_change`, of two medians (jobs,) on the chosen jobs."""
    first_s, second_s = (np.abs(one - past.runtime_s)[chosen] for one in medians_s)
    pairs = np.stack([past.codes["who"], past.local_s // DAY_S])[:, chosen]
    user_days: Ints = np.unique(pairs, axis=1, return_inverse=True)[1].ravel()
    return error_change(first_s, second_s, user_days, seed)


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
