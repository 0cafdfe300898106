"""Reads any table with a row for each job: Parquet, Arrow, CSV with any delimiter, and JSON with an object a job.

Which column holds what is declared (`ingest.columns`), told by a public set's column names, or guessed from names;
units that nothing declares come from the values, and a guess that they contradict is dropped (guesses.py). What was
assumed is in the notes. raw_table.py makes JOBS of the columns.
"""

import codecs
import csv
import io
import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from pipeline.arrays import Ints, arrow, floats_of, integers
from pipeline.errors import InputError, printable
from pipeline.ingest import raw_table
from pipeline.ingest.formats.table import guesses
from pipeline.ingest.raw_table import REASONS, RawTable, chunk_of, tables_of_lines
from pipeline.ingest.reader import Chunk, Layout, Reader, Remarks, named, unique_keys, unreadable_row
from pipeline.ingest.sources import (
    ARROW,
    MAX_LINE_BYTES,
    PARQUET,
    Block,
    Source,
    beginning,
    byte_blocks,
    head,
    line_blocks,
)
from pipeline.ingest.values import utf8
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.storage import parquet_file

EXPECTS = "a table with a row for each job: Parquet, Arrow, CSV with column names, or JSON with an object a job"
_SACCTS = {"jobname", "alloccpus", "ncpus", "nnodes", "elapsedraw", "timelimit", "timelimitraw", "reqmem", "maxrss"}
"""Names that sacct writes: two of them show a dump of it, whose rows may be steps, as does JobID."""

_LEAST_COLUMNS = 3
_ASSUMED, _SET = "assumed ", "set "
PART_ROWS = 1 << 16


def read(source: Source, site: SiteSettings, settings: IngestSettings) -> Iterator[Chunk]:
    """The chunks of a table. InputError if it has no names of columns, no column on when jobs ran, or damage."""
    names, found = _columns(source, site, settings)
    remarks = Remarks({f"{_ASSUMED}{sentence}": 1 for sentence in found.said})
    if public := guesses.public_set(names):
        remarks[f"{_SET}{public}"] += 1
    columns = guesses.mapped_columns(names, settings, printable(source.label))
    for part in read_parts(source, names, guesses.used(columns), settings):
        yield chunk_of(part, found.columns, source, site, remarks)
        remarks = Remarks()


def _columns(source: Source, site: SiteSettings, settings: IngestSettings) -> tuple[list[str], guesses.Guesses]:
    """A table's columns, and how they are read, by its first rows."""
    names, where = names_of(source, settings), printable(source.label)
    if not names:
        raise InputError(f"{where}, line 1", "no column names", EXPECTS, "name the columns in ingest.fields")
    if double := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{where}, line 1", f"two columns {printable(double, 40)}", "each column once", "rename one")
    columns = guesses.mapped_columns(names, settings, where)
    used, shown = guesses.used(columns), source if _is_binary(head(source)) else beginning(source)[0]
    parts = (part.rows for part in read_parts(shown, names, used, settings))
    none = pa.table({name: pa.array([], pa.string()) for name in used})
    return names, guesses.checked(next(filter(len, parts), none), columns, site, settings)


def names_of(source: Source, settings: IngestSettings) -> list[str]:
    """The columns of a table, in order; InputError where it is damaged or names none."""
    start = head(source)
    if not _is_binary(start):
        if settings.fields and not has_header(start, settings):
            return list(settings.fields)
        return names_in(start, settings)
    with _opened(source, start) as file:
        schema: pa.Schema = file.schema_arrow if start.startswith(PARQUET) else file.schema
        return list(schema.names)


def read_parts(
    source: Source, names: Sequence[str], used: Sequence[str], settings: IngestSettings
) -> Iterator[RawTable]:
    """The rows of a table in parts of some thousands, with the columns that are used."""
    start = head(source)
    if _is_binary(start):
        yield from _binary_parts(source, used)
    elif first_line(start).startswith(b"["):
        yield from array_parts(source, used)
    elif first_line(start).startswith(b"{"):
        yield from json_parts(source, used)
    else:
        yield from csv_parts(source, names, used, settings)


