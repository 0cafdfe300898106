"""`walltime versions`: the versions of the tables that are on disk."""

from flows.cli.options import Folder, Json


def versions(folder: Folder, json: Json = False) -> None:
    """List the versions of the tables on disk, the published one first, then those published before it."""
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_versions import print_versions
    from flows.services.versions.version_rows import version_rows

    rows = version_rows(folder)
    print_json({"versions": rows}) if json else print_versions(rows)
