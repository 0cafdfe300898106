"""Converts between numpy and Arrow through buffers only.

pa.array, pa.scalar and to_numpy import pandas to check for pandas values, which costs a short ingest 0.2 s of CPU time.
These functions avoid that for the types that tables have.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bools = npt.NDArray[np.bool_]
Numbers = npt.NDArray[Any]
_NONE = np.zeros(1, np.int32)
_NUMPY = {pa.float64(): np.float64, pa.int64(): np.int64, pa.bool_(): np.bool_}


def arrow(values: Numbers, missing: Bools | None = None) -> pa.Array:
    """A numpy array (numbers or booleans) as an Arrow array, null where `missing`; numbers are not copied."""
    n_missing = int(np.count_nonzero(missing)) if missing is not None else 0
    valid = _bits(~missing) if missing is not None and n_missing else None
    if values.dtype == np.bool_:
        kind, data = pa.bool_(), _bits(values)
    else:
        kind, data = pa.from_numpy_dtype(values.dtype), pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [valid, data], n_missing)


def texts(words: Sequence[str]) -> pa.Array:
    """Texts as an Arrow string array."""
    encoded = [word.encode("utf-8", "backslashreplace") for word in words]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(words), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))])


def words_of(array: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """The bytes of the values of a string array, and its offsets (one more than values)."""
    _, ends, data = array.buffers()
    places = np.frombuffer(ends, np.int32, count=array.offset + len(array) + 1)[array.offset :] if len(array) else _NONE
    return np.frombuffer(data if data is not None else b"", np.uint8), places


def lists(rows: Sequence[Numbers | None], element: pa.DataType) -> pa.Array:
    """Rows of numbers, booleans or texts as an Arrow array of lists, null where a row is None."""
    held = [row for row in rows if row is not None]
    ends = np.cumsum([0, *(0 if row is None else len(row) for row in rows)], dtype=np.int32)
    values = np.concatenate(held) if held else np.empty(0, _NUMPY.get(element, object))
    flat = texts(values.tolist()) if element == pa.string() else arrow(values)
    kind = pa.list_(pa.field("element", element))
    valid = _bits(np.array([row is not None for row in rows], np.bool_))
    return pa.Array.from_buffers(kind, len(rows), [valid, pa.py_buffer(ends)], children=[flat])


def list_values(column: pa.Array | pa.ChunkedArray) -> list[Numbers | None]:
    """The rows of a column of lists, the inverse of `lists`; numbers are read-only views."""
    array = _one(column)
    if not len(array):
        return []
    ends = np.frombuffer(array.buffers()[1], np.int32, count=array.offset + len(array) + 1)[array.offset :].tolist()
    values = _flat(array.values)
    missing = nulls(array)
    return [None if missing[row] else values[ends[row] : ends[row + 1]] for row in range(len(array))]


def _flat(values: pa.Array) -> Numbers:
    """Values without nulls."""
    if values.type == pa.string():
        found = np.empty(len(values), object)
        found[:] = values.to_pylist()
        return found
    if values.type == pa.bool_():
        bits = np.frombuffer(values.buffers()[1] or b"", np.uint8)
        return np.unpackbits(bits, count=values.offset + len(values), bitorder="little")[values.offset :].view(np.bool_)
    return _data(values, np.dtype(_NUMPY[values.type]))


def integers(column: pa.Array | pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], Bools]:
    """The values of an integer column as int64 (undefined where null), and where it is null."""
    array = _one(column)
    wide = array if array.type == pa.int64() else array.cast(pa.int64())
    return _data(wide, np.dtype(np.int64)), nulls(wide)


def floats_of(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """A float64 column's values, NaN where it is null."""
    values = _data(_one(column), np.dtype(np.float64))
    return np.where(nulls(column), np.nan, values) if column.null_count else values


def nulls(column: pa.Array | pa.ChunkedArray) -> Bools:
    """Where a column is null."""
    array = _one(column)
    valid = array.buffers()[0]
    if valid is None or not array.null_count:
        return np.full(len(array), bool(array.null_count))
    bits = np.unpackbits(np.frombuffer(valid, np.uint8), count=array.offset + len(array), bitorder="little")
    is_null: Bools = bits[array.offset :] == 0
    return is_null


def unknown(n_rows: int, kind: pa.DataType) -> pa.Array:
    """An array of nulls. Unlike pa.nulls, all such arrays share one buffer of zeros; lists have their own."""
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(unknown(n_rows, kind.index_type), texts([]))
    if pa.types.is_list(kind):
        return pa.nulls(n_rows, kind)
    zeros = _zeros(n_rows.bit_length())
    return pa.Array.from_buffers(kind, n_rows, [zeros] * (3 if kind == pa.string() else 2), n_rows)


@lru_cache(maxsize=2)
def _zeros(n_bits: int) -> pa.Buffer:
    """Zeros for fewer than 2^n_bits values and one offset more."""
    return pa.py_buffer(np.zeros(8 << n_bits, np.uint8))


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.nulls(0, column.type)


def _data(array: pa.Array, kind: np.dtype[Any]) -> Numbers:
    if not len(array):
        return np.empty(0, kind)
    return np.frombuffer(array.buffers()[1], kind, count=array.offset + len(array))[array.offset :]


def _bits(truths: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(truths, bitorder="little"))
