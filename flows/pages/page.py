"""A page of HTML from the blocks of an answer: one file that asks for nothing from a network."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from flows.pages.blocks import Block, Column, number, with_values
from flows.pages.charts import draw
from pipeline import code_version
from pipeline.errors import printable


def page_of(
    kicker: str,
    title: str,
    blocks: Iterable[Block],
    intro: Iterable[Block] = (),
    footer: str = "",
    *,
    has_script: bool = False,
) -> str:
    """The page of some blocks below a title; the same blocks give the same bytes.

    `intro` stands below the title. With the script a reader sorts tables by a heading and folds long ones.
    """
    return _ENVIRONMENT.get_template("page.html").render(
        kicker=kicker, title=title, blocks=blocks, intro=intro, footer=footer, has_script=has_script
    )


def _marked(text: str) -> Markup:
    """A sentence as HTML: its characters are escaped, and what stands between backticks is code."""
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(printable(text, 4_000)))))  # noqa: S704 # nosec B704


def _address(column: Column, row: Any) -> str:
    """Where the cell of a row links to; empty: nowhere."""
    return str(row.get(column.link) or "") if column.link else ""


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
)  # fmt: skip
_ENVIRONMENT.filters |= {
    "kind": lambda block: type(block).__name__,
    "marked": _marked,
    "number": number,
    "sort_value": lambda value: "-1" if value is None else repr(value),
    "with_values": with_values,
}
_ENVIRONMENT.globals |= {"address": _address, "code_version": code_version, "draw": draw}
