"""`walltime ingest` and `walltime clean`: accounting logs to one table JOBS, and the jobs that are no ordinary work."""

from pathlib import Path

import typer

from flows.cli.options import CONFIG_OPTION, PAGE_FILE, SITE, TIMEZONE, argument, check_mode, option
from flows.pages.terminal.blocks import Answer

UNREADABLE_EXIT = 2
"""The exit code where none of the logs can be read."""


def ingest(
    ctx: typer.Context,
    paths: list[str] | None = argument("PATH...", "Logs, folders or globs; compressed ones too.", None),
    out: Path | None = option("--out JOBS.parquet", "The table to write: .parquet or .csv; needed."),
    update: bool = option("--update", "Add new records to the table at --out, if it exists.", False),
    config: Path | None = CONFIG_OPTION,
    format: str | None = option(
        "--format", "The logs' format, such as swf, sacct or pbs; an unknown name lists them all."
    ),
    site: str | None = SITE,
    timezone: str | None = TIMEZONE,
    key_file: str | None = option("--key-file FILE", "Replace names of persons by hashes with this key."),
    live: bool = option("--live", "Read from this machine's sacct instead of files.", False),
    since: str | None = option("--since DATE", "With --live: start of the window; default: 7 days before its end."),
    until: str | None = option("--until DATE", "With --live: end of the window; default: now."),
    dry_run: bool = option(
        "--dry-run",
        "Write nothing: show each log's format, columns, first jobs, and what would be set aside.",
        False,
    ),
    all: bool = option("--all", "With --dry-run: read each log to its end, not its first megabyte.", False),
    rows: int = option("--rows", "With --dry-run: number of jobs to show per log.", 10, min=0),
) -> Answer:
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
    from flows.pages.answers.ingest import view_ingested, view_inspections
    from flows.services.logs.ingesting import inspected, log_sources, settings_of, write_jobs

    shared = ("--config", "--format", "--site", "--timezone", "--key-file")
    check_mode(ctx, "--dry-run", is_on=dry_run, own=("--all", "--rows"), shared=shared)
    settings = settings_of(config, format=format, site=site, timezone=timezone, key_file=key_file)
    if dry_run:
        found = inspected(paths or [], settings, rows, is_all=all)
        is_read = any(not one["error"] for one in found)
        return Answer({"logs": found}, view_inspections(found), exit_code=0 if is_read else UNREADABLE_EXIT)
    if out is None:
        raise typer.BadParameter("Missing: the table to write, or --dry-run.", ctx, param_hint="--out")
    with log_sources(paths or [], live, since, until, settings) as (logs, of_site, how):
        report, written = write_jobs(logs, of_site, how, out, is_update=update)
    return Answer({"report": report, "tables": written}, view_ingested(report, written))


def clean(
    jobs: Path = argument("JOBS.parquet", "A table of jobs, written by walltime ingest."),
    out: Path = option("--out FLAGGED.parquet", "Where to write all jobs with their flags: .parquet or .csv.", ...),
    report: Path | None = PAGE_FILE,
    config: Path | None = CONFIG_OPTION,
    all: bool = option("--all", "List every burst, not only the first ten.", False),
) -> Answer:
    """Flag jobs that should not be learnt from; list bursts, and how setting them aside changes the log.

    A config gives the settings under [site] and [clean]. Two more tables are written beside the jobs: <out>.bursts and
    <out>.effect.

    \b
    Examples:
      walltime clean jobs.parquet --out flagged.parquet --report page.html --config my-site.toml
    """
    from flows.pages.answers.clean import clean_blocks, cleaning_page
    from flows.services.logs.cleaning import check_paths, clean_jobs, write_cleaned

    check_paths(jobs, out, report)
    cleaned = clean_jobs(jobs, config)
    page = None if report is None else cleaning_page(cleaned)
    written = write_cleaned(cleaned, out, page, report)
    facts = {"report": cleaned.report, "bursts": cleaned.burst_rows(), "effect": cleaned.effect, "written": written}
    return Answer(facts, clean_blocks(cleaned, written, is_whole=all))
