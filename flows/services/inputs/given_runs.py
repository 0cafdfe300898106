"""Runs and points as a person gives them: rows of a CSV, or texts NAME=VALUE; with processors by a formula."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from flows.services.files.os_errors import read_text
from pipeline.errors import InputError, did_you_mean, printable
from pipeline.inputs import Declaration, InputModel, InputType
from pipeline.inputs.encoding import numbers_of
from pipeline.inputs.formula import parse

UNKNOWN = ("", "na", "nan", "null", "none")
"""Cells that say that a value is unknown, in lower case."""
NUMBERS = (InputType.NUMBER, InputType.LOG_NUMBER)


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


def column_of_cells(cells: Sequence[str], is_number: bool | None = None) -> pa.Array:
    """Numbers as float64, or texts; None: numbers where every known cell is one. Unknown cells are null."""
    known = [None if cell.lower() in UNKNOWN else cell for cell in cells]
    numbers = [None if cell is None else number_of(cell) for cell in known]
    if is_number is None:
        is_number = all(cell is None or number is not None for cell, number in zip(known, numbers, strict=True))
    return pa.array(numbers, pa.float64()) if is_number else pa.array(known, pa.string())


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


def with_processors(table: pa.Table, declaration: Declaration) -> pa.Table:
    """The table with a column of processors; a name that is no column is read as a formula of columns."""
    wanted = declaration.procs
    if wanted is None or wanted in table.column_names:
        return table
    formula = parse(wanted)
    missing = sorted(formula.names - set(table.column_names))
    if missing:
        found = f"no column {printable(missing[0], 60)}"
        raise InputError(f"processors {printable(wanted, 60)}", found, f"columns as {', '.join(table.column_names)}")
    values = formula.evaluate({name: numbers_of(table, name) for name in formula.names}, table.num_rows)
    return table.append_column(wanted, pa.array(values, pa.float64(), from_pandas=True))


def asked_points(model: InputModel, at: Sequence[str], path: Path | None) -> pa.Table:
    """The points of the options --at, or of a file; InputError where there is neither, both, or an unknown input."""
    if bool(at) == bool(path):
        found = "both --at and --points" if at else "no point"
        raise InputError("walltime inputs predict", found, "either --at NAME=VALUE,... or --points FILE.csv")
    points = read_runs(path) if path else points_at(model.declaration, at)
    names = {one.name for one in model.declaration.inputs}
    missing = sorted(names - set(points.column_names))
    if missing:
        where = printable(str(path)) if path else f"--at {printable(at[0], 60)}"
        raise InputError(where, f"no {printable(missing[0], 60)}", f"a value of each of {', '.join(sorted(names))}")
    return with_processors(points, model.declaration)


def points_at(declaration: Declaration, texts: Sequence[str]) -> pa.Table:
    """One row for each text NAME=VALUE,NAME=VALUE; values have the declared types, unknown ones are null."""
    kinds = {one.name: one.type for one in declaration.inputs}
    rows = [_values(text, kinds) for text in texts]
    return pa.table(
        {name: column_of_cells([row[name] for row in rows], kind in NUMBERS) for name, kind in kinds.items()}
    )


def _values(text: str, kinds: dict[str, InputType]) -> dict[str, str]:
    found: dict[str, str] = {}
    where = f"--at {printable(text, 60)}"
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise InputError(where, f"'{printable(part, 40)}'", "NAME=VALUE, joined by commas")
        if name not in kinds:
            known = f"one of {printable(', '.join(kinds))}"
            raise InputError(where, f"no input {printable(name, 40)}", known, did_you_mean(name, kinds))
        if name in found:
            raise InputError(where, f"{printable(name, 40)} twice", "one value of each input")
        if kinds[name] in NUMBERS and value.lower() not in UNKNOWN and number_of(value) is None:
            raise InputError(where, f"{printable(name, 40)} = {printable(value, 40)}", "a number")
        found[name] = value
    if lacking := [name for name in kinds if name not in found]:
        raise InputError(where, f"no {printable(lacking[0], 60)}", f"a value of each of {', '.join(kinds)}")
    return found
