"""The page of a site, as one file of HTML without network access; every text from a log is escaped.

A few lines of script sort the table of applications. Without script the page shows the same rows.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from flows.pages.html.html_template import render_template
from flows.pages.terminal.render import number
from flows.services.site.applications import LISTED


def site_page(facts: Mapping[str, Any], page_of: Callable[[str], str | None] = lambda _: None) -> str:
    """The page of `site_facts`; `page_of` gives the relative path of an application's own page, where there is one."""
    applications = facts["applications"]
    shown = [dict(row) | {"link": _link(page_of, row["name"])} for row in applications[:LISTED]]
    filters = {"number": _number, "share": _share, "change": _change, "value": _sort_value}
    content = {**facts, "applications": shown, "n_hidden": len(applications) - len(shown)}
    return render_template("site.html", filters, **content)


def _link(page_of: Callable[[str], str | None], name: str | None) -> str | None:
    path = page_of(name) if name is not None else None
    return None if path is None else quote(path)


def _number(value: object) -> str:
    """A number with about four digits; a dash for unknown."""
    return "–" if value is None else number(value)


def _share(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.1%}"


def _change(value: float | None) -> str:
    """A difference with its sign; empty where nothing changed or nothing is known."""
    if not value:
        return ""
    return f"{value:+,}" if isinstance(value, int) else f"{100 * value:+.1f} points"


def _sort_value(value: float | None) -> str:
    """What the script sorts by; unknown is below every number."""
    return "-1" if value is None else repr(value)
