"""Data frames of pandas, polars and Arrow to Arrow tables, and back to the same kind.

Neither pandas nor polars is imported before a frame of that kind is given. Both hand over their columns by Arrow's C
stream interface (`__arrow_c_stream__`), as does any other library that implements it.
"""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from pipeline.errors import InputError, did_you_mean, nearest_name, printable
from pipeline.ingest.sources import Source
from pipeline.schema import TableKind
from pipeline.tables import JOBS


class FrameKind(StrEnum):
    """The library of a data frame."""

    PANDAS = "pandas"
    POLARS = "polars"
    ARROW = "arrow"
    ARRAY = "array"
    """One column of processor counts, without a name."""


def arrow_of(frame: Any, what: str) -> tuple[pa.Table, FrameKind]:
    """The columns of a frame as an Arrow table, and the frame's kind; `what` names the argument in errors."""
    library = type(frame).__module__.partition(".")[0]
    if library == "pandas" and hasattr(frame, "columns"):
        return _usual(pa.Table.from_pandas(frame, preserve_index=False)), FrameKind.PANDAS
    if isinstance(frame, pa.Table):
        return _usual(frame), FrameKind.ARROW
    if hasattr(frame, "__arrow_c_stream__") and hasattr(frame, "columns"):
        return _usual(pa.table(frame)), FrameKind.POLARS if library == "polars" else FrameKind.ARROW
    if library == "duckdb" and hasattr(frame, "fetch_arrow_table"):
        return _usual(frame.fetch_arrow_table()), FrameKind.ARROW
    if library == "pyarrow" and hasattr(frame, "to_batches") and hasattr(frame, "schema"):
        return _usual(frame.to_table()), FrameKind.ARROW
    found = printable(f"{type(frame).__module__}.{type(frame).__qualname__}")
    # A reader is empty after its first use, so that it is not read here: a second call would see no rows.
    calls = {"LazyFrame": "collect", "RecordBatchReader": "read_all"}
    do = f"call its {calls[name]}() first" if (name := type(frame).__name__) in calls else ""
    raise InputError(
        what, found, "a data frame of pandas or polars, a table or dataset of Arrow, or a relation of DuckDB", do
    )


def source_of(frame: Any, label: str) -> Source:
    """A frame as a log in memory."""
    table, sink = arrow_of(frame, label)[0].unify_dictionaries(), pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    data = sink.getvalue()
    return Source(Path(label), label, opened=lambda: cast(BinaryIO, pa.BufferReader(data)))


def _usual(table: pa.Table) -> pa.Table:
    """The table with NaN as null (both mean unknown) and with polars' views of text as plain text."""
    import pyarrow.compute as pc  # noqa: PLC0415  (pyarrow.compute takes a tenth of a second)

    for place, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            column = table.column(place)
            known = pc.if_else(pc.is_nan(column), pa.scalar(None, field.type), column)
            table = table.set_column(place, field, known)
        elif pa.types.is_string_view(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(pa.string()))
    return table


def frame_of(table: pa.Table, kind: FrameKind) -> Any:
    """An Arrow table as a frame of this kind."""
    if kind is FrameKind.PANDAS:
        return table.to_pandas()
    if kind is FrameKind.POLARS:
        import polars as pl  # noqa: PLC0415  (an optional library of the user)

        return pl.from_arrow(table)
    return table


def same_rows(table: pa.Table, kind: FrameKind, frame: Any) -> Any:
    """A table that has a row for each row of the frame, as a frame of its kind and with its index."""
    found = frame_of(table, kind)
    if kind is FrameKind.PANDAS:
        found.index = frame.index
    return found


def frame_kind(name: str) -> FrameKind:
    """The kind of this name; InputError for an unknown one."""
    known = [str(kind) for kind in FrameKind if kind is not FrameKind.ARRAY]
    if name not in known:
        raise InputError("frame", printable(repr(name)), f"one of {', '.join(known)}", did_you_mean(str(name), known))
    return FrameKind(name)


def with_column(table: pa.Table, field: pa.Field, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The table with this column, in its place where it has one of that name, else behind the others."""
    place = table.column_names.index(field.name) if field.name in table.column_names else -1
    return table.append_column(field, values) if place < 0 else table.set_column(place, field, values)


def plain(table: pa.Table, declared: TableKind, without: Sequence[str] = ()) -> pa.Table:
    """A table with its categories as plain text, as on disk; fields keep unit and meaning as metadata."""
    schema = declared.schema(on_disk=True)
    fields = [field for field in schema if field.name not in without]
    columns = [table.column(field.name).cast(field.type) for field in fields]
    return pa.table(columns, schema=pa.schema(fields, metadata=schema.metadata))


def require(table: pa.Table, names: Sequence[str], what: str) -> None:
    """InputError where a column of these is missing: it names the missing ones and a near name in the frame."""
    missing = [name for name in names if name not in table.column_names]
    if not missing:
        return
    known = [str(name) for name in table.column_names]
    # A column that has its own meaning is not what is missing, however near its name.
    free = [name for name in known if name not in {column.name for column in JOBS.columns}]
    nearest = {name: nearest_name(name, free) for name in missing}
    hints = [f"rename {printable(near)} to {name}" for name, near in nearest.items() if near is not None]
    if all(name in nearest and nearest[name] is None for name in ("start_s", "end_s")):
        hints.append("where starts are unknown, add start_s and end_s with nulls")
    listed = ", ".join(printable(name, 40) for name in known[:12]) or "none"
    more = f" and {len(known) - 12} more" if len(known) > 12 else ""
    word = "columns" if len(missing) > 1 else "column"
    raise InputError(what, f"the columns {listed}{more}", f"also the {word} {', '.join(missing)}", "; ".join(hints))
