"""`walltime fit-series`: scaling laws fitted to a CSV file of measured runtimes."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows.cli.options import Json, Node, Rate

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE.csv",
        readable=False,
        help="Columns procs, runtime_s, optionally application, problem_size, series, energy_j.",
    ),
]
Predict = Annotated[str | None, typer.Option("--predict", metavar="64,128", help="Processor counts to predict.")]
MaxProcs = Annotated[
    int | None, typer.Option("--max-procs", min=1, help="Processors of the machine; no larger count is recommended.")
]
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
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="PATH",
        help="Write the fits (.parquet or .csv), and beside them <out>.observations, .patterns, .scalability, "
        ".predictions, .across.",
    ),
]
Page = Annotated[
    Path | None,
    typer.Option("--report", metavar="PAGE.html", help="Also draw the series and their predictions on one page."),
]


def fit_series(
    file: File,
    predict: Predict = None,
    max_procs: MaxProcs = None,
    procs_per_node: Node = None,
    rate: Rate = None,
    loss: Loss = "relative",
    screen: Screen = True,
    json: Json = False,
    out: Out = None,
    report: Page = None,
) -> None:
    """Fit the default laws to measured runtimes, and predict other processor counts.

    Rows with the same procs are repeated runs. Rows that differ in application, problem_size or series
    belong to different series.
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render import console, say
    from flows.pages.terminal.render_series import print_series, print_weak
    from flows.services.files.table_files import check_suffix, write_page
    from flows.services.quantities import processor_counts
    from flows.services.series.fitted_series import fit_and_predict, series_as_dicts, write_series
    from flows.services.series.series_answers import weak_series, with_answers
    from flows.services.series.series_csv import read_series_and_groups
    from pipeline.predict.cost import CostSettings

    at = processor_counts(predict, "--predict")
    if out:
        check_suffix(out)
    observations, groups = read_series_and_groups(file)
    tables = fit_and_predict(
        observations, at, max_procs, loss, is_screened=screen, groups=groups, procs_per_node=procs_per_node
    )
    cost = CostSettings(procs_per_node, rate)
    series = with_answers(series_as_dicts(tables), tables, max_procs, cost)
    weak = weak_series(tables, at)
    # The page comes first: if it cannot be written, no table is.
    if report:
        write_page(report, _page(file, series, weak, tables))
    written = (write_series(out, tables) if out else {}) | ({"page": report} if report else {})
    files = {name: str(path) for name, path in written.items()}
    if json:
        print_json({"series": series, "weak_scaling": weak, "tables": files})
        return
    print_series(series, is_screened=screen, requested=at)
    print_weak(weak)
    for name, written_path in files.items():
        console().print(f"Wrote {name} to {say(written_path, 1000)}", soft_wrap=True)


def _page(file: Path, series: list[dict[str, Any]], weak: list[dict[str, Any]], tables: dict[str, Any]) -> str:
    from flows.pages.html.series_page import series_page
    from flows.services.series.fitted_series import with_curves

    return series_page(file.stem, with_curves(series, tables), weak=weak)
