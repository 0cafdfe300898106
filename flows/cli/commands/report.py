"""`walltime report`: pages on how each application of a published run scales."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsOf, Folder, Json, Node, Rate

Out = Annotated[Path, typer.Option("--out", metavar="PAGES", help="The folder for index.html and the pages.")]


def report(
    folder: Folder, out: Out, procs_per_node: Node = None, rate: Rate = None, as_of: AsOf = None, json: Json = False
) -> None:
    """Draw a page per application: its runs, predicted curves with intervals, recommended counts and next runs."""
    from flows.pages.html.application_pages import write_pages
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render import console, say
    from flows.services.published.advice import cost_of_run
    from flows.services.quantities import as_of_seconds
    from pipeline.publish import reading

    with reading(folder, as_of_seconds(as_of)) as manifest:
        pages = write_pages(manifest, out, cost_of_run(manifest, procs_per_node, rate))
    if json:
        print_json({"index": pages[0], "pages": pages[1:]})
        return
    console().print(f"Wrote {len(pages) - 1} pages, listed in {say(pages[0], 1000)}", soft_wrap=True)
