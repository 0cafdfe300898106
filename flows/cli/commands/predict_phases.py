"""`walltime predict-phases`: a run's time on another machine, from the times of some of its phases there."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

Folder = Annotated[Path, typer.Argument(metavar="DIR", readable=False, help="The folder that walltime phases wrote.")]
Platform = Annotated[str, typer.Option("--platform", metavar="NAME", help="A machine that walltime phase-times timed.")]
Publish = Annotated[
    Path | None,
    typer.Option("--publish", metavar="DIR", help="Also keep it in this folder, for walltime query --from DIR."),
]


def predict_phases(folder: Folder, platform: Platform, publish: Publish = None, json: Json = False) -> None:
    """Predict the runtime on another machine, with intervals, the time spent measuring, and two controls."""
    from flows.pages.terminal.json_out import print_json
    from flows.services.phases.phase_steps import predict

    result = predict(folder, platform, publish)
    if json:
        print_json(result.facts | {"notes": result.notes})
        return
    from flows.pages.terminal.render_phases import print_prediction

    print_prediction(result.facts, result.notes)
