"""`walltime report`: how each application of a published run scales, as pages."""

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[Path, typer.Argument(metavar="DIR", readable=False, help="The folder a run has published to.")]
Out = Annotated[Path, typer.Option("--out", metavar="PAGES", help="The folder to write index.html and the pages to.")]


def report(folder: Folder, out: Out) -> None:
    """Draw a page per application: its runs, the predicted curves with bands, and what to run next."""
    from flows.render import console, say
    from flows.reporting import write_pages
    from pipeline.publish import load_manifest

    pages = write_pages(load_manifest(folder), out)
    console().print(f"Wrote {len(pages) - 1} pages, listed in {say(pages[0], 1000)}", soft_wrap=True)
