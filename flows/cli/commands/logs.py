"""`walltime ingest`, `clean`, `backtest` and `replay`: what is done with logs, without publishing."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from flows.cli import options as shared
from flows.cli.options import argument, check_mode, file_option, option
from flows.pages.activity import showing_stages
from flows.pages.blocks import Answer, Block, Exact, Facts, Grid, columns, notes, report_grid, wrote
from flows.services.files.os_errors import config_settings
from flows.services.quantities import chosen_names, instant, words
from pipeline.errors import InputError, printable

if TYPE_CHECKING:
    from pipeline.report import Report

UNREADABLE_EXIT = 2
"""The exit code if none of the logs can be read."""


def ingest(
    ctx: typer.Context,
    paths: list[str] | None = argument("PATH...", "Logs, folders or globs; compressed ones too.", None),
    out: Path | None = file_option("--out JOBS.parquet", "The table to write: .parquet or .csv; needed."),
    update: bool = option("--update", "Add new records to the table at --out, if it exists.", False),
    config: Path | None = shared.CONFIG_OPTION,
    format: str | None = option("--format", "The logs' format, such as swf, sacct or pbs; an unknown name lists all."),
    site: str | None = shared.SITE,
    timezone: str | None = shared.TIMEZONE,
    key_file: str | None = option("--key-file FILE", "Replace names of persons by hashes with this key."),
    live: bool = option("--live", "Read from this machine's sacct instead of files.", False),
    since: str | None = option("--since DATE", "With --live: start of the window; default: 7 days before its end."),
    until: str | None = option("--until DATE", "With --live: end of the window; default: now."),
    dry_run: bool = option(
        "--dry-run", "Write nothing: show each log's format, columns, first jobs, and what would be set aside.", False
    ),
    all: bool = option("--all", "With --dry-run: read each log to its end, not its first megabyte.", False),
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
    from flows.services.logs import inspected, log_sources, replaced, write_jobs
    from pipeline.ingest import inspect
    from pipeline.settings import RunSettings

    shared = ("--config", "--format", "--site", "--timezone", "--key-file")
    check_mode(ctx, "--dry-run", is_on=dry_run, own=("--all",), shared=shared)
    given = {
        "site.name": site, "site.timezone": timezone, "site.key_file": key_file,
        "site.anonymise": True if key_file else None, "ingest.format": format,
    }  # fmt: skip
    where = "the command line" if config is None else printable(str(config))
    settings = replaced(config_settings(config) if config else RunSettings(), given, where)
    if dry_run:
        read = inspect([Path(path) for path in paths or []], settings.site, settings.ingest, is_all=all)
        found = [inspected(one) for one in read]
        is_read = any(not one["error"] for one in found)
        return Answer({"logs": found}, view_inspections(found), exit_code=0 if is_read else UNREADABLE_EXIT)
    if out is None:
        raise typer.BadParameter("Missing: the table to write, or --dry-run.", ctx, param_hint="--out")
    with log_sources(paths or [], live, since, until, settings) as (logs, of_site, how):
        report, written = write_jobs(logs, of_site, how, out, is_update=update)
    return Answer({"report": report, "tables": written}, view_ingested(report, written))


def view_ingested(report: "Report", written: Mapping[str, Path]) -> Iterator[Block]:
    """The report, its notes, and the paths of the tables."""
    yield report_grid(report)
    yield Facts("", {name: _with_time(name, value) for name, value in report.facts.items()})
    yield from notes(report.notes)
    yield from wrote(written)
    if "unreadable" in written:
        file = shlex.quote(str(written["unreadable"]))
        yield Exact(f"See them with: walltime show unreadable --from {file}")


def _with_time(name: str, value: object) -> object:
    return f"{value} ({instant(value)})" if name.endswith("submit_s") and isinstance(value, int) else value


def view_inspections(found: Iterable[Mapping[str, Any]]) -> Iterator[Block]:
    """The facts, the first jobs and the notes of each log."""
    for one in found:
        yield Facts(one["log"], _facts(one))
        if one["jobs"]:
            yield Grid(
                "", [column for column in columns("first_jobs") if column.heading in one["columns"]], one["jobs"]
            )
        yield from notes([*([one["error"]] if one["error"] else []), *one["notes"]])


def _facts(found: Mapping[str, Any]) -> dict[str, Any]:
    facts = {"format": found["format"] or "unknown"}
    facts |= {name: found[name] for name in ("compression", "read", "timezone", "lines")} | {"jobs": found["n_jobs"]}
    facts |= {f"would be set aside: {name}": n for name, n in found["set_aside"].items()}
    facts |= {f"would be quarantined: {name}": n for name, n in found["quarantined"].items()}
    listed = {
        "columns read": "log_columns",
        "useful columns that the log lacks": "log_columns_missing",
        "columns not used": "log_columns_ignored",
        "JOBS columns left empty": "columns_empty",
    }
    return facts | {shown: ", ".join(found[name]) for shown, name in listed.items() if found[name]}


def clean(
    jobs: Path = argument("JOBS.parquet", "A table of jobs, written by walltime ingest."),
    out: Path = file_option(
        "--out FLAGGED.parquet", "Where to write all jobs with their flags: .parquet or .csv.", ...
    ),
    report: Path | None = shared.PAGE_FILE,
    config: Path | None = shared.CONFIG_OPTION,
    all: bool = option("--all", "List every burst, not only the first ten.", False),
) -> Answer:
    """Flag jobs that should not be used for training; list bursts, and show what leaving them out changes.

    A config gives the settings under [site] and [clean]. Two more tables are written beside the jobs: <out>.bursts and
    <out>.effect.

    \b
    Examples:
      walltime clean jobs.parquet --out flagged.parquet --report page.html --config my-site.toml
    """
    from flows.pages.clean import clean_blocks, cleaning_page
    from flows.services.logs import clean_jobs, write_cleaned

    cleaned = clean_jobs(jobs, config)
    written = write_cleaned(cleaned, out, report, "" if report is None else cleaning_page(cleaned))
    facts = {"report": cleaned.report, "bursts": cleaned.burst_rows(), "effect": cleaned.effect, "written": written}
    return Answer(facts, clean_blocks(cleaned, written, is_whole=all))


LAST_DAYS = 30.0
"""Days of a config's log that are scored, its newest."""


