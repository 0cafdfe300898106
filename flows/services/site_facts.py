"""What the page of a site shows: its applications, cleaning, coverage by week, nights and the last run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from flows.services.published.advice import advice_of_groups, cost_of_run
from flows.services.published.published_folder import compared_templates, template_sentences, unreliability_note
from flows.services.quantities import instant
from flows.services.run.last_run import read_last_run
from pipeline.evaluate.weekly_coverage import weekly_coverage
from pipeline.publish import Manifest
from pipeline.publish.checks import blocked_versions
from pipeline.publish.version_store import stored_versions
from pipeline.schema import Flag
from pipeline.tables import GROUPS, JOBS, OBSERVATIONS, PREDICTIONS

LISTED = 2_000
"""Applications with advice; the others are only counted on the page."""

_JOBS_SQL = """
SELECT application, count(*) AS n_jobs, count(*) FILTER (flag IS NULL) AS n_kept,
       sum(CAST(round(runtime_s * procs) AS HUGEINT)) FILTER (isfinite(runtime_s) AND runtime_s > 0) AS proc_s
FROM read_parquet($jobs) GROUP BY application"""

_RELIABLE_SQL = """
SELECT g.application, count(DISTINCT g.group_id) AS n_groups, coalesce(sum(o.n_jobs), 0) AS n_observed,
       coalesce(sum(o.n_jobs) FILTER (p.reliability = 'ok'), 0) AS n_reliable
FROM read_parquet($groups) g LEFT JOIN read_parquet($observations) o USING (group_id)
LEFT JOIN read_parquet($predictions) p ON p.group_id = o.group_id AND p.procs = o.procs GROUP BY g.application"""

_LARGEST_SQL = """
SELECT application, max_by(group_id, (n_jobs, group_id)) AS group_id FROM read_parquet($groups) GROUP BY application"""


def application_rows(manifest: Manifest) -> list[dict[str, Any]]:
    """A row per application of the log, those with most processor-hours first; the name is None where it is unknown.

    `reliable_share`: of the kept jobs, those whose group has a prediction with reliability ok at their processors;
    None without kept jobs. `advice` and `best_procs` are what `walltime scaling advise` answers for the largest
    group of the application; they are given for the first LISTED rows and None elsewhere.
    """
    reliable = _by_name(_rows(manifest, _RELIABLE_SQL, "groups", GROUPS.name, OBSERVATIONS.name, PREDICTIONS.name))
    found = [_row(one, reliable.get(one["application"])) for one in _rows(manifest, _JOBS_SQL, "jobs", JOBS.name)]
    found.sort(key=lambda row: (-row["proc_hours"], row["name"] is None, row["name"] or ""))
    largest = _by_name(_rows(manifest, _LARGEST_SQL, "groups", GROUPS.name))
    ids = {row["name"]: largest[row["name"]]["group_id"] for row in found[:LISTED] if row["name"] in largest}
    advised = advice_of_groups(manifest, list(ids.values()), cost_of_run(manifest))
    return [row | _advice(advised.get(ids.get(row["name"], ""))) for row in found]


def _row(jobs: dict[str, Any], reliable: dict[str, Any] | None) -> dict[str, Any]:
    n_observed = int(reliable["n_observed"]) if reliable else 0
    return {
        "name": jobs["application"],
        "n_jobs": jobs["n_jobs"],
        "n_kept": jobs["n_kept"],
        "proc_hours": int(jobs["proc_s"] or 0) / 3600,
        "n_groups": reliable["n_groups"] if reliable else 0,
        "reliable_share": int(reliable["n_reliable"]) / n_observed if reliable and n_observed else None,
    }


def _advice(group: dict[str, Any] | None) -> dict[str, Any]:
    """The first sentence of a group's advice, the recommended count, and its reliability."""
    sentence = next(iter(group["answer"]), None) if group else None
    best = next(iter(group["choices"]), None) if group else None
    return {
        "advice": sentence,
        "best_procs": best["procs"] if best else None,
        "best_reliability": best["reliability"] if best else None,
    }


def _by_name(rows: list[dict[str, Any]]) -> dict[str | None, dict[str, Any]]:
    return {row["application"]: row for row in rows}


