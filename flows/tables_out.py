"""Writing a table where a person asked for it: Parquet or CSV, by suffix."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv

from flows.failures import naming
from pipeline.core.errors import InputError
from pipeline.core.store import write_atomically, write_batches, write_text
from pipeline.core.tables import TableKind
from pipeline.core.text import printable

SUFFIXES = (".parquet", ".csv")


def check_suffix(path: Path) -> None:
    """InputError, before any work, where the suffix is neither or the path is a folder."""
    if path.is_dir():
        raise InputError(f"--out {printable(str(path))}", "a folder", "the path of a file")
    if path.suffix not in SUFFIXES:
        raise InputError(
            f"--out {printable(str(path))}", "no table's name", f"a path that ends in {' or '.join(SUFFIXES)}"
        )


def write_any(path: Path, table: pa.Table, kind: TableKind) -> Path:
    """Write the checked table, whole or not at all; returns the path."""
    return write_any_batches(path, [kind.check(table)], kind)


def write_any_batches(
    path: Path, batches: Iterable[pa.Table], kind: TableKind, metadata: Mapping[str, str] | None = None
) -> Path:
    """Write checked tables one after another as one, whole or not at all; returns the path. CSV has no metadata."""
    check_suffix(path)
    with naming(path):
        return (
            write_batches(path, batches, kind, metadata)
            if path.suffix == ".parquet"
            else _write_csv(path, batches, kind)
        )


def write_page(path: Path, page: str) -> Path:
    """Write a page, whole or not at all; returns the path."""
    with naming(path):
        return write_text(path, page)


def _write_csv(path: Path, batches: Iterable[pa.Table], kind: TableKind) -> Path:
    schema = kind.schema(on_disk=True)

    def fill(sink: BinaryIO) -> None:
        with pa.csv.CSVWriter(sink, schema) as writer:
            for batch in batches:
                writer.write_table(pa.table([batch.column(f.name).cast(f.type) for f in schema], schema=schema))

    write_atomically(path, fill)
    return path
