"""`walltime backtest`: how good every method's estimates were on the log's own past."""

import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows.cli.options import Json

Config = Annotated[Path, typer.Argument(metavar="CONFIG", readable=False, help="A TOML file, as for walltime run.")]
Logs = Annotated[
    list[str] | None,
    typer.Option("--log", metavar="PATH", help="Instead of the config's logs; each is tried by itself; repeatable."),
]
Methods = Annotated[
    str | None, typer.Option("--methods", metavar="A,B", help="Methods to try; default: the config's, or all.")
]
By = Annotated[Literal["month", "size"] | None, typer.Option("--by", help="Also by month of submit, or by processors.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="PATH", help="Also write the figures: .parquet or .csv.")]
Page = Annotated[Path | None, typer.Option("--report", metavar="PAGE.html", help="Also draw the figures, as one page.")]
Leaks = Annotated[
    bool, typer.Option("--check-leaks", help="First make sure that no method uses what was not known yet.")
]
Staleness = Annotated[
    str | None,
    typer.Option(
        "--staleness",
        metavar="AGE,...",
        help="Answer with what was known at the last midnight (UTC) at least so long before the submit, as in 0,1d,7d; "
        "live: all until the submit. Default: live.",
    ),
]
Cleaning = Annotated[
    bool, typer.Option("--compare-cleaning", help="Also without learning from the jobs that cleaning sets aside.")
]
Predictions = Annotated[
    bool,
    typer.Option(
        "--predictions",
        help="Score published predictions, not estimates, on jobs 1, 7, 30 days on; with --log, --json, --plain only.",
    ),
]
Plain = Annotated[bool, typer.Option("--plain", help="Without Prefect.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show Prefect's own log too.")]


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
    """Replay logs in order of submit and score each method's estimates, made from jobs that had ended by then."""
    from flows.pages.terminal.render_backtest import print_tried, print_tried_json
    from flows.pages.terminal.render_run import showing_progress
    from flows.services.backtest.backtesting import joined, tasks_of
    from flows.services.progress import listening

    if predictions:
        _refuse({
            "--methods": methods, "--by": by, "--out": out, "--report": report, "--check-leaks": check_leaks,
            "--staleness": staleness, "--compare-cleaning": compare_cleaning, "--verbose": verbose,
        })  # fmt: skip
    _check_paths(out, report)
    choices = {
        "logs": log or [], "methods": _listed(methods), "check_leaks": check_leaks, "staleness": _listed(staleness),
        "compare_cleaning": compare_cleaning,
    }  # fmt: skip
    tasks = tasks_of(config, **choices)
    if predictions:
        _score_predictions(tasks, as_json=json)
        return
    arguments = {"config": str(config)} | choices
    n_stages = sum(
        1 + len(task.methods) * check_leaks + sum(len(task.methods_for(way)) for way in task.ways) for task in tasks
    )
    with showing_progress(n_stages) as listener, listening(listener):
        found = _tried(tasks, arguments, plain=plain, verbose=verbose)
    written = _write(joined(found), out, report, tasks[0].settings)
    print_tried_json(found, written) if json else print_tried(found, by, written, is_checked_for_leaks=check_leaks)


def _refuse(given: dict[str, Any]) -> None:
    """InputError for options that say nothing about published predictions."""
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


def _tried(tasks: list[Any], arguments: dict[str, Any], *, plain: bool, verbose: bool) -> list[Any]:
    from flows.prefect.session import prefect_ready
    from flows.services.backtest.backtesting import kept, try_methods

    if plain:
        return [try_methods(task) for task in tasks]
    output_dir = Path(tasks[0].settings.output_dir)
    with tempfile.TemporaryDirectory(prefix="walltime-backtest-") as folder, prefect_ready(output_dir, verbose=verbose):
        from flows.prefect.backtest_flow import backtest_logs

        return [kept(Path(path)) for path in backtest_logs(**arguments, folder=folder)]


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
        from flows.pages.html.backtest_page import page_of

        written["page"] = write_page(report, page_of(table, settings.backtest))
    return written