def _rows(manifest: Manifest, sql: str, *tables: str) -> list[dict[str, Any]]:
    paths = {name: str(manifest.path(name)) for name in tables}
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as database:
        cursor = database.execute(sql, paths)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


NIGHTS = 30
"""Published versions that are listed, newest first."""


def site_facts(output_dir: Path, manifest: Manifest) -> dict[str, Any]:
    """The page's content in plain values, for the published version or one of a date."""
    versions = _published_by(output_dir, manifest)
    return {
        "site": manifest.site,
        "version": manifest.folder,
        "made": instant(manifest.created_s),
        "newest_job": instant(manifest.data_newest_end_s),
        "run_id": manifest.run_id,
        "code": manifest.code,
        "grouping": template_sentences(compared_templates(manifest)),
        "doubt": unreliability_note(manifest),
        "applications": application_rows(manifest),
        "cleaning": _cleaning(manifest),
        "coverage": weekly_coverage(output_dir, manifest, versions),
        "nights": _nights(versions[:NIGHTS]),
        "blocked": [{"made": instant(made_s), "run_id": run} for made_s, run in reversed(blocked_versions(output_dir))],
        "last_run": _last_run(output_dir),
    }


def _published_by(output_dir: Path, manifest: Manifest) -> list[Manifest]:
    """The version and those published before it that are still whole on disk, newest first; reruns are none of them."""
    found = [one.manifest for one in stored_versions(output_dir) if one.place is not None and one.manifest is not None]
    earlier = [own for own in found if own.created_s <= manifest.created_s and own.folder != manifest.folder]
    return [manifest, *sorted(earlier, key=lambda own: (-own.created_s, own.folder))]


def _cleaning(manifest: Manifest) -> list[dict[str, Any]]:
    """Rows of jobs and processor-hours: kept ones, those set aside by reason, and all."""
    report = manifest.report("clean")
    if report is None:
        return []
    rows = [_tally("kept", "learnt from", report["kept"])]
    rows += [_tally(name, _meaning(name), one) for name, one in report["set_aside"].items() if one["rows"]]
    return [*rows, _tally("all", "", report["seen"])]


def _tally(name: str, meaning: str, one: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "meaning": meaning, "jobs": one["rows"], "proc_hours": one["proc_s"] / 3600}


def _meaning(flag: str) -> str:
    return Flag(flag).meaning if flag in set(Flag) else ""


def _nights(versions: Sequence[Manifest]) -> list[dict[str, Any]]:
    """Each version with its figures, and what changed since the version before it; null where there is none before."""
    rows = [_night(own) for own in versions]
    for row, before in zip(rows, [*rows[1:], None], strict=False):
        row["changes"] = {
            name: None if before is None or None in (row[name], before[name]) else row[name] - before[name]
            for name in _FIGURES
        }
        row["new_template"] = before is not None and row["template"] != before["template"]
    return rows


_FIGURES = ("jobs", "set_aside", "groups", "predictions", "reliable", "estimates", "in_80_later")


def _night(own: Manifest) -> dict[str, Any]:
    clean, later = own.report("clean"), (own.report("later") or {}).get("facts", {})
    chosen = next((row["template"] for row in compared_templates(own) if row["is_chosen"]), None)
    rows = {name: own.tables[name].rows if name in own.tables else None for name in ("jobs", "groups", "predictions")}
    return {
        "version": own.folder,
        "made": instant(own.created_s),
        "newest_job": instant(own.data_newest_end_s),
        **rows,
        "estimates": own.tables["estimates"].rows if "estimates" in own.tables else None,
        "set_aside": sum(one["rows"] for one in clean["set_aside"].values()) if clean else None,
        "reliable": later.get("predictions_ok"),
        "in_80_later": later.get("in_80_later"),
        "template": chosen,
    }


def _last_run(output_dir: Path) -> dict[str, Any] | None:
    found = read_last_run(output_dir)
    if found is None:
        return None
    ended = None if found.ended_s is None else instant(int(found.ended_s))
    steps = [{"step": name, "seconds": one.seconds, "rows": one.rows} for name, one in found.steps.items()]
    return {"state": found.state, "reason": found.reason, "began": instant(int(found.began_s)), "ended": ended,
            "exit_code": found.exit_code, "steps": steps}  # fmt: skip
