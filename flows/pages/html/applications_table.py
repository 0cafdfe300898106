"""The table of a site's applications, which the page of the site and the index of its pages have in common."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from flows.pages.terminal.render import number
from flows.services.site.applications import LISTED


def application_views(
    rows: Sequence[Mapping[str, Any]], page_of: Callable[[str | None], str | None] = lambda _: None
) -> dict[str, Any]:
    """What `applications.html` shows of `application_rows`; `page_of` gives the relative path of an application's page.

    The name is None for jobs of no known application. A path of None means that there is no page.
    """
    shown = [dict(row) | {"link": _link(page_of(row["name"]))} for row in rows[:LISTED]]
    return {"applications": shown, "n_hidden": len(rows) - len(shown)}


def _link(path: str | None) -> str | None:
    return None if path is None else quote(path)


def plain_number(value: object) -> str:
    """A number with about four digits; a dash for unknown."""
    return "–" if value is None else number(value)


def share(value: float | None) -> str:
    """A share in per cent; a dash for unknown."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.1%}"


def sort_value(value: float | None) -> str:
    """What the script sorts by; unknown is below every number."""
    return "-1" if value is None else repr(value)


FILTERS: dict[str, Callable[..., str]] = {"number": plain_number, "share": share, "value": sort_value}
"""The filters that the table needs."""
