"""`walltime ingest`: accounting logs to one table JOBS, or how they would be read."""

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.options import ConfigOption, Json, Site, Timezone, check_mode

UNREADABLE_EXIT = 2
"""The exit code where none of the logs can be read."""

ROWS_SHOWN = 5
Paths = Annotated[
    list[str] | None, typer.Argument(metavar="PATH...", help="Logs, folders or globs; compressed ones too.")
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="JOBS.parquet", help="The table to write: .parquet or .csv; needed.")
]
Update = Annotated[bool, typer.Option("--update", help="Add new records to the table at --out, if it exists.")]
Format = Annotated[
    str | None,
    typer.Option("--format", help="The logs' format, such as swf, sacct or pbs; an unknown name lists them all."),
]
KeyFile = Annotated[
    str | None, typer.Option("--key-file", metavar="FILE", help="Replace names of persons by hashes with this key.")
]
Live = Annotated[bool, typer.Option("--live", help="Read from this machine's sacct instead of files.")]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="DATE", help="With --live: start of the window; default: 7 days before its end."),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="DATE", help="With --live: end of the window; default: now.")
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Write nothing: show each log's format, columns, first jobs, and what would be set aside."
    ),
]
Whole = Annotated[bool, typer.Option("--all", help="With --dry-run: read each log to its end, not its first megabyte.")]
Rows = Annotated[int, typer.Option("--rows", min=0, help="With --dry-run: number of jobs to show per log.")]


def ingest(
    ctx: typer.Context,
    paths: Paths = None,
    out: Out = None,
    update: Update = False,
    config: ConfigOption = None,
    format: Format = None,
    site: Site = None,
    timezone: Timezone = None,
    key_file: KeyFile = None,
    live: Live = False,
    since: Since = None,
    until: Until = None,
    dry_run: DryRun = False,
    all: Whole = False,
    rows: Rows = ROWS_SHOWN,
    json: Json = False,
) -> None:
    """Read accounting logs into one typed, checked table of jobs.

    A config gives the settings under [site] and [ingest], and with --live those under [source]. Unreadable records are
    written to a second table, <out>.unreadable, with file, line and reason; `walltime show --from <out> unreadable`
    lists them.

    \b
    Examples:
      walltime ingest dump.txt --dry-run
      walltime ingest dump.txt --timezone Europe/Oslo --out jobs.parquet
      walltime ingest --live --since 2026-01-01 --out jobs.parquet --update
    """
    from flows.services.logs.ingesting import log_sources, settings_of, write_jobs

    shared = ("--config", "--format", "--site", "--timezone", "--key-file")
    check_mode(ctx, "--dry-run", is_on=dry_run, own=("--all", "--rows"), shared=shared)
    settings = settings_of(config, format=format, site=site, timezone=timezone, key_file=key_file)
    if dry_run:
        _inspect(paths or [], settings, rows, is_all=all, as_json=json)
        return
    if out is None:
        raise typer.BadParameter("Missing: the table to write, or --dry-run.", ctx, param_hint="--out")

    with log_sources(paths or [], live, since, until, settings) as (logs, of_site, how):
        report, written = write_jobs(logs, of_site, how, out, is_update=update)
    if json:
        from flows.pages.terminal.json_out import print_json

        print_json({"report": report.as_dict(), "tables": {name: str(path) for name, path in written.items()}})
    else:
        from flows.pages.terminal.render_jobs import print_ingested

        print_ingested(report, written)


def _inspect(paths: list[str], settings: Any, rows: int, *, is_all: bool, as_json: bool) -> None:
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_jobs import print_inspection
    from flows.services.logs.ingesting import all_unknown, inspection_as_dict
    from pipeline.errors import InputError
    from pipeline.ingest.inspect import inspect

    if not paths:
        raise InputError("the command line", "no log", "one or more to look at")
    found: list[dict[str, Any]] = []
    for inspection in inspect([Path(path) for path in paths], settings.site, settings.ingest, is_all=is_all):
        found.append(inspection_as_dict(inspection, rows))
        if not as_json:
            print_inspection(found[-1])
    if as_json:
        print_json({"logs": found})
    if all_unknown(found):
        raise typer.Exit(UNREADABLE_EXIT)
