"""`walltime ingest`: logs to one JOBS table."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

Paths = Annotated[
    list[str] | None, typer.Argument(metavar="PATH...", help="Logs, folders or globs; compressed ones too.")
]
Out = Annotated[Path, typer.Option("--out", metavar="JOBS.parquet", help="The table to write: .parquet or .csv.")]
Format = Annotated[str, typer.Option("--format", help="The log's format: auto or swf.")]
Live = Annotated[bool, typer.Option("--live", help="Read no file: ask the sacct of this machine.")]
Since = Annotated[
    str | None, typer.Option("--since", metavar="DATE", help="With --live: from when on; default: 7 days before.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="DATE", help="With --live: up to when; default: now.")]
Site = Annotated[str, typer.Option("--site", metavar="NAME", help="The cluster's name, as it will stand in the table.")]


def ingest(
    out: Out,
    paths: Paths = None,
    format: Format = "auto",
    site: Site = "site",
    live: Live = False,
    since: Since = None,
    until: Until = None,
    json: Json = False,
) -> None:
    """Read accounting logs into one typed, checked table of jobs.

    Records that cannot be read go to a second table beside it, <out>.unreadable, with file, line and reason.
    """
    from flows.live import reading
    from flows.tables_out import check_suffix, write_any
    from pipeline.core.settings import parse_settings
    from pipeline.core.tables import JOBS, UNREADABLE
    from pipeline.ingest import ingest as read_logs

    check_suffix(out)
    settings = parse_settings({"site": {"name": site}, "ingest": {"format": format}}, "--format")
    with reading(paths or [], live, since, until, settings.site, settings.ingest) as (logs, of_site, how):
        jobs, unreadable, report = read_logs(logs, of_site, how)
    written = {"jobs": write_any(out, jobs, JOBS)}
    beside = out.with_name(f"{out.stem}.unreadable{out.suffix}")
    if unreadable.num_rows:
        written["unreadable"] = write_any(beside, unreadable, UNREADABLE)
    else:
        beside.unlink(missing_ok=True)
    _print(report.check(), written, as_json=json)


def _print(report, written: dict[str, Path], *, as_json: bool) -> None:
    from flows.render import console, pairs, print_json, report_table, say

    if as_json:
        print_json({"report": report.as_dict(), "tables": {name: str(path) for name, path in written.items()}})
        return
    out = console()
    out.print(report_table(report))
    out.print(pairs("", report.facts))
    for note in report.notes:
        out.print(f"Note: {say(note, 500)}")
    for name, path in written.items():
        out.print(f"Wrote {name} to {say(path, 1000)}", soft_wrap=True)
