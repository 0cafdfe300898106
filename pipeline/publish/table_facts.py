"""Facts of staged tables, which their manifest holds, and the rows whose values are out of the declared ranges.

Filters on a table are counted by Arrow's scanner, which passes over row groups whose statistics decide.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.columns import ASCENDING
from pipeline.errors import InputError, printable
from pipeline.publish.manifest import ColumnEntry, TableEntry
from pipeline.schema import TableKind
from pipeline.storage import file_sha256
from pipeline.tables import JOBS, TABLES

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

LEAST_OF_KEPT_JOBS = {"runtime_s": 0, "procs": 1}
"""Least values of JOBS in rows without a flag: a job that contradicts itself keeps its numbers and has one."""


def entries_of(files: Mapping[str, Path]) -> dict[str, TableEntry]:
    """What a manifest says of some files, by table; InputError where one is no Parquet file."""
    return {name: table_entry(path, TABLES[name]) for name, path in files.items()}


def table_entry(path: Path, kind: TableKind) -> TableEntry:
    """What a manifest says of a Parquet file; the key is the declared one, because a file has none."""
    with _opened(path) as rows:
        columns = tuple(_column_entry(field, rows) for field in rows.schema)
        n_rows = rows.count_rows()
    return TableEntry(f"{kind.name}.parquet", n_rows, path.stat().st_size, file_sha256(path), kind.key, columns)


def _column_entry(field: pa.Field, rows: "Dataset") -> ColumnEntry:
    facts = {name.decode(): text.decode("utf-8", "replace") for name, text in (field.metadata or {}).items()}
    nulls = rows.count_rows(filter=pc.field(field.name).is_null())
    return ColumnEntry(field.name, str(field.type), facts.get("unit"), facts.get("meaning", ""), field.nullable, nulls)


@contextmanager
def _opened(path: Path) -> Iterator["Dataset"]:
    """The rows of a file; InputError where it is no Parquet table, or lacks a column that is read."""
    from pyarrow.dataset import dataset  # noqa: PLC0415  (a query does without it)
    from pyarrow.fs import LocalFileSystem  # noqa: PLC0415

    try:
        yield dataset(str(path), format="parquet", filesystem=LocalFileSystem())
    except (pa.ArrowInvalid, OSError, KeyError) as error:
        found = f"a file that cannot be read ({printable(str(error))})"
        raise InputError(printable(str(path)), found, "a published table", "run again") from None


class Condition(NamedTuple):
    """What every row of a table keeps: a sentence, the columns it names, and which rows contradict it.

    A row with a null in one of the columns contradicts nothing.
    """

    text: str
    columns: tuple[str, ...]
    broken: "pc.Expression"


def conditions_of(kind: TableKind) -> Iterator[Condition]:
    """The conditions that the declarations of a table's columns make: least values, and columns that ascend."""
    if kind.name == JOBS.name:
        for name, least in LEAST_OF_KEPT_JOBS.items():
            broken = (pc.field(name) < least) & pc.field("flag").is_null()
            yield Condition(f"{name} >= {least} or a flag", (name, "flag"), broken)
        return
    for column in kind.columns:
        if column.is_positive:
            yield Condition(f"{column.name} > 0", (column.name,), pc.field(column.name) <= 0)
        elif column.minimum is not None:
            text, broken = f"{column.name} >= {column.minimum:g}", pc.field(column.name) < column.minimum
            yield Condition(text, (column.name,), broken)
    names = {column.name for column in kind.columns}
    for low, high in (pair for chain in ASCENDING for pair in pairwise(one for one in chain if one in names)):
        yield Condition(f"{low} <= {high}", (low, high), pc.field(low) > pc.field(high))


def out_of_range(kind: TableKind, path: Path) -> dict[str, int]:
    """Per condition of the table's columns the number of rows of the file that contradict it."""
    with _opened(path) as rows:
        conditions = [one for one in conditions_of(kind) if set(rows.schema.names).issuperset(one.columns)]
        return {one.text: rows.count_rows(filter=one.broken) for one in conditions}


def newest_end_s(observations: Path) -> int | None:
    """The latest end of the observed jobs, s since 1970."""
    with _opened(observations) as rows:
        newest: int | None = pc.max(rows.to_table(columns=["last_end_s"])["last_end_s"]).as_py()
    return newest


def newest_kept_end_s(jobs: Path) -> float | None:
    """The latest end of a job without a flag, s since 1970; None where no such job has an end."""
    with _opened(jobs) as rows:
        ends = rows.scanner(columns=["end_s"], filter=pc.field("flag").is_null()).to_batches()
        newest = [pc.max(batch.column("end_s")).as_py() for batch in ends]
    return max((end_s for end_s in newest if end_s is not None), default=None)


def has_other_template(templates: Path) -> bool:
    """Whether the template that was chosen is another than that of the previous run; False where none is known."""
    with _opened(templates) as rows:
        previous = rows.to_table(columns=["is_chosen"], filter=pc.field("is_previous"))["is_chosen"].to_pylist()
    return bool(previous) and not any(previous)
