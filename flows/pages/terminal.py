"""Prints blocks on a terminal. No text can steer it: control characters are spelt out, and markup is not read."""

import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO, cast

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from flows.pages import blocks as show
from flows.pages.activity import end_activity_line
from flows.pages.blocks import Block, Column, Facts, Grid, Listing, any_value, number
from pipeline.errors import printable

_PIPE_WIDTH = 10_000
_LONGEST_LINE = 4_000
_WIDEST_LISTING = 160
_WHOLE = 100_000


class _Trimmed:
    """A stream to a file or pipe, which removes the padding at the ends of lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(re.sub(r" +(?=\n|$)", "", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def console() -> Console:
    """A new console on the current stdout, which may be redirected. Lines to a pipe are not wrapped.

    rich leaves out colours where NO_COLOR is set.
    """
    end_activity_line()
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(file=cast(TextIO, _Trimmed(sys.stdout)), highlight=False, width=_PIPE_WIDTH)


def print_blocks(blocks: Iterable[Block]) -> None:
    """Print blocks one below the other, without those that only pages show."""
    out = console()
    for block in blocks:
        if isinstance(block, Listing):
            _print_listing(out, block)
        elif isinstance(block, Grid):
            _print_grid(out, block)
        elif isinstance(block, Facts):
            _print_facts(out, block)
        elif isinstance(block, show.Heading):
            out.print(_line(block.text, "bold"))
        elif isinstance(block, show.Lead):
            out.print(Text.assemble(_line(block.bold, "bold"), _line(block.rest)), soft_wrap=True)
        elif isinstance(block, str):
            out.print(_line(block), soft_wrap=isinstance(block, show.Exact))
        elif panels := getattr(block, "panels", ()):
            from flows.pages.charts import dots_as_text  # noqa: PLC0415  (few answers have a chart)

            out.print("", *map(_line, dots_as_text(panels[0])), "", sep="\n", soft_wrap=True)


def _line(text: str, style: str = "", limit: int = _LONGEST_LINE) -> Text:
    return Text(printable(text, limit), style, overflow="fold")


def _print_grid(out: Console, block: Grid) -> None:
    """On a narrow terminal texts and headings are wrapped first, and numbers only if that is not enough."""
    rows = list(block.rows)
    columns = [
        column
        for column in show.with_values(block.columns, rows)
        if column.least_width <= out.width and not column.is_detail
    ]
    cells = [[_line(column.cell(row)) for column in columns] for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=block.has_header)
    for place, column in enumerate(columns):
        longest = 0 if column.is_text else max((row[place].cell_len for row in cells), default=0)
        table.add_column(
            _line(column.heading), justify="left" if column.is_text else "right", overflow="fold",
            min_width=longest or None,
        )  # fmt: skip
    for place, row in enumerate(cells):
        table.add_row(*row, style="bold" if place < block.n_bold else "")
    _print_titled(out, block.title, table)
    if block.below:
        for row, shown in zip(rows, cells, strict=True):
            if sentence := block.below(row):
                out.print(_line(f"{shown[0].plain}: {sentence}"))


def _print_titled(out: Console, title: str, table: Table) -> None:
    """Print the title over the whole width of the terminal, then the table."""
    if title:
        out.print(_line(title, "bold"))
    if Measurement.get(out, out.options.update_width(_WHOLE), table).maximum > out.width:
        table.collapse_padding = True
        if max(map(Segment.get_line_length, Segment.split_lines(out.render(table))), default=0) > out.width:
            # A number wrapped to two lines is better than a truncated one.
            for column in table.columns:
                column.min_width = None
    out.print(table)


def _print_facts(
    out: Console, block: Facts, form: Callable[[object], str] = number, limit: int = _LONGEST_LINE
) -> None:
    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in block.facts.items():
        table.add_row(_line(name), _line(form(value), limit=limit))
    _print_titled(out, block.title, table)


def _print_listing(out: Console, block: Listing) -> None:
    names = [name for name in block.rows[0] if any(row[name] is not None for row in block.rows)] if block.rows else []
    columns = [Column(name, form=any_value, limit=60 if out.is_terminal else _WHOLE) for name in names]
    widths = [max([len(one.heading), *(len(one.cell(row)) for row in block.rows)]) + 2 for one in columns]
    if names and sum(widths) <= min(out.width, _WIDEST_LISTING):
        _print_grid(out, Grid(block.title, columns, block.rows))
        return
    out.print(_line(block.title, "bold"))
    for row in block.rows:
        known = {name: row[name] for name in names if any_value(row[name])}
        out.print()
        _print_facts(out, Facts("", known), any_value, _WHOLE)
