"""`walltime replay`: what other policies, estimates and processor counts would have done to a log's jobs."""

from pathlib import Path
from typing import Any, Literal

import typer

from flows.cli.options import MAX_PROCS, SEED_MEANS, argument, check_mode, option
from flows.pages.terminal.activity import showing_stages
from flows.pages.terminal.blocks import Answer
from pipeline.errors import InputError

LAST_DAYS = 30.0
"""Days of a config's log that are scored, its newest."""

MOLDABLE_OPTIONS = ("--series", "--laws", "--share", "--seeds", "--reach", "--quantile")


def replay(
    ctx: typer.Context,
    given: list[Path] = argument("CONFIG|LOG...", "A TOML file, as for walltime run, or logs, each by itself."),
    policy: str = option(
        "--policy A,B", "fcfs, easy, easy-sjbf, conservative, each compared with EASY with requests.", "easy-sjbf"
    ),
    estimates: str = option(
        "--estimates A,B",
        "What is planned with: walltime, table, request, perfect, last2, cesnet, or control (a tenth of the request).",
        "request,last2,cesnet,table,walltime,control,perfect",
    ),
    convention: Literal["natural", "pyss"] = option(
        "--convention", "natural: runtimes end at the request; pyss: as that simulator, also its score.", "natural"
    ),
    correction: Literal["request", "increments", "doubling"] | None = option(
        "--correction", "What a passed prediction becomes; default: the request, for EASY++ increments."
    ),
    guard: bool | None = option(
        "--guard/--no-guard",
        "Plan with requests once the first waiting job is past its first promised start; default: except EASY++.",
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
    series: Path | None = option(
        "--series FILE.csv",
        "Instead: jobs that may start on several processor counts, which the scheduler chooses. Every group of "
        "similar jobs follows a drawn one of these measured series (procs, runtime_s, application ...).",
    ),
    laws: Path | None = option(
        "--laws TRUTH.json", "The same with the laws of a simulated log, as its truth file has them."
    ),
    share: str = option("--share 0,20,50,100", "With --series or --laws: shares of moldable jobs, %.", "0,20,50,100"),
    seeds: int = option("--seeds", "With --series or --laws: replays of each share and chooser.", 10, min=1, max=1000),
    reach: int = option(
        "--reach", "With --series or --laws: doublings up and down from the user's own count.", 2, min=0, max=10
    ),
    quantile: Literal["median", "hi80", "hi95"] = option(
        "--quantile",
        "With --series or --laws: what fitted curves are judged by, the median or the upper end of an interval.",
        "hi80",
    ),
    out: Path | None = option(
        "--out DIR", "Also write replay.parquet and replay.html there, or moldable.parquet and .md."
    ),
) -> Answer:
    """Replay logs under other policies and estimates: what the jobs would have gained, and who would have lost.

    With --series or --laws the scheduler chooses the processors of some jobs instead. It knows each job's runtimes on
    other counts by nothing (rigid), by a guess from Amdahl's law, by curves fitted to the log's earlier jobs, or truly.
    The true curves are assumed: name their source.

    \b
    Examples:
      walltime replay my-site.toml --out replayed
      walltime replay log.swf.gz --policy easy,easy-sjbf --estimates request,walltime --shakes 0
      walltime replay log.swf.gz --series runs.csv --seeds 3 --out moldable
    """
    is_moldable = series is not None or laws is not None
    named = "--laws" if laws is not None and series is None else "--series"
    check_mode(ctx, named, is_on=is_moldable, own=MOLDABLE_OPTIONS, shared=("--max-procs", "--out"))
    if is_moldable:
        from flows.services.replaying import shares as read_shares
        from pipeline.schedule.moldable import StudySettings

        how = StudySettings(read_shares(share), seeds, reach, quantile)
        return _replay_moldable(given, series, laws, how, max_procs, out)
    from flows.services.replaying import chosen_cases
    from pipeline.schedule.workload import Convention, Shakes

    return _replay(given, days, out, {
        "cases": chosen_cases(policy, estimates, correction, guard),
        "shakes": Shakes(shakes, seed, round(60 * jitter)),
        "convention": Convention(convention),
        "capacity": max_procs,
        "whole_nodes": whole_nodes,
    })  # fmt: skip


def _replay(given: list[Path], days: float | None, out: Path | None, how: dict[str, Any]) -> Answer:
    from flows.pages.terminal.view_replay import replay_facts, view_replay
    from flows.services.files.table_files import write_with_page
    from flows.services.replaying import replay_task, run_replay, with_distinct_names
    from pipeline.tables import REPLAY

    tasks = with_distinct_names([replay_task(one, days=_days(one, days), **how) for one in dict.fromkeys(given)])
    with showing_stages(sum(task.n_stages for task in tasks)):
        found = [run_replay(task) for task in tasks]
    written = {}
    if out is not None:
        from flows.pages.html.study_pages import replay_page

        paths = write_with_page(out, [one.table for one in found], REPLAY, replay_page(found), ".html")
        written = dict(zip(("table", "page"), paths, strict=True))
    return Answer(replay_facts(found, written), view_replay(found, written))


def _days(given: Path, days: float | None) -> float | None:
    usual = LAST_DAYS if given.suffix == ".toml" else None
    return usual if days is None else days or None


def _replay_moldable(
    given: list[Path], series: Path | None, laws: Path | None, how: Any, max_procs: int | None, out: Path | None
) -> Answer:
    from flows.pages.terminal.view_replay import moldable_page, view_moldable
    from flows.services.files.table_files import write_with_page
    from flows.services.replaying import read_moldable_log, study, true_curves
    from pipeline.schedule.figures import summary
    from pipeline.schedule.moldable import assumptions
    from pipeline.tables import MOLDABLE

    if len(given) != 1:
        raise InputError("the command line", f"{len(given)} logs", "one log, whose jobs are moldable")
    curves = true_curves(series, laws)
    log = read_moldable_log(given[0], max_procs)
    table = study(log, curves, how)
    rows, said = summary(table.to_pylist()), assumptions(log, curves, how)
    written = {}
    if out is not None:
        paths = write_with_page(out, [table], MOLDABLE, moldable_page(log.name, rows, said), ".md")
        written = dict(zip((MOLDABLE.name, "page"), paths, strict=True))
    facts = {"log": log.name, "curves": curves.name, "summary": rows, "assumptions": said, "tables": written}
    return Answer(facts, view_moldable(log.name, rows, said, written))
