"""Reads any table with a row for each job: Parquet, Arrow, CSV with any delimiter, and JSON with an object a job.

Which column holds what is declared (`ingest.columns`), told by a public set's column names, or guessed from names;
units that nothing declares come from the values, and a guess that they contradict is dropped (guesses.py). What was
assumed is in the notes. raw_table.py makes JOBS of the columns.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.arrays import arrow, floats_of, integers
from pipeline.errors import InputError, printable
from pipeline.ingest import raw_table
from pipeline.ingest.formats.table import guesses, text_parts
from pipeline.ingest.formats.table.text_parts import first_line, names_in
from pipeline.ingest.raw_table import REASONS, RawTable, chunk_of
from pipeline.ingest.reader import Chunk, Layout, Reader, Remarks, named
from pipeline.ingest.sources import ARROW, PARQUET, Source, head
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
    """A table's chunks; InputError where it names no columns, or none that tell when jobs ran, or is damaged."""
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
    used, first = guesses.used(columns), list[pa.Table]()
    for part in read_parts(source, names, used, settings):
        first.append(part.rows)
        if sum(map(len, first)) >= PART_ROWS // 4:
            break
    none = pa.table({name: pa.array([], pa.string()) for name in used})
    return names, guesses.checked(pa.concat_tables(first) if first else none, columns, site, settings)


def names_of(source: Source, settings: IngestSettings) -> list[str]:
    """The columns of a table, in order; InputError where it is damaged or names none."""
    start = head(source)
    if not _is_binary(start):
        if settings.fields and not text_parts.has_header(start, settings):
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
        yield from text_parts.array_parts(source, used)
    elif first_line(start).startswith(b"{"):
        yield from text_parts.json_parts(source, used)
    else:
        yield from text_parts.csv_parts(source, names, used, settings)


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
            are_texts = (pa.types.is_string, pa.types.is_large_string)
            texts = [field.name for field in schema if any(is_text(field.type) for is_text in are_texts)]
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
    return utf8(array.cast(pa.binary()).cast(pa.string(), safe=False) if _is_text(kind) else array.cast(pa.string()))


def _is_text(kind: pa.DataType) -> bool:
    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary)
    )


def _check_unpacked(words: pa.Array, places: pa.Array) -> None:
    """InputError where a column's texts would take more than memory should: a long one may repeat in every row."""
    sizes = integers(pc.binary_length(words.fill_null("")))[0] if pa.types.is_string(words.type) else np.zeros(0)
    n_bytes = int(sizes[integers(places.drop_null())[0]].sum()) if len(sizes) else 0
    if n_bytes > MAX_TEXT_BYTES:
        found, expected = f"{n_bytes:,} bytes of text in {len(places):,} rows", f"at most {MAX_TEXT_BYTES:,}"
        raise InputError("a column of a table", found, expected, "see who wrote this file")


MAX_TEXT_BYTES = 1 << 29
"""Of one column in one part of a table."""


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
