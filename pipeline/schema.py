"""What a table is: columns with type, unit and meaning, keys; the flags of jobs, and what the counts of runs are of."""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import CATEGORY, dense_codes, row_codes
from pipeline.errors import TableError

INSTANT_UNIT = "s since 1970-01-01 UTC"
"""The unit of columns of instants."""


@dataclass(frozen=True, slots=True)
class Column:
    """The declaration of one column: its Arrow type in memory, its unit and its meaning."""

    name: str
    type: pa.DataType
    meaning: str
    unit: str | None = None
    is_required: bool = False
    minimum: float | None = None
    is_positive: bool = False
    """Whether published values lie above 0; a check before publishing, as `minimum` is one at any time."""

    def field(self, *, on_disk: bool = False) -> pa.Field:
        """The Arrow field, with unit and meaning as metadata; on disk a category is a plain string."""
        stored = pa.string() if on_disk and self.type == CATEGORY else self.type
        facts = {"meaning": self.meaning} | ({"unit": self.unit} if self.unit else {})
        return pa.field(self.name, stored, nullable=not self.is_required, metadata=facts)


@dataclass(frozen=True, slots=True, eq=False)
class TableKind:
    """The declaration of a table: name, columns and key. Every table that leaves a room passes `check`."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    meaning: str

    @property
    def categories(self) -> list[str]:
        """The names of the columns whose values repeat, which are dictionaries in memory."""
        return [column.name for column in self.columns if pa.types.is_dictionary(column.type)]

    @lru_cache(128)  # noqa: B019  (kinds are constants, and a stage asks for one schema dozens of times)
    def schema(self, *, on_disk: bool = False) -> pa.Schema:
        """The Arrow schema; on disk categories are plain strings, so that any reader opens them."""
        return pa.schema([column.field(on_disk=on_disk) for column in self.columns], metadata={"table": self.name})

    def empty(self) -> pa.Table:
        """A table of this kind with no rows."""
        return pa.table([pa.nulls(0, f.type) for f in self.schema()], schema=self.schema())

    def build(self, **values: object) -> pa.Table:
        """A checked table from arrays or sequences by column name; other columns are null."""
        unknown = sorted(set(values) - {column.name for column in self.columns})
        if unknown:
            raise TableError(self.name, f"columns {', '.join(unknown)}", "declared columns only")
        n_rows = len(next(iter(values.values())))  # type: ignore[arg-type]
        fields = self.schema()
        arrays = [as_array(values[f.name], f.type) if f.name in values else pa.nulls(n_rows, f.type) for f in fields]
        return self.check(pa.table(arrays, schema=fields))

    def check(self, table: pa.Table) -> pa.Table:
        """The same table under the declared schema; TableError where columns, types, nulls, bounds or key differ."""
        if table.column_names != [column.name for column in self.columns]:
            raise TableError(self.name, f"columns {table.column_names}", f"{[c.name for c in self.columns]}")
        conformed = pa.table([_conform(self.name, table, column) for column in self.columns], schema=self.schema())
        for column in self.columns:
            _check_values(self.name, conformed.column(column.name), column)
        _check_key(self.name, conformed, self.key)
        return conformed


def as_array(values: object, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Values as an Arrow array of the wanted type; NaN in a numpy array is null."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        if values.type == wanted:
            return values
        return values.cast(pa.string()).dictionary_encode() if wanted == CATEGORY else values.cast(wanted)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        array = pa.array(values, mask=np.isnan(values))
        return array.cast(wanted)
    if wanted == CATEGORY:
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, wanted)


def _conform(kind: str, table: pa.Table, column: Column) -> pa.ChunkedArray:
    values = table.column(column.name)
    is_text = pa.types.is_string(values.type) or pa.types.is_dictionary(values.type)
    if values.type != column.type and not (column.type == CATEGORY and is_text):
        raise TableError(kind, f"column {column.name} of type {values.type}", f"type {column.type}")
    return as_array(values, column.type)


def _check_values(kind: str, values: pa.ChunkedArray, column: Column) -> None:
    if column.is_required and values.null_count:
        raise TableError(kind, f"{values.null_count} nulls in column {column.name}", "a value in every row")
    if column.minimum is not None and len(values) > values.null_count:
        least = pc.min(values).as_py()
        if least < column.minimum:
            raise TableError(kind, f"{column.name} = {least}", f"at least {column.minimum:g}")


def _check_key(kind: str, table: pa.Table, key: tuple[str, ...]) -> None:
    if not key or table.num_rows < 2:
        return
    texts = (name for name in key if table.schema.field(name).type == pa.string())
    # Ids that are distinct by themselves, as in most logs, are counted in half the time of the whole key.
    if any(pc.count_distinct(table.column(name)).as_py() == table.num_rows for name in texts):
        return
    # Arrow's own groups would load pandas, a fifth of a second that a query and an update do without.
    n_distinct = int(row_codes(*(dense_codes(table.column(name)) for name in key)).max()) + 1
    if n_distinct != table.num_rows:
        raise TableError(kind, f"{table.num_rows - n_distinct} rows repeating the key", f"one row per {', '.join(key)}")


class Flag(StrEnum):
    """Reasons in order of precedence, with a line for a person: where several apply, a job gets the first."""

    meaning: str

    def __new__(cls, value: str, meaning: str = "") -> "Flag":
        """The flag of this value."""
        member = str.__new__(cls, value)
        member._value_, member.meaning = value, meaning
        return member

    SITE_DROP = "site_drop", "the site's config says so"
    PARTIAL_EXECUTION = "partial_execution", "a part of a checkpointed job whose whole is counted in its summary record"
    UNFINISHED = "unfinished", "pending, running or suspended when the log ended: its runtime is not known yet"
    CANCELLED_BEFORE_START = "cancelled_before_start", "cancelled before it started"
    NEVER_RAN = "never_ran", "no start and no runtime, or a runtime of zero or less"
    IMPOSSIBLE_TIMES = (
        "impossible_times",
        "ends before it starts, starts before its submit, no submit time, or a time far outside the log's other times",
    )
    NO_PROCS = "no_procs", "neither allocated nor requested processors are known and positive"
    ELAPSED_DISAGREES = (
        "elapsed_disagrees",
        "its recorded runtime and its end minus its start differ by more than suspension explains",
    )
    DUPLICATE = "duplicate", "the same job as another one that is kept, read under a second id"
    CLOCK_JUMP = "clock_jump", "waited or ran in a period that the log holds twice, because its clock was set back"
    OVER_LIMIT = "over_limit", "ran longer than the limit of its queue or of the machine, plus the grace"
    LOG_EDGE = "log_edge", "submitted before the steady part of the log begins or after it ends"
    PROBE = "probe", "one of many short jobs throughout the log that only test whether the machine responds"
    CRON = "cron", "submitted by a timer at one hour of the day"
    FLURRY = "flurry", "part of a burst in which one user submits more than all others together"
    NODE_FAILURE = "node_failure", "ended by a failure of a node or of the boot"
    OUT_OF_MEMORY = "out_of_memory", "ended because it ran out of memory"
    PREEMPTED = "preempted", "stopped to make room for another job"
    SUSPENDED = "suspended", "suspended for a part of its runtime, which the log counts as running"
    FAILED_START = "failed_start", "ended within seconds, where similar jobs take far longer"
    HANG = "hang", "ran far longer than similar jobs and ended abnormally"


MOST_EFFICIENCY = 1.2
"""Efficiencies above this say that predictions at two counts do not agree, not that processors gain more than all."""

MOST_OK_SPAN = 1.5
"""How many times the 80% interval of an ok prediction spans at most, end to end.

