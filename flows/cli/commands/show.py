"""`walltime show`: the published tables and their rows."""

from typing import Annotated

import typer

from flows.cli.complete import complete_table
from flows.cli.options import AsOf, Folder, Json

Table = Annotated[
    str | None,
    typer.Argument(
        metavar="[TABLE]", help="The table to show; default: the list of tables.", autocompletion=complete_table
    ),
]
Where = Annotated[
    str | None, typer.Option("--where", metavar="SQL", help='A condition on the columns, as in "procs > 64".')
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Number of rows to show.")]
Epoch = Annotated[bool, typer.Option("--epoch", help="Print times as seconds since 1970 UTC, as the tables hold them.")]


def show(
    folder: Folder,
    table: Table = None,
    where: Where = None,
    limit: Limit = 20,
    as_of: AsOf = None,
    epoch: Epoch = False,
    json: Json = False,
) -> None:
    """Show what a run has published: its manifest, or the rows of a table.

    Times are printed as UTC, as in 2026-01-31T08:00:00Z; with --epoch and --json they are seconds since 1970.
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_browse import print_manifest, print_rows
    from flows.services.published.browse import instant_columns, manifest_facts, table_rows
    from flows.services.quantities import as_of_seconds
    from pipeline.core.errors import InputError
    from pipeline.publish import reading

    if table is None and where is not None:
        raise InputError("--where", "no table beside it", "a table to look in, as in DIR jobs --where ...")
    with reading(folder, as_of_seconds(as_of)) as manifest:
        if table is None:
            facts = manifest_facts(manifest)
            print_json(facts) if json else print_manifest(facts)
            return
        found = table_rows(manifest, table, where, limit)
        times = frozenset() if epoch else instant_columns(manifest, table)
    print_json(found) if json else print_rows(found, times)
