"""The page of a site, as one file of HTML without network access; every text from a log is escaped.

A few lines of script sort the table of applications. Without script the page shows the same rows.
"""

from collections.abc import Callable, Mapping
from typing import Any

from flows.pages.html.applications_table import FILTERS, application_views
from flows.pages.html.html_template import render_template


def site_page(facts: Mapping[str, Any], page_of: Callable[[str | None], str | None] = lambda _: None) -> str:
    """The page of `site_facts`; `page_of` gives the relative path of an application's own page, where there is one."""
    content = {**facts, **application_views(facts["applications"], page_of)}
    return render_template("site.html", {**FILTERS, "change": _change}, **content)


def _change(value: float | None) -> str:
    """A difference with its sign; empty where nothing changed or nothing is known."""
    if not value:
        return ""
    return f"{value:+,}" if isinstance(value, int) else f"{100 * value:+.1f} points"
