"""Finding a row by its values, without a database: null matches null."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.arrays import Ints
from pipeline.core.buffers import arrow, integers, texts

Value = str | float | int | None


def first_place(table: pa.Table, wanted: Mapping[str, Value]) -> int:
    """The first row in which every named column holds its value (None: null); -1: none."""
    places = matching_places(table, wanted)
    return int(places[0]) if len(places) else -1


def matching_places(table: pa.Table, wanted: Mapping[str, Value]) -> Ints:
    """All rows in which every named column holds its value (None: null)."""
    mask: pa.ChunkedArray | None = None
    for name, value in wanted.items():
        same = _same(table.column(name), value)
        if same is None:
            return np.empty(0, np.int64)
        mask = same if mask is None else pc.and_(mask, same)
    if mask is None or not table.num_rows:
        return np.arange(table.num_rows)
    return integers(pc.indices_nonzero(mask))[0]


def _same(column: pa.ChunkedArray, value: Value) -> pa.ChunkedArray | None:
    if value is None:
        return pc.is_null(column)
    plain = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    if isinstance(value, str) != pa.types.is_string(plain.type):
        return None
    wanted = texts([value])[0] if isinstance(value, str) else arrow(np.array([value], np.float64))[0]
    return pc.equal(plain, wanted)
