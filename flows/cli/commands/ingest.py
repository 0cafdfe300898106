"""`walltime ingest`: accounting logs to one table JOBS."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.fast_start import set_fast_start
from flows.cli.options import Json

Paths = Annotated[
    list[str] | None, typer.Argument(metavar="PATH...", help="Logs, folders or globs; compressed ones too.")
]
Out = Annotated[Path, typer.Option("--out", metavar="JOBS.parquet", help="The table to write: .parquet or .csv.")]
Update = Annotated[
    bool,
    typer.Option("--update", help="Add new records to the table at --out, if it exists."),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="CONFIG",
        readable=False,
        help="A TOML file, for its [site] and [ingest] settings, and with --live those of [source].",
    ),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="The logs' format, such as swf, sacct or pbs; an unknown name lists them all."),
]
Site = Annotated[str | None, typer.Option("--site", metavar="NAME", help="The cluster's name in the table.")]
Timezone = Annotated[
    str | None, typer.Option("--timezone", metavar="ZONE", help="Zone of times without a zone, as in Europe/Oslo.")
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


def ingest(
    out: Out,
    paths: Paths = None,
    update: Update = False,
    config: Config = None,
    format: Format = None,
    site: Site = None,
    timezone: Timezone = None,
    key_file: KeyFile = None,
    live: Live = False,
    since: Since = None,
    until: Until = None,
    json: Json = False,
) -> None:
    """Read accounting logs into one typed, checked table of jobs.

    Unreadable records are written to a second table, <out>.unreadable, with file, line and reason.
    """
    set_fast_start()
    from flows.services.logs.ingesting import settings_of, write_jobs
    from flows.services.logs.sacct_window import log_sources

    settings = settings_of(config, format=format, site=site, timezone=timezone, key_file=key_file)
    with log_sources(paths or [], live, since, until, settings) as (logs, of_site, how):
        report, written = write_jobs(logs, of_site, how, out, is_update=update)
    if json:
        from flows.pages.terminal.json_out import print_json

        print_json({"report": report.as_dict(), "tables": {name: str(path) for name, path in written.items()}})
    else:
        from flows.pages.terminal.render_ingest import print_ingested

        print_ingested(report, written)
