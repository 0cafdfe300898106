"""The only Parquet door: what is written here is whole or absent, and the same input gives the same bytes."""

import base64
import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.buffers import arrow, integers, unknown
from pipeline.core.errors import InputError, TableError
from pipeline.core.matching import Value, first_place, matching_places
from pipeline.core.tables import TableKind
from pipeline.core.text import printable

ROW_GROUP_ROWS = 131_072

_FEW_VALUES = {"restart", "procs", "nodes", "gpus", "requested_procs", "requested_nodes", "requested_s"} | {
    "requested_mem_kib",
    "exit_code",
}
"""Numbers that repeat, which a dictionary packs best; of others one costs time, and a third more bytes."""


def write_table(path: Path, table: pa.Table, kind: TableKind, metadata: Mapping[str, str] | None = None) -> Path:
    """Check the table and write it as zstd Parquet, whole or not at all; returns the path.

    Categories become plain strings, units and meanings stay in the field metadata.
    """
    return write_batches(path, [kind.check(table)], kind, metadata)


def write_batches(
    path: Path, batches: Iterable[pa.Table], kind: TableKind, metadata: Mapping[str, str] | None = None
) -> Path:
    """Write checked tables one after another as one, as `write_table` would; the bytes do not tell how they were cut.

    The caller answers for a key that is unique across batches. At most one row group is in memory beside a batch.
    """
    schema = kind.schema().remove_metadata()
    facts = {"table": kind.name, **(metadata or {})}
    shown = kind.schema(on_disk=True).with_metadata(facts).serialize().to_pybytes()

    def fill(sink: BinaryIO) -> None:
        with pq.ParquetWriter(sink, schema, compression="zstd", store_schema=False, **_encodings(schema)) as writer:
            for group in row_groups(batches):
                writer.write_table(_packed(group, schema), ROW_GROUP_ROWS)
            # The schema that Arrow reads back: by itself it would store that of the tables, with their dictionaries.
            writer.add_key_value_metadata({**facts, "ARROW:schema": base64.b64encode(shown).decode()})

    write_atomically(path, fill)
    return path


def row_groups(batches: Iterable[pa.Table], n_rows: int = ROW_GROUP_ROWS) -> Iterator[pa.Table]:
    """The same rows, `n_rows` at a time, the last table with what is left."""
    held: list[pa.Table] = []
    for batch in batches:
        held.append(batch)
        if sum(table.num_rows for table in held) >= n_rows:
            joined = pa.concat_tables(held)
            whole = joined.num_rows - joined.num_rows % n_rows
            yield from (joined.slice(start, n_rows) for start in range(0, whole, n_rows))
            held = [joined.slice(whole)] if whole < joined.num_rows else []
    if sum(table.num_rows for table in held):
        yield pa.concat_tables(held)


def read_table(path: Path, kind: TableKind, only: Collection[str] | None = None) -> pa.Table:
    """The table of a Parquet file, checked against its kind; InputError where the file is not one.

    With `only`, the other columns are not read and null: the key and what is required must be among them.
    """
    categories = [c.name for c in kind.columns if pa.types.is_dictionary(c.type)]
    with _expecting(path, kind):
        if only:
            kind.check(pq.read_schema(path).empty_table())
        table = pq.read_table(path, columns=list(only) if only else None, read_dictionary=categories, partitioning=None)
    # What decoding took would else stay with the process for as long as it works on the table.
    pa.default_memory_pool().release_unused()
    return kind.check(_widened(table, kind) if only else table)


def _widened(table: pa.Table, kind: TableKind) -> pa.Table:
    """The table with every column of its kind; those it lacks are null, and as good as no memory."""
    there = set(table.column_names)
    return pa.table(
        [table.column(c.name) if c.name in there else unknown(table.num_rows, c.type) for c in kind.columns],
        names=[c.name for c in kind.columns],
    )


def read_batches(path: Path, kind: TableKind, n_rows: int = ROW_GROUP_ROWS) -> Iterator[pa.Table]:
    """The same, checked some rows at a time; a key that repeats farther apart goes unseen."""
    categories = [c.name for c in kind.columns if pa.types.is_dictionary(c.type)]
    with _expecting(path, kind), pq.ParquetFile(path, read_dictionary=categories) as file:
        for batch in file.iter_batches(n_rows):
            yield kind.check(pa.Table.from_batches([batch]))


def read_older_batches(path: Path, kind: TableKind, n_rows: int = ROW_GROUP_ROWS) -> Iterator[pa.Table]:
    """The same of a table that another release may have written: a column that it lacks is null.

    InputError for a column that this kind does not have, which could not be written again, and for values against its
    declaration.
    """
    where, expected = printable(str(path)), f"a {kind.name} table of Walltime"
    names = schema_names(path, kind)
    others = [name for name in names if name not in {column.name for column in kind.columns}]
    if others:
        shown = printable(", ".join(others[:5]), 200) + (", ..." if len(others) > 5 else "")
        found = f"column{'s' if len(others) > 1 else ''} {shown}, which {kind.name} does not have"
        raise InputError(where, found, expected, "write to another --out, or remove what was added")
    categories = [c.name for c in kind.columns if pa.types.is_dictionary(c.type) and c.name in names]
    try:
        with pq.ParquetFile(path, read_dictionary=categories) as file:
            for batch in file.iter_batches(n_rows):
                yield kind.check(_widened(pa.Table.from_batches([batch]), kind))
    except TableError as error:
        found = f"values that break its own rules ({printable(str(error), 160).rstrip('.')})"
        raise InputError(where, found, expected, "write to another --out") from None


