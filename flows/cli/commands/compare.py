"""`walltime compare`: two versions beside one another, and their errors on the jobs that came later."""

from typing import Annotated

import typer

from flows.cli.options import Folder, Json

First = Annotated[str, typer.Argument(metavar="A", help="A version, as in `walltime versions`.")]
Second = Annotated[str, typer.Argument(metavar="B", help="The version to compare it with.")]


def compare(folder: Folder, first: First, second: Second, json: Json = False) -> None:
    """Compare the groups and fits of two versions, and score both on the same jobs, which came after both.

    The later jobs are those of the version on disk whose log ends last, so a night later there are more.
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_versions import print_comparison
    from flows.services.versions.comparing import compare_versions

    found = compare_versions(folder, first, second)
    print_json(found) if json else print_comparison(found)
