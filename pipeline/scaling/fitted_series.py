"""What `walltime scaling fit` does: series from a CSV through the stages fit, scalability and predict."""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from pipeline.kernels import interpreted
from pipeline.scaling.fit import fit
from pipeline.scaling.levels import level
from pipeline.scaling.predictions import predict
from pipeline.scaling.problem_sizes import predict_across, with_across
from pipeline.scaling.rules import AcrossRules, AnomalyRules, FitRules, PatternRules, PredictRules
from pipeline.scaling.scalability import scalability
from pipeline.scaling.screens import find_patterns, screen
from pipeline.settings import SiteSettings
from pipeline.tables import ACROSS, FITS, GROUPS, OBSERVATIONS, PATTERNS, PREDICTIONS, SCALABILITY

Loss = Literal["log", "relative"]
RUN_ID = "fit-series"
CURVE_POINTS = 60
FEW_ROWS = 8
"""Interpreted, a row takes .3 CPU-seconds; compiling the kernels takes 28, and loading them 1."""


def compiling_for_many(n_rows: int) -> AbstractContextManager[None]:
    """Within it, kernels are interpreted where few sizes were measured.

    It depends on the rows alone: the average's screens add 32-bit numbers, and interpreted they differ in the ninth
    digit, so that a second call could give other bytes than the first.
    """
    return interpreted() if n_rows <= FEW_ROWS else nullcontext()


def fit_and_predict(
    observations: pa.Table,
    at: Sequence[int],
    max_procs: int | None,
    loss: Loss = "relative",
    *,
    is_screened: bool = True,
    procs_per_node: int | None = None,
) -> dict[str, pa.Table]:
    """The tables of a few series: observations, patterns, fits, scalability and, at the counts `at`, predictions.

    Relative errors are the default loss, because measured runtimes vary less than a log's and ADEPT's WSSRE is the
    published measure. Screening is that of logs: odd sizes are left out of the fits, and patterns are removed before
    the fits and restored in the predictions. Without it the table of patterns is empty. Where the ids of series name
    problem sizes, those of one application are predicted from one another (GROUPS and ACROSS).
    """
    patterns = PATTERNS.empty()
    if is_screened:
        patterns, report = find_patterns(observations, PatternRules(), AnomalyRules().noise)
        report.check()
        observations, report = screen(observations, patterns, AnomalyRules())
        report.check()
    levelled, _ = level(observations, patterns)
    fits, report = fit(levelled, FitRules(loss=loss))
    report.check()
    tables = {OBSERVATIONS.name: observations, PATTERNS.name: patterns, FITS.name: fits}
    named = applications(observations)
    site = SiteSettings(max_procs=max_procs, procs_per_node=procs_per_node)
    tables[SCALABILITY.name], report = scalability(levelled, fits, PredictRules(), site, RUN_ID, named, patterns)
    report.check()
    groups = sized_groups(observations)
    if groups.num_rows:
        tables[GROUPS.name] = groups
        tables[ACROSS.name] = _across(tables, at)
    if at:
        tables[PREDICTIONS.name] = predictions_at(tables, at, site)
    return tables


def predictions_at(tables: Mapping[str, pa.Table], at: Sequence[int], site: SiteSettings) -> pa.Table:
    """PREDICTIONS at the counts `at`, with the patterns of the series restored."""
    observations, patterns = tables[OBSERVATIONS.name], tables[PATTERNS.name]
    levelled, _ = level(observations, patterns)
    named = applications(observations)
    table, report = predict(levelled, tables[FITS.name], PredictRules(), site, RUN_ID, at, named, patterns)
    report.check()
    return with_across(table, _across(tables, at), observations, at) if GROUPS.name in tables else table


def _across(tables: Mapping[str, pa.Table], at: Sequence[int]) -> pa.Table:
    levelled, _ = level(tables[OBSERVATIONS.name], tables[PATTERNS.name])
    table, report = predict_across(tables[GROUPS.name], levelled, AcrossRules(), at)
    report.check()
    return table


_SIZED = re.compile(r"(?s)(?P<application>.*?)\b(?:problem_size=)(?P<size>.*?)(?P<series>(?: series=.*)?)")


