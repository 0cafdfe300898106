"""`walltime backtest`: errors of every method's estimates on a log's own past."""

from pathlib import Path
from typing import Any, Literal

import typer

from flows.cli.options import OUT_FILE, PAGE_FILE, argument, check_mode, option
from flows.pages.terminal.activity import showing_stages
from flows.pages.terminal.blocks import Answer
from flows.services.quantities import words
from pipeline.errors import InputError, printable


def backtest(
    ctx: typer.Context,
    given: Path = argument("CONFIG", "A TOML file, as for walltime run."),
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
) -> Answer:
    """Replay logs in order of submit, and score each method's estimates from the jobs that had ended by then.

    \b
    Examples:
      walltime backtest my-site.toml --by month --report page.html --out figures.parquet
      walltime backtest my-site.toml --methods walltime,last_two --staleness live,1d
    """
    check_mode(ctx, "--predictions", is_on=predictions, own=(), shared=("--log",))
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

