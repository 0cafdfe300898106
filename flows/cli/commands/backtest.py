"""`walltime backtest`: the errors of every method's estimates on the log's own past."""

import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows.cli.options import Json

Config = Annotated[Path, typer.Argument(metavar="CONFIG", readable=False, help="A TOML file, as for walltime run.")]
Logs = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="PATH",
        help="A log or a table of jobs instead of the config's; each is scored by itself; repeatable.",
    ),
]
Methods = Annotated[
    str | None, typer.Option("--methods", metavar="A,B", help="Methods to score; default: the config's, or all.")
]
By = Annotated[
    Literal["month", "size"] | None,
    typer.Option("--by", help="Also list the errors by month of submit, or by processors."),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="PATH", help="Also write the figures, as .parquet or .csv.")]
Page = Annotated[Path | None, typer.Option("--report", metavar="PAGE.html", help="Also draw the figures on one page.")]
Leaks = Annotated[bool, typer.Option("--check-leaks", help="First check that no method uses what was not yet known.")]
Staleness = Annotated[
    str | None,
    typer.Option(
        "--staleness",
        metavar="AGE,...",
        help="Estimate from what was known at the last midnight (UTC) that is at least this long before the submit, "
        "as in 0,1d,7d; live: from all that was known at the submit. Default: live.",
    ),
]
Cleaning = Annotated[
    bool,
    typer.Option(
        "--compare-cleaning", help="Also score estimates that do not learn from the jobs that cleaning sets aside."
    ),
]
Predictions = Annotated[
    bool,
    typer.Option(
        "--predictions",
        help="Score published predictions instead, on jobs 1, 7 and 30 days later; with --log, --json, --plain only.",
    ),
]
Plain = Annotated[bool, typer.Option("--plain", help="Run without Prefect.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Also show Prefect's own log.")]


def backtest(
    config: Config,
    log: Logs = None,
    methods: Methods = None,
    by: By = None,
    out: Out = None,
    report: Page = None,
    check_leaks: Leaks = False,
    staleness: Staleness = None,
    compare_cleaning: Cleaning = False,
    predictions: Predictions = False,
    plain: Plain = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Replay logs in order of submit, and score each method's estimates from the jobs that had ended by then."""
    from flows.pages.terminal.render_backtest import print_backtest, print_backtest_json
    from flows.pages.terminal.render_run import showing_progress
    from flows.services.backtest.backtesting import backtest_tasks, joined_tables
    from flows.services.progress import listening

    if predictions:
        _refuse_beside_predictions({
            "--methods": methods, "--by": by, "--out": out, "--report": report, "--check-leaks": check_leaks,
            "--staleness": staleness, "--compare-cleaning": compare_cleaning, "--verbose": verbose,
        })  # fmt: skip
    _check_paths(out, report)
    choices: dict[str, Any] = {
        "logs": log or [], "methods": _listed(methods), "check_leaks": check_leaks, "staleness": _listed(staleness),
        "compare_cleaning": compare_cleaning,
    }  # fmt: skip
    tasks = backtest_tasks(config, **choices)
    if predictions:
        _score_predictions(tasks, as_json=json)
        return
    arguments = {"config": str(config)} | choices
    n_stages = sum(
        1 + len(task.methods) * check_leaks + sum(len(task.methods_for(way)) for way in task.ways) for task in tasks
    )
    with showing_progress(n_stages) as listener, listening(listener):
        found = _results(tasks, arguments, plain=plain, verbose=verbose)
    written = _write(joined_tables(found), out, report, tasks[0].settings)
    print_backtest_json(found, written) if json else print_backtest(found, by, written, checks_leaks=check_leaks)


def _refuse_beside_predictions(given: dict[str, Any]) -> None:
    """InputError for options that do not apply to published predictions."""
    from pipeline.core.errors import InputError

    found = [name for name, value in given.items() if value not in (None, False)]
    if found:
        expected = "--log, --json and --plain at most beside it: it scores published tables, which have one method"
        raise InputError("--predictions", f"also {', '.join(found)}", expected, f"leave out {' and '.join(found)}")


def _score_predictions(tasks: list[Any], *, as_json: bool) -> None:
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_later import print_later
    from flows.services.backtest.later_predictions import score_predictions, scores_as_dicts, subsets_of

    found = {task.log: score_predictions(task) for task in tasks}
    if as_json:
        print_json({"logs": [{"log": log, "rows": scores_as_dicts(one)} for log, one in found.items()]})
        return
    for log, scores in found.items():
        print_later(log, [(days, subsets_of(scored)) for days, scored in scores.items()])


def _listed(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()] if text else []


def _results(tasks: list[Any], arguments: dict[str, Any], *, plain: bool, verbose: bool) -> list[Any]:
    from flows.prefect.session import prefect_session
    from flows.services.backtest.backtesting import load_result, run_backtest

    if plain:
        return [run_backtest(task) for task in tasks]
    output_dir = Path(tasks[0].settings.output_dir)
    scratch = tempfile.TemporaryDirectory(prefix="walltime-backtest-")
    with scratch as folder, prefect_session(output_dir, verbose=verbose) as wait_for_api:
        from flows.prefect.backtest_flow import backtest_logs

        wait_for_api()
        return [load_result(Path(path)) for path in backtest_logs(**arguments, folder=folder)]


def _check_paths(out: Path | None, report: Path | None) -> None:
    from flows.services.files.table_files import check_suffix
    from pipeline.core.errors import InputError
    from pipeline.core.text import printable

    if out is not None:
        check_suffix(out)
    if report is not None and (report.is_dir() or report == out):
        found = "a folder" if report.is_dir() else "the path of the figures"
        raise InputError(f"--report {printable(str(report))}", found, "a path of its own, as in page.html")


def _write(table: Any, out: Path | None, report: Path | None, settings: Any) -> dict[str, Path]:
    from flows.services.files.table_files import write_any, write_page
    from pipeline.core.tables import BACKTEST

    written = {}
    if out is not None:
        written["figures"] = write_any(out, table, BACKTEST)
    if report is not None:
        from flows.pages.html.backtest_page import backtest_page

        written["page"] = write_page(report, backtest_page(table, settings.backtest))
    return written
