"""`walltime clean`: jobs that are not ordinary work, set aside with a reason."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import ConfigOption, Json, PageFile

Jobs = Annotated[
    Path, typer.Argument(metavar="JOBS.parquet", readable=False, help="A table of jobs, written by walltime ingest.")
]
Out = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FLAGGED.parquet", help="Where to write all jobs with their flags: .parquet or .csv."
    ),
]
All = Annotated[bool, typer.Option("--all", help="List every burst, not only the first ten.")]


def clean(
    jobs: Jobs, out: Out, report: PageFile = None, config: ConfigOption = None, all: All = False, json: Json = False
) -> None:
    """Flag jobs that should not be learnt from; list bursts, and how setting them aside changes the log.

    A config gives the settings under [site] and [clean]. Two more tables are written beside the jobs: <out>.bursts and
    <out>.effect.

    \b
    Examples:
      walltime clean jobs.parquet --out flagged.parquet --report page.html --config my-site.toml
    """
    from flows.pages.terminal.render_jobs import print_cleaned, print_cleaned_json
    from flows.services.logs.cleaning import check_paths, clean_jobs, write_cleaned

    check_paths(jobs, out, report)
    cleaned = clean_jobs(jobs, config)
    page = None
    if report is not None:
        from flows.pages.html.clean_page import cleaning_page

        page = cleaning_page(cleaned)
    written = write_cleaned(cleaned, out, page, report)
    if json:
        print_cleaned_json(cleaned, written)
    else:
        print_cleaned(cleaned, written, is_whole=all)
