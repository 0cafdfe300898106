"""`walltime hold`: keep a version on disk whatever its age."""

from typing import Annotated

import typer

from flows.cli.options import Folder, Json

Version = Annotated[
    str, typer.Argument(metavar="VERSION", help="A version: its name, its run id, or the start of its folder's name.")
]


def hold(folder: Folder, version: Version, json: Json = False) -> None:
    """Keep a version on disk whatever its age, until `walltime release`."""
    import time

    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render import console, say
    from pipeline.publish.version_store import hold as keep

    found = keep(folder, version, int(time.time()))
    if json:
        print_json({"held": found.folder, "name": found.name})
    else:
        console().print(f"Version {say(found.folder)} is on hold and stays on disk.", soft_wrap=True)
