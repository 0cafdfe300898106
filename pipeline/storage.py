"""Reads and writes Parquet files. Writes are atomic, and the same input gives the same bytes."""

import base64
import ctypes
import hashlib
import math
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.arrays import integers, unknown
from pipeline.errors import InputError, TableError, printable
from pipeline.schema import TableKind

ROW_GROUP_ROWS = 131_072
MAX_UNPACKED_BYTES = 1 << 31
"""Of one row group. A table of jobs takes about 500 bytes a row, 64 MiB a row group, so that no site needs another."""

MANY_ROWS = 10_000_000

_FEW_VALUES = {"restart", "procs", "nodes", "gpus", "requested_procs", "requested_nodes", "requested_s"} | {
    "requested_mem_kib",
    "exit_code",
}
"""Numbers that repeat, for which a dictionary is smallest; for others it costs time and a third more bytes."""


def write_table(path: Path, table: pa.Table, kind: TableKind, metadata: Mapping[str, str] | None = None) -> Path:
    """Check the table and write it atomically as zstd Parquet; returns the path.

    Categories become plain strings, units and meanings stay in the field metadata.
    """
    return write_batches(path, [kind.check(table)], kind, metadata)


def write_batches(
    path: Path, batches: Iterable[pa.Table], kind: TableKind, metadata: Mapping[str, str] | None = None
) -> Path:
    """Write checked tables one after another into one file; the bytes do not depend on the sizes of the batches.

    The caller ensures that the key is unique across batches. At most one row group is in memory beside a batch.
    """
    schema = kind.schema().remove_metadata()
    facts = {"table": kind.name, **(metadata or {})}
    shown = kind.schema(on_disk=True).with_metadata(facts).serialize().to_pybytes()

    def fill(sink: BinaryIO) -> None:
        with pq.ParquetWriter(sink, schema, compression="zstd", store_schema=False, **_encodings(schema)) as writer:
            for group in row_groups(batches):
                writer.write_table(_packed(group, schema), ROW_GROUP_ROWS)
            # The schema that Arrow reads back; the default would be the schema in memory, with dictionaries.
            writer.add_key_value_metadata({**facts, "ARROW:schema": base64.b64encode(shown).decode()})

    write_atomically(path, fill)
    return path


