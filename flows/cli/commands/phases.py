"""`walltime phases`: the phases that a run repeats, what of them to time elsewhere, and the run's time there."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json, PageFile

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
Times = Annotated[
    Path | None,
    typer.Option("--times", metavar="CSV", help="Measured times of the vectors' intervals: interval (from 0), time_s."),
]
Folder = Annotated[
    Path, typer.Argument(metavar="DIR", readable=False, help="The folder that walltime phases find wrote.")
]
Budget = Annotated[
    str | None,
    typer.Option("--budget", metavar="5%", help="Share of the run to spend, warm-up included. Default: 5%."),
]
Samples = Annotated[
    int | None,
    typer.Option("--samples", min=1, help="Instead: this many occurrences of each phase, or all where it has fewer."),
]
Warmup = Annotated[
    int | None, typer.Option("--warmup", min=0, max=1000, help="Occurrences before each timed one that warm up.")
]
Source = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE_B|TIMES.csv",
        readable=False,
        help="A trace from the other machine, whole or up to the plan's end, or a CSV: phase_id, occurrence, time_s, "
        "optionally is_warmup; for vectors also interval, time_s.",
    ),
]
Platform = Annotated[str, typer.Option("--platform", metavar="NAME", help="The other machine's name.")]
Publish = Annotated[
    Path | None,
    typer.Option("--publish", metavar="DIR", help="Also keep it in this folder, for walltime query --from DIR."),
]


def find_phases(
    given: Given,
    out: Out,
    application: Application = None,
    times: Times = None,
    literal: Literal = False,
    report: PageFile = None,
    json: Json = False,
) -> None:
    """Find the phases that a run repeats: the first step of a prediction for another machine.

    \b
    Examples:
      walltime phases find trace.csv --out found --application solver --report phases.html
    """
    from flows.pages.terminal.json_out import print_json
    from flows.services.phases.phase_steps import find

    result = find(given, out, literal=literal, application=application, times=times)
    if report:
        _draw(report, out, result.facts["status"])
    if json:
        print_json(result.facts | {"phases": result.rows, "notes": result.notes})
        return
    from flows.pages.terminal.render_models import print_phases

    print_phases(result.facts, result.rows, result.notes)


def _draw(report: Path, out: Path, status: str) -> None:
    from flows.pages.html.phases_page import phases_page
    from flows.services.files.table_files import write_page
    from flows.services.phases.phase_folder import open_folder
    from pipeline.phase_tables import PHASE_POINTS, PHASES

    folder = open_folder(out)
    write_page(report, phases_page(folder.read(PHASES), folder.read(PHASE_POINTS), status))


def plan_phases(
    folder: Folder, budget: Budget = None, samples: Samples = None, warmup: Warmup = None, json: Json = False
) -> None:
    """Plan what to time: from which MPI call to which, per rank. The trace of the reference run alone decides.

    \b
    Examples:
      walltime phases plan found --budget 5%
    """
    from flows.pages.terminal.json_out import print_json
    from flows.services.phases.phase_steps import plan
    from flows.services.quantities import share
    from pipeline.errors import InputError

    if budget is not None and samples is not None:
        raise InputError("--samples", "--budget beside it", "one of the two")
    result = plan(folder, None if budget is None else share(budget, "--budget"), samples, warmup)
    if json:
        print_json(result.facts | {"plan": result.rows, "notes": result.notes})
        return
    from flows.pages.terminal.render_models import print_plan

    print_plan(result.facts, result.rows, result.notes)


def time_phases(folder: Folder, source: Source, platform: Platform, json: Json = False) -> None:
    """Take the times of the planned occurrences from a run on another machine.

    \b
    Examples:
      walltime phases time found times.csv --platform north
    """
    from flows.pages.terminal.json_out import print_json
    from flows.services.phases.phase_steps import time_platform

    result = time_platform(folder, source, platform)
    if json:
        print_json(result.facts | {"times": result.rows, "notes": result.notes})
        return
    from flows.pages.terminal.render_models import print_times

    print_times(result.facts, result.rows, result.notes)


def predict_phases(folder: Folder, platform: Platform, publish: Publish = None, json: Json = False) -> None:
    """Predict the runtime on another machine, with intervals, the time spent measuring, and two controls.

    \b
    Examples:
      walltime phases predict found --platform north --publish my-tables
    """
    from flows.pages.terminal.json_out import print_json
    from flows.services.phases.phase_steps import predict

    result = predict(folder, platform, publish)
    if json:
        print_json(result.facts | {"notes": result.notes})
        return
    from flows.pages.terminal.render_models import print_prediction

    print_prediction(result.facts, result.notes)
