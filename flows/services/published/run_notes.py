"""What a published run says of itself beside its tables: how its jobs are grouped, and whether nothing is reliable."""

from typing import Any

from pipeline.core.store import read_table
from pipeline.core.tables import TEMPLATES
from pipeline.publish import Manifest


def none_is_ok(manifest: Manifest) -> str:
    """One sentence where no prediction of a run is ok: the commonest reasons, what would change it; else empty."""
    later = next((report for report in manifest.reports if report["stage"] == "later"), None)
    if later is None or later.get("facts", {}).get("predictions_ok") != 0:
        return ""
    return " ".join(str(note) for note in later.get("notes", ()))


def compared_templates(manifest: Manifest) -> list[dict[str, Any]]:
    """The templates the run compared, best first, as table `templates` has them; none where it was not published."""
    if TEMPLATES.name not in manifest.tables:
        return []
    rows: list[dict[str, Any]] = read_table(manifest.path(TEMPLATES.name), TEMPLATES).to_pylist()
    return rows


def template_words(rows: list[dict[str, Any]]) -> str:
    """One line: the template the jobs are grouped by, why, and the runner-up, where later jobs could tell them apart.

    Empty where no template is known.
    """
    chosen = next((row for row in rows if row["is_chosen"]), None)
    if chosen is None:
        return ""
    other = next((row for row in rows if not row["is_chosen"] and row["score"] is not None), None)
    said = f"Jobs are grouped by {chosen['template']}{_error(chosen)}: {chosen['why']}."
    return f"{said} The runner-up is {other['template']}{_error(other)}." if other else said


def _error(row: dict[str, Any]) -> str:
    if row["error_later"] is None:
        return ""
    return f" (error on later jobs {row['error_later']:.3g} log s, {row['n_scaling_groups']:,} series)"
