"""`walltime learn`: a model of the runtime over the inputs of runs."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows.cli.options import Json

Runs = Annotated[
    Path, typer.Argument(metavar="RUNS.csv", readable=False, help="One row a run: its inputs and its runtime.")
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the model; made where it is missing.")]
Target = Annotated[str, typer.Option("--target", metavar="COLUMN", help="Column of runtimes, s.")]
Inputs = Annotated[
    str | None,
    typer.Option(
        "--inputs", metavar="A,B", help="Columns that are inputs; default: every column without another role."
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="NAME=TYPE",
        help="Type of an input: number, log_number, category or boolean; default: inferred from values; repeatable.",
    ),
]
Derive = Annotated[
    list[str] | None,
    typer.Option(
        "--derive",
        metavar="FORMULA",
        help="A further input computed from others, as in P*Q or local=N/P, of + - * / log2 ceil min max; repeatable.",
    ),
]
Procs = Annotated[
    str | None,
    typer.Option(
        "--procs", metavar="COLUMN", help="Column of processors, or their formula, as in P*Q; for costs of runs."
    ),
]
Batch = Annotated[
    str | None,
    typer.Option("--batch", metavar="COLUMN", help="Column that says which runs were made together; folds follow it."),
]
Time = Annotated[
    str | None,
    typer.Option("--time", metavar="COLUMN", help="Column of times, as numbers; folds follow it without a batch."),
]
Censored = Annotated[
    str | None,
    typer.Option("--censored", metavar="COLUMN", help="Column that is true where a run was stopped before its end."),
]
Method = Annotated[
    Literal["auto", "gp", "trees", "network", "laws", "nearest"],
    typer.Option("--method", help="How to learn; auto: Gaussian processes up to 2,000 runs, boosted trees above."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of random folds and of methods that draw numbers.")]
Page = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="PAGE.html", help="Also draw errors, effects of inputs and the learning curve on one page."
    ),
]


def learn(
    runs: Runs,
    out: Out,
    target: Target = "time_s",
    inputs: Inputs = None,
    types: Types = None,
    derive: Derive = None,
    procs: Procs = None,
    batch: Batch = None,
    time: Time = None,
    censored: Censored = None,
    method: Method = "auto",
    seed: Seed = 0,
    report: Page = None,
    json: Json = False,
) -> None:
    """Learn the runtime as a function of the inputs of runs, and write the model.

    The error is that of runs which the model had not seen. Name a batch or a time where runs came in batches: random
    folds promise too much there. `walltime ask` predicts, `walltime suggest` names the next runs to make.
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_inputs import print_model
    from flows.services.files.table_files import write_page
    from flows.services.inputs.declared_inputs import InputOptions
    from flows.services.inputs.learnt_model import learn_from_csv
    from flows.services.inputs.model_folder import model_summary, write_model
    from pipeline.core.input_settings import InputSettings

    options = InputOptions(target, inputs, types or (), derive or (), procs, batch, time, censored)
    learnt = learn_from_csv(runs, options, InputSettings(method=method, seed=seed))
    page = _page(runs.stem, learnt) if report else None
    written = write_model(learnt.model, learnt.runs, out)
    written += [write_page(report, page)] if report and page else []
    summary = model_summary(learnt.model, written)
    print_json(summary) if json else print_model(summary)


def _page(title: str, learnt: Any) -> str:
    from flows.pages.html.inputs_page import inputs_page
    from flows.services.inputs.model_folder import model_summary
    from flows.services.inputs.model_study import study_model

    return inputs_page(title, model_summary(learnt.model), study_model(learnt))
