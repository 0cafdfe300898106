"""Writes tables and rows to paths that a user names."""

import csv
import io
import json
import math
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from flows.services.files.os_errors import SCRATCH_PREFIX, naming_path, unwinding_on_signals
from pipeline.errors import FORMULA_STARTS, InputError, printable, spreadsheet_text
from pipeline.publish.store import locked
from pipeline.schema import INSTANT_UNIT, TableKind
from pipeline.storage import write_atomically, write_batches, write_text
from pipeline.tables import COLUMNS

SUFFIXES, PAGE_SUFFIXES = (".parquet", ".csv"), (".html", ".htm")
MOST_SHEET_ROWS = 1_048_575
"""Rows that a sheet of a workbook holds below its header (Excel's specifications and limits)."""
EPOCH, SHEET_COLUMN_WIDTH = datetime(1970, 1, 1), 19  # a workbook knows no time zone; times are UTC
_FORMULA = rf"\A *[{re.escape(''.join(FORMULA_STARTS))}]"
_CONTROL = r"[\p{C}\p{Zl}\p{Zp}]"


def check_suffix(path: Path, option: str = "--out", suffixes: Sequence[str] = SUFFIXES) -> None:
    """InputError, before any work, where the suffix is none of these or the path is a folder."""
    where, kind = f"{option} {printable(str(path))}", "page" if suffixes is PAGE_SUFFIXES else "table"
    if path.is_dir():
        raise InputError(where, "a folder", "the path of a file")
    if path.suffix not in suffixes:
        raise InputError(where, f"no {kind}'s name", f"a path that ends in {' or '.join(suffixes)}")


def write_any(path: Path, table: pa.Table, kind: TableKind) -> Path:
    """Write the checked table, whole or not at all; returns the path."""
    return write_any_batches(path, [kind.check(table)], kind)


def write_joined(path: Path, tables: Sequence[pa.Table], kind: TableKind) -> Path:
    """Write tables of one kind as one; returns the path."""
    return write_any(path, pa.concat_tables(tables, promote_options="default"), kind)


def write_any_batches(
    path: Path, batches: Iterable[pa.Table], kind: TableKind, metadata: Mapping[str, str] | None = None
) -> Path:
    """Write checked batches as one table, whole or not at all; returns the path.

    CSV has no metadata, and a text that begins as a formula does gets an apostrophe in front (`spreadsheet_text`).
    """
    check_suffix(path)
    write = write_batches if path.suffix == ".parquet" else _write_csv
    return write(path, batches, kind, metadata)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of plain values as a table in one of the formats of SELECTION, whole or not at all."""
    write_selection(path, pa.Table.from_pylist([dict(row) for row in rows]).to_reader())


def write_selection(path: Path, found: pa.RecordBatchReader) -> Path:
    """Write a stream of rows in the format of the suffix, one of SELECTION, whole or not at all; returns the path.

    JSON is a list of an object for each row. In CSV and workbooks texts are as `spreadsheet_text` gives them.
    """
    check_suffix(path, suffixes=tuple(SELECTION))
    write_atomically(path, lambda sink: SELECTION[path.suffix](sink, found))
    return path


def csv_to(sink: TextIO, found: pa.RecordBatchReader) -> None:
    """Write a stream of rows as CSV."""
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(found.schema.names)
    writer.writerows(
        [spreadsheet_text(cell) if isinstance(cell, str) else cell for cell in row] for row in _rows(found)
    )


def _rows(found: pa.RecordBatchReader) -> Iterator[tuple[Any, ...]]:
    """The rows in plain values."""
    for batch in found:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _write_text_csv(sink: BinaryIO, found: pa.RecordBatchReader) -> None:
    text = io.TextIOWrapper(sink, "utf-8", newline="")
    csv_to(text, found)
    text.detach()


def _write_json(sink: BinaryIO, found: pa.RecordBatchReader) -> None:
    begin = b"[\n"
    for row in _rows(found):
        # JSON has no NaN and no infinity: both are null, as with --json.
        plain = [None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in row]
        sink.write(begin + json.dumps(dict(zip(found.schema.names, plain, strict=True))).encode())
        begin = b",\n"
    sink.write(b"\n]\n" if begin == b",\n" else b"[]\n")


def _write_parquet(sink: BinaryIO, found: pa.RecordBatchReader) -> None:
    with pq.ParquetWriter(sink, found.schema, compression="zstd") as writer:
        for batch in found:
            writer.write_batch(batch)


def _write_xlsx(sink: BinaryIO, found: pa.RecordBatchReader) -> None:
    from xlsxwriter import Workbook  # noqa: PLC0415  (an extra)

    options: dict[str, Any] = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    options |= {"nan_inf_to_errors": True, "default_date_format": "yyyy-mm-dd hh:mm:ss"}
    names = found.schema.names
    is_instant = [name in COLUMNS and COLUMNS[name].unit == INSTANT_UNIT for name in names]
    with Workbook(sink, options) as book:
        sheet = book.add_worksheet()
        sheet.set_column(0, len(names) - 1, SHEET_COLUMN_WIDTH)
        sheet.write_row(0, 0, names)
        for place, row in enumerate(_rows(found), 1):
            if place > MOST_SHEET_ROWS:
                raise InputError("--out", f"more than {MOST_SHEET_ROWS:,} rows", "fewer", "use --limit or .csv")
            cells = [_sheet_cell(cell, is_time=is_time) for cell, is_time in zip(row, is_instant, strict=True)]
            sheet.write_row(place, 0, cells)


def _sheet_cell(cell: Any, *, is_time: bool) -> Any:
    """A value as a spreadsheet takes it: instants as dates (UTC), lists as text, no text as a formula."""
    if is_time and cell is not None:
        return EPOCH + timedelta(seconds=cell)
    text = str(cell) if isinstance(cell, list) else cell
    return spreadsheet_text(text) if isinstance(text, str) else text


SELECTION = {".csv": _write_text_csv, ".parquet": _write_parquet, ".json": _write_json, ".xlsx": _write_xlsx}
"""What `show --out` writes, by suffix."""


@contextmanager
def scratch_folder(out: Path) -> Iterator[Path]:
    """An empty folder beside a file that is written, removed at the end, and by the next writer of the file if it was
    killed. Writers of one file wait for one another. Folders above it that are made here, and stay empty, are removed.
    """
    folder = out.with_name(f"{SCRATCH_PREFIX}{out.name}")
    with naming_path(out), unwinding_on_signals(), locked(folder):
        scratch = folder / "files"
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            scratch.mkdir()
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def write_page(path: Path, page: str) -> Path:
    """Write a page, whole or not at all; returns the path."""
    return write_text(path, page)


def _cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with its texts as a spreadsheet may open them."""
    if column.type != pa.string():
        return column
    is_strange = pc.match_substring_regex(column, f"{_FORMULA}|{_CONTROL}")
    if not pc.any(is_strange).as_py():
        return column
    texts = [None if text is None else spreadsheet_text(text) for text in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _write_csv(path: Path, batches: Iterable[pa.Table], kind: TableKind, _: Mapping[str, str] | None) -> Path:
    schema = kind.schema(on_disk=True)

    def fill(sink: BinaryIO) -> None:
        with pa.csv.CSVWriter(sink, schema) as writer:
            for batch in batches:
                columns = [batch.column(field.name).cast(field.type) for field in schema]
                writer.write_table(pa.table([_cells(column) for column in columns], schema=schema))

    write_atomically(path, fill)
    return path