def backtest(
    given: Path = argument("CONFIG", "A TOML file, as for walltime run."),
    log: list[str] | None = option(
        "--log PATH", "A log or a table of jobs instead of the config's; each is scored separately; repeatable."
    ),
    methods: str | None = option("--methods A,B", "Methods to score; default: all."),
    by: Literal["month", "size"] | None = option("--by", "Also list the errors by month of submit, or by processors."),
    out: Path | None = shared.OUT_FILE,
    report: Path | None = shared.PAGE_FILE,
    errors: Path | None = file_option(
        "--errors FILE", "Write each scored job's estimates by each method beside its runtime: .csv or .parquet."
    ),
    check_leaks: bool = option("--check-leaks", "First check that no method uses what came after the submit.", False),
    staleness: str | None = option(
        "--staleness AGE,...",
        "Estimate from what was known at the last midnight (UTC) that is at least this long before the submit, "
        "as in 0,1d,7d; live: from all that was known at the submit. Default: live.",
    ),
    compare_cleaning: bool = option(
        "--compare-cleaning", "Also score estimates that are trained without the jobs that cleaning sets aside.", False
    ),
) -> Answer:
    """Replay logs in order of submit, and score each method's estimates from the jobs that had ended by then.

    \b
    Examples:
      walltime backtest my-site.toml --by month --report page.html --out figures.parquet
      walltime backtest my-site.toml --methods walltime,last_two --staleness live,1d
    """
    from flows.pages.studies import backtest_blocks, backtest_page
    from flows.services.files.table_files import write_any_batches, write_joined, write_page
    from flows.services.logs import resolve
    from flows.services.studies import run_backtest, ways
    from pipeline.evaluate.methods import METHODS
    from pipeline.ingest.sources import find_sources
    from pipeline.tables import BACKTEST, BACKTEST_ERRORS

    if out is not None and errors is not None and out.resolve() == errors.resolve():
        raise InputError(f"--errors {printable(str(errors))}", "the path of another file", "a path of its own")
    settings, paths = resolve(given, log or [])
    names, chosen = chosen_names(words(methods), METHODS, "--methods"), ways(words(staleness), compare_cleaning)
    logs = [(one.label, [one.path]) for one in find_sources(paths)] if log else [(settings.site.name, paths)]
    with showing_stages(len(logs) * (1 + len(names) * (len(chosen) + check_leaks))):
        found = [
            run_backtest(label, own, settings, names, chosen, checks_leaks=check_leaks, lists_errors=errors is not None)
            for label, own in logs
        ]
    written: dict[str, Path] = {}
    if out is not None:
        written["figures"] = write_joined(out, [one.table for one in found], BACKTEST)
    if errors is not None:
        parts = (BACKTEST_ERRORS.check(part) for one in found for part in one.errors)
        written["errors"] = write_any_batches(errors, parts, BACKTEST_ERRORS)
    if report is not None:
        written["page"] = write_page(report, backtest_page(found))
    facts = [{"log": one.log, "best": one.ranked[0]["estimator"], "report": one.report, "cpu_s": one.cpu_s,
              "rows": one.table} for one in found]  # fmt: skip
    return Answer({"logs": facts, "written": written}, backtest_blocks(found, by, written, checks_leaks=check_leaks))


