"""Tables and numbers on a terminal. Text from logs goes through `say`, so that it cannot control the terminal."""

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO, cast

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape as escape_markup
from rich.table import Table
from rich.text import Text

from flows.pages.terminal.activity import end_activity_line
from flows.pages.terminal.verbosity import Verbosity, verbosity
from pipeline.errors import printable
from pipeline.report import Report

_PIPE_WIDTH = 10_000


class Titled(Table):
    """A table with a title as wide as the terminal; Rich would wrap it to the width of the table."""

    heading = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.heading:
            yield Text.from_markup(self.heading, style="bold", overflow="fold")
        if self.__rich_measure__(console, options).maximum > options.max_width:
            self.collapse_padding = True
        if sum(self._calculate_column_widths(console, options)) + self._extra_width > options.max_width:
            # A number wrapped to two lines is better than a truncated one.
            for column in self.columns:
                column.min_width = None
        yield from super().__rich_console__(console, options)


class _Trimmed:
    """A stream to a file or pipe, which removes the padding at the ends of lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(re.sub(r" +(?=\n|$)", "", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def console(*, stderr: bool = False) -> Console:
    """A new console on the current stdout or stderr, which may be redirected. Lines to a pipe are not wrapped.

    Where the command is to be silent, it prints nothing. rich leaves out colours where NO_COLOR is set.
    """
    end_activity_line()
    is_silent = verbosity() is Verbosity.SILENT
    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Console(stderr=stderr, highlight=False, quiet=is_silent)
    return Console(file=cast(TextIO, _Trimmed(stream)), highlight=False, width=_PIPE_WIDTH, quiet=is_silent)


def say(text: object, limit: int = 200) -> str:
    """Text that a terminal shows unchanged: markup and control characters are escaped."""
    return escape_markup(printable(str(text), limit))


def number(value: object) -> str:
    """A number with about four digits and thousands separators; empty for null."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return say(value)
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else ""
    if 0 < abs(value) < 1e-4:
        return f"{value:.4g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{min(digits, 6)}f}" if abs(value) < 1000 else f"{value:,.0f}"


def plain_number(value: object, limit: int = 60) -> str:
    """A value of any published column as text; of a list its length."""
    if isinstance(value, list):
        return f"{len(value):,} values"
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else say(value, limit)


def grid(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> Titled:
    """A table whose first `texts` columns are text and the others numbers; cells must be escaped already.

    On a narrow terminal texts and column names are wrapped first, and numbers only if that is not enough.
    """
    listed = [list(row) for row in rows]
    table = Titled(box=box.SIMPLE_HEAD, pad_edge=False)
    table.heading = title
    for place, name in enumerate(header):
        is_text = place < texts
        longest = 0 if is_text else max((_width(row[place]) for row in listed if place < len(row)), default=0)
        table.add_column(say(name), justify="left" if is_text else "right", overflow="fold", min_width=longest or None)
    for row in listed:
        table.add_row(*row)
    return table


def _width(cell: str) -> int:
    return Text.from_markup(cell).cell_len


def pairs(title: str, facts: Mapping[str, object]) -> Titled:
    """A table of names and values."""
    table = Titled(box=None, show_header=False)
    table.heading = title
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(say(name), number(value))
    return table


def report_table(report: Report) -> Titled:
    """The report of one stage as a table."""
    tallies = {"seen": report.seen, "kept": report.kept} | {f"set aside: {k}": v for k, v in report.set_aside.items()}
    rows = [(say(name), number(tally.rows), number(tally.proc_s / 3600)) for name, tally in tallies.items()]
    return grid(say(report.stage), ("", f"{report.unit}s", "processor-hours"), rows)


def print_written(files: Mapping[str, object]) -> None:
    """Say which files were written, by what they hold."""
    for name, path in files.items():
        console().print(f"Wrote {say(name)} to {say(path, 1000)}", soft_wrap=True)


def fixed(value: float | None, digits: int = 2) -> str:
    """A number with this many decimals; empty for null."""
    return "" if value is None else f"{value:,.{digits}f}"


def signed(value: float | None, digits: int, scale: float = 1.0) -> str:
    """A difference with its sign and this many decimals; empty for null."""
    # Adding 0 makes a negative zero a positive one.
    return "" if value is None else f"{round(scale * value, digits) + 0.0:+,.{digits}f}"


def span(seconds: float | None) -> str:
    """A duration with a fitting unit: 42 s, 5 min, 3.2 h, 2.1 d."""
    if seconds is None:
        return "unknown"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.0f} s"


def percent(share: float | None, digits: int = 1) -> str:
    """A share in per cent; empty for null."""
    return "" if share is None else f"{share:.{digits}%}"
