"""Reads CSV and JSON a part at a time: the rows of some columns as text, and the line of each.

Numbers stay text until their column's kind is known, so that an id 0012 keeps its zeros. A line of a CSV with more or
fewer values than the header is unreadable, as is a line that is no JSON object.
"""

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv

from pipeline.arrays import Bools, Ints, arrow
from pipeline.errors import InputError, printable
from pipeline.ingest.raw_table import RawTable, tables_of_lines
from pipeline.ingest.reader import unique_keys, unreadable_row
from pipeline.ingest.sources import MAX_LINE_BYTES, Block, Source, byte_blocks, head, line_blocks
from pipeline.settings import IngestSettings

UNKNOWN_CELLS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "NaT", "nat", "\\N"]
"""What stands in a table for a value that is not known."""

_BETWEEN = re.compile(r"[\s,]*")
_LONE_RETURN = re.compile(rb"\r(?!\n)")
_DELIMITERS = (",", "\t", ";", "|")


def names_in(start: bytes, settings: IngestSettings | None = None) -> list[str]:
    """The columns that the first bytes of a CSV or JSON name; none where they name none."""
    first = first_line(start)
    if first.startswith(b"{"):
        return list(_object(first) or ())
    if first.startswith(b"["):
        return list(next(iter(_leading_objects(start.decode("utf-8", "replace").lstrip()[1:])[0]), ()))
    try:
        names = next(csv.reader([_utf8(first).decode()], delimiter=_delimiter(first, settings)), [])
    except csv.Error:
        return []
    return names if len(names) > 1 else []


def csv_parts(
    source: Source, names: Sequence[str], used: Sequence[str], settings: IngestSettings
) -> Iterator[RawTable]:
    """The records of a CSV, a block of the source at a time."""
    first = first_line(head(source))
    delimiter, n_headers = _delimiter(first, settings), int(has_header(first, settings))
    for block in line_blocks(source, end_of_whole=_end_of_records):
        yield _csv_part(source, block, names, used, delimiter, n_headers, settings)
        n_headers = 0


def _csv_part(
    source: Source, block: Block, names: Sequence[str], used: Sequence[str], delimiter: str, n_headers: int,
    settings: IngestSettings,
) -> RawTable:  # fmt: skip
    """A block's records. A record that is no row keeps its line; a blank one is only counted."""
    bad: list[tuple[int, str]] = []

    def set_aside(row: Any) -> str:
        bad.append((row.number, row.text))
        return "skip"

    starts, is_open = _record_starts(block.data), not block.data.endswith(b"\n") and settings.last_line == "set_aside"
    end = starts[-2] if is_open else len(block.data)
    body = _utf8(block.data[starts[min(n_headers, len(starts) - 1)] : end])
    if b"\r" in body:
        # Arrow would end a record at a carriage return alone.
        body = _LONE_RETURN.sub(rb"\\r", body)
    rows = pc_csv.read_csv(
        io.BytesIO(body or b"\n"),
        pc_csv.ReadOptions(column_names=list(names), use_threads=False, block_size=max(len(body), 1) + 1),
        pc_csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=False, invalid_row_handler=set_aside
        ),
        pc_csv.ConvertOptions(
            include_columns=list(used), column_types=dict.fromkeys(used, pa.string()), null_values=UNKNOWN_CELLS,
            strings_can_be_null=True, check_utf8=False,
        ),
    )  # fmt: skip
    rows = rows if body else rows.slice(0, 0)
    return _with_lines(source, block, rows, starts, n_headers, bad, is_open=is_open)


def _with_lines(
    source: Source, block: Block, rows: pa.Table, starts: Ints, n_headers: int, bad: Sequence[tuple[int, str]], *,
    is_open: bool,
) -> RawTable:  # fmt: skip
    n_records = rows.num_rows + len(bad)
    is_sure = len(starts) - 1 - n_headers - is_open == n_records
    if not is_sure:
        # A stray quote: Arrow's records are others than those of all quotes, and each is placed at a line of its own.
        starts = np.append(np.concatenate([[0], _line_ends(block.data) + 1]), len(block.data))
    line_of = block.line + np.searchsorted(_line_ends(block.data), starts[:-1], side="left")
    is_row = np.zeros(len(starts) - 1, np.bool_)
    is_row[n_headers : n_headers + n_records] = True
    blank, unreadable = 0, []
    for number, text in bad:
        at = n_headers + number - 1
        is_row[at] = False
        if not text.strip():
            blank += 1
            continue
        where = int(line_of[at]), block.offset + int(starts[at])
        unreadable.append(unreadable_row(source, *where, "number_of_values", text.encode("utf-8", "replace")))
    if is_open and len(starts) > 1:
        begin = int(starts[-2])
        where = int(line_of[-1]), block.offset + begin
        unreadable.append(unreadable_row(source, *where, "no_line_end", block.data[begin:]))
    if is_sure and (is_blank := _are_blank(block.data, starts) & is_row).any():
        rows, is_row = rows.filter(arrow(~is_blank[is_row])), is_row & ~is_blank
        blank += int(is_blank.sum())
    place = np.flatnonzero(is_row)
    n_other = block.n_lines - rows.num_rows - len(unreadable) - blank - n_headers
    lines = {"header": n_headers, "blank": blank, "continued": n_other}
    said = {name: n for name, n in lines.items() if n}
    n_bytes = len(block.data) + block.n_dropped
    offset = block.offset + starts[place]
    return RawTable(rows, line_of[place], offset, block.n_lines, n_bytes, unreadable, said)


