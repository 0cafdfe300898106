"""`walltime promote`: publish a version that is on disk."""

from typing import Annotated

import typer

from flows.cli.options import Folder, Json

Version = Annotated[
    str, typer.Argument(metavar="VERSION", help="A version: its name, its run id, or the start of its folder's name.")
]


def promote(folder: Folder, version: Version, json: Json = False) -> None:
    """Publish a version that is on disk, as a rerun or an earlier night; its tables are checked first."""
    import time

    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_versions import print_published
    from pipeline.publish.versions import promote as publish_version

    manifest = publish_version(folder, version, int(time.time()))
    print_json({"published": manifest.folder, "name": manifest.name}) if json else print_published(manifest)
