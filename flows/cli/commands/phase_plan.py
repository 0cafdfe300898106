"""`walltime phase-plan`: which occurrences of the phases to time on another machine."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

Folder = Annotated[Path, typer.Argument(metavar="DIR", readable=False, help="The folder that walltime phases wrote.")]
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


def phase_plan(
    folder: Folder, budget: Budget = None, samples: Samples = None, warmup: Warmup = None, json: Json = False
) -> None:
    """Plan what to time: from which MPI call to which, per rank. The trace of the reference run alone decides."""
    from flows.pages.terminal.json_out import print_json
    from flows.services.phases.phase_steps import plan
    from flows.services.quantities import share
    from pipeline.core.errors import InputError

    if budget is not None and samples is not None:
        raise InputError("--samples", "--budget beside it", "one of the two")
    result = plan(folder, None if budget is None else share(budget, "--budget"), samples, warmup)
    if json:
        print_json(result.facts | {"plan": result.rows, "notes": result.notes})
        return
    from flows.pages.terminal.render_phases import print_plan

    print_plan(result.facts, result.rows, result.notes)
