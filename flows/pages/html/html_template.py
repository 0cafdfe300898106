"""Pages of HTML that need no network, from the templates beside; every text from outside is escaped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pipeline.core.text import printable

_TEMPLATES = Path(__file__).parent / "templates"


def rendered(template: str, filters: dict[str, Callable[..., Any]], **told: Any) -> str:
    """The page of a template; `say` shows text from a log, `filters` show the rest. Nothing undefined passes."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {"say": lambda text: printable(str(text), 500), **filters}
    return environment.get_template(template).render(told)
