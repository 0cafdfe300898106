"""Finds rows by their values without a database; null matches null."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Bools, Ints
from pipeline.core.buffers import floats_of, integers, nulls, words_of

Value = str | float | int | None


def first_place(table: pa.Table, wanted: Mapping[str, Value]) -> int:
    """The first row whose named columns hold these values (None: null); -1 where there is none."""
    places = matching_places(table, wanted)
    return int(places[0]) if len(places) else -1


def matching_places(table: pa.Table, wanted: Mapping[str, Value]) -> Ints:
    """All rows whose named columns hold these values (None: null)."""
    found = np.ones(table.num_rows, np.bool_)
    for name, value in wanted.items():
        found &= _same(table.column(name), value)
    return np.flatnonzero(found)


def _same(column: pa.ChunkedArray, value: Value) -> Bools:
    """Where a column holds a value; false everywhere where one is text and the other a number."""
    if value is None:
        return nulls(column)
    plain = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    if isinstance(value, str) != pa.types.is_string(plain.type):
        return np.zeros(len(column), np.bool_)
    if isinstance(value, str):
        array = plain.combine_chunks() if plain.num_chunks != 1 else plain.chunk(0)
        return _same_text(array, value) & ~nulls(array)
    numbers = floats_of(plain) if plain.type == pa.float64() else integers(plain)[0]
    same: Bools = (numbers == value) & ~nulls(plain)
    return same


def _same_text(array: pa.Array, text: str) -> Bools:
    """Where a string array holds a text, undefined where it is null; only texts of the same length are compared."""
    raw, ends = words_of(array)
    wanted = np.frombuffer(text.encode("utf-8", "backslashreplace"), np.uint8)
    same: Bools = np.diff(ends) == len(wanted)
    long_enough = np.flatnonzero(same)
    same[long_enough] = (raw[ends[long_enough, None] + np.arange(len(wanted))] == wanted).all(axis=1)
    return same
