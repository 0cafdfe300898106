"""`walltime scaling`: laws fitted to measured runtimes, errors of the predictors, and processor counts to request."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows.cli.options import (
    Account,
    Application,
    AsOf,
    From,
    JobName,
    Json,
    KeyFile,
    MaxProcs,
    Node,
    OutFile,
    PageFile,
    ProblemSize,
    Queue,
    Rate,
    User,
    UserGroup,
)

Series = Annotated[
    Path,
    typer.Argument(
        metavar="FILE.csv",
        readable=False,
        help="Columns procs, runtime_s, optionally application, problem_size, series, energy_j.",
    ),
]
SeveralSeries = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE.csv...",
        readable=False,
        help="Columns procs, runtime_s, optionally application, problem_size, series.",
    ),
]
Predict = Annotated[str | None, typer.Option("--predict", metavar="64,128", help="Processor counts to predict.")]
Loss = Annotated[
    Literal["log", "relative"],
    typer.Option("--loss", help="What a fit minimises: relative errors (ADEPT's WSSRE), or errors of log runtime."),
]
Screen = Annotated[
    bool,
    typer.Option(
        "--screen/--no-screen",
        help="Find odd sizes and leave them out of the fits; find steps and favoured processor counts.",
    ),
]
OutFits = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="PATH",
        help="Write the fits (.parquet or .csv), and beside them <out>.observations, .patterns, .scalability, "
        ".predictions, .across.",
    ),
]
Names = Annotated[
    list[str] | None, typer.Option("--predictor", metavar="NAME", help="Only this predictor; repeatable.")
]
Group = Annotated[str | None, typer.Option("--group", metavar="ID", help="A group_id from table groups.")]


def fit_series(
    file: Series,
    predict: Predict = None,
    max_procs: MaxProcs = None,
    procs_per_node: Node = None,
    rate: Rate = None,
    loss: Loss = "relative",
    screen: Screen = True,
    json: Json = False,
    out: OutFits = None,
    report: PageFile = None,
) -> None:
    """Fit the default laws to measured runtimes, and predict other processor counts.

    Rows with the same procs are repeated runs. Rows that differ in application, problem_size or series
    belong to different series.

    \b
    Examples:
      walltime scaling fit runs.csv --predict 64,128
      walltime scaling fit runs.csv --report runs.html --procs-per-node 24 --rate 0.02
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render import print_written
    from flows.pages.terminal.render_series import print_series, print_weak
    from flows.services.files.table_files import check_suffix, write_page
    from flows.services.quantities import processor_counts
    from flows.services.series_files import read_series_and_groups, write_series
    from pipeline.scaling.advice import CostSettings, weak_series, with_answers
    from pipeline.scaling.fitted_series import compiling_for_many, fit_and_predict, series_as_dicts

    at = processor_counts(predict, "--predict")
    if out:
        check_suffix(out)
    observations, groups = read_series_and_groups(file)
    with compiling_for_many(observations.num_rows):
        tables = fit_and_predict(
            observations, at, max_procs, loss, is_screened=screen, groups=groups, procs_per_node=procs_per_node
        )
        cost = CostSettings(procs_per_node, rate)
        series = with_answers(series_as_dicts(tables), tables, max_procs, cost)
        weak = weak_series(tables, at)
        page = _page(file, series, weak, tables) if report else ""
    # The page comes first: if it cannot be written, no table is.
    if report:
        write_page(report, page)
    written = (write_series(out, tables) if out else {}) | ({"page": report} if report else {})
    files = {name: str(path) for name, path in written.items()}
    if json:
        print_json({"series": series, "weak_scaling": weak, "tables": files})
        return
    print_series(series, is_screened=screen, requested=at)
    print_weak(weak)
    print_written(files)


def _page(file: Path, series: list[dict[str, Any]], weak: list[dict[str, Any]], tables: dict[str, Any]) -> str:
    from flows.pages.html.series_page import series_page
    from pipeline.scaling.fitted_series import with_curves

    return series_page(file.stem, with_curves(series, tables), weak=weak)


def evaluate_predictors(files: SeveralSeries, predictor: Names = None, json: Json = False, out: OutFile = None) -> None:
    """Predict measured runtimes from 3 to 5 sizes of their series, with every law, ADEPT and Walltime's predictors.

    The given sizes are first the smallest ones, then ones spread over the series. All other sizes are predicted.

    \b
    Examples:
      walltime scaling evaluate runs.csv
      walltime scaling evaluate a.csv b.csv --out errors.csv
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render import print_written
    from flows.pages.terminal.render_series import print_scaling
    from flows.services.files.table_files import check_suffix, write_any
    from flows.services.series_files import evaluate_files
    from pipeline.tables import SCALING_ERRORS

    if out:
        check_suffix(out)
    table, report = evaluate_files(files, predictor or ())
    written = {SCALING_ERRORS.name: str(write_any(out, table, SCALING_ERRORS))} if out else {}
    if json:
        print_json({"errors": table.to_pylist(), "report": report.as_dict(), "tables": written})
        return
    print_scaling(table.to_pylist(), report)
    print_written(written)


def advise_procs(
    published: From,
    application: Application = None,
    user: User = None,
    account: Account = None,
    user_group: UserGroup = None,
    job_name: JobName = None,
    queue: Queue = None,
    problem_size: ProblemSize = None,
    group: Group = None,
    procs_per_node: Node = None,
    rate: Rate = None,
    key_file: KeyFile = None,
    as_of: AsOf = None,
    json: Json = False,
) -> None:
    """Recommend processor counts: the best trade-off, the cheapest and the fastest, with the cost of each.

    Each count is listed with its runtime and 80% interval, processor-hours and efficiency. Nodes and price are listed
    where the config or an option gives them, and energy where the log measured it. Without an application or another
    value the groups with most jobs are listed. Counts go up to twice the largest that ran.

    \b
    Examples:
      walltime scaling advise --from my-tables
      walltime scaling advise --application solver --user u17 --rate 0.02
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_series import print_advice
    from flows.services.published.advice import advised_groups, cost_of_run
    from flows.services.quantities import as_of_seconds
    from pipeline.publish import reading

    texts = {
        "application": application, "user": user, "account": account, "user_group": user_group, "job_name": job_name,
        "queue": queue, "problem_size": problem_size, "group_id": group,
    }  # fmt: skip
    wanted = {name: text for name, text in texts.items() if text is not None}
    with reading(published, as_of_seconds(as_of)) as manifest:
        found = advised_groups(manifest, wanted, cost_of_run(manifest, procs_per_node, rate), key_file)
    print_json(found) if json else print_advice(found)