# ---------------- which sources are tables


def looks_right(head: bytes) -> bool:
    """Whether first bytes are a table whose columns tell when jobs ran; a dump without job ids is left to sacct."""
    if _is_binary(head):
        return True
    names = names_in(head)
    if guesses.public_set(names):
        return True
    has_id, n_saccts = _saccts(names)
    return guesses.is_log(guesses.guessed(names)) and (has_id or n_saccts < 2 or first_line(head)[:1] in (b"{", b"["))


def told(head: bytes) -> Collection[str] | None:
    """What the columns tell where the names may be those of a dump of sacct; None for what can only be a table."""
    names = [] if _is_binary(head) or first_line(head).startswith((b"{", b"[")) else names_in(head)
    return guesses.guessed(names).keys() if _saccts(names)[0] and not guesses.public_set(names) else None


def _saccts(names: Sequence[str]) -> tuple[bool, int]:
    """Whether names have sacct's of a job id, and how many others are sacct's."""
    plain = {re.sub(r"\W", "", name).lower() for name in names}
    return bool(plain & {"jobid", "jobidraw"}), len(plain & _SACCTS)


def refusal(source: Source, start: bytes) -> InputError | None:
    """What a text lacks that is a table, but not one that tells when jobs ran; None for what is no table."""
    names = names_in(start)
    n_delimiters = [len(re.findall(rb"[,;\t|]", line)) for line in start.split(b"\n")[1:20]]
    if len(names) < _LEAST_COLUMNS or "=" in "".join(names) or max(n_delimiters, default=0) < len(names) - 1:
        return None
    return guesses.lacking(guesses.guessed(names), names, printable(source.label))


# ---------------- Parquet and Arrow


def _is_binary(start: bytes) -> bool:
    return start.startswith((PARQUET, ARROW))


def _opened(source: Source, start: bytes) -> Any:
    try:
        if start.startswith(PARQUET):
            # Texts stay dictionaries, so that one that repeats is in memory once.
            schema = pq.read_schema(source.path)
            texts = [field.name for field in schema if field.type in (pa.string(), pa.large_string())]
            return parquet_file(source.path, read_dictionary=texts)
        return pa.ipc.open_file(source.opened() if source.opened else pa.memory_map(str(source.path)))
    except (pa.ArrowException, OSError) as error:
        raise _damaged(source, error) from None


def _damaged(source: Source, error: Exception) -> InputError:
    found = f"a table that cannot be read ({printable(str(error), 120)})"
    return InputError(printable(source.label), found, "a whole file", "copy or export it again")


def _binary_parts(source: Source, used: Sequence[str]) -> Iterator[RawTable]:
    """The rows of Parquet or Arrow, PART_ROWS at a time or fewer; a line is a row. InputError for damage."""
    n_rows = 0
    with _opened(source, head(source)) as file:
        try:
            if isinstance(file, pq.ParquetFile):
                batches = file.iter_batches(PART_ROWS, columns=list(used))
            else:
                whole = (file.get_batch(place).select(list(used)) for place in range(file.num_record_batches))
                batches = (own.slice(at, PART_ROWS) for own in whole for at in range(0, own.num_rows, PART_ROWS))
            for batch in batches:
                line = n_rows + 1 + np.arange(batch.num_rows)
                n_rows += batch.num_rows
                rows = pa.table({name: plain(batch.column(name)) for name in batch.schema.names})
                yield RawTable(rows, line, np.zeros_like(line), batch.num_rows, batch.nbytes)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(source, error) from None


