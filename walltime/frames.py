"""Data frames to the tables of `pipeline`, and back to frames of the same kind.

Every library hands over its columns by Arrow's C stream interface (`__arrow_c_stream__`). Polars is imported only to
make a frame of it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import CATEGORY
from pipeline.errors import InputError, nearest_name, printable
from pipeline.schema import INSTANT_UNIT, Column, TableKind, as_array
from pipeline.tables import JOBS

KINDS = ("pandas", "polars", "arrow")
"""Kinds of frames; a frame of any other library is answered by a table of Arrow."""

_CALLS = {"LazyFrame": "collect", "RecordBatchReader": "read_all"}
"""What makes a table of an object that has no rows yet; a reader would be empty after the first call here."""

_KEY = ("submit_s", "job_id", "restart")


def arrow_of(frame: Any, what: str) -> tuple[pa.Table, str]:
    """The columns of a frame as an Arrow table, and its kind, one of KINDS; `what` names the argument in errors.

    NaN becomes null, because both mean unknown, and polars' views of text become plain text.
    """
    library, name = type(frame).__module__.partition(".")[0], type(frame).__qualname__
    kind = library if library in KINDS else "arrow"
    given = frame.to_table() if hasattr(frame, "scanner") else frame
    if not (hasattr(given, "__arrow_c_stream__") and hasattr(given, "columns")):
        expected = "a data frame of pandas or polars, a table or dataset of Arrow, or a relation of DuckDB"
        do = f"call its {_CALLS[name]}() first" if name in _CALLS else ""
        raise InputError(what, printable(f"{type(frame).__module__}.{name}"), expected, do)
    table = pa.table(given.reset_index(drop=True) if kind == "pandas" else given)
    for field in table.schema:
        values = table.column(field.name)
        if pa.types.is_floating(field.type):
            table = with_column(table, field.name, pc.if_else(pc.is_nan(values), pa.scalar(None, field.type), values))
        elif pa.types.is_string_view(field.type):
            table = with_column(table, field.name, values.cast(pa.string()))
    return table, kind


def frame_of(table: pa.Table, kind: str, like: Any = None) -> Any:
    """An Arrow table as a frame of this kind; one of pandas has the index of `like`, where that is given."""
    if kind == "polars":
        import polars as pl  # noqa: PLC0415  (an optional library of the user)

        return pl.from_arrow(table)
    if kind != "pandas":
        return table
    found = table.to_pandas()
    return found if like is None else found.set_axis(like.index)


def plain(table: pa.Table, declared: TableKind) -> pa.Table:
    """A table with its categories as plain text, as on disk; fields keep unit and meaning as metadata.

    It has no `run_id`, because no run made it.
    """
    schema = declared.schema(on_disk=True)
    shown = pa.schema([field for field in schema if field.name != "run_id"], metadata=schema.metadata)
    return table.select(shown.names).cast(shown)


def with_column(table: pa.Table, name: str, values: Any, field: pa.Field | None = None) -> pa.Table:
    """The table with this column, in its place where it has one of that name, else behind the others."""
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, from_pandas=True)
    column = field or pa.field(name, array.type)
    at = table.schema.get_field_index(name)
    return table.append_column(column, array) if at < 0 else table.set_column(at, column, array)


def require(table: pa.Table, names: Sequence[str], what: str) -> None:
    """InputError where a column of these is missing: it names the missing ones and a near name in the frame."""
    missing = [name for name in names if name not in table.column_names]
    if not missing:
        return
    # A column that has its own meaning is not what is missing, however near its name.
    free = [name for name in table.column_names if name not in JOBS.schema().names]
    nearest = {name: nearest_name(name, free) for name in missing}
    hints = [f"rename {printable(near)} to {name}" for name, near in nearest.items() if near is not None]
    if all(name in nearest and nearest[name] is None for name in ("start_s", "end_s")):
        hints.append("where starts are unknown, add start_s and end_s with nulls")
    found = f"the columns {printable(', '.join(table.column_names)) or 'none'}"
    word = "columns" if len(missing) > 1 else "column"
    raise InputError(what, found, f"also the {word} {', '.join(missing)}", "; ".join(hints))


def jobs_of(table: pa.Table, needed: Sequence[str], what: str, site: str = "site") -> tuple[pa.Table, pa.Array]:
    """JOBS of a user's table in order of submit, and the row of each in the table.

    Columns are converted to the declared types, and missing ones are null. InputError for a missing column, values that
    do not fit a column's type, and two rows of one job, which may be its attempts or the same record twice.
    """
    require(table, needed, what)
    rows = np.arange(table.num_rows)
    standing = {
        "site": [site] * len(rows), "job_id": [str(row + 1) for row in rows], "restart": np.zeros(len(rows), np.int64),
        "source_file": ["data frame"] * len(rows), "source_line": rows + 1,
    }  # fmt: skip
    for name, values in standing.items():
        if name not in table.column_names or table.column(name).null_count == len(rows):
            table = with_column(table, name, values)
    named = [column.name for column in JOBS.columns if column.name in table.column_names]
    columns = converted(table, JOBS, named, what)
    keys = pa.table({name: columns[name] for name in JOBS.key if name in columns})
    if n_repeated := len(rows) - keys.group_by(keys.column_names).aggregate([]).num_rows:
        do = "number the attempts of a job in a column restart, from 0"
        raise InputError(what, f"{n_repeated} rows that repeat a job_id", "one row per job_id and restart", do)
    by = {name: columns[name] for name in _KEY if name in columns}
    order = pc.sort_indices(pa.table(by), [(name, "ascending") for name in by])
    return JOBS.build(**{name: values.take(order) for name, values in columns.items()}), order


def converted(table: pa.Table, declared: TableKind, names: Sequence[str], what: str) -> dict[str, pa.Array]:
    """These columns of a table in the types of a declaration."""
    by_name = {column.name: column for column in declared.columns}
    found = {}
    for name in names:
        column, values = by_name[name], table.column(name).combine_chunks()
        try:
            found[name] = _converted(values, column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            unit = f" ({column.unit})" if column.unit else ""
            is_zoneless = pa.types.is_timestamp(values.type) and column.unit == INSTANT_UNIT
            do = "name their zone, in pandas by .dt.tz_localize" if is_zoneless else "convert the column"
            wrong = f"column {name} with values of type {printable(str(values.type))}"
            raise InputError(what, wrong, f"{column.type}{unit}", do) from None
    return found


def _converted(values: pa.Array, column: Column) -> pa.Array:
    """Times with a zone are whole seconds since 1970 (a part of a second is dropped), durations are seconds."""
    if values.null_count == len(values):
        return pa.nulls(len(values), column.type)
    values = values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
    kind = values.type
    if pa.types.is_timestamp(kind) and kind.tz and column.unit == INSTANT_UNIT:
        values = pc.floor_temporal(values, unit="second").cast(pa.timestamp("s", kind.tz)).cast(pa.int64())
    elif pa.types.is_duration(kind) and column.unit == "s":
        a_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
        values = pc.divide(values.cast(pa.int64()).cast(pa.float64()), a_second)
    elif column.type in (CATEGORY, pa.string()):
        # A column of whole numbers with nulls is one of floats in pandas.
        values = (values.cast(pa.int64()) if pa.types.is_floating(kind) else values).cast(pa.string())
    elif pa.types.is_temporal(kind):
        raise pa.ArrowTypeError("a time or a duration, expected a number")
    return as_array(values, column.type)