def json_parts(source: Source, used: Sequence[str]) -> Iterator[RawTable]:
    """The objects of lines of JSON; one without a line end is whole where it closes."""

    def split(text: bytes) -> dict[str, str | None] | str:
        value = _object(text)
        return "not_json" if value is None else {name: _text(value.get(name)) for name in used}

    return tables_of_lines(source, used, split, "not_json", is_last_whole=True)


def _rows_of(objects: Sequence[dict[str, Any]], names: Sequence[str]) -> pa.Table:
    schema = pa.schema([pa.field(name, pa.string()) for name in names])
    return pa.table({name: [_text(one.get(name)) for one in objects] for name in names}, schema=schema)


def array_parts(source: Source, used: Sequence[str]) -> Iterator[RawTable]:
    """The objects of one JSON array; of such a table a line is an element."""
    n_before, n_bytes = 0, 0
    for objects, end in _array_objects(source):
        line = n_before + 1 + np.arange(len(objects))
        yield RawTable(_rows_of(objects, used), line, np.zeros_like(line), len(objects), end - n_bytes)
        n_before, n_bytes = n_before + len(objects), end


def _array_objects(source: Source) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """The objects of an array in lists, and how many bytes were read; InputError where something else stands there."""
    decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
    text, n_read, n_found = "", 0, 0
    for data in byte_blocks(source):
        n_read += len(data)
        text = (text + decode(data)).lstrip()
        if not n_found:
            text = text.removeprefix("[")
        objects, text = _leading_objects(text)
        n_found += len(objects)
        yield objects, n_read
        if text[:1] not in ("", "{") or len(text) > MAX_LINE_BYTES:
            break
    if text.strip() != "]":
        where, found = f"{printable(source.label)}, element {n_found + 1}", f"{printable(repr(text[:60]))}"
        raise InputError(where, found, "a JSON array of objects, a job in each", "export it again")


def _leading_objects(text: str) -> tuple[list[dict[str, Any]], str]:
    """The whole objects that a text begins with, and what follows them."""
    objects, at, decoder = [], 0, json.JSONDecoder(object_pairs_hook=unique_keys)
    while (begin := _BETWEEN.match(text, at).end()) < len(text) and text[begin] == "{":  # type: ignore[union-attr]
        try:
            value, at = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):
            break
        objects.append(value)
    return objects, text[begin:]


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    return json.dumps(value)


def first_line(start: bytes) -> bytes:
    """The first line that is not blank."""
    return next((line.rstrip(b"\r") for line in start.split(b"\n") if line.strip()), b"").strip()


def has_header(start: bytes, settings: IngestSettings) -> bool:
    """Whether the first line names the columns; where the settings name them, it may do so as well."""
    return not settings.fields or names_in(start, settings) == list(settings.fields)


def _utf8(data: bytes) -> bytes:
    """The bytes, with escapes in place of those that are no UTF-8."""
    return data if data.isascii() else data.decode("utf-8", "backslashreplace").encode()


def _delimiter(first: bytes, settings: IngestSettings | None) -> str:
    if settings is not None and settings.delimiter:
        if len(settings.delimiter) > 1:
            found = printable(repr(settings.delimiter))
            raise InputError("ingest.delimiter", found, "one character, of a table", "export it with another delimiter")
        return settings.delimiter
    return max(_DELIMITERS, key=lambda one: first.count(one.encode()))


def _end_of_records(data: bytes) -> int:
    """Where the last whole record ends: a line's end inside double quotes is none."""
    ends = _record_ends(data)
    return int(ends[-1]) + 1 if len(ends) else 0


def _record_starts(data: bytes) -> Ints:
    """The byte at which each record starts, and the end of the data."""
    starts = np.concatenate([[0], _record_ends(data) + 1])
    return starts if starts[-1] == len(data) else np.append(starts, len(data))


def _record_ends(data: bytes) -> Ints:
    """The line ends that are not inside double quotes."""
    ends, quotes = _line_ends(data), np.flatnonzero(np.frombuffer(data, np.uint8) == ord('"'))
    return ends[np.searchsorted(quotes, ends) % 2 == 0] if len(quotes) else ends


def _are_blank(data: bytes, starts: Ints) -> Bools:
    """Which records are nothing but a line's end: Arrow reads each as a row of nulls."""
    size, first = np.diff(starts), np.frombuffer(data, np.uint8)[starts[:-1]]
    blank: Bools = (first == ord("\n")) | ((size == 2) & (first == ord("\r")))
    return blank


def _line_ends(data: bytes) -> Ints:
    return np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
