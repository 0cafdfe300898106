"""What commands answer: plain values as JSON, or blocks for a person, which a terminal (`render`) and pages show.

An answer is written once, as sentences, facts, tables of declared columns, and charts. A terminal leaves out charts and
what is in a `Detail`. Texts are plain: both spell out control characters and read no markup; on a page what stands
between backticks is set as code.
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
    is_detail: bool = False
    """Shown on pages alone."""
    link: str = ""
    """The key of the address to which a page links the cell; a row without the key has no link."""

    def raw(self, row: Any) -> Any:
        """The value of a row."""
        return self.value(row) if callable(self.value) else row[self.heading if self.value == "" else self.value]

    def cell(self, row: Any) -> str:
        """What the table shows of a row."""
        return printable(self.form(self.raw(row)), self.limit)


text = partial(Column, form=plain, is_text=True)
"""A column of texts."""

JOBS, PROC_HOURS = Column("jobs", "n_jobs"), Column("processor-hours", "proc_hours")
WEEK = text("week from", "week")
"""Columns of several tables."""


def with_values(columns: Sequence[Column], rows: Sequence[Any]) -> list[Column]:
    """The columns that have a value in some row; all of them where there is no row."""
    return [
        column for column in columns if not rows or any(str(column.raw(row)) not in ("None", "", "[]") for row in rows)
    ]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of rows, below its title if it has one."""

    title: str
    columns: Sequence[Column]
    rows: Iterable[Any]
    n_bold: int = 0
    """The number of rows in bold type, from the first."""
    has_header: bool = True
    below: Callable[[Any], str] | None = None
    """A sentence on a row: below it on a page, below the table on a terminal."""
    colours: Sequence[str] = ()
    """The colours of the rows in the charts beside the table, as names of CSS variables."""
    n_all: int = 0
    """The number of rows where there are more than these."""
    most: int = 300
    """Rows on a page, which says how many there are more."""
    source: str = ""
    """The command that prints all rows."""
    id: str = ""
    """What links to the table name."""


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


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of what follows, up to the next one."""

    text: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A line of a chart's legend: a sample of the colour, and what it stands for."""

    text: str
    colour: str
    style: str = ""
    """Of the sample: hatched, stroke, dashed or dotted; or a sign that is drawn instead."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with its title and caption; a terminal leaves it out."""

    draw: Callable[[], str]
    """Draws it as SVG; empty: there is nothing to draw, and the block is left out."""
    caption: str = ""
    legend: Sequence[Mark] = ()
    title: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with what it is, a sentence on it, a small chart, and the part of the page that has more."""

    value: str
    meaning: str
    sentence: str = ""
    draw: Callable[[], str] | None = None
    link: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """A few numbers side by side; a terminal leaves them out."""

    figures: Sequence[Figure]


@dataclass(frozen=True, slots=True)
class Links:
    """Other pages by name; a terminal leaves them out."""

    title: str
    addresses: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Lines to copy, such as a part of a config; a terminal leaves them out."""

    text: str


@dataclass(frozen=True, slots=True)
class Detail:
    """Blocks that only pages show; folded below its title if it has one."""

    blocks: Iterable["Block"]
    title: str = ""


Block = str | Lead | Grid | Facts | Listing | Heading | Chart | Figures | Links | Verbatim | Detail


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