def plain(array: pa.Array) -> pa.Array:
    """A column as texts; times and durations stay. A whole number has no fraction, though pandas makes floats of whole
    numbers with nulls; one that is not finite is null."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        words = plain(array.dictionary)
        _check_unpacked(words, array.indices)
        return words.take(array.indices)
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return array.cast(pa.timestamp("s")) if pa.types.is_date(kind) else array
    if pa.types.is_interval(kind):
        took_s = [None if one is None else 86_400 * (30 * one[0] + one[1]) + one[2] / 1e9 for one in array.to_pylist()]
        return plain(pa.array(took_s, pa.float64()))
    if pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        values = floats_of(array.cast(pa.float64()))
        known = values[np.isfinite(values)]
        is_whole = np.array_equal(known, np.floor(known)) and np.abs(known).max(initial=0) < 2.0**62
        numbers = np.nan_to_num(values, posinf=0, neginf=0)
        return arrow(numbers.astype(np.int64) if is_whole else numbers, ~np.isfinite(values)).cast(pa.string())
    if pa.types.is_nested(kind):
        return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())
    is_text = kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary())
    return utf8(array.cast(pa.binary()).cast(pa.string(), safe=False) if is_text else array.cast(pa.string()))


def _check_unpacked(words: pa.Array, places: pa.Array) -> None:
    """InputError where a column's texts would take more than memory should: a long one may repeat in every row."""
    sizes = integers(pc.binary_length(words.fill_null("")))[0] if pa.types.is_string(words.type) else np.zeros(0)
    n_bytes = int(sizes[integers(places.drop_null())[0]].sum()) if len(sizes) else 0
    if n_bytes > MAX_TEXT_BYTES:
        found, expected = f"{n_bytes:,} bytes of text in {len(places):,} rows", f"at most {MAX_TEXT_BYTES:,}"
        raise InputError("a column of a table", found, expected, "see who wrote this file")


MAX_TEXT_BYTES = 1 << 29
"""Of one column in one part of a table."""


# ---------------- tables that are text
# Reads CSV and JSON a part at a time: the rows of some columns as text, and the line of each.
#
# Numbers stay text until their column's kind is known, so that an id 0012 keeps its zeros. A line of a CSV with more or
# fewer values than the header is unreadable, as is a line that is no JSON object.

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
    delimiter, has_names = _delimiter(first, settings), has_header(first, settings)
    # A line's end inside double quotes ends no record.
    for block in line_blocks(source, end_of_whole=_whole_records):
        yield _csv_part(source, block, names, used, delimiter, settings, has_names=has_names)
        has_names = False


_LINE = "\0"
"""The first column that each line of a CSV is given: its place in the block, by which a record is found again."""


def _csv_part(
    source: Source, block: Block, names: Sequence[str], used: Sequence[str], delimiter: str, settings: IngestSettings,
    *, has_names: bool,
) -> RawTable:  # fmt: skip
    """A block's records. One that is no row keeps its line; blank ones are only counted."""
    # 1. The lines, each with its place in front; a blank one is left out, and so is the first where it has the names.
    is_open = not block.data.endswith(b"\n") and settings.last_line == "set_aside"
    n_whole = _whole_records(block.data) if is_open else len(block.data)
    lines = _utf8(block.data[:n_whole]).removesuffix(b"\n").split(b"\n") if n_whole else []
    blank = {place for place, line in enumerate(lines) if not line.strip()}
    header = {next((place for place in range(len(lines)) if place not in blank), 0)} if has_names else set()
    mark, left_out = delimiter.encode(), blank | header
    numbered = (b"" if place in left_out else b"%d%s%s" % (place, mark, line) for place, line in enumerate(lines))
    # Arrow would end a record at a carriage return alone.
    body = _LONE_RETURN.sub(rb"\\r", b"\n".join(numbered)) + b"\n"

    # 2. Their values; a value that holds a line's end holds the next line's place as well.
    bad: list[str] = []

    def set_aside(row: Any) -> str:
        bad.append(row.text)
        return "skip"

    inner_place = rf"\n\d+{re.escape(delimiter)}"
    rows = pc_csv.read_csv(
        io.BytesIO(body),
        pc_csv.ReadOptions(column_names=[_LINE, *names], use_threads=False, block_size=len(body) + 1),
        pc_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=set_aside),
        pc_csv.ConvertOptions(
            include_columns=[_LINE, *used], column_types={_LINE: pa.int64(), **dict.fromkeys(used, pa.string())},
            null_values=UNKNOWN_CELLS, strings_can_be_null=True, check_utf8=False,
        ),
    )  # fmt: skip
    at = integers(rows[_LINE])[0]
    rows = pa.table({name: pc.replace_substring_regex(rows[name], inner_place, "\n") for name in used})

    # 3. What is no row, and what each line was.
    starts = np.append(0, _line_ends(block.data) + 1)
    pairs = (re.sub(inner_place, "\n", text).split(delimiter, 1) for text in bad)
    found = [(int(place), text.encode("utf-8", "replace"), "number_of_values") for place, text in pairs]
    if is_open:
        found.append((int(np.searchsorted(starts, n_whole)), block.data[n_whole:], "no_line_end"))
    unreadable = [
        unreadable_row(source, block.line + place, block.offset + int(starts[place]), reason, text)
        for place, text, reason in found
    ]
    counts = {"header": len(header), "blank": len(blank)}
    counts["continued"] = block.n_lines - rows.num_rows - len(unreadable) - sum(counts.values())
    said, n_bytes = {name: n for name, n in counts.items() if n}, len(block.data) + block.n_dropped
    return RawTable(rows, block.line + at, block.offset + starts[at], block.n_lines, n_bytes, unreadable, said)


