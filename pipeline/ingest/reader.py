"""Defines a reader and what it hands over: a new format is one new file that makes one Reader.

What happens to a chunk. assemble/derived_columns.py first completes each of its tables: application and problem size
are derived from the job's text, personal columns are hashed where the site asks for it, and RAW columns are
dropped. Only then does a row reach the disk, in a spill file of its job id's partition. When every source is read,
each partition, which holds whole job ids (and whole arrays and heterogeneous jobs: it goes by the id's leading digits),
is handed to `fold` (where the reader has one), then to `settle`, and its duplicates are taken out and its restarts
numbered (combine.py).

So a reader whose jobs are one record each (SWF) hands over `jobs` and has no `fold`. One whose jobs are spread over
several records (sacct steps, PBS events), in any order, chunk or file, hands the partial ones over as `parts`, in a
schema of its own that has a job_id, and puts them together in `fold`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.buffers import arrow, texts, unknown
from pipeline.core.column import CATEGORY
from pipeline.core.settings import IngestSettings, SiteSettings
from pipeline.core.tables import JOBS, UNREADABLE
from pipeline.ingest.sources import Source

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
        pa.field("job_id", pa.string(), nullable=False),
        pa.field("attempt_key", pa.int64()),
        pa.field("start_s", pa.int64()),
        pa.field("max_rss_kib", pa.float64()),
        pa.field("energy_j", pa.float64()),
        pa.field("derived_exit_code", pa.int64()),
    ]
)
"""`Reader.parts` of a format with steps: what a step whose job was not beside it adds to it, and how it finds it."""

Remarks = Counter[str]
"""A reader's own tallies, which add up over chunks and files."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of one source.

    jobs: JOBS columns (and EXTRAS where the log has them: see `jobs_table`), restart 0 throughout, provisional until
    `Reader.fold` and `Reader.settle`. parts: records that are less than a job, in `Reader.parts`. n_lines: all the
    chunk's lines (of a format without lines: its records) = rows of jobs, parts and unreadable + sum of `lines`.
    lines: how many are none of these (comment, blank, header, continuation of a record, ...).
    """

    jobs: pa.Table
    unreadable: pa.Table
    lines: Mapping[str, int]
    n_lines: int
    n_bytes: int
    remarks: Remarks = field(default_factory=Remarks)
    header: Mapping[str, str] = field(default_factory=dict)
    parts: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class Folded:
    """Jobs of a partition made whole: JOBS's columns, in any order; others are dropped.

    lines: what became of the records that are no job of their own now (step, orphan_step, event, ...), by name:
    rows of `jobs` and `parts` that came in = rows of `jobs` that go out + sum of `lines`. remarks: added to the run's.
    """

    jobs: pa.Table
    lines: Mapping[str, int]
    remarks: Remarks = field(default_factory=Remarks)


@dataclass(frozen=True, slots=True)
class Layout:
    """What `walltime inspect` tells of a source beside its jobs.

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
    order, in bounded memory. fold: jobs and parts of one partition made jobs; it sees every record of each of its job
    ids, whatever file they came from, in any order, and some twice where logs overlap, which must not change the job.
    parts: the schema of `Chunk.parts`; it needs a job_id (string, never null); a column named as in JOBS or RAW holds
    what that one holds and is finished the same way, and no other column may hold text of a user's making.
    settle: a table of jobs finished with what only the whole input tells (its summed remarks), row by row, with the
    PART column. notes: sentences on the dialect; they may quote the log only where nothing of it is personal.
    reasons: why a line may be unreadable, in the report's order. same_record: columns that, equal for one job_id, make
    two records the same one read twice (of two, the later-ending is kept, then the one with the longer runtime).
    layout: for `walltime inspect`, from a source's first bytes.
    """

    name: str
    expects: str
    reasons: tuple[str, ...]
    same_record: tuple[str, ...]
    looks_right: Callable[[bytes], bool]
    read: Callable[[Source, SiteSettings, IngestSettings], Iterator[Chunk]]
    settle: Callable[[pa.Table, Remarks, IngestSettings], pa.Table]
    notes: Callable[[Remarks, IngestSettings], list[str]]
    parts: pa.Schema | None = None
    fold: Callable[[pa.Table, pa.Table, SiteSettings, IngestSettings], Folded] | None = None
    layout: Callable[[bytes, SiteSettings, IngestSettings], Layout] | None = None


def as_whole(jobs: pa.Table, remarks: Remarks, settings: IngestSettings) -> pa.Table:
    """A `settle` for formats whose rows are final as read: every record is a whole job's."""
    del remarks, settings
    return jobs.append_column(PART, arrow(np.zeros(jobs.num_rows, np.int32)))


def jobs_table(n_rows: int, **values: pa.Array) -> pa.Table:
    """A JOBS table of typed Arrow arrays, unchecked: ingest checks once, when all chunks are together.

    EXTRAS that are given come last.
    """
    schema = JOBS.schema()
    for extra in EXTRAS:
        if extra.name in values:
            schema = schema.append(extra)
    kinds = {field.type for field in schema if field.name not in values}
    empty = {kind: unknown(n_rows, kind) for kind in kinds}
    return pa.table([values[f.name] if f.name in values else empty[f.type] for f in schema], schema=schema)


def unreadable_table(rows: list[dict[str, Any]]) -> pa.Table:
    """An UNREADABLE table of row dictionaries."""
    if not rows:
        return UNREADABLE.empty()
    return UNREADABLE.build(**{c.name: [row[c.name] for row in rows] for c in UNREADABLE.columns})


def constant(value: str, n_rows: int) -> pa.DictionaryArray:
    """One category, over and over."""
    return pa.DictionaryArray.from_arrays(arrow(np.zeros(n_rows, np.int32)), texts([value]))


def categories(numbers: pa.Array, name_of: Callable[[int], str]) -> pa.DictionaryArray:
    """Integers as categories with a sorted dictionary; null stays null, numbers of one name become one category."""
    if numbers.null_count == len(numbers):
        return pa.nulls(len(numbers), CATEGORY)
    encoded = numbers.dictionary_encode()
    names = [name_of(number) for number in encoded.dictionary.to_pylist()]
    words = sorted(set(names))
    place = {word: rank for rank, word in enumerate(words)}
    lookup = arrow(np.array([place[name] for name in names], np.int32))
    return pa.DictionaryArray.from_arrays(pc.take(lookup, encoded.indices), texts(words))
