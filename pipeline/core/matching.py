"""Finding a row by its values, without a database: null matches null."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.buffers import arrow, integers, texts

Value = str | float | int | None


def first_place(table: pa.Table, wanted: Mapping[str, Value]) -> int:
    """The first row in which every named column holds its value (None: null); -1: none."""
    if not table.num_rows:
        return -1
    mask: pa.ChunkedArray | None = None
    for name, value in wanted.items():
        same = _same(table.column(name), value)
        if same is None:
            return -1
        mask = same if mask is None else pc.and_(mask, same)
    if mask is None:
        return 0
    places = integers(pc.indices_nonzero(mask))[0]
    return int(places[0]) if len(places) else -1


def _same(column: pa.ChunkedArray, value: Value) -> pa.ChunkedArray | None:
    if value is None:
        return pc.is_null(column)
    plain = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    if isinstance(value, str) != pa.types.is_string(plain.type):
        return None
    wanted = texts([value])[0] if isinstance(value, str) else arrow(np.array([value], np.float64))[0]
    return pc.equal(plain, wanted)
