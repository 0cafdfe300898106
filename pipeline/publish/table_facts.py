"""Facts of staged tables, which their manifest holds, and the rows whose values are out of the declared ranges."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.columns import ASCENDING
from pipeline.errors import InputError, printable
from pipeline.publish.manifest import ColumnEntry, TableEntry
from pipeline.schema import TableKind
from pipeline.storage import file_sha256
from pipeline.tables import JOBS, TABLES

BATCH_ROWS = 20_000
LEAST_OF_KEPT_JOBS = {"runtime_s": 0, "procs": 1}
"""Least values of JOBS in rows without a flag: a job that contradicts itself keeps its numbers and has one."""


def entries_of(files: Mapping[str, Path]) -> dict[str, TableEntry]:
    """What a manifest says of some files, by table; InputError where one is no Parquet file."""
    return {name: table_entry(path, TABLES[name]) for name, path in files.items()}


def table_entry(path: Path, kind: TableKind) -> TableEntry:
    """What a manifest says of a Parquet file; the key is the declared one, because a file has none."""
    with _opened(path) as file:
        schema, nulls = file.schema_arrow, _nulls(file)
        columns = tuple(
            ColumnEntry(f.name, str(f.type), _fact(f, b"unit"), _fact(f, b"meaning") or "", f.nullable, nulls[f.name])
            for f in schema
        )
        rows = file.metadata.num_rows
    return TableEntry(f"{kind.name}.parquet", rows, path.stat().st_size, file_sha256(path), kind.key, columns)


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """The file; InputError where it is no Parquet table, or lacks a column that is read."""
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowInvalid, OSError, KeyError) as error:
        found = f"a file that cannot be read ({printable(str(error))})"
        raise InputError(printable(str(path)), found, "a published table", "run again") from None


def _fact(field: pa.Field, name: bytes) -> str | None:
    text = (field.metadata or {}).get(name)
    return None if text is None else text.decode("utf-8", "replace")


def _nulls(file: pq.ParquetFile) -> dict[str, int]:
    """The nulls of every column; those of texts and lists are counted, a batch of rows in memory at a time."""
    found = _nulls_in_footer(file.metadata)
    names = [name for name in file.schema_arrow.names if name not in found]
    found |= dict.fromkeys(names, 0)
    for batch in file.iter_batches(BATCH_ROWS, columns=names) if names else ():
        for name in names:
            found[name] += batch.column(name).null_count
    return found


def _nulls_in_footer(metadata: pq.FileMetaData) -> dict[str, int]:
    """The nulls of the columns for which every row group has statistics; texts and lists have none."""
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    counts: dict[str, int] = {}
    for place in range(metadata.num_columns):
        chunks = [group.column(place) for group in groups]
        name = metadata.schema.column(place).path
        is_flat = metadata.schema.column(place).max_repetition_level == 0
        if is_flat and all(c.is_stats_set and c.statistics.has_null_count for c in chunks):
            counts[name] = sum(c.statistics.null_count for c in chunks)
    return counts


@dataclass(frozen=True, slots=True)
class Condition:
    """What every row of a table keeps: a sentence, the columns it names, and which rows of a batch contradict it."""

    text: str
    columns: tuple[str, ...]
    is_broken: Callable[[pa.RecordBatch], pa.Array]
    """bool[rows]; null, which counts as kept, where a value is null."""


def conditions_of(kind: TableKind) -> Iterator[Condition]:
    """The conditions that the declarations of a table's columns make: least values, and columns that ascend."""
    names = [column.name for column in kind.columns]
    if kind.name == JOBS.name:
        for name, least in LEAST_OF_KEPT_JOBS.items():
            yield Condition(f"{name} >= {least} or a flag", (name, "flag"), partial(_below_without_flag, name, least))
        return
    for column in kind.columns:
        if column.is_positive:
            yield Condition(f"{column.name} > 0", (column.name,), partial(_not_positive, column.name))
        elif column.minimum is not None:
            text = f"{column.name} >= {column.minimum:g}"
            yield Condition(text, (column.name,), partial(_below, column.name, column.minimum))
    for low, high in (pair for chain in ASCENDING for pair in pairwise(one for one in chain if one in names)):
        yield Condition(f"{low} <= {high}", (low, high), partial(_descends, low, high))


def _below(name: str, least: float, batch: pa.RecordBatch) -> pa.Array:
    return pc.less(batch.column(name), least)


def _not_positive(name: str, batch: pa.RecordBatch) -> pa.Array:
    return pc.less_equal(batch.column(name), 0)


def _descends(low: str, high: str, batch: pa.RecordBatch) -> pa.Array:
    return pc.greater(batch.column(low), batch.column(high))


def _below_without_flag(name: str, least: float, batch: pa.RecordBatch) -> pa.Array:
    return pc.and_(_below(name, least, batch), pc.is_null(batch.column("flag")))


def out_of_range(kind: TableKind, path: Path) -> dict[str, int]:
    """Per condition of the table's columns the number of rows of the file that contradict it."""
    with _opened(path) as file:
        there = set(file.schema_arrow.names)
        conditions = [one for one in conditions_of(kind) if there.issuperset(one.columns)]
        counts = {one.text: 0 for one in conditions}
        names = sorted({name for one in conditions for name in one.columns})
        for batch in file.iter_batches(BATCH_ROWS, columns=names) if names else ():
            for one in conditions:
                counts[one.text] += pc.sum(one.is_broken(batch)).as_py() or 0
    return counts


def newest_kept_end_s(jobs: Path) -> float | None:
    """The latest end of a job without a flag, s since 1970; None where no such job has an end."""
    newest: list[int] = []
    with _opened(jobs) as file:
        for batch in file.iter_batches(BATCH_ROWS, columns=["end_s", "flag"]):
            found = pc.max(batch.column("end_s").filter(pc.is_null(batch.column("flag")))).as_py()
            newest += [] if found is None else [found]
    return max(newest, default=None)


def has_other_template(templates: Path) -> bool:
    """Whether the template that was chosen is another than that of the previous run; False where none is known."""
    with _opened(templates) as file:
        rows = file.read(columns=["is_previous", "is_chosen"]).to_pylist()
    previous = [row["is_chosen"] for row in rows if row["is_previous"]]
    return bool(previous) and not any(previous)
