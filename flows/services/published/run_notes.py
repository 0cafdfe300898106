"""Sentences about a published run: how its jobs are grouped, and why no prediction is reliable."""

from typing import Any

from pipeline.publish import Manifest
from pipeline.storage import read_table
from pipeline.tables import TEMPLATES


def unreliability_note(manifest: Manifest) -> str:
    """Why no prediction of the run is ok, and what would change it; empty where some are ok."""
    later = manifest.report("later")
    if later is None or later.get("facts", {}).get("predictions_ok") != 0:
        return ""
    return " ".join(str(note) for note in later.get("notes", ()))


def compared_templates(manifest: Manifest) -> list[dict[str, Any]]:
    """The rows of table TEMPLATES, best first; none where it was not published."""
    if TEMPLATES.name not in manifest.tables:
        return []
    rows: list[dict[str, Any]] = read_table(manifest.path(TEMPLATES.name), TEMPLATES).to_pylist()
    return rows


def template_sentences(rows: list[dict[str, Any]]) -> str:
    """The chosen template, the reason, and the runner-up where one was scored; empty where no template is known."""
    chosen = next((row for row in rows if row["is_chosen"]), None)
    if chosen is None:
        return ""
    other = next((row for row in rows if not row["is_chosen"] and row["score"] is not None), None)
    sentence = f"Jobs are grouped by {chosen['template']}{_error(chosen)}: {chosen['why']}."
    return f"{sentence} The runner-up is {other['template']}{_error(other)}." if other else sentence


def _error(row: dict[str, Any]) -> str:
    if row["error_later"] is None:
        return ""
    return f" (error on later jobs {row['error_later']:.3g} log s, {row['n_scaling_groups']:,} series)"
