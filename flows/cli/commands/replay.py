"""`walltime replay`: what other policies and estimates would have done to the waits of a log's jobs."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows.cli.options import Json

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
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the shakes; the same seed gives the same figures.")]
Procs = Annotated[
    int | None,
    typer.Option("--procs", min=1, help="Processors of the machine; default: site.max_procs, else the header's."),
]
Days = Annotated[
    float | None,
    typer.Option(
        "--days", min=0, help="Score the jobs of this many last days; default: 30 for a config, all for a log; 0: all."
    ),
]
Nodes = Annotated[
    bool, typer.Option("--whole-nodes", help="Jobs have nodes of site.procs_per_node processors to themselves.")
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Also write replay.parquet and replay.html there.")
]

LAST_DAYS = 30.0


def replay(
    given: Given,
    policy: Policies = "easy-sjbf",
    estimates: Estimates = "request,last2,cesnet,table,walltime,control,perfect",
    convention: Convention = "natural",
    correction: Correction = None,
    guard: Guard = None,
    shakes: Shakes = 20,
    jitter: Jitter = 10.0,
    seed: Seed = 1,
    procs: Procs = None,
    days: Days = None,
    whole_nodes: Nodes = False,
    out: Out = None,
    json: Json = False,
) -> None:
    """Replay logs under other policies and estimates: what the jobs would have gained, and who would have lost."""
    from flows.pages.terminal.render_replay import print_replay, print_replay_json
    from flows.pages.terminal.render_run import showing_progress
    from flows.services.progress import listening
    from flows.services.replay.replaying import chosen_cases, replay_task, run_replay, with_distinct_names
    from pipeline.evaluate.replay import Convention as Conventions
    from pipeline.evaluate.replay.shakes import Shakes as ShakeSettings

    how: dict[str, Any] = {
        "cases": chosen_cases(policy, estimates, correction, guard),
        "shakes": ShakeSettings(shakes, seed, round(60 * jitter)),
        "convention": Conventions(convention),
        "capacity": procs,
        "whole_nodes": whole_nodes,
    }
    given = list(dict.fromkeys(given))
    tasks = with_distinct_names([replay_task(one, days=_days(one, days), **how) for one in given])
    with showing_progress(sum(task.n_stages for task in tasks)) as listener, listening(listener):
        found = [run_replay(task) for task in tasks]
    written = _write(found, out) if out is not None else {}
    print_replay_json(found, written) if json else print_replay(found, written)


def _days(given: Path, days: float | None) -> float | None:
    usual = LAST_DAYS if given.suffix == ".toml" else None
    return usual if days is None else days or None


def _write(found: list[Any], out: Path) -> dict[str, Path]:
    from flows.pages.html.replay_page import replay_page
    from flows.services.files.os_errors import naming_path
    from flows.services.files.table_files import write_any, write_page
    from flows.services.replay.replaying import joined
    from pipeline.core.tables import REPLAY

    with naming_path(out):
        out.mkdir(parents=True, exist_ok=True)
    table = write_any(out / "replay.parquet", joined(found), REPLAY)
    return {"table": table, "page": write_page(out / "replay.html", replay_page(found))}