def json_parts(source: Source, used: Sequence[str]) -> Iterator[RawTable]:
    """The objects of lines of JSON; one without a line end is whole where it closes."""

    def split(text: bytes) -> dict[str, str | None] | str:
        value = _object(text)
        return "not_json" if value is None else {name: _text(value.get(name)) for name in used}

    return tables_of_lines(source, used, split, "not_json", is_last_whole=True)


def array_parts(source: Source, used: Sequence[str]) -> Iterator[RawTable]:
    """The objects of one JSON array; of such a table a line is an element."""
    n_before, n_bytes = 0, 0
    schema = pa.schema([pa.field(name, pa.string()) for name in used])
    for objects, end in _array_objects(source):
        line = n_before + 1 + np.arange(len(objects))
        rows = pa.table({name: [_text(one.get(name)) for one in objects] for name in used}, schema=schema)
        yield RawTable(rows, line, np.zeros_like(line), len(objects), end - n_bytes)
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


def _whole_records(data: bytes) -> int:
    """Where the last line ends that does not end inside double quotes."""
    ends, quotes = _line_ends(data), np.flatnonzero(np.frombuffer(data, np.uint8) == ord('"'))
    return int(ends[np.searchsorted(quotes, ends) % 2 == 0].max(initial=-1)) + 1


def _line_ends(data: bytes) -> Ints:
    return np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))


# ---------------- what is said of a table


def layout(source: Source, site: SiteSettings, settings: IngestSettings) -> Layout:
    """The map of a table's columns, with the units that were assumed, for `walltime ingest --dry-run`."""
    names, guessed = _columns(source, site, settings)
    columns, found = guessed.columns, tuple(guesses.used(guessed.columns))
    missing = tuple(target for target in guesses.TARGETS if target not in columns)
    ignored = tuple(name for name in names if name not in found)
    return Layout(found, missing, ignored, tuple(column.sentence() for column in columns.values()))


def notes(remarks: Remarks, _settings: IngestSettings) -> list[str]:
    """What was assumed of units, zones and sizes, a sentence each."""
    said = [f"the columns are those of a public set of jobs: {name}" for name in named(remarks, _SET)]
    return [*said, *named(remarks, _ASSUMED), *raw_table.notes(remarks)]


TABLE = Reader(
    "table", EXPECTS, REASONS, ("submit_s",), looks_right, read, notes, layout=layout, refusal=refusal,
    told=told,
)  # fmt: skip
