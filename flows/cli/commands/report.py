"""`walltime report`: pages on a site and on how each of its applications scales."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsOf, From, Json, Node, Rate

Out = Annotated[Path, typer.Option("--out", metavar="PAGES", help="The folder for index.html and the pages.")]


def report(
    published: From,
    out: Out,
    procs_per_node: Node = None,
    rate: Rate = None,
    as_of: AsOf = None,
    json: Json = False,
) -> None:
    """Draw a page per application: its runs, predicted curves with intervals, recommended counts and next runs.

    Also site.html, on the whole site: its applications with advice, cleaning, coverage by week, and what nights
    changed.

    \b
    Examples:
      walltime report --from my-tables --out pages
      walltime report --out pages --rate 0.02
    """
    from flows.pages.html.application_pages import SITE_PAGE, UNNAMED, page_name, site_page, write_pages
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render import console, say
    from flows.services.files.table_files import write_page
    from flows.services.published.advice import cost_of_run
    from flows.services.quantities import as_of_seconds
    from flows.services.site_facts import site_facts
    from pipeline.publish import reading

    def page_of(name: str | None) -> str | None:
        found = page_name(name or UNNAMED)
        return found if (out / found).is_file() else None

    with reading(published, as_of_seconds(as_of)) as manifest:
        facts = site_facts(published, manifest)
        pages = write_pages(manifest, out, cost_of_run(manifest, procs_per_node, rate))
    site = write_page(out / SITE_PAGE, site_page(facts, page_of))
    if json:
        print_json({"index": pages[0], "pages": pages[1:], "site_page": site, **facts})
        return
    console().print(f"Wrote {len(pages) - 1} pages, listed in {say(pages[0], 1000)}", soft_wrap=True)
    console().print(f"Wrote {say(site, 1000)}", soft_wrap=True)