def schema_names(path: Path, kind: TableKind) -> list[str]:
    """The names of a table's columns; InputError where the file is no table."""
    with _expecting(path, kind):
        return list(pq.read_schema(path).names)


@contextmanager
def _expecting(path: Path, kind: TableKind) -> Iterator[None]:
    """InputError where a file that is to hold a table of this kind is not there, or is no table at all."""
    where, expected = printable(str(path)), f"a {kind.name} table"
    try:
        yield
    except FileNotFoundError:
        raise InputError(where, "no such file", expected, "give the path of one") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(where, f"a file that is no Parquet table ({printable(str(error))})", expected) from None


def read_columns(path: Path, kind: TableKind) -> pa.Table:
    """The table with texts as plain strings and its values unchecked, which is quicker; InputError for another kind."""
    with _opened(path, kind) as file:
        return file.read(columns=[column.name for column in kind.columns], use_threads=False)


def find_row(
    path: Path, kind: TableKind, wanted: Mapping[str, Value], names: Sequence[str]
) -> dict[str, str | float | int | None] | None:
    """The named columns of the first row with these values; reads the columns it compares, then one row group's others.

    A table sorted by a wanted column is read where that value can stand, and nowhere else.
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
    """The named columns of the one row with these values; None where there are several, or none."""
    with _opened(path, kind) as file:
        compared = file.read(columns=list(wanted), use_threads=False)
        places = matching_places(compared, wanted)
        if len(places) != 1:
            return None
        rows = file.read(columns=list(names), use_threads=False)
    return dict(rows.slice(int(places[0]), 1).to_pylist()[0])


def filled_columns(path: Path, kind: TableKind, names: Sequence[str]) -> list[str]:
    """Those of the named columns that hold any value, by what the file says of itself."""
    with _opened(path, kind) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    filled = {c.path_in_schema for c in chunks if c.statistics is None or c.statistics.num_values}
    return [name for name in names if name in filled]


def _may_hold(group: pq.RowGroupMetaData, wanted: Mapping[str, Value]) -> bool:
    """Whether the least and largest values a row group is said to hold leave room for the text wanted."""
    for place in range(group.num_columns):
        column = group.column(place)
        value, said = wanted.get(column.path_in_schema), column.statistics
        is_told = isinstance(value, str) and said is not None and said.has_min_max and isinstance(said.min, str)
        if is_told and not said.min <= value <= said.max:
            return False
    return True


def _opened(path: Path, kind: TableKind) -> pq.ParquetFile:
    with _expecting(path, kind):
        file = pq.ParquetFile(path, memory_map=True)
    missing = [column.name for column in kind.columns if column.name not in file.schema_arrow.names]
    if missing:
        file.close()
        found, expected = f"no column {', '.join(missing)}", f"a {kind.name} table"
        raise InputError(printable(str(path)), found, expected, "run again to publish it anew")
    return file


def read_metadata(path: Path) -> dict[str, str]:
    """The key-value metadata a table was written with."""
    pairs = pq.read_schema(path).metadata or {}
    return {name.decode(): value.decode() for name, value in pairs.items()}


def write_atomically(path: Path, fill: Callable[[BinaryIO], None]) -> None:
    """Write a file beside `path`, flush it to disk, and put it in place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        with draft.open("wb") as sink:
            fill(sink)
            sink.flush()
            os.fsync(sink.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_text(path: Path, text: str) -> Path:
    """A text file, whole or absent."""

    def fill(sink: BinaryIO) -> None:
        sink.write(text.encode("utf-8"))

    write_atomically(path, fill)
    return path


def sync_folder(path: Path) -> None:
    """Make renames inside a folder survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """How each column is packed. Texts get no least and largest value: finding them takes a quarter of the writing."""
    categories = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    repeating = [*categories, *(name for name in schema.names if name in _FEW_VALUES)]
    # Instants and lines rise: their steps take half the time to pack, and a tenth less room.
    steps = [field.name for field in schema if field.type == pa.int64() and field.name not in repeating]
    return {
        "use_dictionary": repeating,
        "column_encoding": dict.fromkeys(steps, "DELTA_BINARY_PACKED"),
        "write_statistics": [f.name for f in schema if f.name not in categories and f.type != pa.string()],
    }


def _packed(part: pa.Table, schema: pa.Schema) -> pa.Table:
    # Pages end where chunks do: only in one piece are the bytes free of how the rows came.
    return pa.table([_in_one_piece(part.column(name)) for name in schema.names], schema=schema)


def _in_one_piece(column: pa.ChunkedArray) -> pa.Array:
    if column.null_count == len(column):
        return unknown(len(column), column.type)
    return _as_met(column) if pa.types.is_dictionary(column.type) else column.combine_chunks()


def _as_met(column: pa.ChunkedArray) -> pa.Array:
    """A category with the words its rows use, in the order in which they come, so that bytes tell no more than rows."""
    # Making one dictionary of many costs what they hold: of a few rows, a few words.
    own = [_words_met(chunk) if len(chunk.dictionary) > len(chunk) else chunk for chunk in column.chunks]
    return _words_met(pa.chunked_array(own).unify_dictionaries().combine_chunks())


def _words_met(rows: pa.DictionaryArray) -> pa.DictionaryArray:
    if rows.dictionary.null_count:
        return rows.cast(pa.string()).dictionary_encode()
    met = rows.indices.unique().drop_null()
    place = np.zeros(len(rows.dictionary), np.int32)
    place[integers(met)[0]] = np.arange(len(met))
    return pa.DictionaryArray.from_arrays(arrow(place).take(rows.indices), rows.dictionary.take(met))
