"""`walltime evaluate-scaling`: the errors of every predictor on measured series."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE.csv...",
        readable=False,
        help="Columns procs, runtime_s, optionally application, problem_size, series.",
    ),
]
Names = Annotated[
    list[str] | None, typer.Option("--predictor", metavar="NAME", help="Only this predictor; repeatable.")
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="PATH", help="Also write the errors as a table, .parquet or .csv.")
]


def evaluate_scaling(files: Files, predictor: Names = None, json: Json = False, out: Out = None) -> None:
    """Predict measured runtimes from 3 to 5 sizes of their series, with every law, ADEPT and Walltime's predictors.

    The given sizes are first the smallest ones, then ones spread over the series. All other sizes are predicted.
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render import console, say
    from flows.pages.terminal.render_scaling import print_scaling
    from flows.services.files.table_files import check_suffix, write_any
    from flows.services.series.scaling_errors import evaluate_files, known_predictors
    from pipeline.core.tables import SCALING_ERRORS

    if out:
        check_suffix(out)
    table, report = evaluate_files(files, known_predictors(predictor))
    written = {SCALING_ERRORS.name: str(write_any(out, table, SCALING_ERRORS))} if out else {}
    if json:
        print_json({"errors": table.to_pylist(), "report": report.as_dict(), "tables": written})
        return
    print_scaling(table.to_pylist(), report)
    for path in written.values():
        console().print(f"Wrote the errors to {say(path, 1000)}", soft_wrap=True)
