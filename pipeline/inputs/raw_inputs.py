"""Reads the inputs of runs or points from a table: numbers as floats, categories as texts, derived inputs computed."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Array, Floats
from pipeline.core.buffers import floats_of
from pipeline.core.errors import InputError
from pipeline.core.text import did_you_mean, printable
from pipeline.inputs import formula
from pipeline.inputs.declaration import Declaration, Input, InputType

TRUE, FALSE = ("true", "yes", "1", "1.0"), ("false", "no", "0", "0.0")


def raw_inputs(table: pa.Table, declaration: Declaration) -> dict[str, Array]:
    """Values of every declared and derived input, (rows,) each: floats with NaN for unknown, or texts with None.

    InputError where a column is missing, a value does not have the declared type, or a formula reads no number.
    """
    found: dict[str, Array] = {one.name: _read(table, one) for one in declaration.inputs}
    for one in declaration.derived:
        node = formula.parse(one.formula)
        for name in sorted(formula.names_in(node)):
            if name not in found:
                raise _unknown(f"formula {printable(one.formula, 80)}", name, found)
            if found[name].dtype.kind != "f":
                where = f"formula {printable(one.formula, 80)}"
                raise InputError(where, f"{printable(name)}, which is a category", "inputs that are numbers")
        found[one.name] = formula.evaluate(node, found, table.num_rows)
    return found


def inferred_inputs(runs: pa.Table, names: Sequence[str]) -> tuple[Input, ...]:
    """A type for each column: texts are categories; two values of 0 and 1 a boolean; other numbers that are never
    negative log_number."""
    return tuple(Input(name=name, type=_inferred(column_of(runs, name))) for name in names)


def column_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    """A column; InputError that names the nearest one where it is missing."""
    if name not in table.column_names:
        raise _unknown("columns", name, table.column_names)
    return table.column(name)


def numbers_of(table: pa.Table, name: str) -> Floats:
    """A column of numbers, NaN for null; InputError where it holds something else."""
    column = column_of(table, name)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_null(column.type):
        return np.full(table.num_rows, np.nan)
    try:
        return floats_of(column.cast(pa.float64(), safe=False))
    except pa.ArrowInvalid:
        raise InputError(f"column {printable(name)}", "texts", "numbers", "declare it as a category") from None
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise InputError(f"column {printable(name)}", f"values of type {column.type}", "numbers") from None


def truths_of(table: pa.Table, name: str) -> Floats:
    """A column of yes and no as 1 and 0, NaN for null; InputError for any other value."""
    texts = texts_of(table, name)
    known: dict[str | None, float] = {**dict.fromkeys(TRUE, 1.0), **dict.fromkeys(FALSE, 0.0), None: np.nan}
    lower = [text.lower() if text is not None else None for text in texts]
    strange = next((text for text in lower if text not in known), None)
    if strange is not None:
        raise InputError(f"column {printable(name)}", printable(strange, 40), "true, false, yes, no, 1 or 0")
    return np.array([known[text] for text in lower], np.float64)


def texts_of(table: pa.Table, name: str) -> Array:
    """A column as texts, None for null; whole numbers have no decimals, so that 1.0 and 1 are the same category."""
    values = column_of(table, name).to_pylist()
    return np.array([_text(value) for value in values], dtype=object)


def _text(value: object) -> str | None:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _read(table: pa.Table, one: Input) -> Array:
    if one.type == InputType.CATEGORY:
        return texts_of(table, one.name)
    return truths_of(table, one.name) if one.type == InputType.BOOLEAN else numbers_of(table, one.name)


def _inferred(column: pa.ChunkedArray) -> InputType:
    if pa.types.is_boolean(column.type):
        return InputType.BOOLEAN
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return InputType.CATEGORY
    values = floats_of(column.cast(pa.float64(), safe=False))
    values = values[np.isfinite(values)]
    if len(values) and set(np.unique(values)) <= {0.0, 1.0}:
        return InputType.BOOLEAN
    return InputType.LOG_NUMBER if len(values) and values.min() >= 0 else InputType.NUMBER


def _unknown(where: str, name: str, known: Iterable[str] | Mapping[str, Array]) -> InputError:
    names = sorted(known)
    expected = f"one of {printable(', '.join(names), 200)}"
    return InputError(where, f"no {printable(name)}", expected, did_you_mean(name, names))
