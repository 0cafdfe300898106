"""A table on disk of which a step reads the rows and columns that it needs, so that memory does not grow with the log.

Steps take a table in memory in the same way: `columns_of` and `parts_of` read either.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.store import expecting_table, without_empty_columns, write_batches
from pipeline.core.table_kind import TableKind
from pipeline.core.version import code_version


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A Parquet file that `write_batches` wrote for a kind of table."""

    path: Path
    kind: TableKind

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        with self._file() as file:
            return int(file.metadata.num_rows)

    def rows(self, first: int, after: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows from `first` to before `after`, with these columns in this order; all columns where none are named.

        Rows are read by row group, so that a few more are decoded than are returned.
        """
        with expecting_table(self.path, self.kind), self._file() as file:
            parts, begin = [], 0
            for place in range(file.num_row_groups):
                n_rows = file.metadata.row_group(place).num_rows
                if begin < after and begin + n_rows > first:
                    group = without_empty_columns(file.read_row_group(place, columns and list(columns)))
                    low, high = max(first - begin, 0), min(after - begin, n_rows)
                    parts.append(group.slice(low, high - low))
                begin += n_rows
        table = pa.concat_tables(parts).unify_dictionaries() if parts else self.kind.empty()
        # Return the memory of decoding to the system.
        pa.default_memory_pool().release_unused()
        return table.select(columns) if columns else self.kind.check(table)

    def _file(self) -> pq.ParquetFile:
        categories = [c.name for c in self.kind.columns if pa.types.is_dictionary(c.type)]
        return pq.ParquetFile(self.path, read_dictionary=categories)


LargeTable: TypeAlias = pa.Table | StoredTable
"""A table that has a row for each job."""


def columns_of(table: LargeTable, columns: Sequence[str], first: int = 0, after: int | None = None) -> pa.Table:
    """The rows from `first` to before `after` of some columns, in memory."""
    after = table.num_rows if after is None else after
    if isinstance(table, StoredTable):
        return table.rows(first, after, columns)
    return table.select(list(columns)).slice(first, after - first)


def parts_of(table: LargeTable, n_rows: int, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The table in parts of `n_rows` rows, the last one of the rest; one empty part where there are no rows."""
    for first in range(0, max(table.num_rows, 1), n_rows):
        yield rows_of(table, first, min(first + n_rows, table.num_rows), columns)


def rows_of(table: LargeTable, first: int, after: int, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows from `first` to before `after`, of all columns where none are named, in memory."""
    if columns is not None:
        return columns_of(table, columns, first, after)
    return table.rows(first, after) if isinstance(table, StoredTable) else table.slice(first, after - first)


def whole(table: LargeTable) -> pa.Table:
    """All rows and columns, in memory."""
    return rows_of(table, 0, table.num_rows)


def stored(batches: Iterable[pa.Table], kind: TableKind, folder: Path | None, name: str) -> LargeTable:
    """Checked tables of one kind, one after another, as one: in a file of this folder, or in memory without one.

    The caller ensures that the key is unique across them.
    """
    if folder is None:
        return kind.check(pa.concat_tables([kind.empty(), *batches]).unify_dictionaries())
    path = write_batches(folder / f"{name}.parquet", batches, kind, {"code": code_version()})
    return StoredTable(path, kind)