def row_groups(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of ROW_GROUP_ROWS rows; the last one holds the rest."""
    held: list[pa.Table] = []
    for batch in batches:
        held.append(batch)
        if sum(table.num_rows for table in held) >= ROW_GROUP_ROWS:
            joined = pa.concat_tables(held)
            whole = joined.num_rows - joined.num_rows % ROW_GROUP_ROWS
            yield from (joined.slice(start, ROW_GROUP_ROWS) for start in range(0, whole, ROW_GROUP_ROWS))
            held = [joined.slice(whole)] if whole < joined.num_rows else []
    if sum(table.num_rows for table in held):
        yield pa.concat_tables(held)


def read_table(path: Path, kind: TableKind) -> pa.Table:
    """The table of a Parquet file, checked against its declaration; InputError where the file is not such a table.

    Parameters
    ----------
    path : Path
        Parquet file.
    kind : TableKind
        Declared columns, units and checks.

    Returns
    -------
    pa.Table
        All columns of the kind, in its units.

    Raises
    ------
    InputError
        If the file is missing or is no table of this kind.

    Examples
    --------
    >>> from pipeline.tables import FITS
    >>> read_table(Path("no_such_file.parquet"), FITS)
    Traceback (most recent call last):
    pipeline.errors.InputError: ...
    """
    return kind.check(read_rows(path, kind))


def read_rows(
    path: Path, kind: TableKind, columns: Collection[str] | None = None, first: int = 0, after: float = math.inf
) -> pa.Table:
    """The rows of a Parquet file from `first` to before `after`, unchecked; all columns where none are named.

    Rows are read by row group, so that a few more are decoded than are returned.
    """
    there, expected = schema_names(path, kind), f"a {kind.name} table"
    categories = [name for name in kind.categories if name in there]
    with expecting_table(path, expected), parquet_file(path, read_dictionary=categories) as file:
        parts, begin = [], 0
        for place in range(file.num_row_groups):
            n_rows = file.metadata.row_group(place).num_rows
            if begin < after and begin + n_rows > first:
                group = without_empty_columns(file.read_row_group(place, columns and list(columns)))
                low, high = max(first - begin, 0), int(min(after - begin, n_rows))
                parts.append(group.slice(low, high - low))
            begin += n_rows
        table = pa.concat_tables(parts).unify_dictionaries() if parts else file.schema_arrow.empty_table()
    # Return the memory of decoding to the system.
    pa.default_memory_pool().release_unused()
    return table


def return_free_memory() -> None:
    """Give memory that no table and no array uses back to the system, where the C library can."""
    pa.default_memory_pool().release_unused()
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def parquet_file(path: Path, **options: Any) -> pq.ParquetFile:
    """An open Parquet file; a page whose checksum is another one fails when it is read.

    InputError where a row group says that it takes more than MAX_UNPACKED_BYTES, or where a file of many rows has not
    one bit for each: no jobs are so alike.
    """
    file = pq.ParquetFile(path, page_checksum_verification=True, **options)
    meta = file.metadata
    n_bytes = path.stat().st_size
    if meta.num_rows > max(MANY_ROWS, 8 * n_bytes):
        found = f"{meta.num_rows:,} rows in {n_bytes:,} bytes"
        raise InputError(printable(str(path)), found, "a table of different rows", "see who wrote this file")
    for group in map(meta.row_group, range(meta.num_row_groups)):
        check_unpacked(path, max(group.total_byte_size, 8 * group.num_rows))
    return file


def check_unpacked(path: Path, n_bytes: int) -> None:
    """InputError where a part of a table would take more than MAX_UNPACKED_BYTES in memory."""
    if n_bytes > MAX_UNPACKED_BYTES:
        found, expected = f"{n_bytes:,} bytes in one part of the table", f"at most {MAX_UNPACKED_BYTES:,}"
        do = "see who wrote this file, or write it with smaller row groups"
        raise InputError(printable(str(path)), found, expected, do)


def without_empty_columns(table: pa.Table) -> pa.Table:
    """The table, in which a column of nulls takes almost no memory: half the columns of a log hold nothing."""
    columns = [unknown(len(one), one.type) if one.null_count == len(one) else one for one in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def widened(table: pa.Table, kind: TableKind) -> pa.Table:
    """The table with every declared column; missing ones are null and take almost no memory."""
    there = set(table.column_names)
    return pa.table(
        [table.column(c.name) if c.name in there else unknown(table.num_rows, c.type) for c in kind.columns],
        names=[c.name for c in kind.columns],
    )


def read_older_batches(path: Path, kind: TableKind) -> Iterator[pa.Table]:
    """A table that another release may have written, in batches of checked rows: a column that it lacks is null.

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
    texts = [column.name for column in kind.columns if column.type == pa.string() and column.name in names]
    categories = [name for name in kind.categories if name in names]
    try:
        with expecting_table(path, expected), parquet_file(path, read_dictionary=categories + texts) as file:
            for batch in file.iter_batches(ROW_GROUP_ROWS):
                table = without_empty_columns(pa.Table.from_batches([batch]))
                yield kind.check(widened(_with_plain_texts(table, texts, path), kind))
    except TableError as error:
        found = f"values that break its own rules ({printable(str(error), 160).rstrip('.')})"
        raise InputError(where, found, expected, "write to another --out") from None


def _with_plain_texts(table: pa.Table, names: Collection[str], path: Path) -> pa.Table:
    """The table with these columns as plain texts; InputError where the texts, repeated in each row, are too large."""
    for place, name in ((table.column_names.index(name), name) for name in names):
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            for chunk in column.chunks:
                sizes = integers(pc.binary_length(chunk.dictionary).cast(pa.int64()))[0]
                check_unpacked(path, int(sizes[integers(chunk.indices.drop_null())[0]].sum()))
            table = table.set_column(place, name, column.cast(pa.string()))
    return table


def schema_names(path: Path, kind: TableKind) -> list[str]:
    """The names of a table's columns; InputError where the file is no table."""
    with expecting_table(path, f"a {kind.name} table"):
        return list(pq.read_schema(path).names)


@contextmanager
def expecting_table(path: Path, expected: str) -> Iterator[None]:
    """InputError where a file that is to hold such a table is not there, or is no table at all."""
    where = printable(str(path))
    try:
        yield
    except FileNotFoundError:
        raise InputError(where, "no such file", expected, "give the path of one") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        found, do = f"a file that is not a Parquet table ({printable(str(error))})", "copy or write the file again"
        raise InputError(where, found, expected, do) from None


def read_metadata(path: Path, expected: str = "a whole table") -> dict[str, str]:
    """The key-value metadata of a table; InputError where the file is none."""
    with expecting_table(path, expected):
        pairs = pq.read_schema(path).metadata or {}
        return {name.decode(): value.decode() for name, value in pairs.items()}


def draft_of(path: Path) -> Path:
    """Where this process writes a file or a folder before it is renamed to `path`."""
    return path.with_name(f".{path.name}.{os.getpid()}.draft")


@contextmanager
def drafted(path: Path) -> Iterator[Path]:
    """The draft of a file or a folder, to be made; at the end it is flushed and gets its place in one step.

    After a failure there is neither.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = draft_of(path)
    # A link or a file of this name was left by a dead process, or was put there to be written through.
    remove(draft)
    try:
        yield draft
        sync(draft)
        draft.replace(path)
    except OSError as error:
        # That of a full disk names no file.
        if error.filename is None and error.errno:
            error.filename = str(path)
        raise
    finally:
        remove(draft)
    sync(path.parent)


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with all that is in it; nothing where there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_atomically(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Write a file beside `path`, flush it to disk, and put it in place in one step."""
    with drafted(path) as draft, draft.open("xb") as sink:
        fill(sink)


def write_text(path: Path, text: str) -> Path:
    """Write a text file atomically; returns the path."""
    return write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file atomically; returns the path."""
    write_atomically(path, lambda sink: sink.write(content))
    return path


def sync(path: Path) -> None:
    """Flush a file, or a folder so that renames in it survive a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class FileStamp:
    """The state of a file at one instant; any change of the file changes it."""

    bytes: int
    modified_ns: int
    changed_ns: int
    inode: int


def file_stamp(path: Path) -> FileStamp:
    """The state of a file now."""
    now = path.stat()
    return FileStamp(now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino)


@lru_cache(256)
def sha256_once(path: Path, stamp: FileStamp) -> str:
    """The digest of a file in one state, which its stamp tells from others: a process hashes it once."""
    del stamp
    return file_sha256(path)


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """The encoding of each column. Texts get no statistics: computing them takes a quarter of the time of writing."""
    categories = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    repeating = [*categories, *(name for name in schema.names if name in _FEW_VALUES)]
    # Instants and line numbers ascend: delta encoding takes half the time and a tenth less space.
    steps = [field.name for field in schema if field.type == pa.int64() and field.name not in repeating]
    return {
        "write_page_checksum": True,
        "use_dictionary": repeating,
        "column_encoding": dict.fromkeys(steps, "DELTA_BINARY_PACKED"),
        "write_statistics": [f.name for f in schema if f.name not in categories and f.type != pa.string()],
    }


def _packed(part: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with each column in one piece: pages end at chunks, and the bytes must not depend on the batches."""
    columns = []
    for column in (part.column(name) for name in schema.names):
        if column.null_count == len(column):
            columns.append(unknown(len(column), column.type))
        elif pa.types.is_dictionary(column.type):
            # The dictionary then holds the used values alone, in order of first use.
            columns.append(column.cast(pa.string()).combine_chunks().dictionary_encode())
        else:
            columns.append(column.combine_chunks())
    return pa.table(columns, schema=schema)