On codes that had no say such predictions are 8% off on average, others 35%.
"""


class Axis(StrEnum):
    """What the counts of a scalability series are of."""

    PROCS = "procs"
    NODES = "nodes"
    GPUS = "gpus"

    @property
    def unit(self) -> str:
        """The unit in the singular."""
        return {"procs": "processor", "nodes": "node", "gpus": "GPU"}[self]

    @property
    def units(self) -> str:
        """The unit in the plural."""
        return plural(self.unit, 2)


UNTOLD = "gpu"
"""Stands for the type of GPUs where the log does not tell it."""


def gpu_types(jobs: pa.Table) -> pa.ChunkedArray:
    """The type of each job's GPUs, UNTOLD where the log does not tell it; null for a job that held none."""
    has_gpus = pc.greater(jobs.column("gpus"), 0)
    told = pc.fill_null(jobs.column("gpu_type").cast(pa.string()), UNTOLD)
    return pc.if_else(pc.fill_null(has_gpus, False), told, None)


def axis_of(value: str | None) -> Axis:
    """The axis that a column `axis` states; null, as in tables that were made without it, is processors."""
    return Axis.PROCS if value is None else Axis(value)


def counted(n: float, axis: Axis) -> str:
    """A count with its unit: 8 GPUs, 1 node, 1,024 processors."""
    return f"{n:,.0f} {plural(axis.unit, n)}"


def plural(word: str, count: float) -> str:
    """The word in singular for a count of 1, else in plural."""
    return word if count == 1 else f"{word}s"
