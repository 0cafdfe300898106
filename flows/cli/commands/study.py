"""`walltime backtest` and `replay`: errors of estimates on a log's past, and what other policies would have done."""

from pathlib import Path
from typing import Any, Literal

import typer

from flows.cli.options import MAX_PROCS, OUT_FILE, PAGE_FILE, SEED_MEANS, argument, check_mode, option
from flows.pages.terminal.activity import showing_stages
from flows.pages.terminal.blocks import Answer
from flows.services.quantities import words
from pipeline.errors import InputError, printable

LAST_DAYS = 30.0
"""Days of a config's log that are scored, its newest."""


def backtest(
    ctx: typer.Context,
    given: Path = argument("CONFIG", "A TOML file, as for walltime run."),
    log: list[str] | None = option(
        "--log PATH", "A log or a table of jobs instead of the config's; each is scored by itself; repeatable."
    ),
    methods: str | None = option("--methods A,B", "Methods to score; default: all."),
    by: Literal["month", "size"] | None = option("--by", "Also list the errors by month of submit, or by processors."),
    out: Path | None = OUT_FILE,
    report: Path | None = PAGE_FILE,
    errors: Path | None = option(
        "--errors FILE", "Write each scored job's estimates by each method beside its runtime: .csv or .parquet."
    ),
    check_leaks: bool = option("--check-leaks", "First check that no method uses what was not yet known.", False),
    staleness: str | None = option(
        "--staleness AGE,...",
        "Estimate from what was known at the last midnight (UTC) that is at least this long before the submit, "
        "as in 0,1d,7d; live: from all that was known at the submit. Default: live.",
    ),
    compare_cleaning: bool = option(
        "--compare-cleaning", "Also score estimates that do not learn from the jobs that cleaning sets aside.", False
    ),
    predictions: bool = option(
        "--predictions",
        "Score published predictions instead, on jobs 1, 7 and 30 days later; with --log and --json only.",
        False,
    ),
) -> Answer:
    """Replay logs in order of submit, and score each method's estimates from the jobs that had ended by then.

    \b
    Examples:
      walltime backtest my-site.toml --by month --report page.html --out figures.parquet
      walltime backtest my-site.toml --methods walltime,last_two --staleness live,1d
    """
    check_mode(ctx, "--predictions", is_on=predictions, own=(), shared=("--log",))
    from flows.pages.answers.backtest import backtest_blocks, view_later
    from flows.services.backtesting import backtest_tasks, run_backtest, score_predictions, scores_as_dicts

    _check_paths(out, errors, report)
    tasks = backtest_tasks(
        given, log or [], words(methods), check_leaks=check_leaks, staleness=words(staleness),
        compare_cleaning=compare_cleaning, lists_errors=errors is not None,
    )  # fmt: skip
    if predictions:
        scored = [{"log": task.log, "rows": scores_as_dicts(score_predictions(task))} for task in tasks]
        return Answer({"logs": scored}, view_later(scored))
    with showing_stages(sum(task.n_stages for task in tasks)):
        found = [run_backtest(task) for task in tasks]
    written = _write(found, out, errors, report)
    facts = [{"log": one.log, "best": one.ranked[0]["estimator"], "report": one.report, "cpu_s": one.cpu_s,
              "rows": one.table} for one in found]  # fmt: skip
    return Answer({"logs": facts, "written": written}, backtest_blocks(found, by, written, checks_leaks=check_leaks))


def _check_paths(out: Path | None, errors: Path | None, report: Path | None) -> None:
    from flows.services.files.table_files import check_suffix

    for name, path in (("--out", out), ("--errors", errors)):
        if path is not None:
            check_suffix(path, name)
    if errors is not None and errors == out:
        raise InputError(f"--errors {printable(str(errors))}", "the path of the figures", "a path of its own")
    if report is not None and (report.is_dir() or report in (out, errors)):
        found = "a folder" if report.is_dir() else "the path of the figures"
        raise InputError(f"--report {printable(str(report))}", found, "a path of its own, as in page.html")


