"""The summary of a finished run in plain values, from its manifest and its published tables."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.services.published.published_folder import compared_templates, rows_of_groups
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
        "series_3_sizes": len(fits.filter(pc.greater_equal(fits.column("n_points"), 3)).column("group_id").unique()),
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
    predictions = read_table(manifest.path(PREDICTIONS.name), PREDICTIONS)
    ok = predictions.filter(pc.equal(predictions.column("reliability").cast(pa.string()), "ok"))
    keys = set(zip(ok.column("group_id").to_pylist(), ok.column("procs").to_pylist(), strict=True))
    observed = read_table(manifest.path(OBSERVATIONS.name), OBSERVATIONS)
    rows = zip(*(observed.column(name).to_pylist() for name in ("group_id", "procs", "n_jobs")), strict=True)
    n_jobs = sum(n_jobs for group, procs, n_jobs in rows if (group, procs) in keys)
    return {"predictions_ok": ok.num_rows, "predictions_ok_jobs": n_jobs}


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


def fits_by_law_and_status(fits: pa.Table) -> dict[str, dict[str, int]]:
    """How many groups a law answers for, by law and status."""
    chosen = fits.filter(fits.column("is_chosen"))
    pairs = zip(*(map(str, chosen.column(name).to_pylist()) for name in ("law", "status")), strict=True)
    counted: dict[str, dict[str, int]] = {}
    for (law, status), n_groups in sorted(Counter(pairs).items()):
        counted.setdefault(law, {})[status] = n_groups
    return counted


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
    tables = (GROUPS, OBSERVATIONS, PREDICTIONS)
    own = {kind.name: rows_of_groups(manifest, kind, [group_id]).get(group_id, []) for kind in tables}
    observed = {row["procs"]: row for row in own[OBSERVATIONS.name]}
    rows = _thinned(own[PREDICTIONS.name])
    for row in rows:
        found = observed.get(row["procs"], {})
        row |= {"n_jobs": found.get("n_jobs", 0), "observed_s": found.get("runtime_s_median")}
    facts = {name: best[name] for name in ("law", "status", "t1_s", "avg_parallelism", "sigma", "n_points", "n_jobs")}
    return {"group_id": group_id, "label": own[GROUPS.name][0]["label"], **facts, "predictions": rows}


def _thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    places = np.unique(np.linspace(0, len(rows) - 1, min(SAMPLE_ROWS, len(rows))).round().astype(int))
    return [rows[place] for place in places]
