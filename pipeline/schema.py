"""What a table is: columns with type, unit and meaning, keys, and the flags of jobs."""

from dataclasses import dataclass
from enum import StrEnum

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


@dataclass(frozen=True, slots=True)
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

    def schema(self, *, on_disk: bool = False) -> pa.Schema:
        """The Arrow schema; on disk categories are plain strings, so that any reader opens them."""
        made_for, schema = _SCHEMAS.get((self.name, on_disk), (None, None))
        if made_for is not self:
            fields = [column.field(on_disk=on_disk) for column in self.columns]
            schema = pa.schema(fields, metadata={"table": self.name})
            _SCHEMAS[self.name, on_disk] = (self, schema)
        return schema

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


_SCHEMAS: dict[tuple[str, bool], tuple[TableKind, pa.Schema]] = {}
"""The schemas made so far, each with its kind: a stage asks for the same one dozens of times."""


def as_array(values: object, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Values as an Arrow array of the wanted type; NaN in a numpy array is null."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        if values.type == wanted:
            return values
        return values.dictionary_encode().cast(wanted) if wanted == CATEGORY else values.cast(wanted)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        array = pa.array(values, mask=np.isnan(values))
        return array.cast(wanted)
    if wanted == CATEGORY:
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, wanted)


def _conform(kind: str, table: pa.Table, column: Column) -> pa.ChunkedArray:
    values = table.column(column.name)
    if values.type == column.type:
        return values
    if column.type == CATEGORY and (pa.types.is_string(values.type) or pa.types.is_dictionary(values.type)):
        return values.cast(pa.string()).dictionary_encode()
    raise TableError(kind, f"column {column.name} of type {values.type}", f"type {column.type}")


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