def sized_groups(observations: pa.Table) -> pa.Table:
    """GROUPS of the series whose ids name a problem size; an application is its id without the size."""
    rows: dict[str, dict[str, Any]] = {}
    counted = zip(*(observations.column(name).to_pylist() for name in ("group_id", "n_jobs")), strict=True)
    for group, n_jobs in counted:
        found = _SIZED.fullmatch(group)
        if found:
            row = rows.setdefault(group, {"found": found, "n_jobs": 0, "n_sizes": 0})
            row["n_jobs"], row["n_sizes"] = row["n_jobs"] + (n_jobs or 0), row["n_sizes"] + 1
    if not rows:
        return GROUPS.empty()
    named = [row["found"] for row in rows.values()]
    return GROUPS.build(
        group_id=list(rows),
        site=["series"] * len(rows),
        template=["application+problem_size"] * len(rows),
        label=list(rows),
        application=[
            (one["application"].strip().removeprefix("application=") + one["series"]) or "runs" for one in named
        ],
        problem_size=[one["size"] for one in named],
        n_jobs=[row["n_jobs"] for row in rows.values()],
        n_sizes=[row["n_sizes"] for row in rows.values()],
    )


def series_as_dicts(tables: Mapping[str, pa.Table]) -> list[dict[str, Any]]:
    """Per series in plain values: observations, patterns, fits, scalability (None where no law scales), predictions."""
    rows = {name: _by_group(table) for name, table in tables.items()}
    reliability = _reliability(tables)
    return [
        {
            "series": group_id,
            "observations": rows[OBSERVATIONS.name][group_id],
            "patterns": rows[PATTERNS.name].get(group_id, []),
            "laws": rows[FITS.name].get(group_id, []),
            "scalability": next(iter(rows[SCALABILITY.name].get(group_id, [])), None),
            "reliability": reliability.get(group_id),
            "predictions": rows.get(PREDICTIONS.name, {}).get(group_id, []),
            "across": rows.get(ACROSS.name, {}).get(group_id, []),
        }
        for group_id in sorted(rows[OBSERVATIONS.name])
    ]


def predicted_at(
    tables: Mapping[str, pa.Table], at: Sequence[int], max_procs: int | None
) -> dict[str, list[dict[str, Any]]]:
    """Predictions at these counts by series, in order of procs; empty where no count is given."""
    return _by_group(predictions_at(tables, at, SiteSettings(max_procs=max_procs))) if at else {}


def with_curves(series: Sequence[dict[str, Any]], tables: Mapping[str, pa.Table]) -> list[dict[str, Any]]:
    """The series with a `curve`: predictions dense enough to draw, beyond the observed sizes up to `predictions`."""
    counts = {one["series"]: set(_drawn_counts(one)) for one in series}
    every = sorted(set().union(*counts.values()))
    rows = _by_group(predictions_at(tables, every, SiteSettings()))
    return [
        one | {"curve": [row for row in rows.get(name, []) if row["procs"] in counts[name]]}
        for name, one in ((one["series"], one) for one in series)
    ]


def _drawn_counts(one: Mapping[str, Any]) -> list[int]:
    sizes = [row["procs"] for row in one["observations"]]
    predicted = [row["procs"] for row in one["predictions"]]
    counts = curve_counts(min(sizes), max(sizes))
    ends = min([counts[0], *predicted]), max([counts[-1], *predicted])
    return sorted({*curve_counts(*ends, reach=1.0), *sizes, *predicted})


def curve_counts(smallest: int, largest: int, reach: float = 4.0) -> list[int]:
    """Whole processor counts from smallest/reach to largest*reach, evenly spaced in their logarithm."""
    ends = max(smallest / reach, 1.0), max(largest * reach, 2.0)
    counts = np.unique(np.geomspace(*ends, CURVE_POINTS).round().astype(np.int64))
    return [int(n) for n in counts]


def _reliability(tables: Mapping[str, pa.Table]) -> dict[str, str]:
    """The reliability of each series' prediction at its largest observed size."""
    observations = tables[OBSERVATIONS.name]
    sizes = sorted(set(observations.column("procs").to_pylist()))
    largest = {row["group_id"]: row["procs"] for row in observations.sort_by("procs").to_pylist()}
    rows = predictions_at(tables, sizes, SiteSettings()).to_pylist()
    return {row["group_id"]: row["reliability"] for row in rows if row["procs"] == largest[row["group_id"]]}


def _by_group(table: pa.Table) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        group_id = row.pop("group_id")
        row.pop("run_id", None)
        grouped.setdefault(group_id, []).append(row)
    return grouped


def applications(observations: pa.Table) -> dict[str, str]:
    """Application by group id, for the ids of series that name one."""
    groups = observations.column("group_id").unique().to_pylist()
    named = [(group, group.partition(" problem_size=")[0]) for group in groups]
    return {group: application for group, application in named if application.startswith("application=")}
