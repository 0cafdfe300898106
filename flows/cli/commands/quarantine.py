"""`walltime quarantine`: the records that could not be read."""

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.options import Json

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE.parquet", readable=False, help="The table of unreadable records, or of the jobs beside it."
    ),
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="REASON", help="Only records with this reason.")]
Limit = Annotated[int, typer.Option("--limit", min=0, help="Records to show.")]


def quarantine(file: File, reason: Reason = None, limit: Limit = 20, json: Json = False) -> None:
    """List the records that could not be read: how many by reason, then file, line, byte and text."""
    from flows.pages.terminal.render import print_json
    from flows.pages.terminal.render_quarantine import print_quarantine

    found = _found(file, reason, limit)
    print_json(found) if json else print_quarantine(found)


def _found(file: Path, reason: str | None, limit: int) -> dict[str, Any]:
    from collections import Counter

    from pipeline.core.errors import InputError
    from pipeline.core.store import read_batches
    from pipeline.core.tables import UNREADABLE
    from pipeline.core.text import printable

    table = _table(file)
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


def _table(file: Path) -> Path | None:
    """The UNREADABLE table a path names, itself or beside the JOBS it names; None: there is none beside them."""
    from pipeline.core.store import read_metadata
    from pipeline.core.tables import JOBS, UNREADABLE

    if not file.exists() or read_metadata(file).get("table") != JOBS.name:
        return file
    beside = file.with_name(f"{file.stem}.{UNREADABLE.name}{file.suffix}")
    return beside if beside.exists() else None
