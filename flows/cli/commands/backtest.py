"""`walltime backtest`: errors of every method's estimates on a log's own past, and the templates that suit it best."""

import os
import time
from pathlib import Path
from typing import Any, Literal

import typer

from flows.cli.options import OUT_FILE, PAGE_FILE, SEED, argument, check_mode, option
from flows.pages.terminal.activity import show_progress, showing_stages
from flows.pages.terminal.blocks import Answer
from flows.services.quantities import words
from pipeline.errors import InputError, printable

SEARCH_OPTIONS = ("--share", "--search", "--seed", "--workers", "--minutes")


def backtest(
    ctx: typer.Context,
    given: Path = argument("CONFIG", "A TOML file, as for walltime run; for --templates also a table of jobs."),
    log: list[str] | None = option(
        "--log PATH", "A log or a table of jobs instead of the config's; each is scored by itself; repeatable."
    ),
    methods: str | None = option("--methods A,B", "Methods to score; default: all."),
    by: Literal["month", "size"] | None = option("--by", "Also list the errors by month of submit, or by processors."),
    out: Path | None = OUT_FILE,
    report: Path | None = PAGE_FILE,
    errors: Path | None = option(
        "--errors FILE", "Write each scored job's estimates by each method beside its runtime: .csv or .parquet."
    ),
    check_leaks: bool = option("--check-leaks", "First check that no method uses what was not yet known.", False),
    staleness: str | None = option(
        "--staleness AGE,...",
        "Estimate from what was known at the last midnight (UTC) that is at least this long before the submit, "
        "as in 0,1d,7d; live: from all that was known at the submit. Default: live.",
    ),
    compare_cleaning: bool = option(
        "--compare-cleaning", "Also score estimates that do not learn from the jobs that cleaning sets aside.", False
    ),
    predictions: bool = option(
        "--predictions",
        "Score published predictions instead, on jobs 1, 7 and 30 days later; with --log and --json only.",
        False,
    ),
    templates: Path | None = option(
        "--templates FILE.toml",
        "Instead: search the templates of similar jobs that predict the log's runtimes best, into a file.",
    ),
    share: float = option(
        "--share", "With --templates: share of the jobs, from the first, to learn from.", 1.0, min=0.001, max=1.0
    ),
    search: Literal["greedy", "genetic", "both"] = option(
        "--search", "With --templates: both: the genetic search starts with the greedy result.", "both"
    ),
    seed: int = SEED,
    workers: int | None = option(
        "--workers",
        "With --templates: threads; default: one per processor. The result does not depend on it.",
        min=1,
        max=1024,
    ),
    minutes: float | None = option(
        "--minutes", "With --templates: stop after about this time with the best result so far.", min=0
    ),
) -> Answer:
    """Replay logs in order of submit, and score each method's estimates from the jobs that had ended by then.

    With --templates it searches for the templates that group similar jobs best, and writes them to a file that can be
    edited.

    \b
    Examples:
      walltime backtest my-site.toml --by month --report page.html --out figures.parquet
      walltime backtest my-site.toml --methods walltime,last_two --staleness live,1d
      walltime backtest my-site.toml --templates templates.toml --share 0.33 --minutes 10
    """
    check_mode(ctx, "--templates", is_on=templates is not None, own=SEARCH_OPTIONS, shared=())
    check_mode(ctx, "--predictions", is_on=predictions, own=(), shared=("--log",))
    if templates is not None:
        return _search_templates(given, templates, share, search, seed, workers, minutes)
    from flows.pages.terminal.view_backtest import view_backtest
    from flows.services.backtesting import backtest_tasks, run_backtest

    _check_paths(out, errors, report)
    tasks = backtest_tasks(
        given, log or [], words(methods), check_leaks=check_leaks, staleness=words(staleness),
        compare_cleaning=compare_cleaning, lists_errors=errors is not None,
    )  # fmt: skip
    if predictions:
        return _score_predictions(tasks)
    with showing_stages(sum(task.n_stages for task in tasks)):
        found = [run_backtest(task) for task in tasks]
    written = _write(found, out, errors, report)
    facts = [{"log": one.log, "best": one.ranked[0]["estimator"], "report": one.report, "cpu_s": one.cpu_s,
              "rows": one.table} for one in found]  # fmt: skip
    return Answer({"logs": facts, "written": written}, view_backtest(found, by, written, checks_leaks=check_leaks))


def _score_predictions(tasks: list[Any]) -> Answer:
    from flows.pages.terminal.view_backtest import view_later
    from flows.services.backtesting import score_predictions, scores_as_dicts

    found = [{"log": task.log, "rows": scores_as_dicts(score_predictions(task))} for task in tasks]
    return Answer({"logs": found}, view_later(found))


def _check_paths(out: Path | None, errors: Path | None, report: Path | None) -> None:
    from flows.services.files.table_files import check_suffix

    for name, path in (("--out", out), ("--errors", errors)):
        if path is not None:
            check_suffix(path, name)
    if errors is not None and errors == out:
        raise InputError(f"--errors {printable(str(errors))}", "the path of the figures", "a path of its own")
    if report is not None and (report.is_dir() or report in (out, errors)):
        found = "a folder" if report.is_dir() else "the path of the figures"
        raise InputError(f"--report {printable(str(report))}", found, "a path of its own, as in page.html")


def _write(found: list[Any], out: Path | None, errors: Path | None, report: Path | None) -> dict[str, Path]:
    from flows.services.backtesting import joined_tables
    from flows.services.files.table_files import write_any, write_any_batches, write_page
    from pipeline.tables import BACKTEST, BACKTEST_ERRORS

    table, written = joined_tables(found) if out or report else None, {}
    if out is not None:
        written["figures"] = write_any(out, table, BACKTEST)
    if errors is not None:
        parts = (BACKTEST_ERRORS.check(part) for one in found for part in one.errors)
        written["errors"] = write_any_batches(errors, parts, BACKTEST_ERRORS)
    if report is not None:
        from flows.pages.html.study_pages import backtest_page

        written["page"] = write_page(report, backtest_page(table))
    return written


def _search_templates(
    given: Path, out: Path, share: float, how: Any, seed: int, workers: int | None, minutes: float | None
) -> Answer:
    from flows.pages.terminal.view_backtest import view_templates
    from flows.services.backtesting import end_of_share_s, past_jobs
    from flows.services.files.os_errors import naming_path
    from pipeline.estimate.templates.search import SearchSettings, search
    from pipeline.estimate.templates.templates_toml import write_templates

    if out.suffix != ".toml" or out.is_dir():
        raise InputError(f"--templates {printable(str(out))}", "no name of a TOML file", "a path that ends in .toml")
    history = past_jobs(given)
    stop_s = float("inf") if minutes is None else time.monotonic() + 60 * minutes

    def goes_on(found: Any) -> bool:
        is_over = time.monotonic() >= stop_s
        is_due = is_over or found.done % 10 == 0 or found.done == found.total
        show_progress(f"{found.stage}: error {found.error_s:,.0f} s ({found.done}/{found.total})", is_due=is_due)
        return not is_over

    until_s, n_workers = end_of_share_s(history, share), workers or len(os.sched_getaffinity(0))
    found = search(history, until_s, SearchSettings(method=how), seed, n_workers, goes_on)
    with naming_path(out):
        write_templates(out, found, given.name)
    facts = {"error_s": found.error_s, "n_jobs": found.n_jobs, "until_s": until_s, "file": str(out)}
    return Answer(
        facts | {"templates": [template.model_dump() for template in found.templates]},
        view_templates(found.templates, found.error_s, found.n_jobs, out),
    )
