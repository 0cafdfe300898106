"""What `walltime scaling fit` and `walltime.fit` do: measured series through the stages, their advice and curves."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipeline.scaling.advice import CostSettings, answered, compared_counts, measured_counts, scalability
from pipeline.scaling.fit import FitRules, Loss, fit
from pipeline.scaling.predictions import FittedSeries, fitted_series, predict
from pipeline.scaling.problem_sizes import AcrossRules, predict_across
from pipeline.scaling.screens import ScreenRules, find_patterns, level, screen
from pipeline.scaling.series import PredictRules, counts_between
from pipeline.settings import SiteSettings
from pipeline.tables import ACROSS, FITS, GROUPS, OBSERVATIONS, PATTERNS, PREDICTIONS, SCALABILITY

RUN_ID = "fit-series"
DRAWN_REACH, DRAWN_PER_DOUBLING = 4, 16
"""A curve is drawn to this many times the largest and smallest counts, on so many counts of each doubling."""


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
    published measure. Screening is that of logs: odd counts are left out of the fits, and patterns are removed before
    the fits and restored in the predictions. Without it the table of patterns is empty. Where the ids of series name
    problem sizes, those of one application are predicted from one another (GROUPS and ACROSS).
    """
    patterns = PATTERNS.empty()
    if is_screened:
        patterns, _ = find_patterns(observations, ScreenRules())
        observations, _ = screen(observations, patterns, ScreenRules())
    levelled, _ = level(observations, patterns)
    fits, _ = fit(levelled, FitRules(loss=loss))
    site = SiteSettings(max_procs=max_procs, procs_per_node=procs_per_node)
    tables = {OBSERVATIONS.name: observations, PATTERNS.name: patterns, FITS.name: fits}
    tables[SCALABILITY.name], _ = scalability(_with_laws(tables, levelled, site), RUN_ID)
    groups = sized_groups(observations)
    if groups.num_rows:
        tables |= {GROUPS.name: groups, ACROSS.name: predict_across(groups, levelled, AcrossRules(), at)[0]}
    return tables | ({PREDICTIONS.name: predictions_at(tables, at, site)} if at else {})


def predictions_at(tables: Mapping[str, pa.Table], at: Sequence[int], site: SiteSettings) -> pa.Table:
    """PREDICTIONS at the counts `at`, with the patterns of the series restored."""
    (levelled, _), across = level(tables[OBSERVATIONS.name], tables[PATTERNS.name]), None
    if GROUPS.name in tables:
        across, _ = predict_across(tables[GROUPS.name], levelled, AcrossRules(), at)
    return predict(_with_laws(tables, levelled, site), RUN_ID, at, across)[0]


def _with_laws(tables: Mapping[str, pa.Table], levelled: pa.Table, site: SiteSettings) -> list[FittedSeries]:
    """The series with their fits; those of one application inform each other."""
    groups = levelled.column("group_id").unique().to_pylist()
    named = {group: group.partition(" problem_size=")[0] for group in groups if group.startswith("application=")}
    return fitted_series(levelled, tables[FITS.name], PredictRules(), site, named, tables[PATTERNS.name])


_SIZED = re.compile(r"(?s)(?P<application>.*?)\b(?:problem_size=)(?P<size>.*?)(?P<series>(?: series=.*)?)")


def sized_groups(observations: pa.Table) -> pa.Table:
    """GROUPS of the series whose ids name a problem size; an application is its id without the size."""
    groups = observations.group_by("group_id", use_threads=False).aggregate([("n_jobs", "sum"), ("procs", "count")])
    sized = [(row, named) for row in groups.to_pylist() if (named := _SIZED.fullmatch(row["group_id"]))]
    applications = (named["application"].strip().removeprefix("application=") + named["series"] for _, named in sized)
    return GROUPS.build(
        group_id=[row["group_id"] for row, _ in sized],
        site=["series"] * len(sized),
        template=["application+problem_size"] * len(sized),
        application=[name or "runs" for name in applications],
        problem_size=[named["size"] for _, named in sized],
        n_jobs=[row["n_jobs_sum"] or 0 for row, _ in sized],
        n_sizes=[row["procs_count"] for row, _ in sized],
    )


_SHOWN = {
    "observations": OBSERVATIONS, "patterns": PATTERNS, "laws": FITS, "scalability": SCALABILITY,
    "predictions": PREDICTIONS, "across": ACROSS,
}  # fmt: skip


def series_as_dicts(tables: Mapping[str, pa.Table]) -> list[dict[str, Any]]:
    """Per series in plain values: observations, patterns, fits, scalability (None where no law scales), predictions."""
    rows = {name: _by_group(tables[kind.name]) if kind.name in tables else {} for name, kind in _SHOWN.items()}
    found = []
    for group_id in sorted(rows["observations"]):
        one = {name: own.get(group_id, []) for name, own in rows.items()}
        found.append({"series": group_id, **one, "scalability": next(iter(one["scalability"]), None)})
    return found


def _by_group(table: pa.Table) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        row.pop("run_id", None)
        grouped.setdefault(row.pop("group_id"), []).append(row)
    return grouped


def with_answers(
    series: Sequence[dict[str, Any]], tables: Mapping[str, pa.Table], max_procs: int | None, cost: CostSettings
) -> list[dict[str, Any]]:
    """The series with recommendations (see `answered`), and the `reliability` at the largest measured count.

    `fitted`: the predictions at the counts that ran, to stand beside the runs.
    """
    ran = [{row["procs"] for row in one["observations"]} for one in series]
    counts = [{*compared_counts(one, max_procs, cost), *own} for one, own in zip(series, ran, strict=True)]
    site = SiteSettings(max_procs=max_procs, procs_per_node=cost.procs_per_node)
    found = []
    for one, own, rows in zip(series, ran, _predicted(series, tables, counts, site), strict=True):
        largest = measured_counts(one).max(initial=0)
        reliability = next((row["reliability"] for row in rows if row["procs"] == largest), None)
        fitted = [row for row in rows if row["procs"] in own]
        found.append(answered(one, rows, cost) | {"reliability": reliability, "fitted": fitted})
    return found


def with_curves(series: Sequence[dict[str, Any]], tables: Mapping[str, pa.Table]) -> list[dict[str, Any]]:
    """The series with a `curve`: predictions dense enough to draw, beyond the observed counts up to `predictions`."""
    counts = []
    for one in series:
        sizes, asked = ([row["procs"] for row in one[name]] for name in ("observations", "predictions"))
        low, high = min([max(min(sizes) // DRAWN_REACH, 1), *asked]), max([max(sizes) * DRAWN_REACH, *asked])
        counts.append({low, high, *counts_between(low, high, DRAWN_PER_DOUBLING), *sizes, *asked})
    curves = _predicted(series, tables, counts, SiteSettings())
    return [one | {"curve": rows} for one, rows in zip(series, curves, strict=True)]


def _predicted(
    series: Sequence[Mapping[str, Any]], tables: Mapping[str, pa.Table], counts: Sequence[set[float]],
    site: SiteSettings,
) -> list[list[dict[str, Any]]]:  # fmt: skip
    """Predictions of each series at its counts, in order of procs."""
    every = sorted({int(n) for own in counts for n in own})
    rows = _by_group(predictions_at(tables, every, site)) if every else {}
    return [
        [row for row in rows.get(one["series"], []) if row["procs"] in own]
        for one, own in zip(series, counts, strict=True)
    ]
