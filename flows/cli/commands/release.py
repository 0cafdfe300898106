"""`walltime release`: end the hold of a version."""

from typing import Annotated

import typer

from flows.cli.options import Folder, Json

Version = Annotated[
    str, typer.Argument(metavar="VERSION", help="A version: its name, its run id, or the start of its folder's name.")
]


def release(folder: Folder, version: Version, json: Json = False) -> None:
    """End the hold of a version; the settings under [publish] then say how long it stays."""
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render import console, say
    from pipeline.publish.version_store import release as end_hold

    found = end_hold(folder, version)
    if json:
        print_json({"released": found.folder, "name": found.name})
    else:
        console().print(f"Version {say(found.folder)} is no longer on hold.", soft_wrap=True)
