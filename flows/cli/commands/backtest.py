"""`walltime backtest`: errors of every method's estimates on a log's own past, and the templates that suit it best."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.cli.options import Json, OutFile, PageFile, Seed, check_mode

if TYPE_CHECKING:
    from pipeline.estimate.templates.search import SearchSettings

Given = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG", readable=False, help="A TOML file, as for walltime run; for --templates also a table of jobs."
    ),
]
Logs = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="PATH",
        help="A log or a table of jobs instead of the config's; each is scored by itself; repeatable.",
    ),
]
Methods = Annotated[str | None, typer.Option("--methods", metavar="A,B", help="Methods to score; default: all.")]
By = Annotated[
    Literal["month", "size"] | None,
    typer.Option("--by", help="Also list the errors by month of submit, or by processors."),
]
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
        help="Score published predictions instead, on jobs 1, 7 and 30 days later; with --log and --json only.",
    ),
]
Templates = Annotated[
    Path | None,
    typer.Option(
        "--templates",
        metavar="FILE.toml",
        help="Instead: search the templates of similar jobs that predict the log's runtimes best, into a file.",
    ),
]
Share = Annotated[
    float,
    typer.Option(
        "--share", min=0.001, max=1.0, help="With --templates: share of the jobs, from the first, to learn from."
    ),
]
Search = Annotated[
    Literal["greedy", "genetic", "both"],
    typer.Option("--search", help="With --templates: both: the genetic search starts with the greedy result."),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        max=1024,
        help="With --templates: threads; default: one per processor. The result does not depend on it.",
    ),
]
Minutes = Annotated[
    float | None,
    typer.Option("--minutes", min=0, help="With --templates: stop after about this time with the best result so far."),
]


def backtest(
    ctx: typer.Context,
    given: Given,
    log: Logs = None,
    methods: Methods = None,
    by: By = None,
    out: OutFile = None,
    report: PageFile = None,
    check_leaks: Leaks = False,
    staleness: Staleness = None,
    compare_cleaning: Cleaning = False,
    predictions: Predictions = False,
    templates: Templates = None,
    share: Share = 1.0,
    search: Search = "both",
    seed: Seed = 0,
    workers: Workers = None,
    minutes: Minutes = None,
    json: Json = False,
) -> None:
    """Replay logs in order of submit, and score each method's estimates from the jobs that had ended by then.

    With --templates it searches for the templates that group similar jobs best, and writes them to a file that can be
    edited.

    \b
    Examples:
      walltime backtest my-site.toml --by month --report page.html --out figures.parquet
      walltime backtest my-site.toml --methods walltime,last_two --staleness live,1d
      walltime backtest my-site.toml --templates templates.toml --share 0.33 --minutes 10
    """
    searching = ("--share", "--search", "--seed", "--workers", "--minutes")
    check_mode(ctx, "--templates", is_on=templates is not None, own=searching, shared=())
    check_mode(ctx, "--predictions", is_on=predictions, own=(), shared=("--log",))
    if templates is not None:
        from pipeline.estimate.templates.search import SearchSettings

        _search_templates(given, templates, share, SearchSettings(method=search), seed, workers, minutes, as_json=json)
        return
    from flows.pages.terminal.render_backtest import print_backtest, print_backtest_json
    from flows.services.backtesting import backtest_tasks, joined_tables
    from flows.services.quantities import words

    _check_paths(out, report)
    tasks = backtest_tasks(
        given, log or [], words(methods), check_leaks=check_leaks, staleness=words(staleness),
        compare_cleaning=compare_cleaning,
    )  # fmt: skip
    if predictions:
        _score_predictions(tasks, as_json=json)
        return
    written, found = {}, _score(tasks)
    if out is not None or report is not None:
        written = _write(joined_tables(found), out, report)
    if json:
        print_backtest_json(found, written)
    else:
        print_backtest(found, by, written, checks_leaks=check_leaks)


def _score(tasks: list[Any]) -> list[Any]:
    from flows.pages.terminal.activity import showing_stages
    from flows.services.backtesting import run_backtest

    with showing_stages(sum(task.n_stages for task in tasks)):
        return [run_backtest(task) for task in tasks]


def _score_predictions(tasks: list[Any], *, as_json: bool) -> None:
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_backtest import print_later
    from flows.services.backtesting import score_predictions, scores_as_dicts, subsets_of

    found = {task.log: score_predictions(task) for task in tasks}
    if as_json:
        print_json({"logs": [{"log": log, "rows": scores_as_dicts(one)} for log, one in found.items()]})
        return
    for log, scores in found.items():
        print_later(log, [(days, subsets_of(scored)) for days, scored in scores.items()])


def _check_paths(out: Path | None, report: Path | None) -> None:
    from flows.services.files.table_files import check_suffix
    from pipeline.errors import InputError, printable

    if out is not None:
        check_suffix(out)
    if report is not None and (report.is_dir() or report == out):
        found = "a folder" if report.is_dir() else "the path of the figures"
        raise InputError(f"--report {printable(str(report))}", found, "a path of its own, as in page.html")


def _write(table: Any, out: Path | None, report: Path | None) -> dict[str, Path]:
    from flows.services.files.table_files import write_any, write_page
    from pipeline.tables import BACKTEST

    written = {}
    if out is not None:
        written["figures"] = write_any(out, table, BACKTEST)
    if report is not None:
        from flows.pages.html.backtest_page import backtest_page

        written["page"] = write_page(report, backtest_page(table))
    return written


def _search_templates(
    given: Path,
    out: Path,
    share: float,
    how: "SearchSettings",
    seed: int,
    workers: int | None,
    minutes: float | None,
    *,
    as_json: bool,
) -> None:
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_backtest import print_templates, showing_search
    from flows.services.backtesting import end_of_share_s, past_jobs
    from flows.services.files.os_errors import naming_path
    from pipeline.errors import InputError, printable
    from pipeline.estimate.templates.search import search
    from pipeline.estimate.templates.templates_toml import write_templates

    if out.suffix != ".toml" or out.is_dir():
        raise InputError(f"--templates {printable(str(out))}", "no name of a TOML file", "a path that ends in .toml")
    history = past_jobs(given)
    until_s = end_of_share_s(history, share)
    with showing_search(minutes) as show:
        n_workers = workers or len(os.sched_getaffinity(0))
        found = search(history, until_s, how, seed, n_workers, show)
    with naming_path(out):
        write_templates(out, found, given.name)
    if as_json:
        facts = {"error_s": found.error_s, "n_jobs": found.n_jobs, "until_s": found.until_s, "file": str(out)}
        print_json(facts | {"templates": [template.model_dump() for template in found.templates]})
    else:
        print_templates(found.templates, found.error_s, found.n_jobs, out)
