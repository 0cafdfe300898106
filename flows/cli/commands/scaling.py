"""`walltime scaling`: laws fitted to measured runtimes, errors of the predictors, and processor counts to request."""

from pathlib import Path
from typing import Literal

from flows.cli import options as shared
from flows.cli.options import argument, option
from flows.pages.terminal.blocks import Answer, wrote
from flows.services.quantities import as_of_seconds, processor_counts


def fit_series(
    file: Path = argument(
        "FILE.csv", "Columns procs (or gpus, nodes), runtime_s; optionally application, problem_size, series, energy_j."
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
        "Find odd sizes and leave them out of the fits; find steps and favoured processor counts.",
        True,
    ),
    out: Path | None = option(
        "--out PATH",
        "Write the fits (.parquet or .csv), and beside them <out>.observations, .patterns, .scalability, "
        ".predictions, .across.",
    ),
    report: Path | None = shared.PAGE_FILE,
) -> Answer:
    """Fit the default laws to measured runtimes, and predict other processor counts.

    Rows with the same procs are repeated runs. Rows that differ in application, problem_size or series
    belong to different series. A column gpus or nodes instead of procs, or a column unit, says what runs are over.

    \b
    Examples:
      walltime scaling fit runs.csv --predict 64,128
      walltime scaling fit runs.csv --report runs.html --procs-per-node 24 --rate 0.02
    """
    from flows.pages.answers.scaling import series_blocks, series_page, weak_blocks
    from flows.services.files.table_files import check_suffix, write_page
    from flows.services.series_files import read_series, with_fitted, write_series
    from pipeline.scaling.advice import CostSettings
    from pipeline.scaling.fitted_series import (
        compiling_for_many,
        fit_and_predict,
        series_as_dicts,
        weak_series,
        with_answers,
        with_curves,
    )

    at = processor_counts(predict, "--predict")
    if out:
        check_suffix(out)
    observations = read_series(file)
    with compiling_for_many(observations.num_rows):
        tables = fit_and_predict(observations, at, max_procs, loss, is_screened=screen, procs_per_node=procs_per_node)
        series = with_answers(series_as_dicts(tables), tables, max_procs, CostSettings(procs_per_node, rate))
        weak, shown = weak_series(tables, at), with_fitted(series, tables, max_procs, procs_per_node)
        curves = with_curves(shown, tables) if report else []
    # The page comes first: if it cannot be written, no table is.
    if report:
        write_page(report, series_page(file.stem, curves, weak=weak))
    written = (write_series(out, tables) if out else {}) | ({"page": report} if report else {})
    blocks = (*series_blocks(shown, is_screened=screen, requested=at), *weak_blocks(weak), *wrote(written))
    return Answer({"series": series, "weak_scaling": weak, "tables": written}, blocks)


def evaluate_predictors(
    files: list[Path] = argument(
        "FILE.csv...", "Columns procs, runtime_s, optionally application, problem_size, series."
    ),
    predictor: list[str] | None = option("--predictor NAME", "Only this predictor; repeatable."),
    out: Path | None = shared.OUT_FILE,
) -> Answer:
    """Predict measured runtimes from 3 to 5 sizes of their series, with every law and with Walltime's predictors.

    ADEPT is left out, because its search takes longest: name it, as in --predictor adept --predictor walltime.

    The given sizes are first the smallest ones, then ones spread over the series. All other sizes are predicted.

    \b
    Examples:
      walltime scaling evaluate runs.csv
      walltime scaling evaluate a.csv b.csv --out errors.csv
    """
    from flows.pages.answers.scaling import view_errors
    from flows.services.files.table_files import check_suffix, write_any
    from flows.services.series_files import evaluate_files
    from pipeline.tables import SCALING_ERRORS

    if out:
        check_suffix(out)
    table, report = evaluate_files(files, predictor or ())
    written = {SCALING_ERRORS.name: write_any(out, table, SCALING_ERRORS)} if out else {}
    rows = table.to_pylist()
    facts = {"errors": rows, "report": report, "tables": written}
    return Answer(facts, (*view_errors(rows, report), *wrote(written)))


def advise_procs(
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
    from flows.pages.answers.scaling import view_advice
    from flows.services.published.advice import advised_groups, cost_of_run
    from pipeline.publish import reading

    texts = {
        "application": application, "user": user, "account": account, "user_group": user_group, "job_name": job_name,
        "queue": queue, "problem_size": problem_size, "group_id": group,
    }  # fmt: skip
    wanted = {name: text for name, text in texts.items() if text is not None}
    with reading(published, as_of_seconds(as_of)) as manifest:
        found = advised_groups(manifest, wanted, cost_of_run(manifest, procs_per_node, rate), key_file)
    return Answer(found, view_advice(found))
