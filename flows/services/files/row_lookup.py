"""Reads columns and single rows of Parquet tables without checking their values, as a query does."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.arrays import Value, first_place, matching_places
from pipeline.errors import InputError, printable
from pipeline.schema import TableKind
from pipeline.storage import expecting_table


def read_columns(path: Path, kind: TableKind) -> pa.Table:
    """The table with plain strings and unchecked values, which is faster; InputError where columns are missing."""
    with _opened(path, kind) as file:
        return file.read(columns=[column.name for column in kind.columns], use_threads=False)


def find_row(
    path: Path, kind: TableKind, wanted: Mapping[str, Value], names: Sequence[str]
) -> dict[str, str | float | int | None] | None:
    """The named columns of the first row with these values; None where there is none.

    Row groups whose statistics exclude a value are skipped, so that a table sorted by a column is read in part.
    """
    with _opened(path, kind) as file:
        for number in range(file.num_row_groups):
            if not _may_hold(file.metadata.row_group(number), wanted):
                continue
            compared = file.read_row_group(number, columns=list(wanted), use_threads=False)
            place = first_place(compared, wanted)
            if place >= 0:
                rows = file.read_row_group(number, columns=list(names), use_threads=False)
                return dict(rows.slice(place, 1).to_pylist()[0])
    return None


def find_only_row(
    path: Path, kind: TableKind, wanted: Mapping[str, Value], names: Sequence[str]
) -> dict[str, str | float | int | None] | None:
    """The named columns of the only row with these values; None where there is none or more than one."""
    with _opened(path, kind) as file:
        compared = file.read(columns=list(wanted), use_threads=False)
        places = matching_places(compared, wanted)
        if len(places) != 1:
            return None
        rows = file.read(columns=list(names), use_threads=False)
    return dict(rows.slice(int(places[0]), 1).to_pylist()[0])


def filled_columns(path: Path, kind: TableKind, names: Sequence[str]) -> list[str]:
    """The named columns that hold any value, by the statistics in the file."""
    with _opened(path, kind) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    filled = {c.path_in_schema for c in chunks if c.statistics is None or c.statistics.num_values}
    return [name for name in names if name in filled]


def _may_hold(group: pq.RowGroupMetaData, wanted: Mapping[str, Value]) -> bool:
    """Whether the statistics of a row group allow the wanted texts."""
    for place in range(group.num_columns):
        column = group.column(place)
        value, bounds = wanted.get(column.path_in_schema), column.statistics
        is_known = isinstance(value, str) and bounds is not None and bounds.has_min_max and isinstance(bounds.min, str)
        if is_known and not bounds.min <= value <= bounds.max:
            return False
    return True


def _opened(path: Path, kind: TableKind) -> pq.ParquetFile:
    with expecting_table(path, kind):
        file = pq.ParquetFile(path, memory_map=True)
    missing = [column.name for column in kind.columns if column.name not in file.schema_arrow.names]
    if missing:
        file.close()
        found, expected = f"no column {', '.join(missing)}", f"a {kind.name} table"
        raise InputError(printable(str(path)), found, expected, "run again to publish it anew")
    return file
