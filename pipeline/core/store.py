"""The only Parquet door: what is written here is whole or absent, and the same input gives the same bytes."""

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.errors import InputError
from pipeline.core.tables import TableKind
from pipeline.core.text import printable

ROW_GROUP_ROWS = 131_072


def write_table(path: Path, table: pa.Table, kind: TableKind, metadata: Mapping[str, str] | None = None) -> Path:
    """Check the table and write it as zstd Parquet, whole or not at all; returns the path.

    Categories become plain strings, units and meanings stay in the field metadata.
    """
    checked = kind.check(table)
    schema = kind.schema(on_disk=True).with_metadata({"table": kind.name, **(metadata or {})})
    # Other columns hold too many values: a dictionary of them costs time, and a third more bytes.
    categories = [c.name for c in kind.columns if pa.types.is_dictionary(c.type)]

    def fill(sink: BinaryIO) -> None:
        with pq.ParquetWriter(sink, schema, compression="zstd", use_dictionary=categories) as writer:
            for start in range(0, checked.num_rows, ROW_GROUP_ROWS):
                writer.write_table(_plain(checked.slice(start, ROW_GROUP_ROWS), schema))

    write_atomically(path, fill)
    return path


def read_table(path: Path, kind: TableKind) -> pa.Table:
    """The table of a Parquet file, checked against its kind; InputError where the file is not one."""
    categories = [c.name for c in kind.columns if pa.types.is_dictionary(c.type)]
    try:
        table = pq.read_table(path, read_dictionary=categories, partitioning=None)
    except FileNotFoundError:
        raise InputError(printable(str(path)), "no such file", f"a {kind.name} table", "give the path of one") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(
            printable(str(path)), f"a file that is no Parquet table ({error})", f"a {kind.name} table"
        ) from None
    return kind.check(table)


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


def _plain(part: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.table([part.column(f.name).cast(f.type) for f in schema], schema=schema)
