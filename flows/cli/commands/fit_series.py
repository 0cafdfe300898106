"""`walltime fit-series`: the laws of a few measured runtimes, the way a person would try it."""

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
Predict = Annotated[
    str | None, typer.Option("--predict", metavar="64,128", help="Processor counts to predict runtimes on.")
]
MaxProcs = Annotated[
    int | None, typer.Option("--max-procs", min=1, help="Processors of the machine: no run on more is advised.")
]
Loss = Annotated[
    Literal["log", "relative"],
    typer.Option(
        "--loss", help="What a fit makes small: relative errors (as ADEPT's WSSRE), or errors of log runtime."
    ),
]
Screen = Annotated[
    bool,
    typer.Option(
        "--screen/--no-screen",
        help="Look for odd sizes, which are left out of the fits, and for steps and favoured processor counts.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="PATH",
        help="Write the fits (.parquet or .csv); beside it <out>.observations, .patterns, .scalability, .predictions, "
        ".across.",
    ),
]
Page = Annotated[
    Path | None, typer.Option("--report", metavar="PAGE.html", help="Also draw the series and what is predicted.")
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
    """Fit every law to measured runtimes, and predict other processor counts.

    Several rows with the same procs are repeated runs. Each application, problem size and series
    named is a series of its own.
    """
    from flows.services.files.table_files import check_suffix, write_page
    from flows.services.series.fitted_series import fit_and_predict, series_as_dicts, write_series
    from flows.services.series.series_answers import weak_series, with_answers
    from flows.services.series.series_csv import read_series_and_groups
    from pipeline.predict.cost import CostSettings

    at = _processor_counts(predict)
    if out:
        check_suffix(out)
    observations, groups = read_series_and_groups(file)
    tables = fit_and_predict(
        observations, at, max_procs, loss, is_screened=screen, groups=groups, procs_per_node=procs_per_node
    )
    cost = CostSettings(procs_per_node, rate)
    series = with_answers(series_as_dicts(tables), tables, max_procs, cost)
    weak = weak_series(tables, at)
    # Before the tables: where the page cannot be written, nothing is.
    if report:
        write_page(report, _page(file, series, weak, tables))
    written = (write_series(out, tables) if out else {}) | ({"page": report} if report else {})
    files = {name: str(path) for name, path in written.items()}
    _print(series, weak, files, at, as_json=json, is_screened=screen)


def _page(file: Path, series: list[dict[str, Any]], weak: list[dict[str, Any]], tables: dict[str, Any]) -> str:
    from flows.pages.html.series_page import series_page
    from flows.services.series.fitted_series import with_curves

    return series_page(file.stem, with_curves(series, tables), weak=weak)


def _processor_counts(text: str | None) -> list[int]:
    from pipeline.core.errors import InputError
    from pipeline.core.text import printable

    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    strange = [word for word in words if not word.isascii() or not word.isdigit() or not 1 <= int(word[:20]) <= 2**40]
    if strange or (text is not None and not words):
        found = printable(strange[0]) if strange else "nothing"
        raise InputError("--predict", found, "processor counts of 1 or more, joined by commas, as in 64,128")
    return sorted({int(word) for word in words})


def _print(
    series: list[dict[str, Any]],
    weak: list[dict[str, Any]],
    written: dict[str, str],
    at: list[int],
    *,
    as_json: bool,
    is_screened: bool,
) -> None:
    from flows.pages.terminal.render import console, print_json, say
    from flows.pages.terminal.render_series import print_series, print_weak

    if as_json:
        print_json({"series": series, "weak_scaling": weak, "tables": written})
        return
    print_series(series, is_screened=is_screened, asked=at)
    print_weak(weak)
    for name, path in written.items():
        console().print(f"Wrote {name} to {say(path, 1000)}", soft_wrap=True)
