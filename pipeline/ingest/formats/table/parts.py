"""Reads a table a part at a time: Parquet, Arrow (Feather), CSV with any delimiter, and JSON with an object a job.

Memory holds one part, and of Parquet one row group.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InputError, printable
from pipeline.ingest.formats.table.text_parts import (
    Part,
    array_parts,
    csv_parts,
    first_line,
    has_header,
    json_parts,
    names_in,
)
from pipeline.ingest.sources import ARROW, PARQUET, Source, head
from pipeline.settings import IngestSettings
from pipeline.storage import parquet_file

PART_ROWS = 1 << 16


def is_binary(start: bytes) -> bool:
    """Whether a source's first bytes are those of Parquet or Arrow."""
    return start.startswith((PARQUET, ARROW))


def names_of(source: Source, settings: IngestSettings) -> list[str]:
    """The columns of a table, in order; InputError where it is damaged or names none."""
    start = head(source)
    if not is_binary(start):
        if settings.fields and not has_header(start, settings):
            return list(settings.fields)
        return names_in(start, settings)
    with _opened(source, start) as file:
        schema: pa.Schema = file.schema_arrow if start.startswith(PARQUET) else file.schema
        return list(schema.names)


def read_parts(source: Source, names: Sequence[str], used: Sequence[str], settings: IngestSettings) -> Iterator[Part]:
    """The rows of a table in parts of some thousands, with the columns that are used."""
    start = head(source)
    if is_binary(start):
        yield from _binary_parts(source, used)
    elif first_line(start).startswith(b"["):
        yield from array_parts(source, used)
    elif first_line(start).startswith(b"{"):
        yield from json_parts(source, used)
    else:
        yield from csv_parts(source, names, used, settings)


def _opened(source: Source, start: bytes) -> Any:
    try:
        if start.startswith(PARQUET):
            return _parquet(source)
        return pa.ipc.open_file(source.opened() if source.opened else pa.memory_map(str(source.path)))
    except (pa.ArrowException, OSError) as error:
        raise _damaged(source, error) from None


def _parquet(source: Source) -> pq.ParquetFile:
    """A file whose texts stay dictionaries, so that one that repeats is in memory once."""
    schema = pq.read_schema(source.path)
    texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]
    return parquet_file(source.path, read_dictionary=texts)


def _damaged(source: Source, error: Exception) -> InputError:
    found = f"a table that cannot be read ({printable(str(error), 120)})"
    return InputError(printable(source.label), found, "a whole file", "copy or export it again")


def row_batches(source: Source, used: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of Parquet or Arrow, PART_ROWS at a time or fewer, with all columns or these; InputError for damage."""
    start = head(source)
    with _opened(source, start) as file:
        try:
            if isinstance(file, pq.ParquetFile):
                yield from file.iter_batches(PART_ROWS, columns=used and list(used))
                return
            for place in range(file.num_record_batches):
                batch = file.get_batch(place) if used is None else file.get_batch(place).select(list(used))
                yield from (batch.slice(at, PART_ROWS) for at in range(0, batch.num_rows, PART_ROWS))
        except (pa.ArrowException, OSError) as error:
            raise _damaged(source, error) from None


def _binary_parts(source: Source, used: Sequence[str]) -> Iterator[Part]:
    n_rows = 0
    for batch in row_batches(source, used):
        rows = pa.Table.from_batches([batch])
        line = n_rows + 1 + np.arange(rows.num_rows)
        n_rows += rows.num_rows
        yield Part(rows, line, np.zeros_like(line), rows.num_rows, rows.nbytes)
