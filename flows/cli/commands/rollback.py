"""`walltime rollback`: publish the version again that was published before."""

from flows.cli.options import Folder, Json


def rollback(folder: Folder, json: Json = False) -> None:
    """Publish the version again that was published before, and withdraw the current one; once more goes further back.

    A withdrawn version stays on disk for some days, and --as-of passes over it. `walltime promote` publishes it again.
    """
    import time

    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_versions import print_published
    from pipeline.publish.versions import rollback as publish_previous

    manifest = publish_previous(folder, int(time.time()))
    print_json({"published": manifest.folder, "name": manifest.name}) if json else print_published(manifest)
