"""Figures of two published versions on the same later jobs, which came after both."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, floats, lower_bounds
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import history
from pipeline.estimate.score import scores
from pipeline.estimate.state import State
from pipeline.estimate.walltime import estimate
from pipeline.evaluate.later_scores import Scored, figures
from pipeline.group import assign_groups, with_chosen
from pipeline.publish import Manifest
from pipeline.settings import GroupSettings
from pipeline.storage import read_table
from pipeline.tables import PREDICTIONS, TEMPLATES

_ENDS = ("runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95")
_ESTIMATE_FIGURES = ("mae_s", "mae_over_mean", "median_abs_pct", "share_under", "coverage_80", "coverage_q95")


def later_jobs(jobs: pa.Table, after_s: float) -> pa.Table:
    """Kept jobs that were submitted after a time (s since 1970) and ran to their end."""
    is_kept = pc.is_null(jobs.column("flag")).to_numpy()
    runtime_s = floats(jobs, "runtime_s")
    chosen = is_kept & (floats(jobs, "submit_s") > after_s) & (runtime_s > 0) & ~lower_bounds(jobs)
    return jobs.filter(pa.array(chosen))


def prediction_figures(versions: Sequence[Manifest], jobs: pa.Table) -> dict[str, Any]:
    """Per version the number of jobs that a row of PREDICTIONS answers; figures on those that both answer."""
    found = [_matched(own, jobs) for own in versions]
    answered = [np.isfinite(columns["runtime_s"]) for columns in found]
    both = answered[0] & answered[1]
    actual_s = floats(jobs, "runtime_s")[both]
    each = [
        {"answered": int(one.sum())} | _later_figures(actual_s, {name: v[both] for name, v in columns.items()})
        for one, columns in zip(answered, found, strict=True)
    ]
    return {"in_both": int(both.sum()), "each": each}


def _later_figures(actual_s: Floats, columns: Mapping[str, Floats]) -> dict[str, Any]:
    unknown = np.full(actual_s.size, np.nan)
    never = np.zeros(actual_s.size, np.bool_)
    # An open interval has no upper end: it holds every longer runtime.
    ends = {
        name: np.where(np.isnan(columns[name]), np.inf, columns[name]) if "hi" in name else columns[name]
        for name in _ENDS
    }
    scored = Scored(actual_s, ends | {"near_share": unknown}, columns["is_ok"] > 0, never, unknown)
    wanted = ("in_80", "in_95", "width_80", "median_error", "ok_share")
    return {name: value for name, value in figures(scored).items() if name in wanted}


def _matched(own: Manifest, jobs: pa.Table) -> dict[str, Floats]:
    """Columns of the version's predictions for each job, NaN where it has no row for the job's group and processors."""
    settings = GroupSettings.model_validate(own.settings["group"])
    chosen = with_chosen(settings, read_table(own.path(TEMPLATES.name), TEMPLATES))
    grouped, _ = assign_groups(jobs, chosen)
    table = read_table(own.path(PREDICTIONS.name), PREDICTIONS)
    keys = zip(table.column("group_id").to_pylist(), table.column("procs").to_pylist(), strict=True)
    rows = {key: row for row, key in enumerate(keys)}
    wanted = zip(grouped.column("group_id").to_pylist(), grouped.column("procs").to_pylist(), strict=True)
    place = np.array([rows.get(key, -1) for key in wanted], np.int64)
    is_ok = pc.equal(table.column("reliability").cast(pa.string()), "ok").to_numpy(zero_copy_only=False)
    columns = {name: floats(table, name) for name in _ENDS} | {"is_ok": is_ok.astype(np.float64)}
    # The last place, of jobs without a row, is unknown.
    return {name: np.append(values, np.nan)[place] for name, values in columns.items()}


def estimate_figures(states: Sequence[tuple[State, EstimateRules]], jobs: pa.Table) -> dict[str, Any]:
    """The errors and coverage of what `walltime query` would have answered from each State; none without jobs."""
    nothing = {"jobs": 0, "each": [{} for _ in states]}
    if not jobs.num_rows:
        return nothing
    past = history(jobs, states[0][0].site["timezone"])
    questions = past.as_submitted()
    found = [estimate(state, questions, rules) for state, rules in states]
    answered: Bools = ~np.isnan(found[0][:, 1]) & ~np.isnan(found[1][:, 1])
    if not answered.any():
        return nothing
    each = [scores(past.runtime_s, quantiles_s, answered) for quantiles_s in found]
    return {"jobs": int(answered.sum()), "each": [{name: one[name] for name in _ESTIMATE_FIGURES} for one in each]}
