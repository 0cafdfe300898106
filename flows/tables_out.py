"""Writing a table where a person asked for it: Parquet or CSV, by suffix."""

from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv

from pipeline.core.errors import InputError
from pipeline.core.store import write_atomically, write_table
from pipeline.core.tables import TableKind
from pipeline.core.text import printable

SUFFIXES = (".parquet", ".csv")


def check_suffix(path: Path) -> None:
    """InputError, before any work, where the suffix is neither or the path is a folder."""
    if path.suffix not in SUFFIXES or path.is_dir():
        raise InputError(
            f"--out {printable(str(path))}", "no table's name", f"a path that ends in {' or '.join(SUFFIXES)}"
        )


def write_any(path: Path, table: pa.Table, kind: TableKind) -> Path:
    """Write the checked table, whole or not at all; returns the path."""
    check_suffix(path)
    if path.suffix == ".parquet":
        return write_table(path, table, kind)
    checked = kind.check(table)
    plain = pa.table([checked.column(f.name).cast(f.type) for f in kind.schema(on_disk=True)], checked.column_names)

    def fill(sink: BinaryIO) -> None:
        pa.csv.write_csv(plain, sink)

    write_atomically(path, fill)
    return path
