"""Defines a reader and what it hands over, and what readers share: a new format is one new file that makes one Reader.

What happens to a chunk. derive.py first completes each of its tables: application and problem size
are derived from the job's text, personal columns are hashed where the site asks for it, and RAW columns are
dropped. Only then may a row reach the disk, in a file (records.py). When every source is read, portions
of the rows that hold whole job ids (and whole arrays and heterogeneous jobs: they go by the id's leading digits) are
handed to `fold` (where the reader has one), then to `settle`, and their duplicates are taken out and their restarts
numbered (records.py).

So a reader whose jobs are one record each (SWF) hands over `jobs` and has no `fold`. One whose jobs are spread over
several records (sacct steps, PBS events), in any order, chunk or file, hands the partial ones over as `parts`, in a
schema of its own that has a job_id, and puts them together in `fold`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from pipeline.arrays import CATEGORY, Bools, Floats, Ints, arrow, integers, nulls, texts, unknown
from pipeline.errors import InputError, printable
from pipeline.ingest.sources import Block, Source, empty_source
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.tables import JOBS, UNREADABLE

PART = pa.field("part", pa.int32())
"""A column `Reader.settle` adds: 0 for a whole job's record, else the rank of a partial execution's (state PARTIAL)."""

RAW = tuple(pa.field(name, pa.string()) for name in ("comment", "submit_line", "work_dir"))
"""Columns a chunk's `jobs` or `parts` may have beside JOBS's own: what rules, tokens and hashes are made from.

After `finished` they are gone, and application, problem_size, inputs, submit_tokens and work_dir_hash stand there
instead.
"""

EXTRAS = pa.schema([pa.field("attempt_key", pa.int64()), *RAW])
"""Columns a chunk's jobs may have after those of JOBS; they never leave ingest.

attempt_key: the log's own number of the attempt (Slurm's DBIndex), by which steps find it; `fold` sees it. null: not
known.
"""

STEPS = pa.schema(
    [
        pa.field("cluster", CATEGORY),
        pa.field("job_id", pa.string(), nullable=False),
        pa.field("attempt_key", pa.int64()),
        pa.field("start_s", pa.int64()),
        pa.field("max_rss_kib", pa.float64()),
        pa.field("used_mem_kib", pa.float64()),
        pa.field("energy_j", pa.float64()),
        pa.field("derived_exit_code", pa.int64()),
    ]
)
"""`Reader.parts` of a format with steps: what a step whose job was not beside it adds to it, and how it finds it."""

RAW_CHARACTERS = 500
"""Of an unreadable record, what UNREADABLE keeps."""

TRIAL_RECORDS = 100
"""A source of which none of so many first records can be read is of another format."""

Remarks = Counter[str]
"""A reader's own tallies, which add up over chunks and files."""


