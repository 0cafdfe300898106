"""Writes tables to paths that a user names, Parquet or CSV by suffix, and reads the rows of a user's CSV."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from flows.services.files.os_errors import naming_path, read_text
from pipeline.errors import FORMULA_STARTS, InputError, printable, spreadsheet_text
from pipeline.schema import TableKind
from pipeline.storage import write_atomically, write_batches, write_text

SUFFIXES = (".parquet", ".csv")
_FORMULA = rf"\A *[{re.escape(''.join(FORMULA_STARTS))}]"
_CONTROL = r"[\p{C}\p{Zl}\p{Zp}]"


def check_suffix(path: Path, option: str = "--out") -> None:
    """InputError, before any work, where the suffix is neither or the path is a folder."""
    if path.is_dir():
        raise InputError(f"{option} {printable(str(path))}", "a folder", "the path of a file")
    if path.suffix not in SUFFIXES:
        raise InputError(
            f"{option} {printable(str(path))}", "no table's name", f"a path that ends in {' or '.join(SUFFIXES)}"
        )


def write_any(path: Path, table: pa.Table, kind: TableKind) -> Path:
    """Write the checked table, whole or not at all; returns the path."""
    return write_any_batches(path, [kind.check(table)], kind)


def write_any_batches(
    path: Path, batches: Iterable[pa.Table], kind: TableKind, metadata: Mapping[str, str] | None = None
) -> Path:
    """Write checked batches as one table, whole or not at all; returns the path.

    CSV has no metadata, and a text that begins as a formula does gets an apostrophe in front (`spreadsheet_text`).
    """
    check_suffix(path)
    with naming_path(path):
        return (
            write_batches(path, batches, kind, metadata)
            if path.suffix == ".parquet"
            else _write_csv(path, batches, kind)
        )


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of plain values as a table, .csv or .parquet, whole or not at all."""
    table = pa.Table.from_pylist([dict(row) for row in rows])
    write = pq.write_table if path.suffix == ".parquet" else pa.csv.write_csv
    with naming_path(path):
        write_atomically(path, lambda sink: write(table, sink))


def csv_rows(path: Path, expected: str) -> list[tuple[int, list[str]]]:
    """Line number and cells of each row of a CSV in UTF-8, without blanks around them; InputError for another file."""
    reader = csv.reader(io.StringIO(read_text(path, f"{expected}, in UTF-8")))
    try:
        return [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        where = f"{printable(str(path))}, line {reader.line_num}"
        raise InputError(where, f"text that is no CSV ({error})", expected) from None


def write_page(path: Path, page: str) -> Path:
    """Write a page, whole or not at all; returns the path."""
    with naming_path(path):
        return write_text(path, page)


def write_with_page(
    folder: Path, tables: Sequence[pa.Table], kind: TableKind, page: str, suffix: str
) -> tuple[Path, Path]:
    """Write tables of one kind as one, and their page, into a folder, which is made; returns both paths."""
    with naming_path(folder):
        folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"{kind.name}.parquet", folder / f"{kind.name}{suffix}"
    table = pa.concat_tables(tables, promote_options="default")
    return write_any(paths[0], table, kind), write_page(paths[1], page)


def _cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with its texts as a spreadsheet may open them."""
    if column.type != pa.string():
        return column
    is_strange = pc.match_substring_regex(column, f"{_FORMULA}|{_CONTROL}")
    if not pc.any(is_strange).as_py():
        return column
    texts = [None if text is None else spreadsheet_text(text) for text in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _write_csv(path: Path, batches: Iterable[pa.Table], kind: TableKind) -> Path:
    schema = kind.schema(on_disk=True)

    def fill(sink: BinaryIO) -> None:
        with pa.csv.CSVWriter(sink, schema) as writer:
            for batch in batches:
                columns = [batch.column(field.name).cast(field.type) for field in schema]
                writer.write_table(pa.table([_cells(column) for column in columns], schema=schema))

    write_atomically(path, fill)
    return path
