"""What the page of a site shows: its applications, cleaning, coverage by week, nights and the last run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.services.published.run_notes import compared_templates, template_sentences, unreliability_note
from flows.services.quantities import instant
from flows.services.run.last_run import read_last_run
from flows.services.site.applications import application_rows
from flows.services.site.weekly_coverage import weekly_coverage
from pipeline.core.flags import Flag
from pipeline.publish import Manifest
from pipeline.publish.held import held_nights
from pipeline.publish.version_store import stored_versions

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
        "held": [{"made": instant(made_s), "run_id": run_id} for made_s, run_id in reversed(held_nights(output_dir))],
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
