"""`walltime inspect`: how logs would be read, before they are ingested."""

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.options import Json

Paths = Annotated[list[str], typer.Argument(metavar="PATH...", help="Logs, folders or globs; compressed ones too.")]
All = Annotated[bool, typer.Option("--all", help="Read each log to its end, not only its first megabyte.")]
Rows = Annotated[int, typer.Option("--rows", min=0, help="Number of jobs to show per log.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="CONFIG", readable=False, help="A TOML file, for its [site] and [ingest] settings."
    ),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="The logs' format, such as swf, sacct or pbs; an unknown name lists them all."),
]
Timezone = Annotated[
    str | None, typer.Option("--timezone", metavar="ZONE", help="Zone of times without a zone, as in Europe/Oslo.")
]


def inspect(
    paths: Paths,
    all: All = False,
    rows: Rows = 5,
    config: Config = None,
    format: Format = None,
    timezone: Timezone = None,
    json: Json = False,
) -> None:
    """Show each log's format, its columns, its first jobs, and what would be set aside.

    Exits with 2 if none of the logs can be read.
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_inspection import print_inspection
    from flows.services.logs.ingesting import settings_of
    from flows.services.logs.inspecting import all_unknown, inspection_as_dict
    from pipeline.ingest.inspect import inspect as inspect_logs

    settings = settings_of(config, format=format, timezone=timezone)
    found: list[dict[str, Any]] = []
    for inspection in inspect_logs([Path(path) for path in paths], settings.site, settings.ingest, is_all=all):
        found.append(inspection_as_dict(inspection, rows))
        if not json:
            print_inspection(found[-1])
    if json:
        print_json({"logs": found})
    if all_unknown(found):
        raise typer.Exit(2)
