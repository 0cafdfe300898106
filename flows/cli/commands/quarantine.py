"""`walltime quarantine`: the records that could not be read."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE.parquet", readable=False, help="The table of unreadable records, or the table of jobs beside it."
    ),
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="REASON", help="Show only records with this reason.")]
Limit = Annotated[int, typer.Option("--limit", min=0, help="Number of records to show.")]


def quarantine(file: File, reason: Reason = None, limit: Limit = 20, json: Json = False) -> None:
    """List the records that could not be read: counts by reason, then file, line, byte and text of each."""
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_quarantine import print_quarantine
    from flows.services.logs.quarantined import quarantined

    found = quarantined(file, reason, limit)
    print_json(found) if json else print_quarantine(found)
