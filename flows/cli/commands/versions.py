"""`walltime versions`: the versions of the published tables that are on disk."""

import time
from typing import Annotated

import typer

from flows.cli.options import From, Json, MaxProcs

Version = Annotated[
    str, typer.Argument(metavar="VERSION", help="A version: its name, its run id, or the start of its folder's name.")
]
First = Annotated[str, typer.Argument(metavar="A", help="A version, as in `walltime versions list`.")]
Second = Annotated[str, typer.Argument(metavar="B", help="The version to compare it with.")]
Replay = Annotated[
    bool, typer.Option("--replay", help="Also replay the later jobs with the estimates of each, under EASY-SJBF.")
]


def list_versions(published: From, json: Json = False) -> None:
    """List the versions of the tables on disk, the published one first, then those published before it.

    \b
    Examples:
      walltime versions list
      walltime versions list --from my-tables --json
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_published import print_versions
    from flows.services.version_rows import version_rows

    rows = version_rows(published)
    print_json({"versions": rows}) if json else print_versions(rows)


def promote(version: Version, published: From, json: Json = False) -> None:
    """Publish a version that is on disk, as a rerun or an earlier night; its tables are checked first.

    \b
    Examples:
      walltime versions promote try-7
      walltime versions promote 2026-11-22T0310Z-0a1b2c3d --from my-tables
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_published import print_published
    from pipeline.publish.versions import promote as publish_version

    manifest = publish_version(published, version, int(time.time()))
    print_json({"published": manifest.folder, "name": manifest.name}) if json else print_published(manifest)


def rollback(published: From, json: Json = False) -> None:
    """Publish the version again that was published before, and withdraw the current one; once more goes further back.

    A withdrawn version stays on disk for some days, and --as-of passes over it. `promote` publishes it again.

    \b
    Examples:
      walltime versions rollback
      walltime versions rollback --from my-tables
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_published import print_published
    from pipeline.publish.versions import rollback as publish_previous

    manifest = publish_previous(published, int(time.time()))
    print_json({"published": manifest.folder, "name": manifest.name}) if json else print_published(manifest)


def pin(version: Version, published: From, json: Json = False) -> None:
    """Keep a version on disk whatever its age, until `unpin`.

    \b
    Examples:
      walltime versions pin try-7
      walltime versions pin 2026-11-22T0310Z-0a1b2c3d --from my-tables
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render import console, say
    from pipeline.publish.version_store import pin as keep

    found = keep(published, version, int(time.time()))
    if json:
        print_json({"pinned": found.folder, "name": found.name})
    else:
        console().print(f"Version {say(found.folder)} is pinned and stays on disk.", soft_wrap=True)


def unpin(version: Version, published: From, json: Json = False) -> None:
    """End the pin of a version; the settings under [publish] then say how long it stays.

    \b
    Examples:
      walltime versions unpin try-7
      walltime versions unpin 2026-11-22T0310Z-0a1b2c3d --from my-tables
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render import console, say
    from pipeline.publish.version_store import unpin as release

    found = release(published, version)
    if json:
        print_json({"unpinned": found.folder, "name": found.name})
    else:
        console().print(f"Version {say(found.folder)} is no longer pinned.", soft_wrap=True)


def compare(
    first: First,
    second: Second,
    published: From,
    replay: Replay = False,
    max_procs: MaxProcs = None,
    json: Json = False,
) -> None:
    """Compare the groups and fits of two versions, and score both on the same jobs, which came after both.

    The later jobs are those of the version on disk whose log ends last, so a night later there are more. --replay adds
    the slowdown that these jobs would have had with the estimates of each version.

    \b
    Examples:
      walltime versions compare try-7 try-8
      walltime versions compare try-7 try-8 --from my-tables --json
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_published import print_comparison
    from flows.services.comparing import Replays, compare_versions
    from pipeline.errors import InputError
    from pipeline.schedule.workload import Shakes

    if max_procs is not None and not replay:
        raise InputError("--max-procs", "no --replay beside it", "both", "the processors are those of the replay")
    found = compare_versions(published, first, second, Replays(max_procs, Shakes()) if replay else None)
    print_json(found) if json else print_comparison(found)
