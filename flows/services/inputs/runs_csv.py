"""Reads runs or points from CSV: one row a run, columns of numbers or of texts."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from flows.services.files.os_errors import read_text
from pipeline.core.errors import InputError
from pipeline.core.text import printable

UNKNOWN = ("", "na", "nan", "null", "none")
"""Cells that say that a value is unknown, in lower case."""


def read_runs(path: Path) -> pa.Table:
    """A column for each name in the first line: float64 where every known cell is a number, else texts.

    InputError names file, line, what was found and what was expected.
    """
    where, expected = printable(str(path)), "a CSV with names of columns in its first line"
    reader = csv.reader(io.StringIO(read_text(path, f"{expected}, in UTF-8")))
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise InputError(f"{where}, line {reader.line_num}", f"text that is no CSV ({error})", expected) from None
    rows = [(line, row) for line, row in rows if any(row)]
    if len(rows) < 2:
        raise InputError(where, "no rows below a first line", expected)
    names = rows[0][1]
    _check_names(f"{where}, line {rows[0][0]}", names)
    for line, row in rows[1:]:
        if len(row) != len(names):
            raise InputError(f"{where}, line {line}", f"{len(row)} values", f"{len(names)}, as line 1 has columns")
    return pa.table({name: column_of_cells([row[place] for _, row in rows[1:]]) for place, name in enumerate(names)})


def known_cells(cells: Sequence[str]) -> list[str | None]:
    """The cells, with None for those that say that a value is unknown."""
    return [None if cell.lower() in UNKNOWN else cell for cell in cells]


def column_of_cells(cells: Sequence[str]) -> pa.Array:
    """Numbers as float64 where every known cell is one, else texts; unknown cells are null."""
    known = known_cells(cells)
    numbers = [None if cell is None else number_of(cell) for cell in known]
    is_text = any(cell is not None and number is None for cell, number in zip(known, numbers, strict=True))
    return pa.array(known, pa.string()) if is_text else pa.array(numbers, pa.float64())


def number_of(cell: str) -> float | None:
    """The number of a cell; None where it is none, also for underscores and infinity, which Python would accept."""
    if not cell.isascii() or "_" in cell:
        return None
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _check_names(where: str, names: list[str]) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        found = f"{names.count(repeated)} columns {printable(repeated, 40) or 'without a name'}"
        raise InputError(where, found, "a name of its own for each column", "rename one")
    if "" in names:
        raise InputError(where, "a column without a name", "a name for each column", "name it or remove it")
