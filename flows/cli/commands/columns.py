"""`walltime columns`: what every column of every table means."""

from typing import Annotated, Any

import typer

from flows.cli.options import Json

Table = Annotated[str | None, typer.Argument(metavar="[TABLE]", help="One table; without it: all of them.")]


def columns(table: Table = None, json: Json = False) -> None:
    """List the columns of the tables with type, unit and meaning; * marks the key."""
    from flows.pages.terminal.render import print_json
    from flows.pages.terminal.render_browse import print_columns

    described = _described(table)
    print_json(described) if json else print_columns(described)


def _described(table: str | None) -> dict[str, dict[str, Any]]:
    from pipeline.core.errors import InputError
    from pipeline.core.tables import TABLES
    from pipeline.core.text import printable

    if table is not None and table not in TABLES:
        raise InputError("TABLE", f"table {printable(table)}", f"one of {', '.join(TABLES)}")
    return {
        kind.name: {
            "meaning": kind.meaning,
            "columns": [
                {
                    "name": c.name,
                    "type": str(c.field(on_disk=True).type),
                    "unit": c.unit,
                    "meaning": c.meaning,
                    "is_key": c.name in kind.key,
                }
                for c in kind.columns
            ],
        }
        for kind in TABLES.values()
        if table in (None, kind.name)
    }
