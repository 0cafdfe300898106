"""`walltime phase-times`: the times of planned occurrences on another machine."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

Folder = Annotated[Path, typer.Argument(metavar="DIR", readable=False, help="The folder that walltime phases wrote.")]
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


def phase_times(folder: Folder, source: Source, platform: Platform, json: Json = False) -> None:
    """Take the times of the planned occurrences from a run on another machine."""
    from flows.pages.terminal.json_out import print_json
    from flows.services.phases.phase_steps import time_platform

    result = time_platform(folder, source, platform)
    if json:
        print_json(result.facts | {"times": result.rows, "notes": result.notes})
        return
    from flows.pages.terminal.render_phases import print_times

    print_times(result.facts, result.rows, result.notes)
