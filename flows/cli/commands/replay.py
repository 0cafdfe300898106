"""`walltime replay`: what other policies, estimates and processor counts would have done to a log's jobs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.cli.options import Json, MaxProcs, Seed, check_mode

if TYPE_CHECKING:
    from pipeline.schedule.moldable import StudySettings

Given = Annotated[
    list[Path],
    typer.Argument(
        metavar="CONFIG|LOG...", readable=False, help="A TOML file, as for walltime run, or logs, each by itself."
    ),
]
Policies = Annotated[
    str,
    typer.Option(
        "--policy", metavar="A,B", help="fcfs, easy, easy-sjbf, conservative, each compared with EASY with requests."
    ),
]
Estimates = Annotated[
    str,
    typer.Option(
        "--estimates",
        metavar="A,B",
        help="What is planned with: walltime, table, request, perfect, last2, cesnet, or control (a tenth of the "
        "request).",
    ),
]
Convention = Annotated[
    Literal["natural", "pyss"],
    typer.Option("--convention", help="natural: runtimes end at the request; pyss: as that simulator, also its score."),
]
Correction = Annotated[
    Literal["request", "increments", "doubling"] | None,
    typer.Option("--correction", help="What a passed prediction becomes; default: the request, for EASY++ increments."),
]
Guard = Annotated[
    bool | None,
    typer.Option(
        "--guard/--no-guard",
        help="Plan with requests once the first waiting job is past its first promised start; default: except EASY++.",
    ),
]
Shakes = Annotated[
    int, typer.Option("--shakes", min=0, max=10_000, help="Replays with shaken arrivals; 0: one of the log as it is.")
]
Jitter = Annotated[float, typer.Option("--jitter", min=0, max=1e5, metavar="MIN", help="Largest shift of a submit.")]
Days = Annotated[
    float | None,
    typer.Option(
        "--days", min=0, help="Score the jobs of this many last days; default: 30 for a config, all for a log; 0: all."
    ),
]
Nodes = Annotated[
    bool, typer.Option("--whole-nodes", help="Jobs have nodes of site.procs_per_node processors to themselves.")
]
Series = Annotated[
    Path | None,
    typer.Option(
        "--series",
        metavar="FILE.csv",
        help="Instead: jobs that may start on several processor counts, which the scheduler chooses. Every group of "
        "similar jobs follows a drawn one of these measured series (procs, runtime_s, application ...).",
    ),
]
Laws = Annotated[
    Path | None,
    typer.Option(
        "--laws", metavar="TRUTH.json", help="The same with the laws of a simulated log, as its truth file has them."
    ),
]
Shares = Annotated[
    str, typer.Option("--share", metavar="0,20,50,100", help="With --series or --laws: shares of moldable jobs, %.")
]
Seeds = Annotated[
    int, typer.Option("--seeds", min=1, max=1000, help="With --series or --laws: replays of each share and chooser.")
]
Reach = Annotated[
    int,
    typer.Option(
        "--reach", min=0, max=10, help="With --series or --laws: doublings up and down from the user's own count."
    ),
]
Quantile = Annotated[
    Literal["median", "hi80", "hi95"],
    typer.Option(
        "--quantile",
        help="With --series or --laws: what fitted curves are judged by, the median or the upper end of an interval.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Also write replay.parquet and replay.html there, or moldable.parquet and .md."
    ),
]

LAST_DAYS = 30.0
"""Days of a config's log that are scored, its newest."""

MOLDABLE_OPTIONS = ("--series", "--laws", "--share", "--seeds", "--reach", "--quantile")


def replay(
    ctx: typer.Context,
    given: Given,
    policy: Policies = "easy-sjbf",
    estimates: Estimates = "request,last2,cesnet,table,walltime,control,perfect",
    convention: Convention = "natural",
    correction: Correction = None,
    guard: Guard = None,
    shakes: Shakes = 20,
    jitter: Jitter = 10.0,
    seed: Seed = 1,
    max_procs: MaxProcs = None,
    days: Days = None,
    whole_nodes: Nodes = False,
    series: Series = None,
    laws: Laws = None,
    share: Shares = "0,20,50,100",
    seeds: Seeds = 10,
    reach: Reach = 2,
    quantile: Quantile = "hi80",
    out: Out = None,
    json: Json = False,
) -> None:
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
        _replay_moldable(given, series, laws, how, max_procs, out, as_json=json)
        return
    from flows.services.replaying import chosen_cases
    from pipeline.schedule.workload import Convention as Conventions
    from pipeline.schedule.workload import Shakes as ShakeSettings

    _replay(given, days, out, as_json=json, **{
        "cases": chosen_cases(policy, estimates, correction, guard),
        "shakes": ShakeSettings(shakes, seed, round(60 * jitter)),
        "convention": Conventions(convention),
        "capacity": max_procs,
        "whole_nodes": whole_nodes,
    })  # fmt: skip


def _replay(given: list[Path], days: float | None, out: Path | None, *, as_json: bool, **how: Any) -> None:
    from flows.pages.terminal.activity import showing_stages
    from flows.pages.terminal.render_replay import print_replay, print_replay_json
    from flows.services.files.table_files import write_with_page
    from flows.services.replaying import replay_task, run_replay, with_distinct_names
    from pipeline.tables import REPLAY

    tasks = with_distinct_names([replay_task(one, days=_days(one, days), **how) for one in dict.fromkeys(given)])
    with showing_stages(sum(task.n_stages for task in tasks)):
        found = [run_replay(task) for task in tasks]
    written = {}
    if out is not None:
        from flows.pages.html.replay_page import replay_page

        paths = write_with_page(out, [one.table for one in found], REPLAY, replay_page(found), ".html")
        written = dict(zip(("table", "page"), paths, strict=True))
    print_replay_json(found, written) if as_json else print_replay(found, written)


def _days(given: Path, days: float | None) -> float | None:
    usual = LAST_DAYS if given.suffix == ".toml" else None
    return usual if days is None else days or None


def _replay_moldable(
    given: list[Path],
    series: Path | None,
    laws: Path | None,
    how: "StudySettings",
    max_procs: int | None,
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render import print_written
    from flows.pages.terminal.render_replay import moldable_page, print_moldable
    from flows.services.files.table_files import write_with_page
    from flows.services.replaying import read_moldable_log, study, true_curves
    from pipeline.errors import InputError
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
        written = dict(zip((MOLDABLE.name, "page"), map(str, paths), strict=True))
    if as_json:
        print_json({"log": log.name, "curves": curves.name, "summary": rows, "assumptions": said, "tables": written})
        return
    print_moldable(log.name, rows, said)
    print_written(written)
