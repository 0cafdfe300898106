"""`walltime page`: one page about a site, from its published tables."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsOf, Folder, Json

Out = Annotated[Path, typer.Option("--out", metavar="FILE.html", help="The page to write, in one step.")]
Pages = Annotated[
    Path | None,
    typer.Option("--pages", metavar="PAGES", readable=False, help="Link the pages that `walltime report` wrote there."),
]


def page(folder: Folder, out: Out, pages: Pages = None, as_of: AsOf = None, json: Json = False) -> None:
    """Write a page on a site: its applications with advice, cleaning, coverage by week, and what nights changed."""
    import os

    from flows.pages.html.application_pages import UNNAMED, page_name
    from flows.pages.html.site_page import site_page
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render import console, say
    from flows.services.files.table_files import write_page
    from flows.services.quantities import as_of_seconds
    from flows.services.site.site_facts import site_facts
    from pipeline.publish import reading

    def page_of(name: str | None) -> str | None:
        found = None if pages is None else pages / page_name(name or UNNAMED)
        return None if found is None or not found.is_file() else os.path.relpath(found, out.parent)

    with reading(folder, as_of_seconds(as_of)) as manifest:
        facts = site_facts(folder, manifest)
    path = write_page(out, site_page(facts, page_of))
    if json:
        print_json({"page": path, **facts})
    else:
        console().print(f"Wrote {say(path, 1000)}", soft_wrap=True)
