"""Facts of a version's Parquet files: rows, and of every column its type, nullability and number of nulls."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.tables import TABLES
from pipeline.publish.parquet_aggregates import aggregates, unreadable

SMALL_BYTES = 2**24
"""Nulls of a table up to this size (unpacked) are counted in Arrow: a start of DuckDB takes 20 ms of CPU time."""
BATCH_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One column as it stands in a file."""

    type: str
    unit: str | None
    nullable: bool
    nulls: int


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table as it stands in a file; its key is the declared one, because a file has none."""

    rows: int
    key: tuple[str, ...]
    columns: dict[str, ColumnFacts]


def table_facts(path: Path, key: tuple[str, ...]) -> TableFacts:
    """The facts of a Parquet file; InputError where it is none. No row is in memory."""
    try:
        with pq.ParquetFile(path) as file:
            nulls = _nulls_in_footer(file.metadata)
            schema, rows = file.schema_arrow, file.metadata.num_rows
            is_small = _unpacked_bytes(file.metadata) <= SMALL_BYTES
    except (pa.ArrowInvalid, OSError) as error:
        raise unreadable(path, error) from None
    count = _nulls_in_rows if is_small else _nulls_by_database
    nulls |= count(path, [name for name in schema.names if name not in nulls])
    columns = {f.name: ColumnFacts(str(f.type), _unit(f), f.nullable, nulls[f.name]) for f in schema}
    return TableFacts(rows, key, columns)


def _unit(field: pa.Field) -> str | None:
    unit = (field.metadata or {}).get(b"unit")
    return None if unit is None else unit.decode("utf-8", "replace")


def _nulls_in_footer(metadata: pq.FileMetaData) -> dict[str, int]:
    """The nulls of the columns for which every row group has statistics; texts and lists have none."""
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    counts: dict[str, int] = {}
    for place in range(metadata.num_columns):
        chunks = [group.column(place) for group in groups]
        name = metadata.schema.column(place).path
        is_flat = metadata.schema.column(place).max_repetition_level == 0
        if is_flat and all(c.is_stats_set and c.statistics.has_null_count for c in chunks):
            counts[name] = sum(c.statistics.null_count for c in chunks)
    return counts


def _unpacked_bytes(metadata: pq.FileMetaData) -> int:
    return sum(metadata.row_group(place).total_byte_size for place in range(metadata.num_row_groups))


def _nulls_in_rows(path: Path, names: list[str]) -> dict[str, int]:
    counts = dict.fromkeys(names, 0)
    if names:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=names):
                for name in names:
                    counts[name] += batch.column(name).null_count
    return counts


def _nulls_by_database(path: Path, names: list[str]) -> dict[str, int]:
    if not names:
        return {}
    quoted = ", ".join('count("{}")'.format(name.replace('"', '""')) for name in names)
    rows, *counts = aggregates(path, f"count(*), {quoted}")
    return {name: rows - n for name, n in zip(names, counts, strict=True)}


def facts_of(files: Mapping[str, Path]) -> dict[str, TableFacts]:
    """The facts of some files by table; InputError where one is no Parquet file."""
    return {name: table_facts(path, TABLES[name].key) for name, path in files.items()}
