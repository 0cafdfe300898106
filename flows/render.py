"""Tables and numbers on a terminal. Every text goes through `say`: what a log wrote can neither colour nor steer it."""

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape as escape_markup
from rich.table import Table

from pipeline.core.report import Report
from pipeline.core.text import printable


def console(*, stderr: bool = False) -> Console:
    """Where output goes; made anew, so that a redirected stream is seen. A pipe gets lines as wide as they need."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 160
    return Console(stderr=stderr, highlight=False, width=width, soft_wrap=False)


def say(text: object, limit: int = 200) -> str:
    """Text that a terminal shows as it stands."""
    return escape_markup(printable(str(text), limit))


def number(value: object) -> str:
    """A number for a person: thousands apart, about four digits; nothing for null."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return say(value)
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else ""
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{min(digits, 6)}f}" if abs(value) < 1000 else f"{value:,.0f}"


def plain_number(value: object) -> str:
    """A value of a published table as it stands, for tables of columns whose meaning varies."""
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else say(value, 60)


def grid(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> Table:
    """A table whose first `texts` columns are text and the others numbers; cells are safe already."""
    table = Table(title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(header):
        is_text = place < texts
        table.add_column(say(name), justify="left" if is_text else "right", overflow="fold" if is_text else "ellipsis")
    for row in rows:
        table.add_row(*row)
    return table


def pairs(title: str, facts: Mapping[str, object]) -> Table:
    """Names and values."""
    table = Table(title=title or None, title_justify="left", title_style="bold", box=None, show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(say(name), number(value))
    return table


def report_table(report: Report) -> Table:
    """One stage's account."""
    tallies = {"seen": report.seen, "kept": report.kept} | {f"set aside: {k}": v for k, v in report.set_aside.items()}
    rows = [(say(name), number(tally.rows), number(tally.proc_s / 3600)) for name, tally in tallies.items()]
    return grid(say(report.stage), ("", f"{report.unit}s", "processor-hours"), rows)


def print_json(value: Any) -> None:
    """The one JSON document on stdout; not-a-number and infinity are null, since JSON has neither."""
    sys.stdout.write(json.dumps(_plain(value), indent=1) + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
