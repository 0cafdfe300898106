"""Points at which a model is asked: from the option --at, or from a CSV file."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from flows.services.inputs.processor_formula import with_processors
from flows.services.inputs.runs_csv import UNKNOWN, known_cells, number_of, read_runs
from pipeline.core.errors import InputError
from pipeline.core.text import did_you_mean, printable
from pipeline.inputs import Declaration, InputModel, InputType


def asked_points(model: InputModel, at: Sequence[str], path: Path | None) -> pa.Table:
    """The points of the options --at, or of a file; InputError where there is neither, both, or an unknown input."""
    if bool(at) == bool(path):
        found = "both --at and --points" if at else "no point"
        raise InputError("walltime ask", found, "either --at NAME=VALUE,... or --points FILE.csv")
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
    if declaration.procs and declaration.procs not in kinds:
        kinds |= {declaration.procs: InputType.LOG_NUMBER} if declaration.prior else {}
    rows = [_values(text, kinds) for text in texts]
    named = [name for name in kinds if any(name in row for row in rows)]
    for text, row in zip(texts, rows, strict=True):
        lacking = next((name for name in kinds if name not in row), None)
        if lacking:
            raise InputError(f"--at {printable(text, 60)}", f"no {printable(lacking, 60)}",
                             f"a value of each of {', '.join(kinds)}")  # fmt: skip
    texts_of = {name: [row[name] for row in rows] for name in named}
    return pa.table({name: _column(kinds[name], values) for name, values in texts_of.items()})


def _values(text: str, kinds: dict[str, InputType]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        where = f"--at {printable(text, 60)}"
        if not equals:
            raise InputError(where, f"'{printable(part, 40)}'", "NAME=VALUE, joined by commas")
        if name not in kinds:
            known = f"one of {printable(', '.join(kinds))}"
            raise InputError(where, f"no input {printable(name, 40)}", known, did_you_mean(name, kinds))
        if name in found:
            raise InputError(where, f"{printable(name, 40)} twice", "one value of each input")
        is_number = kinds[name] in (InputType.NUMBER, InputType.LOG_NUMBER)
        if is_number and value.lower() not in UNKNOWN and number_of(value) is None:
            raise InputError(where, f"{printable(name, 40)} = {printable(value, 40)}", "a number")
        found[name] = value
    return found


def _column(kind: InputType, cells: list[str]) -> pa.Array:
    known = known_cells(cells)
    if kind in (InputType.NUMBER, InputType.LOG_NUMBER):
        return pa.array([None if cell is None else number_of(cell) for cell in known], pa.float64())
    return pa.array(known, pa.string())
