"""What commands answer: plain values as JSON, or sentences, facts and tables of declared columns for `render`.

Texts are plain: `render` spells out control characters and reads no markup.
"""

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from flows.pages.formats import number, plain
from flows.pages.terminal.activity import end_activity_line
from pipeline.errors import printable
from pipeline.report import Report


class Exact(str):
    """A line that somebody copies, such as a path or a command: a terminal does not wrap it at words."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Lead:
    """A line that begins in bold type."""

    bold: str
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, where a row has its value, and how that is written."""

    heading: str
    value: str | int | Callable[[Any], object] = ""
    """The key of the value in a row, or a function of the row; empty: the heading is the key."""
    form: Callable[[Any], str] = number
    is_text: bool = False
    """Texts are left-aligned, and on a narrow terminal wrapped before numbers are."""
    limit: int = 200
    """Characters of a cell, the rest is cut."""
    told: str = ""
    """What the heading means, for who points at it on a page."""
    least_width: int = 0
    """A terminal narrower than this leaves the column out."""

    def raw(self, row: Any) -> Any:
        """The value of a row."""
        return self.value(row) if callable(self.value) else row[self.heading if self.value == "" else self.value]

    def cell(self, row: Any) -> str:
        """What the table shows of a row."""
        return printable(self.form(self.raw(row)), self.limit)


text = partial(Column, form=plain, is_text=True)
"""A column of texts."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of rows, below its title if it has one."""

    title: str
    columns: Sequence[Column]
    rows: Iterable[Any]
    n_bold: int = 0
    """The number of rows in bold type, from the first."""
    has_header: bool = True


@dataclass(frozen=True, slots=True)
class Facts:
    """A table of names and values."""

    title: str
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of any columns: a table where it fits the terminal, else each row as a list of its known values."""

    title: str
    rows: Sequence[Mapping[str, Any]]


Block = str | Lead | Grid | Facts | Listing


def wrote(files: Mapping[str, object]) -> list[Block]:
    """Which files were written, by what they hold."""
    return [Exact(f"Wrote {name} to {path}") for name, path in files.items()]


def notes(sentences: Iterable[str]) -> list[Block]:
    """Notes of a report."""
    return [f"Note: {sentence}" for sentence in sentences]


def report_grid(report: Report) -> Grid:
    """What a stage has seen, kept and set aside."""
    tallies = {"seen": report.seen, "kept": report.kept} | {f"set aside: {k}": v for k, v in report.set_aside.items()}
    rows = [(name, tally.rows, tally.proc_s / 3600) for name, tally in tallies.items()]
    return Grid(report.stage, (text("", 0), Column(f"{report.unit}s", 1), Column("processor-hours", 2)), rows)


def side_by_side(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> Grid:
    """A table of rows that begin with their name; the other columns have these names."""
    return Grid(title, (text("", 0), *(Column(name, place) for place, name in enumerate(names, 1))), rows)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command has found."""

    found: Any
    """Plain values, for --json."""
    blocks: Iterable[Block] = ()
    """What is printed without --json."""
    exit_code: int = 0
    is_lines: bool = False
    """Whether --json prints one document for each value found."""


def print_json(value: Any) -> None:
    """Print one JSON document on stdout; NaN and infinity become null, because JSON has neither."""
    _write([json.dumps(_plain(value), indent=1)])


def print_json_lines(values: Iterable[Any]) -> None:
    """Print JSON documents, one per line."""
    _write(json.dumps(_plain(value)) for value in values)


def _write(lines: Iterable[str]) -> None:
    end_activity_line()
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    """Tables as their rows, reports as their fields; what JSON does not know as text."""
    for to_plain in ("as_dict", "to_pylist"):
        if hasattr(value, to_plain):
            return _plain(getattr(value, to_plain)())
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
