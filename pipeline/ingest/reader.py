"""What a reader is, and what it hands over: one new format is one new file that makes one Reader."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.buffers import arrow, texts
from pipeline.core.columns import CATEGORY
from pipeline.core.settings import IngestSettings, SiteSettings
from pipeline.core.tables import JOBS, UNREADABLE
from pipeline.ingest.sources import Source

PART = pa.field("part", pa.int32())
"""A column `Reader.settle` adds: 0 for a whole job's record, else the rank of a partial execution's."""

Remarks = Counter[str]
"""A reader's own tallies, which add up over chunks and files."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of one source.

    lines: how many are neither job nor unreadable (comment, blank, ...); n_lines: all of them.
    jobs: JOBS columns, restart 0 throughout, provisional until `Reader.settle`.
    """

    jobs: pa.Table
    unreadable: pa.Table
    lines: Mapping[str, int]
    n_lines: int
    n_bytes: int
    remarks: Remarks = field(default_factory=Remarks)
    header: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reader:
    """One log format.

    looks_right: whether a source's first bytes are of this format. read: a source's chunks, in order, in bounded
    memory. settle: a table of jobs finished with what only the whole input tells (its summed remarks), row by row,
    with the PART column. notes: sentences on the dialect. reasons: why a line may be unreadable, in the report's order.
    same_record: columns that, equal for one job_id, make two records the same one read twice.
    """

    name: str
    expects: str
    reasons: tuple[str, ...]
    same_record: tuple[str, ...]
    looks_right: Callable[[bytes], bool]
    read: Callable[[Source, SiteSettings, IngestSettings], Iterator[Chunk]]
    settle: Callable[[pa.Table, Remarks, IngestSettings], pa.Table]
    notes: Callable[[Remarks, IngestSettings], list[str]]


def jobs_table(n_rows: int, **values: pa.Array) -> pa.Table:
    """A JOBS table of typed Arrow arrays, unchecked: ingest checks once, when all chunks are together."""
    schema = JOBS.schema()
    return pa.table([values[f.name] if f.name in values else pa.nulls(n_rows, f.type) for f in schema], schema=schema)


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
