"""`walltime inputs`: a model of the runtime over the inputs of runs, its predictions, and the next runs to make."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows.cli.options import Json, PageFile, Seed

REFUSED = 3
"""The exit code where the model can answer none of the points."""

Runs = Annotated[
    Path, typer.Argument(metavar="RUNS.csv", readable=False, help="One row a run: its inputs and its runtime.")
]
OutFolder = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the model; made where it is missing.")]
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
Model = Annotated[
    Path, typer.Argument(metavar="DIR", readable=False, help="The folder that walltime inputs learn wrote.")
]
At = Annotated[
    list[str] | None,
    typer.Option("--at", metavar="N=1000,NB=64", help="A value of every input, joined by commas; repeatable."),
]
Points = Annotated[
    Path | None,
    typer.Option("--points", metavar="FILE.csv", readable=False, help="One row a point, with a column for each input."),
]
OutAnswers = Annotated[
    Path | None, typer.Option("--out", metavar="PATH", help="Also write the answers, as .parquet or .csv.")
]
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
MostRuns = Annotated[
    int | None, typer.Option("--runs", min=1, help="How many runs at most; default 20 without a budget.")
]
Unit = Annotated[
    Literal["runs", "seconds", "proc-seconds"],
    typer.Option("--unit", help="What a run costs; proc-seconds need that learn was given --procs."),
]
Rule = Annotated[
    Literal["alc", "members", "random"],
    typer.Option("--rule", help="alc: most gain for its cost; members: where members of the model differ; random."),
]


def learn(
    runs: Runs,
    out: OutFolder,
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
    report: PageFile = None,
    json: Json = False,
) -> None:
    """Learn the runtime as a function of the inputs of runs, and write the model.

    The error is that of runs which the model had not seen. Name a batch or a time where runs came in batches: random
    folds promise too much there. `predict` answers with the model, `suggest` names the next runs to make.

    \b
    Examples:
      walltime inputs learn runs.csv --target time_s --derive "work=n*steps" --out model --report model.html
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_models import print_model
    from flows.services.files.table_files import write_page
    from flows.services.inputs.model_folder import InputOptions, learn_from_csv, model_summary, write_model
    from pipeline.inputs import LearnRules

    options = InputOptions(target, inputs, types or (), derive or (), procs, batch, time, censored)
    model, table = learn_from_csv(runs, options, LearnRules(method=method, seed=seed))
    page = _page(runs.stem, model, table) if report else None
    written = write_model(model, table, out)
    written += [write_page(report, page)] if report and page else []
    summary = model_summary(model, written)
    print_json(summary) if json else print_model(summary)


def _page(title: str, model: Any, runs: Any) -> str:
    from flows.pages.html.inputs_page import inputs_page
    from flows.services.inputs.model_folder import model_summary
    from pipeline.inputs.model_study import study_model

    return inputs_page(title, model_summary(model), study_model(model, runs))


def predict_points(
    folder: Model, at: At = None, points: Points = None, out: OutAnswers = None, json: Json = False
) -> None:
    """Predict runtimes at points, with intervals and the expected error.

    A point that the model cannot answer has no runtime; its status and its reason say why. Where it can answer none of
    the points, the exit code is 3.

    \b
    Examples:
      walltime inputs predict model --at n=1000,steps=64
      walltime inputs predict model --points points.csv --json
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_models import print_answers
    from flows.services.files.table_files import check_suffix, write_any
    from flows.services.inputs.given_runs import asked_points
    from flows.services.inputs.model_folder import answered_points, read_model
    from pipeline.inputs.input_model import ANSWERS

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


def suggest(
    folder: Model,
    candidates: Candidates = None,
    budget: Budget = None,
    runs: MostRuns = None,
    unit: Unit = "proc-seconds",
    rule: Rule = "alc",
    json: Json = False,
) -> None:
    """Name the runs to make next, best first, as far as a budget goes.

    Not every combination of values can be run on every code: then give --candidates. Costs are predicted.

    \b
    Examples:
      walltime inputs suggest model --budget 100000 --unit proc-seconds
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_models import print_suggestions
    from flows.services.inputs.model_folder import read_model, suggested_runs
    from pipeline.inputs import Cost, CostUnit, SuggestRule

    most = 20 if runs is None and budget is None else runs
    cost = Cost(CostUnit(unit), budget, most)
    found = suggested_runs(read_model(folder), folder, candidates, cost, SuggestRule(rule))
    print_json(found) if json else print_suggestions(found)
