"""`walltime report`: how each application of a published run scales, as pages."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Node, Rate

Folder = Annotated[Path, typer.Argument(metavar="DIR", readable=False, help="The folder a run has published to.")]
Out = Annotated[Path, typer.Option("--out", metavar="PAGES", help="The folder to write index.html and the pages to.")]


def report(folder: Folder, out: Out, procs_per_node: Node = None, rate: Rate = None) -> None:
    """Draw a page per application: its runs, the predicted curves with bands, what to ask for and what to run next."""
    from flows.pages.html.application_pages import write_pages
    from flows.pages.terminal.render import console, say
    from flows.services.published.advice import cost_of_run
    from pipeline.publish import load_manifest

    manifest = load_manifest(folder)
    pages = write_pages(manifest, out, cost_of_run(manifest, procs_per_node, rate))
    console().print(f"Wrote {len(pages) - 1} pages, listed in {say(pages[0], 1000)}", soft_wrap=True)
