"""Fills the HTML templates; every value is escaped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pipeline.core.text import printable

_TEMPLATES = Path(__file__).parent / "templates"


def render_template(template: str, filters: dict[str, Callable[..., Any]], **values: Any) -> str:
    """The page of a template; the filter `say` prints text from a log. An undefined name in the template raises."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {"say": lambda text: printable(str(text), 500), **filters}
    return environment.get_template(template).render(values)