def _write(found: list[Any], out: Path | None, errors: Path | None, report: Path | None) -> dict[str, Path]:
    from flows.services.backtesting import joined_tables
    from flows.services.files.table_files import write_any, write_any_batches, write_page
    from pipeline.tables import BACKTEST, BACKTEST_ERRORS

    written: dict[str, Path] = {}
    if out is not None:
        written["figures"] = write_any(out, joined_tables(found), BACKTEST)
    if errors is not None:
        parts = (BACKTEST_ERRORS.check(part) for one in found for part in one.errors)
        written["errors"] = write_any_batches(errors, parts, BACKTEST_ERRORS)
    if report is not None:
        from flows.pages.answers.backtest import backtest_page

        written["page"] = write_page(report, backtest_page(found))
    return written


def replay(
    given: list[Path] = argument("CONFIG|LOG...", "A TOML file, as for walltime run, or logs, each by itself."),
    policy: str = option(
        "--policy A,B", "fcfs, easy, easy-sjbf, conservative, each compared with EASY with requests.", "easy,easy-sjbf"
    ),
    estimates: str = option(
        "--estimates A,B",
        "What is planned with: soft (limits by the quantiles soft-10, soft-50 and soft-80, raised by the guard), order "
        "(requests, tried by our median), control (soft limits by a tenth of the request), perfect, request, last2.",
        "soft,order,control,perfect",
    ),
    convention: Literal["natural", "pyss"] = option(
        "--convention", "natural: runtimes end at the request; pyss: as that simulator, also its score.", "natural"
    ),
    shakes: int = option(
        "--shakes", "Replays with shaken arrivals; 0: one of the log as it is.", 20, min=0, max=10_000
    ),
    jitter: float = option("--jitter MIN", "Largest shift of a submit.", 10.0, min=0, max=1e5),
    seed: int = option("--seed", SEED_MEANS, 1, min=0),
    max_procs: int | None = MAX_PROCS,
    days: float | None = option(
        "--days", "Score the jobs of this many last days; default: 30 for a config, all for a log; 0: all.", min=0
    ),
    whole_nodes: bool = option(
        "--whole-nodes", "Jobs have nodes of site.procs_per_node processors to themselves.", False
    ),
    out: Path | None = option("--out DIR", "Also write replay.parquet and replay.html there."),
) -> Answer:
    """Replay logs under other policies and estimates: what the jobs would have gained, and who would have lost.

    \b
    Examples:
      walltime replay my-site.toml --out replayed
      walltime replay log.swf.gz --policy easy --estimates soft --shakes 0
    """
    from flows.pages.answers.replay import replay_blocks, replay_facts, replay_page
    from flows.services.files.table_files import write_with_page
    from flows.services.replaying import chosen_cases, replay_task, run_replay, with_distinct_names
    from pipeline.schedule.workload import Convention, Shakes
    from pipeline.tables import REPLAY

    how: dict[str, Any] = {
        "cases": chosen_cases(policy, estimates),
        "shakes": Shakes(shakes, seed, round(60 * jitter)),
        "convention": Convention(convention),
        "capacity": max_procs,
        "whole_nodes": whole_nodes,
    }
    tasks = with_distinct_names([replay_task(one, days=_days(one, days), **how) for one in dict.fromkeys(given)])
    with showing_stages(sum(task.n_stages for task in tasks)):
        found = [run_replay(task) for task in tasks]
    written = {}
    if out is not None:
        paths = write_with_page(out, [one.table for one in found], REPLAY, replay_page(found))
        written = dict(zip(("table", "page"), paths, strict=True))
    return Answer(replay_facts(found, written), replay_blocks(found, written))


def _days(given: Path, days: float | None) -> float | None:
    usual = LAST_DAYS if given.suffix == ".toml" else None
    return usual if days is None else days or None
