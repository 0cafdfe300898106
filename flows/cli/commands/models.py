"""`walltime scaling`, `inputs` and `phases`: models of measured runs over processors, inputs and machines."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import typer

from flows.cli import options as shared
from flows.cli.options import argument, option
from flows.pages import blocks as show
from flows.pages.blocks import Answer, Block, Column, Exact, Grid, columns, number, significant, text
from flows.services.quantities import as_of_seconds, processor_counts, share
from pipeline.errors import InputError

if TYPE_CHECKING:
    from pipeline.report import Report

Row = Mapping[str, Any]

REFUSED = 3
"""The exit code if the model can predict none of the points."""

MODEL = argument("DIR", "The folder that walltime inputs learn wrote.")


def learn(
    runs: Path = argument("RUNS.csv", "One row per run: its inputs and its runtime."),
    out: Path = option("--out DIR", "Folder of the model; made where it is missing.", ...),
    target: str = option("--target COLUMN", "Column of runtimes, s.", "time_s"),
    inputs: str | None = option("--inputs A,B", "Columns that are inputs; default: every column without another role."),
    types: list[str] | None = option(
        "--type NAME=TYPE",
        "Type of an input: number, log_number, category or boolean; default: inferred from values; repeatable.",
    ),
    derive: list[str] | None = option(
        "--derive FORMULA",
        "A further input computed from others, as in P*Q or local=N/P, of + - * / log2 ceil min max; repeatable.",
    ),
    procs: str | None = option("--procs COLUMN", "Column or formula of processors, as in P*Q; for costs of runs."),
    batch: str | None = option("--batch COLUMN", "Column with the batch of each run; no batch is split between folds."),
    time: str | None = option("--time COLUMN", "Column of times, as numbers; splits the runs without a batch."),
    method: Literal["auto", "gp"] = option(
        "--method",
        "Kind of model; gp: Gaussian processes; auto: also boosted trees, if these lower the error.",
        "auto",
    ),
    seed: int = shared.SEED,
) -> Answer:
    """Learn the runtime as a function of the inputs of runs, and write the model.

    The error is measured on runs that the model has not seen. Name a batch or a time column if runs were made in
    batches: random folds then underestimate the error. `predict` uses the model, `suggest` recommends the next runs.

    \b
    Examples:
      walltime inputs learn runs.csv --target time_s --derive "work=n*steps" --out model
    """
    from flows.services.input_models import learn_from_csv
    from pipeline.inputs import LearnRules

    summary = learn_from_csv(
        runs, LearnRules(method=method, seed=seed), out, target=target, named=inputs, types=types or (),
        derived=derive or (), procs=procs, batch=batch, time=time,
    )  # fmt: skip
    return Answer(summary, view_model(summary))


def predict_points(
    folder: Path = MODEL,
    at: list[str] | None = option("--at N=1000,NB=64", "A value of every input, joined by commas; repeatable."),
    points: Path | None = option("--points FILE.csv", "One row per point, with a column for each input."),
    out: Path | None = option(
        "--out PATH", "Also write the predictions, as .parquet or .csv.", callback=shared.table_file
    ),
) -> Answer:
    """Predict the runtime for each set of inputs, with an interval and the expected error.

    A point that the model cannot predict has no runtime; its status and its reason say why. If the model can predict
    none of the points, the exit code is 3.

    \b
    Examples:
      walltime inputs predict model --at n=1000,steps=64
      walltime inputs predict model --points points.csv --json
    """
    from flows.services.files.table_files import write_any
    from flows.services.input_models import predicted_points
    from pipeline.inputs.answers import ANSWERS

    answers, rows = predicted_points(folder, at or (), points)
    if out:
        write_any(out, answers, ANSWERS)
    is_refused = bool(rows) and all(row["median_s"] is None for row in rows)
    # A line for each point, then the reasons of those that are not ok.
    shown = Grid(
        "Predicted runtimes", columns("input_answers", inputs=_inputs), rows,
        below=lambda row: f"{row['status']}, {row['reason']}." if row["reason"] else "",
    )  # fmt: skip
    return Answer({"answers": rows}, [shown], exit_code=REFUSED if is_refused else 0)


def suggest(
    folder: Path = MODEL,
    candidates: Path | None = option(
        "--candidates FILE.csv",
        "Possible runs, one per row; default: new combinations of the inputs' values, 2,000 at most.",
    ),
    budget: float | None = option("--budget", "What the runs may cost in total, in --unit."),
    runs: int | None = option("--runs", "How many runs at most; default 20 without a budget.", min=1),
    unit: Literal["runs", "seconds", "proc-seconds"] = option(
        "--unit", "The unit of cost; proc-seconds needs a model learnt with --procs.", "proc-seconds"
    ),
) -> Answer:
    """Recommend the next runs within a budget, best first.

    If not every combination of values can be run, give --candidates. Costs are predictions.

    \b
    Examples:
      walltime inputs suggest model --budget 100000 --unit proc-seconds
    """
    from flows.services.input_models import suggested_runs
    from pipeline.inputs import Cost, CostUnit

    cost = Cost(CostUnit(unit), budget, 20 if runs is None and budget is None else runs)
    found = suggested_runs(folder, candidates, cost)
    return Answer(found, view_suggestions(found))


FOLDS = {"batch": "whole batches held out", "time": "blocks of time held out", "random": "random runs held out"}


def _inputs(row: Row) -> str:
    values = {name: "unknown" if value is None else significant(value, 12) for name, value in row["inputs"].items()}
    return " ".join(f"{name}={value}" for name, value in values.items())


def view_model(found: Row) -> Iterator[Block]:
    """What was learnt, its error, and where it was written."""
    derived = ", ".join(one["formula"] for one in found["derived"])
    inputs = ", ".join(f"{one['name']} ({one['type']})" for one in found["inputs"])
    facts = {"method": found["method"], "runs": found["error"]["n_runs"], "inputs": inputs}
    facts |= {"derived inputs": derived} if derived else {}
    facts |= {f"set aside: {name}": n for name, n in found["set_aside"].items()}
    yield show.Facts(f"Model of {found['target']}", facts)
    error = found["error"]
    mean, median = (significant(error[f"{name}_pct"], 3) for name in ("mean", "median"))
    yield (
        f"Mean error {mean}% (median {median}%, folds differ by {significant(error['fold_sd_pct'], 2)}) with "
        f"{FOLDS[error['folds_by']]}; 80% intervals contained {error['share_in_80']:.1%} of the runs, 95% intervals "
        f"{error['share_in_95']:.1%}."
    )
    yield from found["notes"]
    yield from (Exact(f"Wrote {path}") for path in found["files"])


def view_suggestions(found: Row) -> Iterator[Block]:
    """The runs to make, best first, with what they cost and what they bring."""
    rows = found["runs"]
    if not found["n_candidates"]:
        yield (
            "Every combination of the values that the inputs had has run, so that there is none to suggest. New values "
            "may be candidates: list them in a file for --candidates."
        )
        return
    if not rows:
        yield f"No candidate of {found['n_candidates']:,} can be predicted within the budget."
        return
    shown = [
        replace(one, heading=f"cost, {found['unit']}") if one.heading == "cost" else one
        for one in columns("next_runs", inputs=_inputs)
    ]
    yield Grid(f"Next runs of {found['n_candidates']:,} candidates, best first", shown, rows)
    if rows[0]["error_before_pct"] is not None:
        yield (
            "The errors are those expected on average over all candidates, before and after each run. On runs held "
            f"out the model's error was {significant(found['error_pct'], 3)}%."
        )


FOLDER = argument("DIR", "The folder that walltime phases find wrote.")
PLATFORM = option("--platform NAME", "The other machine's name.", ...)


def find_phases(
    given: Path = argument("TRACE|BB", "An MPI trace (CSV, OTF2) or basic-block vectors (.bb)."),
    out: Path = option("--out DIR", "The folder for the tables, one per trace.", ...),
    application: str | None = option("--application NAME", "The application, for walltime query --platform."),
    times: Path | None = option("--times CSV", "Measured times of the vectors' intervals: interval (from 0), time_s."),
    report: Path | None = shared.PAGE_FILE,
) -> Answer:
    """Find the phases that a run repeats: the first step of a prediction for another machine.

    \b
    Examples:
      walltime phases find trace.csv --out found --application solver --report phases.html
    """
    from flows.pages.phases import phases_page, view_phases
    from flows.services.files.table_files import write_page
    from flows.services.phase_folder import find, phase_table
    from pipeline.tables import PHASE_POINTS, PHASES

    found = find(given, out, application=application, times=times)
    if report:
        write_page(report, phases_page(found, phase_table(out, PHASES), phase_table(out, PHASE_POINTS)))
    return Answer(found, view_phases(found))


def plan_phases(
    folder: Path = FOLDER,
    budget: str | None = option("--budget 5%", "Share of the run to spend, warm-up included. Default: 5%."),
    samples: int | None = option(
        "--samples", "Instead: this many occurrences of each phase, or all if it has fewer.", min=1
    ),
) -> Answer:
    """Plan what to time: from which MPI call to which, per rank. Only the trace of the reference run is used.

    \b
    Examples:
      walltime phases plan found --budget 5%
    """
    from flows.pages.phases import view_plan
    from flows.services.phase_folder import plan

    if budget is not None and samples is not None:
        raise InputError("--samples", "--budget beside it", "one of the two")
    found = plan(folder, None if budget is None else share(budget, "--budget"), samples)
    return Answer(found, view_plan(found))


def time_phases(
    folder: Path = FOLDER,
    source: Path = argument(
        "TRACE_B|TIMES.csv",
        "A trace from the other machine, whole or up to the plan's end, or a CSV: phase_id, occurrence, time_s, "
        "optionally is_warmup; for vectors also interval, time_s.",
    ),
    platform: str = PLATFORM,
) -> Answer:
    """Take the times of the planned occurrences from a run on another machine.

    \b
    Examples:
      walltime phases time found times.csv --platform north
    """
    from flows.pages.phases import view_times
    from flows.services.phase_folder import time_platform

    found = time_platform(folder, source, platform)
    return Answer(found, view_times(found))


def predict_phases(
    folder: Path = FOLDER,
    platform: str = PLATFORM,
) -> Answer:
    """Predict the runtime on another machine, with intervals, the time spent measuring, and two controls.

    \b
    Examples:
      walltime phases predict found --platform north
    """
    from flows.pages.phases import view_prediction
    from flows.services.phase_folder import predict

    found = predict(folder, platform)
    return Answer(found, view_prediction(found))


def fit_series(
    file: Path = argument(
        "FILE",
        "A table of runs, - for standard input: a count (procs, cores, gpus, nodes), a runtime (runtime_s, time_min, "
        "hh:mm:ss); optionally application, problem_size, series, energy_j.",
    ),
    predict: str | None = option("--predict 64,128", "Counts to predict: processors, or what the file counts."),
    max_procs: int | None = shared.MAX_PROCS,
    procs_per_node: int | None = shared.NODE,
    rate: float | None = shared.RATE,
    loss: Literal["log", "relative"] = option(
        "--loss", "What a fit minimises: relative errors (ADEPT's WSSRE), or errors of log runtime.", "relative"
    ),
    screen: bool = option(
        "--screen/--no-screen",
        "Find outlying processor counts and leave them out of the fits; find steps and preferred processor counts.",
        True,
    ),
    out: Path | None = option(
        "--out PATH",
        "Write the fits (.parquet or .csv), and beside them <out>.observations, .patterns, .scalability, "
        ".predictions, .across.",
        callback=shared.table_file,
    ),
    report: Path | None = shared.PAGE_FILE,
) -> Answer:
    """Fit the default laws to measured runtimes, and predict other processor counts.

    Rows with the same procs are repeated runs. Rows that differ in application, problem_size or series
    belong to different series. A column gpus or nodes instead of procs says what runs are over.

    \b
    Examples:
      walltime scaling fit runs.csv --predict 64,128
      walltime scaling fit runs.csv --report runs.html --procs-per-node 24 --rate 0.02
    """
    from flows.pages.scaling import series_blocks, series_page, weak_blocks
    from flows.services.files.table_files import write_page
    from flows.services.series_files import read_runs, write_series
    from pipeline.kernels import compiling_for_many
    from pipeline.scaling.advice import CostSettings
    from pipeline.scaling.fitted_series import fit_and_predict, series_as_dicts, with_answers, with_curves
    from pipeline.scaling.problem_sizes import weak_series

    at = processor_counts(predict, "--predict")
    observations, _, remarks = read_runs(file)
    if (rate or procs_per_node) and not {None, "procs"} & set(observations.column("axis").to_pylist()):
        remarks.append("--rate and --procs-per-node are of processors: they are not used here.")
    with compiling_for_many(observations.num_rows):
        tables = fit_and_predict(observations, at, max_procs, loss, is_screened=screen, procs_per_node=procs_per_node)
        series = with_answers(series_as_dicts(tables), tables, max_procs, CostSettings(procs_per_node, rate))
        weak, curves = weak_series(tables, at), with_curves(series, tables) if report else []
    # The page comes first: if it cannot be written, no table is.
    if report:
        write_page(report, series_page(file.stem, curves, weak=weak))
    written = (write_series(out, tables) if out else {}) | ({"page": report} if report else {})
    blocks = (
        *series_blocks(series, at),
        *weak_blocks(weak),
        *show.notes(remarks),
        *show.wrote(written),
    )
    facts = [{name: value for name, value in one.items() if name != "fitted"} for one in series]
    return Answer({"series": facts, "weak_scaling": weak, "notes": remarks, "tables": written}, blocks)


def evaluate_predictors(
    files: list[Path] = argument(
        "FILE.csv...", "Columns procs, runtime_s; optionally application, problem_size, series."
    ),
    predictor: list[str] | None = option("--predictor NAME", "Only this predictor; repeatable."),
    out: Path | None = shared.OUT_FILE,
) -> Answer:
    """Predict measured runtimes from 3 to 5 counts of their series, with every law and with Walltime's predictors.

    ADEPT is left out, because its search takes longest: name it, as in --predictor adept --predictor walltime.

    The given counts are first the smallest ones, then ones spread over the series. All other counts are predicted.

    \b
    Examples:
      walltime scaling evaluate runs.csv
      walltime scaling evaluate a.csv b.csv --out errors.csv
    """
    from flows.services.files.table_files import write_any
    from flows.services.series_files import evaluate_files
    from pipeline.tables import SCALING_ERRORS

    table, report = evaluate_files(files, predictor or ())
    written = {SCALING_ERRORS.name: write_any(out, table, SCALING_ERRORS)} if out else {}
    rows = table.to_pylist()
    facts = {"errors": rows, "report": report, "tables": written}
    return Answer(facts, (*view_errors(rows, report), *show.wrote(written)))


def advise_procs(
    ctx: typer.Context,
    published: Path = shared.FROM,
    application: str | None = shared.APPLICATION,
    user: str | None = shared.USER,
    account: str | None = shared.ACCOUNT,
    user_group: str | None = shared.USER_GROUP,
    job_name: str | None = shared.JOB_NAME,
    queue: str | None = shared.QUEUE,
    problem_size: str | None = shared.PROBLEM_SIZE,
    group: str | None = option("--group ID", "A group_id from table groups."),
    procs_per_node: int | None = shared.NODE,
    rate: float | None = shared.RATE,
    key_file: Path | None = shared.KEY_FILE,
    as_of: str | None = shared.AS_OF,
) -> Answer:
    """Recommend processor counts: the best trade-off, the cheapest and the fastest, with the cost of each.

    Each count is listed with its runtime and 80% interval, processor-hours and efficiency. Nodes and price are listed
    where the config or an option gives them, and energy where the log measured it. Without an application or another
    value the groups with most jobs are listed. Counts go up to twice the largest that ran.

    \b
    Examples:
      walltime scaling advise --from my-site-tables
      walltime scaling advise --application solver --user u17 --rate 0.02
    """
    from flows.services.published.advice import advised_groups, cost_of_run
    from pipeline.publish import read_version

    names = ("application", "user", "account", "user_group", "job_name", "queue", "problem_size")
    wanted = shared.given(ctx, names) | ({"group_id": group} if group is not None else {})
    manifest = read_version(published, as_of_seconds(as_of))
    found = advised_groups(manifest, wanted, cost_of_run(manifest, procs_per_node, rate), key_file)
    return Answer(found, view_advice(found))


def view_errors(rows: Sequence[Row], report: "Report") -> Iterator[Block]:
    """Median absolute errors; in brackets those of near targets, where larger sizes are predicted; last their mean."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        own = found.setdefault(row["predictor"], {"predictor": row["predictor"], "every": []})
        has_near = row["n_near"] and row["split"].endswith("smallest")
        errors = [row["median_abs_error_pct"], *([row["near_median_abs_error_pct"]] if has_near else [])]
        own[row["split"]] = " ".join([_pct(errors[0]), *(f"({_pct(near)})" for near in errors[1:])])
        own["every"] += errors
    for own in found.values():
        own["mean"] = None if None in own["every"] else fmean(own["every"])
    splits = dict.fromkeys(row["split"] for row in rows)
    shown = (text("predictor"), *(Column(split, split, show.plain) for split in splits), Column("mean", form=_pct))
    counts = f"{report.kept.rows} of {report.seen.rows} series"
    title = f"Median |predicted/measured - 1|, %; (up to 4 times the largest size given); {counts}"
    by_mean = sorted(found.values(), key=lambda one: float("inf") if one["mean"] is None else one["mean"])
    yield Grid(title, shown, by_mean)


def _pct(value: float | None) -> str:
    return show.fixed(value, 1) or "-"


def view_advice(found: Row) -> Iterator[Block]:
    """The recommendation of each group, then notes on the whole run."""
    from pipeline.schema import plural

    for group in found["groups"]:
        jobs, sizes = (f"{number(group[f'n_{what}s'])} {plural(what, group[f'n_{what}s'])}" for what in ("job", "size"))
        yield show.Lead(group["label"], f" ({jobs} at {sizes}; group {group['group_id']})")
        yield from (f"  {line}" for line in group["answer"] or ["No runtime is known at any processor count."])
    if (left := found["n_groups"] - len(found["groups"])) > 0:
        yield f"{left:,} more groups match; name more of their values, or --group ID."
    yield from found["notes"]
