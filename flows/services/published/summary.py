"""The summary of a finished run in plain values, from its manifest and its published tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.services.published.published_folder import compared_templates
from pipeline.publish import Manifest, load_manifest
from pipeline.report import Report, Tally, total
from pipeline.storage import read_table
from pipeline.tables import FITS, GROUPS, OBSERVATIONS, PATTERNS, PREDICTIONS

SAMPLE_ROWS = 7


def summarize(manifest_path: Path) -> dict[str, Any]:
    """The run in numbers: lines, jobs, set aside, groups, fits, predictions, estimates, and a sample of predictions."""
    return summarize_version(load_manifest(manifest_path.parent)) | {"manifest": str(manifest_path)}


def summarize_version(manifest: Manifest) -> dict[str, Any]:
    """The same of a version that need not be published."""
    reports = {plain["stage"]: Report.from_dict(plain) for plain in manifest.reports}
    fits = read_table(manifest.path(FITS.name), FITS)
    ingest = reports["ingest"]
    return {
        "run_id": manifest.run_id,
        "site": manifest.site,
        "logs": [log.name for log in manifest.logs],
        "lines_read": ingest.facts.get("lines", ingest.seen.rows),
        "no_jobs": {reason: tally.rows for reason, tally in ingest.set_aside.items() if tally.rows},
        "unreadable": manifest.tables["unreadable"].rows,
        "jobs": manifest.tables["jobs"].rows,
        "kept": _tally(reports["clean"].kept),
        "set_aside": {reason: _tally(tally) for reason, tally in reports["clean"].set_aside.items()},
        "set_aside_total": _tally(total(reports["clean"].set_aside.values())),
        "groups": manifest.tables["groups"].rows,
        "series_3_sizes": _series_with_three(fits),
        "fits": fits_by_law_and_status(fits),
        "patterns": _patterns(manifest),
        "predictions": manifest.tables["predictions"].rows,
        **_reliable_counts(manifest),
        **{f"predictions_{name}": reports["later"].facts[name] for name in ("in_80_later", "in_95_later")},
        "estimates": manifest.tables["estimates"].rows,
        "sample": _sample(manifest, fits),
        "templates": compared_templates(manifest),
        "notes": [note for name, report in reports.items() if name != "templates" for note in report.notes],
        "tables": {name: str(manifest.path(name)) for name in manifest.tables},
    }


def _reliable_counts(manifest: Manifest) -> dict[str, int]:
    """The number of `ok` predictions, and of kept jobs in their groups on the same numbers of processors."""
    predictions = read_table(manifest.path(PREDICTIONS.name), PREDICTIONS).select(["group_id", "procs", "reliability"])
    ok = predictions.filter(pc.equal(predictions.column("reliability").cast(pa.string()), "ok"))
    observed = read_table(manifest.path(OBSERVATIONS.name), OBSERVATIONS).select(["group_id", "procs", "n_jobs"])
    stood_for = _plain_keys(observed).join(_plain_keys(ok), ["group_id", "procs"], join_type="inner")
    return {
        "predictions_ok": ok.num_rows,
        "predictions_ok_jobs": pc.sum(stood_for.column("n_jobs")).as_py() or 0,
    }


def _plain_keys(table: pa.Table) -> pa.Table:
    """The table with plain strings as keys: Arrow cannot join dictionaries."""
    place = table.column_names.index("group_id")
    return table.set_column(place, "group_id", table.column("group_id").cast(pa.string()))


def _patterns(manifest: Manifest) -> list[dict[str, Any]]:
    """The patterns found in series, highest odds first: the group's label and the advice."""
    table = read_table(manifest.path(PATTERNS.name), PATTERNS)
    found = table.filter(pc.equal(table.column("status").cast(pa.string()), "found")).to_pylist()
    if not found:
        return []
    groups = read_table(manifest.path(GROUPS.name), GROUPS).select(["group_id", "label"]).to_pylist()
    labels = {row["group_id"]: row["label"] for row in groups}
    found.sort(key=lambda row: (-row["log_odds"], row["group_id"], row["pattern"], row["step"]))
    return [{"label": labels[row["group_id"]], "words": row["words"]} for row in found]


def _tally(tally: Tally) -> dict[str, float]:
    return {"jobs": tally.rows, "processor_hours": tally.proc_s / 3600}


def _series_with_three(fits: pa.Table) -> int:
    points = fits.filter(pc.greater_equal(fits.column("n_points"), 3)).column("group_id")
    return len(points.unique())


def fits_by_law_and_status(fits: pa.Table) -> dict[str, dict[str, int]]:
    """How many groups a law answers for, by law and status."""
    chosen = fits.filter(fits.column("is_chosen"))
    counted: dict[str, dict[str, int]] = {}
    for law, status in sorted(zip(_words(chosen, "law"), _words(chosen, "status"), strict=True)):
        by_status = counted.setdefault(law, {})
        by_status[status] = by_status.get(status, 0) + 1
    return counted


def _words(table: pa.Table, name: str) -> list[str]:
    return [str(word) for word in table.column(name).to_pylist()]


def _sample(manifest: Manifest, fits: pa.Table) -> dict[str, Any] | None:
    """A few predictions of one group: if possible a reliable one whose law scales, then the one with most sizes."""
    chosen = fits.filter(fits.column("is_chosen")).to_pylist()
    if not chosen:
        return None
    predictions = read_table(manifest.path(PREDICTIONS.name), PREDICTIONS)
    is_ok = pc.equal(predictions.column("reliability").cast(pa.string()), "ok")
    sound = set(predictions.filter(is_ok).column("group_id").to_pylist())

    def merit(row: dict[str, Any]) -> tuple[bool, bool, int, int, str]:
        return row["group_id"] in sound, row["law"] != "constant", row["n_points"], row["n_jobs"], row["group_id"]

    best = max(chosen, key=merit)
    group_id = best["group_id"]
    label = _rows_of(manifest, "groups", group_id)[0]["label"]
    observed = {row["procs"]: row for row in _rows_of(manifest, "observations", group_id)}
    rows = _thinned(_rows_of(manifest, "predictions", group_id))
    for row in rows:
        found = observed.get(row["procs"], {})
        row |= {"n_jobs": found.get("n_jobs", 0), "observed_s": found.get("runtime_s_median")}
    facts = {name: best[name] for name in ("law", "status", "t1_s", "avg_parallelism", "sigma", "n_points", "n_jobs")}
    return {"group_id": group_id, "label": label, **facts, "predictions": rows}


def _rows_of(manifest: Manifest, name: str, group_id: str) -> list[dict[str, Any]]:
    kind = {kind.name: kind for kind in (GROUPS, OBSERVATIONS, PREDICTIONS)}[name]
    table = read_table(manifest.path(name), kind)
    rows: list[dict[str, Any]] = table.filter(
        pc.equal(table.column("group_id").cast(pa.string()), group_id)
    ).to_pylist()
    return rows


def _thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    places = np.unique(np.linspace(0, len(rows) - 1, min(SAMPLE_ROWS, len(rows))).round().astype(int))
    return [rows[place] for place in places]
