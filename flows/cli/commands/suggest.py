"""`walltime suggest`: the next runs to make."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.options import Json

Model = Annotated[Path, typer.Argument(metavar="DIR", readable=False, help="The folder that walltime learn wrote.")]
Candidates = Annotated[
    Path | None,
    typer.Option(
        "--candidates",
        metavar="FILE.csv",
        readable=False,
        help="Runs that can be made, one a row; default: new combinations of the inputs' values, 2,000 at most.",
    ),
]
Budget = Annotated[float | None, typer.Option("--budget", help="What the runs may cost together, in --unit.")]
Runs = Annotated[int | None, typer.Option("--runs", min=1, help="How many runs at most; default 20 without a budget.")]
Unit = Annotated[
    Literal["runs", "seconds", "proc-seconds"],
    typer.Option("--unit", help="What a run costs; proc-seconds need that learn was given --procs."),
]
Rule = Annotated[
    Literal["alc", "members", "random"],
    typer.Option("--rule", help="alc: most gain for its cost; members: where members of the model differ; random."),
]


def suggest(
    folder: Model,
    candidates: Candidates = None,
    budget: Budget = None,
    runs: Runs = None,
    unit: Unit = "proc-seconds",
    rule: Rule = "alc",
    json: Json = False,
) -> None:
    """Name the runs to make next, best first, as far as a budget goes.

    Not every combination of values can be run on every code: then give --candidates. Costs are predicted.
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_inputs import print_suggestions
    from flows.services.inputs.model_folder import read_model
    from flows.services.inputs.suggested_runs import suggested_runs
    from pipeline.inputs import Cost, CostUnit, SuggestRule

    most = 20 if runs is None and budget is None else runs
    found = suggested_runs(
        read_model(folder), folder, candidates, Cost(CostUnit(unit), budget, most), SuggestRule(rule)
    )
    print_json(found) if json else print_suggestions(found)
