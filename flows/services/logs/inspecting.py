"""What `walltime ingest --dry-run` finds in a log, as plain values."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pipeline.ingest.inspect import CUT_BY_BOUND, Inspection

_UNREADABLE_SHOWN = 5


def inspection_as_dict(found: Inspection, n_rows: int) -> dict[str, Any]:
    """The inspection in plain values for JSON, with the first `n_rows` jobs and the first few unreadable lines."""
    reasons = Counter(found.unreadable.column("reason").to_pylist())
    # If only the beginning was read, the last record is cut by that bound and not by the log.
    hidden = {*reasons, *(() if found.is_whole else CUT_BY_BOUND)}
    set_aside = {name: tally.rows for name, tally in found.report.set_aside.items()} if found.report else {}
    return {
        "log": found.label,
        "format": found.format,
        "compression": found.compression,
        "read": "all" if found.is_whole else "the beginning",
        "timezone": found.timezone,
        "error": found.error,
        "log_columns": list(found.layout.found),
        "log_columns_missing": list(found.layout.missing),
        "log_columns_ignored": list(found.layout.ignored),
        "columns": found.filled,
        "columns_empty": found.empty if found.format else [],
        "lines": found.report.seen.rows if found.report else 0,
        "n_jobs": found.jobs.num_rows,
        "set_aside": {name: n for name, n in set_aside.items() if n and name not in hidden},
        "quarantined": dict(sorted(reasons.items())),
        "notes": [*found.layout.said, *(found.report.notes if found.report else ())],
        "jobs": found.jobs.slice(0, n_rows).to_pylist(),
        "unreadable": found.unreadable.slice(0, _UNREADABLE_SHOWN).to_pylist(),
    }


def all_unknown(inspections: Sequence[dict[str, Any]]) -> bool:
    """Whether none of the inspected logs can be read."""
    return all(one["error"] for one in inspections)
