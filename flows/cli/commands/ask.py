"""`walltime ask`: runtimes that a model of `walltime learn` predicts."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

Model = Annotated[Path, typer.Argument(metavar="DIR", readable=False, help="The folder that walltime learn wrote.")]
At = Annotated[
    list[str] | None,
    typer.Option("--at", metavar="N=1000,NB=64", help="A value of every input, joined by commas; repeatable."),
]
Points = Annotated[
    Path | None,
    typer.Option("--points", metavar="FILE.csv", readable=False, help="One row a point, with a column for each input."),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="PATH", help="Also write the answers, as .parquet or .csv.")]


REFUSED = 3


def ask(folder: Model, at: At = None, points: Points = None, out: Out = None, json: Json = False) -> None:
    """Predict runtimes at points, with intervals and the expected error.

    A point that the model cannot answer has no runtime; its status and its reason say why. Where it can answer none of
    the points, the exit code is 3.
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_inputs import print_answers
    from flows.services.files.table_files import check_suffix, write_any
    from flows.services.inputs.answered_points import answered_points
    from flows.services.inputs.model_folder import read_model
    from flows.services.inputs.points import asked_points
    from pipeline.inputs.model import ANSWERS

    if out:
        check_suffix(out)
    model = read_model(folder)
    asked = asked_points(model, at or (), points)
    answers, rows = answered_points(model, asked)
    if out:
        write_any(out, answers, ANSWERS)
    print_json({"answers": rows}) if json else print_answers(rows)
    if rows and all(row["median_s"] is None for row in rows):
        raise typer.Exit(REFUSED)