def named(remarks: Remarks, prefix: str) -> dict[str, int]:
    """The tallies whose names begin so, by the rest of the name, in its order."""
    return {name.removeprefix(prefix): n for name, n in sorted(remarks.items()) if name.startswith(prefix) and n}


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of one source.

    jobs: JOBS columns (and EXTRAS where the log has them: see `jobs_table`), restart 0 throughout, provisional until
    `Reader.fold` and `Reader.settle`. parts: records that are less than a job, in `Reader.parts`. n_lines: all the
    chunk's lines (of a format without lines: its records) = rows of jobs, parts and unreadable + sum of `lines`.
    lines: how many are none of these (comment, blank, header, continuation of a record, ...). n_bad_first: how many of
    the unreadable stand before the first record that can be read; None: all of them where none can be read, else none.
    """

    jobs: pa.Table
    unreadable: pa.Table
    lines: Mapping[str, int]
    n_lines: int
    n_bytes: int
    remarks: Remarks = field(default_factory=Remarks)
    header: Mapping[str, str] = field(default_factory=dict)
    parts: pa.Table | None = None
    n_bad_first: int | None = None


@dataclass(frozen=True, slots=True)
class Folded:
    """Jobs of some ids made whole: JOBS's columns, in any order; others are dropped.

    lines: what became of the records that are no job of their own now (step, orphan_step, event, ...), by name:
    rows of `jobs` and `parts` that came in = rows of `jobs` that go out + sum of `lines`. remarks: added to the run's.
    """

    jobs: pa.Table
    lines: Mapping[str, int]
    remarks: Remarks = field(default_factory=Remarks)


@dataclass(frozen=True, slots=True)
class Layout:
    """What `walltime ingest --dry-run` tells of a source beside its jobs.

    found: the log's own column names that are read. missing: those Walltime could use and the log lacks. ignored: those
    it has and Walltime does not use. said: sentences (delimiter, version, zone assumed).
    """

    found: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    said: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reader:
    """One log format.

    looks_right: whether a source's first bytes (64 KiB, decompressed) are of this format. read: a source's chunks, in
    order, in bounded memory. fold: jobs and parts of whole job ids made jobs; it sees every record of each of its job
    ids, whatever file they came from, in any order, and some twice where logs overlap, which must not change the job.
    parts: the schema of `Chunk.parts`; it needs a job_id (string, never null); a column named as in JOBS or RAW holds
    what that one holds and is finished the same way, and no other column may hold text of a user's making.
    notes: sentences on the dialect; they may quote the log only where nothing of it is personal. settle: a table of
    jobs finished with what only the whole input tells (its summed remarks), row by row, with the PART column; None
    where rows are final as read, each a whole job's.
    reasons: why a line may be unreadable, in the report's order. same_record: columns that, equal for one job_id, make
    two records the same one read twice (of two in the same logs, the later-ending is kept, then the one with the longer
    runtime; of two final ones in an earlier table and in the logs, that of the logs).
    layout: for `walltime ingest --dry-run`. refusal: for a named source that no reader knows, what it lacks as one of
    this format, where its first bytes resemble that. told: what first bytes tell of a job, for those that may be of
    another format as well; None where they can be of no other. advice: what to do about a source of which no
    record can be read, by the reason of the first one.
    """

    name: str
    expects: str
    reasons: tuple[str, ...]
    same_record: tuple[str, ...]
    looks_right: Callable[[bytes], bool]
    read: Callable[[Source, SiteSettings, IngestSettings], Iterator[Chunk]]
    notes: Callable[[Remarks, IngestSettings], list[str]] | None = None
    settle: Callable[[pa.Table, Remarks, IngestSettings], pa.Table] | None = None
    parts: pa.Schema | None = None
    fold: Callable[[pa.Table, pa.Table, SiteSettings, IngestSettings], Folded] | None = None
    layout: Callable[[Source, SiteSettings, IngestSettings], Layout] | None = None
    refusal: Callable[[Source, bytes], InputError | None] | None = None
    told: Callable[[bytes], Collection[str] | None] | None = None
    advice: Mapping[str, str] = field(default_factory=dict)


FORMATS = {
    "swf": "pipeline.ingest.formats.swf:SWF",
    "pbs": "pipeline.ingest.formats.pbs:PBS",
    "lsf": "pipeline.ingest.formats.lsf:LSF",
    "jobcomp": "pipeline.ingest.formats.jobcomp:JOBCOMP",
    "sacct_json": "pipeline.ingest.formats.sacct.json_reader:SACCT_JSON",
    "table": "pipeline.ingest.formats.table:TABLE",
    "sacct": "pipeline.ingest.formats.sacct:SACCT",
}
"""By the name that `ingest.format` gives it (LOG_FORMATS of the settings), where each format's Reader stands, in the
order in which `auto` asks. It is imported when it is asked for: the kernels of another take half a second to wake up.
"""


def reader_named(name: str) -> Reader:
    """The Reader of a format."""
    found: Reader = resolve_name(FORMATS[name])
    return found


def jobs_table(n_rows: int, **values: pa.Array) -> pa.Table:
    """A JOBS table of typed Arrow arrays, unchecked: ingest checks once, when all chunks are together.

    Columns that are not given are null, but `restart` is 0. EXTRAS that are given come last.
    """
    schema = JOBS.schema()
    values = {"restart": arrow(np.zeros(n_rows, np.int64)), **values}
    for extra in EXTRAS:
        if extra.name in values:
            schema = schema.append(extra)
    kinds = {field.type for field in schema if field.name not in values}
    empty = {kind: unknown(n_rows, kind) for kind in kinds}
    return pa.table([values[f.name] if f.name in values else empty[f.type] for f in schema], schema=schema)


def unreadable_row(source: Source, line: int, offset: int, reason: str, raw: bytes) -> dict[str, Any]:
    """A row of UNREADABLE; raw: the text that could not be read, or its beginning."""
    text = raw[: 4 * RAW_CHARACTERS].decode("utf-8", "backslashreplace")[:RAW_CHARACTERS]
    where = {"source_file": source.label, "source_line": line, "byte_offset": float(offset)}
    return where | {"reason": reason, "raw": text}


def unreadable_rows(source: Source, block: Block, bad: Ints, reasons: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of UNREADABLE of lines of a block: line (from 0), start and end byte, and 1 + the reason's place."""
    return [
        unreadable_row(
            source, block.line + line, block.offset + start, reasons[reason - 1], block.data[start:end].rstrip(b"\r")
        )
        for line, start, end, reason in bad.tolist()
    ]  # fmt: skip


def unreadable_table(rows: list[dict[str, Any]]) -> pa.Table:
    """An UNREADABLE table of row dictionaries."""
    if not rows:
        return UNREADABLE.empty()
    return UNREADABLE.build(**{c.name: [row[c.name] for row in rows] for c in UNREADABLE.columns})


class RepeatedKeyError(ValueError):
    """A JSON object that has a key twice: two records ran together."""


def unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The object of JSON's pairs; RepeatedKeyError where a key comes twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RepeatedKeyError
    return found


def real(values: Floats) -> pa.Array:
    """float64, null where NaN."""
    return arrow(values, np.isnan(values))


def whole(values: Floats) -> pa.Array:
    """int64, null where NaN."""
    return arrow(np.nan_to_num(values).astype(np.int64), np.isnan(values))


