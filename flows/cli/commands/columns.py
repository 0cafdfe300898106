"""`walltime columns`: the meaning of every column of every table."""

from typing import Annotated

import typer

from flows.cli.complete import complete_table
from flows.cli.options import Json

Table = Annotated[
    str | None,
    typer.Argument(metavar="[TABLE]", help="One table; default: all tables.", autocompletion=complete_table),
]


def columns(table: Table = None, json: Json = False) -> None:
    """List the columns of the tables with type, unit and meaning; * marks columns of the key."""
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_browse import print_columns
    from flows.services.published.table_columns import described_tables

    described = described_tables(table)
    print_json(described) if json else print_columns(described)
