"""Arrays by name as the rows of STATE, and named tuples of arrays as such names."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, list_values, lists
from pipeline.tables import STATE

VALUE_KINDS = {"floats": "f", "integers": "i", "flags": "b", "texts": "O"}
"""Which of numpy's kinds of values a column holds."""
NARROW = (".codes", ".heads", ".jobs")
"""Ends of the names of arrays of 32-bit integers."""


def arrays_table(arrays: Mapping[str, Array]) -> pa.Table:
    """STATE of named arrays."""
    shapes = [np.array(values.shape, np.int64) for values in arrays.values()]
    columns = {"array": list(arrays), "shape": lists(shapes, pa.int64())}
    for name, kind in VALUE_KINDS.items():
        values = [array.ravel() if array.dtype.kind == kind else None for array in arrays.values()]
        columns[name] = lists(values, STATE.schema().field(name).type.value_type)
    return STATE.build(**columns)


def arrays_in(table: pa.Table) -> dict[str, Array]:
    """The arrays of a STATE by name; they can be written."""
    names, shapes = table.column("array").to_pylist(), list_values(table.column("shape"))
    by_kind = zip(*(list_values(table.column(name)) for name in VALUE_KINDS), strict=True)
    held = [next(values for values in row if values is not None) for row in by_kind]
    found = {name: one.reshape(shape).copy() for name, shape, one in zip(names, shapes, held, strict=True)}
    # A table has one type of integers; a kernel is compiled for one type of each of its arrays.
    return found | {name: found[name].astype(np.int32) for name in names if name.endswith(NARROW)}


def arrays_of(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    """The arrays of a named tuple, and of the tuples in it, each under the names of the fields that lead to it."""
    if isinstance(value, tuple):
        for key, one in value._asdict().items():  # type: ignore[attr-defined]
            yield from arrays_of(f"{name}.{key}", one)
    else:
        yield name, value


def tuple_of(kind: Any, name: str, arrays: Mapping[str, Array]) -> Any:
    """The inverse of `arrays_of` for a class of named tuples; KeyError where an array is missing."""
    if not (isinstance(kind, type) and issubclass(kind, tuple)):
        return arrays[name]
    return kind(**{key: tuple_of(inner, f"{name}.{key}", arrays) for key, inner in kind.__annotations__.items()})


def copied(value: Any) -> Any:
    """The tuple with arrays of its own."""
    return type(value)(*map(copied, value)) if isinstance(value, tuple) else value.copy()
