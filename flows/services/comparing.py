"""Groups and fits of two versions beside one another, and their errors on the jobs that came after both."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.services.published.run_notes import compared_templates
from flows.services.published.summary import fits_by_law_and_status
from flows.services.quantities import instant
from flows.services.query.answers import LoadedState, state_of
from flows.services.replay_comparison import replayed
from pipeline.arrays import Bools, Floats, floats, lower_bounds
from pipeline.estimate.history import history
from pipeline.estimate.score import scores
from pipeline.estimate.walltime import estimate
from pipeline.evaluate.later_scores import Scored, figures
from pipeline.group import assign_groups, with_chosen
from pipeline.publish import Manifest
from pipeline.publish.version_store import reading, stored_versions
from pipeline.schedule.workload import Shakes
from pipeline.settings import GroupSettings
from pipeline.storage import read_table
from pipeline.tables import FITS, GROUPS, JOBS, PREDICTIONS, TEMPLATES

_ENDS = ("runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95")
_ESTIMATE_FIGURES = ("mae_s", "mae_over_mean", "median_abs_pct", "share_under", "coverage_80", "coverage_q95")


@dataclass(frozen=True, slots=True)
class Replays:
    """How later jobs are replayed: the machine's processors (None: those that are known), and the shakes."""

    procs: int | None
    shakes: Shakes


def compare_versions(output_dir: Path, first: str, second: str, replays: Replays | None = None) -> dict[str, Any]:
    """Two versions in plain values: groups, fits, and the errors of both on the same later jobs.

    Later jobs are kept ones of the version on disk whose log ends last, submitted after all that the two versions know.
    With `replays` also the slowdowns that the estimates of both would have given, with those that cleaning set aside.
    """
    with reading(output_dir, name=first) as one, reading(output_dir, name=second) as other:
        return _compared(output_dir, [one, other], replays)


def _compared(output_dir: Path, pair: list[Manifest], replays: Replays | None) -> dict[str, Any]:
    states = [state_of(manifest, 1_000_000) for manifest in pair]
    after_s = max(float(loaded.state.as_of_s) for loaded in states)
    after_s = max([after_s, *(float(own.data_newest_end_s) for own in pair if own.data_newest_end_s is not None)])
    source = _longest(output_dir, pair)
    every = read_table(source.path(JOBS.name), JOBS)
    jobs = _later_jobs(every, after_s)
    replay = replays and replayed(states, source, every, after_s, replays.procs, replays.shakes)
    return {
        "versions": [_facts(manifest) for manifest in pair],
        "groups": _groups(pair),
        "fits": _fits(pair),
        "after": instant(int(after_s)),
        "jobs_from": source.folder,
        "later_jobs": jobs.num_rows,
        "predictions": _predictions(pair, jobs),
        "estimates": _estimates(states, jobs),
        "replay": replay,
    }


def _facts(manifest: Manifest) -> dict[str, Any]:
    chosen = [row["template"] for row in compared_templates(manifest) if row["is_chosen"]]
    return {
        "version": manifest.folder,
        "name": manifest.name,
        "made": instant(manifest.created_s),
        "newest_job": instant(manifest.data_newest_end_s),
        "jobs": manifest.tables[JOBS.name].rows,
        "template": chosen[0] if chosen else None,
    }


def _groups(pair: list[Manifest]) -> dict[str, Any]:
    """Numbers of groups, and of those that both versions have."""
    ids = [set(read_table(own.path(GROUPS.name), GROUPS).column("group_id").to_pylist()) for own in pair]
    return {"each": [len(one) for one in ids], "in_both": len(ids[0] & ids[1])}


def _fits(pair: list[Manifest]) -> dict[str, Any]:
    """Groups by law and status of the chosen fit, and how many groups of both versions have another law."""
    tables = [read_table(own.path(FITS.name), FITS) for own in pair]
    laws = [
        {row["group_id"]: row["law"] for row in table.filter(table.column("is_chosen")).to_pylist()} for table in tables
    ]
    both = laws[0].keys() & laws[1].keys()
    other = sum(laws[0][group] != laws[1][group] for group in both)
    return {"each": [fits_by_law_and_status(table) for table in tables], "in_both": len(both), "other_law": other}


def _longest(output_dir: Path, pair: list[Manifest]) -> Manifest:
    """The version on disk whose jobs end last."""
    known = [one.manifest for one in stored_versions(output_dir) if one.manifest is not None]
    return max(known or pair, key=lambda own: (own.data_newest_end_s or 0, own.folder))


def _later_jobs(jobs: pa.Table, after_s: float) -> pa.Table:
    """Kept jobs that were submitted after a time and ran to their end."""
    is_kept = pc.is_null(jobs.column("flag")).to_numpy()
    runtime_s = floats(jobs, "runtime_s")
    chosen = is_kept & (floats(jobs, "submit_s") > after_s) & (runtime_s > 0) & ~lower_bounds(jobs)
    return jobs.filter(pa.array(chosen))


def _predictions(pair: list[Manifest], jobs: pa.Table) -> dict[str, Any]:
    """Per version the number of later jobs that a row of PREDICTIONS answers; figures on those that both answer."""
    found = [_matched(own, jobs) for own in pair]
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
    ends = {name: columns[name] if "hi" not in name else _open(columns[name]) for name in _ENDS}
    scored = Scored(actual_s, ends | {"near_share": unknown}, columns["is_ok"] > 0, never, unknown)
    wanted = ("in_80", "in_95", "width_80", "median_error", "ok_share")
    return {name: value for name, value in figures(scored).items() if name in wanted}


def _open(upper: Floats) -> Floats:
    return np.where(np.isnan(upper), np.inf, upper)


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
    return {name: _taken(values, place) for name, values in columns.items()}


def _taken(values: Floats, place: Any) -> Floats:
    padded = np.append(values, np.nan)
    found: Floats = padded[np.where(place < 0, len(values), place)]
    return found


def _estimates(states: list[LoadedState], jobs: pa.Table) -> dict[str, Any]:
    """The errors and coverage of what `walltime query` would have answered from each State; none without later jobs."""
    if not jobs.num_rows:
        return {"jobs": 0, "each": [{} for _ in states]}
    past = history(jobs, states[0].state.site["timezone"])
    questions = past.as_submitted()
    found = [estimate(loaded.state, questions, loaded.settings) for loaded in states]
    answered: Bools = ~np.isnan(found[0][:, 1]) & ~np.isnan(found[1][:, 1])
    if not answered.any():
        return {"jobs": 0, "each": [{} for _ in states]}
    each = [scores(past.runtime_s, quantiles_s, answered) for quantiles_s in found]
    return {"jobs": int(answered.sum()), "each": [{name: one[name] for name in _ESTIMATE_FIGURES} for one in each]}
