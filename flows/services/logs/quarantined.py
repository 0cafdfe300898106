"""The records of a log that could not be read, as `walltime quarantine` shows them."""

from collections import Counter
from pathlib import Path
from typing import Any

from pipeline.core.errors import InputError
from pipeline.core.store import read_batches, read_metadata
from pipeline.core.tables import JOBS, UNREADABLE
from pipeline.core.text import printable


def quarantined(file: Path, reason: str | None, limit: int) -> dict[str, Any]:
    """The number of unreadable records by reason, and the first `limit` records, with this reason if one is given.

    `file` is a table UNREADABLE, or the table JOBS beside it. InputError for a reason that no record has.
    """
    table = _unreadable_table(file)
    counts: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    for batch in read_batches(table, UNREADABLE) if table else ():
        reasons = batch.column("reason").to_pylist()
        counts.update(reasons)
        wanted = (i for i, named in enumerate(reasons) if reason in (None, named))
        rows += [batch.slice(i, 1).to_pylist()[0] for i, _ in zip(wanted, range(limit - len(rows)), strict=False)]
    if reason is not None and reason not in counts:
        expected = f"one of {', '.join(sorted(counts))}" if counts else "no reason: every record could be read"
        raise InputError("--reason", printable(reason), expected)
    return {"table": str(table or file), "reasons": dict(counts.most_common()), "records": rows}


def _unreadable_table(file: Path) -> Path | None:
    """The file itself, or the table UNREADABLE beside a table JOBS; None where that was not written."""
    if not file.exists() or read_metadata(file).get("table") != JOBS.name:
        return file
    beside = file.with_name(f"{file.stem}.{UNREADABLE.name}{file.suffix}")
    return beside if beside.exists() else None
