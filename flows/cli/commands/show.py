"""`walltime show`: published tables, in words and rows."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

Folder = Annotated[Path, typer.Argument(metavar="DIR", readable=False, help="The folder a run has published to.")]
Table = Annotated[str | None, typer.Argument(metavar="[TABLE]", help="A table of it; without one: what there is.")]
Where = Annotated[
    str | None, typer.Option("--where", metavar="SQL", help='A condition on its columns, as in "procs > 64".')
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Rows to show.")]


def show(folder: Folder, table: Table = None, where: Where = None, limit: Limit = 20, json: Json = False) -> None:
    """Show what a run has published: the manifest in words, or the rows of a table."""
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_browse import print_manifest, print_rows
    from flows.services.published.browse import manifest_facts, table_rows
    from pipeline.core.errors import InputError
    from pipeline.publish import load_manifest

    manifest = load_manifest(folder)
    if table is None:
        if where is not None:
            raise InputError("--where", "no table beside it", "a table to look in, as in DIR jobs --where ...")
        facts = manifest_facts(manifest)
        print_json(facts) if json else print_manifest(facts)
        return
    found = table_rows(manifest, table, where, limit)
    print_json(found) if json else print_rows(found)
