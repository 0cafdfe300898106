"""`walltime compare`: two versions beside one another, and their errors on the jobs that came later."""

from typing import Annotated

import typer

from flows.cli.options import Folder, Json

First = Annotated[str, typer.Argument(metavar="A", help="A version, as in `walltime versions`.")]
Second = Annotated[str, typer.Argument(metavar="B", help="The version to compare it with.")]
Replay = Annotated[
    bool, typer.Option("--replay", help="Also replay the later jobs with the estimates of each, under EASY-SJBF.")
]
Procs = Annotated[
    int | None,
    typer.Option("--procs", min=1, help="Processors of the machine; default: site.max_procs, else the header's."),
]


def compare(
    folder: Folder, first: First, second: Second, replay: Replay = False, procs: Procs = None, json: Json = False
) -> None:
    """Compare the groups and fits of two versions, and score both on the same jobs, which came after both.

    The later jobs are those of the version on disk whose log ends last, so a night later there are more. --replay adds
    the slowdown that these jobs would have had with the estimates of each version.
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_versions import print_comparison
    from flows.services.versions.comparing import Replays, compare_versions
    from pipeline.core.errors import InputError
    from pipeline.evaluate.replay.shakes import Shakes

    if procs is not None and not replay:
        raise InputError("--procs", "no --replay beside it", "both", "the processors are those of the replay")
    found = compare_versions(folder, first, second, Replays(procs, Shakes()) if replay else None)
    print_json(found) if json else print_comparison(found)
