"""`walltime phases`: the repeating phases of a run, from its MPI trace or its basic-block vectors."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

Given = Annotated[
    Path,
    typer.Argument(metavar="TRACE|BB", readable=False, help="An MPI trace (CSV, OTF2) or basic-block vectors (.bb)."),
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder for the tables, one per trace.")]
Application = Annotated[
    str | None, typer.Option("--application", metavar="NAME", help="The application, for walltime query --platform.")
]
Literal = Annotated[
    bool, typer.Option("--literal", help="Follow the words of the PAS2P paper, without the changes of Walltime.")
]
Report = Annotated[
    Path | None, typer.Option("--report", metavar="PAGE.html", help="Also draw the phases by rank over time.")
]
Times = Annotated[
    Path | None,
    typer.Option("--times", metavar="CSV", help="Measured times of the vectors' intervals: interval (from 0), time_s."),
]


def phases(
    given: Given,
    out: Out,
    application: Application = None,
    times: Times = None,
    literal: Literal = False,
    report: Report = None,
    json: Json = False,
) -> None:
    """Find the phases that a run repeats: the first step of a prediction for another machine."""
    from flows.pages.terminal.json_out import print_json
    from flows.services.phases.phase_steps import find

    result = find(given, out, literal=literal, application=application, times=times)
    if report:
        from flows.pages.html.phases_page import phases_page
        from flows.services.files.table_files import write_page
        from flows.services.phases.phase_folder import open_folder
        from pipeline.core.phase_tables import PHASE_POINTS, PHASES

        folder = open_folder(out)
        write_page(report, phases_page(folder.read(PHASES), folder.read(PHASE_POINTS), result.facts["status"]))
    if json:
        print_json(result.facts | {"phases": result.rows, "notes": result.notes})
        return
    from flows.pages.terminal.render_phases import print_phases

    print_phases(result.facts, result.rows, result.notes)