def replay(
    given: list[Path] = argument("CONFIG|LOG...", "A TOML file, as for walltime run, or logs, each replayed alone."),
    policy: str = option(
        "--policy A,B", "fcfs, easy, easy-sjbf, conservative, each compared with EASY with requests.", "easy,easy-sjbf"
    ),
    estimates: str = option(
        "--estimates A,B",
        "What to plan with: soft (limits by the quantiles soft-10, soft-50 and soft-80, raised by the guard), order "
        "(requests, tried in order of our median), control (soft limits by a tenth of the request), perfect, request, "
        "last_two.",
        "soft,order,control,perfect",
    ),
    shakes: int = option(
        "--shakes",
        "Number of replays with submits shifted by up to 10 min; 0: one of the log as it is.",
        20,
        min=0,
        max=10_000,
    ),
    seed: int = option("--seed", shared.SEED_MEANS, 1, min=0),
    max_procs: int | None = shared.MAX_PROCS,
    days: float | None = option(
        "--days", "Score the jobs of this many last days; default: 30 for a config, all for a log; 0: all.", min=0
    ),
    whole_nodes: bool = option("--whole-nodes", "Jobs have whole nodes of site.procs_per_node processors.", False),
    out: Path | None = option("--out DIR", "Also write replay.parquet and replay.html there."),
) -> Answer:
    """Replay logs under other policies and estimates: what jobs would have gained, and which users would have lost.

    \b
    Examples:
      walltime replay my-site.toml --out replayed
      walltime replay log.swf.gz --policy easy --estimates soft --shakes 0
    """
    from flows.pages.studies import replay_blocks, replay_facts, replay_page
    from flows.services.files.table_files import write_joined, write_page
    from flows.services.logs import settings_and_logs
    from flows.services.studies import chosen_cases, run_replay
    from pipeline.schedule.what_if import WITH_METHOD
    from pipeline.schedule.workload import Shakes
    from pipeline.tables import REPLAY

    cases = chosen_cases(policy, estimates)
    logs = [(one, *settings_and_logs(one)) for one in dict.fromkeys(given)]
    names = [name for _, name, *_ in logs]
    with showing_stages(len(logs) * (2 + any(case.estimates in WITH_METHOD for case in cases))):
        found = [
            run_replay(
                # Those that share a name are called by their paths.
                str(one) if names.count(name) > 1 else name, paths, settings, cases, Shakes(shakes, seed),
                capacity=max_procs, whole_nodes=whole_nodes,
                days=LAST_DAYS if days is None and one.suffix == ".toml" else days or None,
            )
            for one, name, settings, paths in logs
        ]  # fmt: skip
    written = {}
    if out is not None:
        written["table"] = write_joined(out / "replay.parquet", [one.table for one in found], REPLAY)
        written["page"] = write_page(out / "replay.html", replay_page(found))
    return Answer(replay_facts(found, written), replay_blocks(found, written))