def constant(value: str, n_rows: int) -> pa.DictionaryArray:
    """One category, over and over."""
    return pa.DictionaryArray.from_arrays(arrow(np.zeros(n_rows, np.int32)), texts([value]))


def by_word(words: pa.DictionaryArray, value_of: Callable[[str], float | None]) -> Floats:
    """A function's value of each word, which it sees once; NaN where there is no word, or None."""
    values = np.array([*map(value_of, words.dictionary.to_pylist()), None], np.float64)
    return values[np.where(nulls(words), -1, integers(words.indices)[0])]


def categories(values: pa.Array, name_of: Callable[[Any], str | None]) -> pa.DictionaryArray:
    """Values as categories with a sorted dictionary; null stays null, values of one name become one category.

    A value without a name (None) becomes null.
    """
    if values.null_count == len(values):
        return pa.nulls(len(values), CATEGORY)
    encoded = values.dictionary_encode()
    names = [name_of(value) for value in encoded.dictionary.to_pylist()]
    words = sorted({name for name in names if name is not None})
    place = {word: rank for rank, word in enumerate(words)}
    is_none = np.array([name is None for name in names])
    lookup = arrow(np.array([place.get(name or "", 0) for name in names], np.int32), is_none)
    return pa.DictionaryArray.from_arrays(pc.take(lookup, encoded.indices), texts(words))


def line_bounds(data: bytes) -> tuple[Ints, Ints]:
    """Where each line starts and ends, its newline left out."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    if not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    return np.append(0, ends[:-1] + 1), ends


def only_lines(data: bytes, starts: Ints, is_kept: Bools) -> bytes:
    """Some lines of a text; starts: where each of its lines starts."""
    if is_kept.all():
        return data
    return np.frombuffer(data, np.uint8)[np.repeat(is_kept, np.diff(starts, append=len(data)))].tobytes()


def columns_of(
    text: pa.Buffer, n_fields: int, kinds: Mapping[int, pa.DataType], delimiter: str, *, has_nulls: bool = False
) -> dict[int, pa.ChunkedArray]:
    """The columns of lines of n_fields, by place from 0; kinds: those asked for. ArrowInvalid where a line is another.

    has_nulls: whether an empty field is null, and not a value.
    """
    names = [str(place) for place in range(n_fields)]
    of_kind = {str(place): kind for place, kind in kinds.items()}
    rows = pyarrow.csv.read_csv(
        pa.BufferReader(text),
        # One thread: the same wall-clock time here, and half the CPU time. One block: columns in one piece.
        pyarrow.csv.ReadOptions(use_threads=False, column_names=names, block_size=len(text) + 1),
        pyarrow.csv.ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=False),
        pyarrow.csv.ConvertOptions(
            include_columns=list(of_kind), column_types=of_kind, null_values=[""] if has_nulls else [],
            strings_can_be_null=has_nulls, check_utf8=False,
        ),
    )  # fmt: skip
    return {place: rows[str(place)] for place in kinds}


READ_AGAIN = 'read the log again when it is whole, or set ingest.last_line = "take" if it is'
NO_LINE_END = f"a last line has no line end: it may have been cut, or is still being written; {READ_AGAIN}"

NO_RECORD = ("comment", "blank", "header", "continued")
"""Lines that do not show that a source is of a format."""


def chunks_of(reader: Reader, source: Source, site: SiteSettings, settings: IngestSettings) -> Iterator[Chunk]:
    """A source's chunks; InputError where it is empty or of another format, or has a bad line and may have none.

    Of another format is a source of which none of the first TRIAL_RECORDS records can be read, or none at all.
    """
    is_empty, n_read, n_bad, first = True, 0, 0, None
    for chunk in reader.read(source, site, settings):
        is_empty &= not chunk.n_bytes
        if first is None and chunk.unreadable.num_rows and (not settings.max_damaged or not n_read):
            (first,) = chunk.unreadable.slice(0, 1).to_pylist()
        if not settings.max_damaged and first is not None:
            do = "correct the line, or raise ingest.max_damaged to set it aside"
            raise _refusal(source, reader, first, do)
        n_own = chunk.n_lines - chunk.unreadable.num_rows - sum(chunk.lines.get(name, 0) for name in NO_RECORD)
        if not n_read:
            n_bad += (0 if n_own else chunk.unreadable.num_rows) if chunk.n_bad_first is None else chunk.n_bad_first
        n_read += n_own
        if first is not None and n_bad >= TRIAL_RECORDS:
            raise _refusal(source, reader, first)
        yield chunk
    if is_empty:
        raise empty_source(source)
    # A log whose first line is still being written is one all the same, and others beside it are to be read.
    if first is not None and not n_read and first["reason"] != "no_line_end":
        raise _refusal(source, reader, first)


def _refusal(source: Source, reader: Reader, first: Mapping[str, Any], do: str = "") -> InputError:
    """The error for a source whose first unreadable record is this one."""
    where = f"{printable(source.label)}, line {first['source_line']}"
    found = f"{first['reason'].replace('_', ' ')} in '{printable(first['raw'], 60)}'"
    return InputError(where, found, reader.expects, do or reader.advice.get(first["reason"], "is this another format?"))
