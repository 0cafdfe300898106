"""What a table is: its columns, its key, and the checks it passes between rooms."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core import compute as pc
from pipeline.core.buffers import integers
from pipeline.core.column import CATEGORY, Column
from pipeline.core.errors import TableError


@dataclass(frozen=True, slots=True)
class TableKind:
    """The declaration of a table: name, columns and key. Every table that leaves a room passes `check`."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    meaning: str

    def schema(self, *, on_disk: bool = False) -> pa.Schema:
        """The Arrow schema; on disk categories are plain strings, so that any reader opens them."""
        made_for, schema = _SCHEMAS.get((self.name, on_disk), (None, None))
        if made_for is not self:
            fields = [column.field(on_disk=on_disk) for column in self.columns]
            schema = pa.schema(fields, metadata={"table": self.name})
            _SCHEMAS[self.name, on_disk] = (self, schema)
        return schema

    def empty(self) -> pa.Table:
        """A table of this kind with no rows."""
        return pa.table([pa.nulls(0, f.type) for f in self.schema()], schema=self.schema())

    def build(self, **values: object) -> pa.Table:
        """A checked table from arrays or sequences by column name; other columns are null."""
        unknown = sorted(set(values) - {column.name for column in self.columns})
        if unknown:
            raise TableError(self.name, f"columns {', '.join(unknown)}", "declared columns only")
        n_rows = len(next(iter(values.values())))  # type: ignore[arg-type]
        fields = self.schema()
        arrays = [as_array(values[f.name], f.type) if f.name in values else pa.nulls(n_rows, f.type) for f in fields]
        return self.check(pa.table(arrays, schema=fields))

    def check(self, table: pa.Table) -> pa.Table:
        """The same table under the declared schema; TableError where columns, types, nulls, bounds or key differ."""
        if table.column_names != [column.name for column in self.columns]:
            raise TableError(self.name, f"columns {table.column_names}", f"{[c.name for c in self.columns]}")
        conformed = pa.table([_conform(self.name, table, column) for column in self.columns], schema=self.schema())
        for column in self.columns:
            _check_values(self.name, conformed.column(column.name), column)
        _check_key(self.name, conformed, self.key)
        return conformed


_SCHEMAS: dict[tuple[str, bool], tuple[TableKind, pa.Schema]] = {}
"""The schemas made so far, each with its kind: a stage asks for the same one dozens of times."""


def as_array(values: object, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Values as an Arrow array of the wanted type; NaN in a numpy array is null."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        if values.type == wanted:
            return values
        return values.dictionary_encode().cast(wanted) if wanted == CATEGORY else values.cast(wanted)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        array = pa.array(values, mask=np.isnan(values))
        return array.cast(wanted)
    if wanted == CATEGORY:
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, wanted)


def _conform(kind: str, table: pa.Table, column: Column) -> pa.ChunkedArray:
    values = table.column(column.name)
    if values.type == column.type:
        return values
    if column.type == CATEGORY and (pa.types.is_string(values.type) or pa.types.is_dictionary(values.type)):
        return values.cast(pa.string()).dictionary_encode()
    raise TableError(kind, f"column {column.name} of type {values.type}", f"type {column.type}")


def _check_values(kind: str, values: pa.ChunkedArray, column: Column) -> None:
    if column.is_required and values.null_count:
        raise TableError(kind, f"{values.null_count} nulls in column {column.name}", "a value in every row")
    if column.minimum is not None and len(values) > values.null_count:
        least = pc.min(values).as_py()
        if least < column.minimum:
            raise TableError(kind, f"{column.name} = {least}", f"at least {column.minimum:g}")


def _codes(values: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """The column's distinct values as numbers from 1, null as 0."""
    array = values.unify_dictionaries().combine_chunks() if values.type == CATEGORY else values.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    indices, is_null = integers((array if array.type == CATEGORY else array.dictionary_encode()).indices)
    return np.where(is_null, 0, indices.astype(np.int64) + 1)


def _n_distinct(columns: list[npt.NDArray[np.int64]]) -> int:
    """The number of distinct rows; constant columns are skipped, and one column of distinct values suffices."""
    varying = [column for column in columns if column.max() > column.min()]
    if any(np.bincount(column).max() == 1 for column in varying):
        return len(columns[0])
    codes = np.zeros(len(columns[0]), np.int64)
    for column in varying:
        codes = np.unique(codes * (int(column.max()) + 1) + column, return_inverse=True)[1]
    return int(codes.max()) + 1


def _shows_no_repeat(values: pa.ChunkedArray) -> bool:
    """Whether all values are texts of different integers, which takes a fifth of the time of hashing."""
    if values.type != pa.string() or values.null_count:
        return False
    try:
        numbers = integers(values.cast(pa.int64()))[0]
    except pa.ArrowInvalid:
        return False
    steps = np.diff(numbers)
    return bool((steps > 0).all() or (np.diff(np.sort(numbers)) > 0).all())


def _check_key(kind: str, table: pa.Table, key: tuple[str, ...]) -> None:
    if not key or table.num_rows < 2 or any(_shows_no_repeat(table.column(name)) for name in key):
        return
    n_distinct = _n_distinct([_codes(table.column(name)) for name in key])
    if n_distinct != table.num_rows:
        raise TableError(kind, f"{table.num_rows - n_distinct} rows repeating the key", f"one row per {', '.join(key)}")
