"""What commands answer: plain values as JSON, or blocks for a person, which a terminal and pages show.

An answer is written once, as sentences, facts, tables of declared columns, and charts. A terminal leaves out charts and
what is in a `Detail`. Texts are plain: both spell out control characters and read no markup; on a page what stands
between backticks is set as code. Numbers, shares and durations have one form each, on a terminal and on pages.
"""

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from flows.pages.activity import end_activity_line
from flows.services.quantities import iso_time
from pipeline.errors import printable
from pipeline.report import Report

if TYPE_CHECKING:
    from flows.pages.charts import Chart


def plain(value: object) -> str:
    """A value as text; empty for null."""
    return "" if value is None else str(value)


def number(value: object) -> str:
    """A number with about four digits and thousands separators; empty for null, a text as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return plain(value)
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else ""
    if 0 < abs(value) < 1e-4:
        return f"{value:.4g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{min(digits, 6)}f}" if abs(value) < 1000 else f"{value:,.0f}"


def any_value(value: object) -> str:
    """A value of any published column; of a list its length."""
    return f"{len(value):,} values" if isinstance(value, list) else significant(value, 6)


def significant(value: object, digits: int) -> str:
    """A number that is not whole with this many digits, large ones whole; other values as text, empty for null."""
    if not isinstance(value, float):
        return plain(value)
    return f"{value:.{digits}g}" if abs(value) < 10 ** (digits - 1) or not math.isfinite(value) else f"{value:.0f}"


def fixed(value: float | None, digits: int = 2) -> str:
    """A number with this many decimals; empty for null."""
    return "" if value is None else f"{value:,.{digits}f}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share in per cent; empty for null."""
    return "" if share is None else f"{share:.{digits}%}"


def signed(value: float, digits: int, scale: float = 1.0) -> str:
    """A difference with its sign and this many decimals."""
    # Adding 0 makes a negative zero a positive one.
    return f"{round(scale * value, digits) + 0.0:+,.{digits}f}"


def hours(seconds: float | None) -> str:
    """A duration in hours; empty for null."""
    return "" if seconds is None else fixed(seconds / 3600)


def span(seconds: float | None) -> str:
    """A duration with a fitting unit: 42 s, 5 min, 3.2 h, 2.1 d."""
    if seconds is None:
        return "unknown"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.0f} s"


def percent_3_digits(share: float | None) -> str:
    """A share in per cent with three digits; empty for null."""
    return "" if share is None else f"{significant(100.0 * share, 3)}%"


def minute(time: str | None) -> str:
    """A time to the minute, as in 2026-11-24 15:12; empty for null."""
    return (time or "")[:16]


def between(low: float | None, high: float | None, unbounded: str = "") -> str:
    """An interval as text; `unbounded` stands for an unknown upper end."""
    return f"{number(low)} to {number(high) or unbounded}"


FORMS: Mapping[str, Callable[[Any], str]] = {
    "": number,
    "any": any_value,
    "fixed": fixed,
    "general": "{:g}".format,
    "hours": hours,
    "minute": minute,
    "percent": percent,
    "percent_3_digits": percent_3_digits,
    "plain": plain,
    "points": partial(signed, digits=1, scale=100.0),
    "share_100": lambda share: fixed(100 * share, 1),
    "signed_0": lambda change: signed(change, 0) if change else "",
    "signed_1": partial(signed, digits=1),
    "signed_3": partial(signed, digits=3),
    "span": span,
    "text": plain,
    "time": iso_time,
    "whole": partial(fixed, digits=0),
    "whole_percent": partial(percent, digits=0),
}
"""How the values of a column are written, by the names that columns.tsv has for it; the value is known."""


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
    none: str = ""
    """What the cell of an unknown value shows."""
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
        value = self.raw(row)
        return self.none if value is None else printable(self.form(value), self.limit)


text = partial(Column, form=plain, is_text=True)
"""A column of texts."""


@cache
def _declared() -> dict[str, list[Column]]:
    """The columns of each table, as columns.tsv declares them."""
    found: dict[str, list[Column]] = {}
    for line in Path(__file__).with_name("columns.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        table, heading, key, form, told, options = line.split("\t")
        given = dict(option.partition("=")[::2] for option in options.split())
        column = Column(
            heading,
            int(key) if key.isdecimal() else key,
            FORMS[form],
            is_text=form in ("text", "minute") or "left" in given,
            none=given.get("none", ""),
            limit=int(given.get("limit", 200)),
            told=told,
            least_width=int(given.get("least_width", 0)),
            is_detail="detail" in given,
            link=given.get("link", ""),
        )
        found.setdefault(table, []).append(column)
    return found


def columns(table: str, **values: Callable[[Any], object]) -> tuple[Column, ...]:
    """The columns of a table of columns.tsv; `values` computes from a row what has no key of its own there."""
    return tuple(replace(one, value=values.get(str(one.value), one.value)) for one in _declared()[table])


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
class Figure:
    """One number with what it is, a sentence on it, a small chart, and the part of the page that has more."""

    value: str
    meaning: str
    sentence: str = ""
    chart: "Chart | None" = None
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


Block = Union[str, Lead, Grid, Facts, Listing, Heading, Figures, Links, Verbatim, Detail, "Chart"]


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
