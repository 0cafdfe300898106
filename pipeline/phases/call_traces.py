"""Reads MPI traces: calls that walltime kept, OTF2 archives, CSV with a line per call. A new format: a line in READERS.

A CSV has the columns rank, seq, op, peer, tag, count, bytes, t_start, t_end, and optionally communicator. `peer` is the
destination of a send, the source of a receive, the root of a rooted collective; `source>destination` for the request
that a wait completes, and for MPI_Sendrecv. Times are seconds. Gzip is known by content.
"""

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv

from pipeline.arrays import CATEGORY
from pipeline.errors import InputError, printable
from pipeline.phase_tables import MPI_CALLS
from pipeline.phases.mpi_calls import AGAIN, CallColumns, calls_table
from pipeline.phases.otf2_traces import is_archive, read_otf2_trace
from pipeline.phases.phase_input import UNREADABLE, header_of, open_plain
from pipeline.report import Report, Tally
from pipeline.storage import read_metadata, read_table


def is_kept(path: Path) -> bool:
    """Whether the file is such a table."""
    if path.suffix != ".parquet" or not path.is_file():
        return False
    try:
        return read_metadata(path).get("table") == MPI_CALLS.name
    except (pa.ArrowInvalid, OSError):
        return False


def read_kept(path: Path) -> tuple[pa.Table, Report]:
    """The table, and a Report of ranks and calls; InputError where it is damaged."""
    table = read_table(path, MPI_CALLS)
    if not table.num_rows:
        raise InputError(printable(path.name, 200), "a trace without calls", "one row per MPI call")
    rows = Tally(table.num_rows)
    return table, Report("read_trace", "call", rows, rows, facts={"ranks": table.column("rank")[-1].as_py() + 1})


TYPES = {
    "rank": pa.int64(), "seq": pa.int64(), "op": CATEGORY, "peer": CATEGORY, "tag": pa.int64(), "bytes": pa.int64(),
    "t_start": pa.float64(), "t_end": pa.float64(), "communicator": CATEGORY,
}  # fmt: skip
NEEDED = ("rank", "seq", "op", "peer", "tag", "bytes", "t_start", "t_end")
_PARSED: dict[str, Callable[[str], Any]] = {
    name: int if kind == pa.int64() else float for name, kind in TYPES.items() if kind != CATEGORY
}
_EMPTY_ALLOWED = ("tag", "bytes")


def is_trace(path: Path) -> bool:
    """Whether the file's first line names the columns of a trace."""
    return {"rank", "seq", "op"} <= set(header_of(path))


def read_csv_trace(path: Path) -> tuple[pa.Table, Report]:
    """MPI_CALLS of a CSV trace, in s; InputError with rank and event where a row is damaged or the trace is cut."""
    where = printable(path.name, 200)
    try:
        with open_plain(path) as source:
            table = _parsed(source, where)
    except (pa.ArrowInvalid, *UNREADABLE) as error:
        raise _damage(path, where, error) from None
    return calls_table(CallColumns.of_csv(where, table))


class _LastByte(io.RawIOBase):
    """A stream that knows its last byte: a line without an end may be cut within a number."""

    def __init__(self, source: BinaryIO) -> None:
        self._source, self.last = source, b"\n"

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        found = self._source.read(size)
        self.last = found[-1:] or self.last
        return found


def _parsed(source: BinaryIO, where: str) -> pa.Table:
    watched = _LastByte(source)
    names = [name.strip() for name in source.readline().decode("utf-8-sig", "replace").strip().split(",")]
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise InputError(where, f"no column {printable(', '.join(missing))}", f"the columns {','.join(NEEDED)}")
    kept = [name for name in TYPES if name in names]
    read = pa.csv.ReadOptions(column_names=names, block_size=1 << 24)
    types = {name: TYPES[name] for name in kept}
    convert = pa.csv.ConvertOptions(
        include_columns=kept, column_types=types, null_values=[""], strings_can_be_null=True
    )
    table = pa.csv.read_csv(watched, read_options=read, convert_options=convert)
    if watched.last != b"\n":
        raise pa.ArrowInvalid("the last line has no end")
    if not table.num_rows:
        raise InputError(where, "a trace without calls", "one line per MPI call", AGAIN)
    for name in kept:
        if name in _PARSED and name not in _EMPTY_ALLOWED and table.column(name).null_count:
            raise pa.ArrowInvalid(f"{name} is empty")
    return table


def _damage(path: Path, where: str, error: Exception) -> InputError:
    """The first damaged place of a trace, in a sentence with rank and event."""
    last = {"rank": "none", "seq": "none"}
    names: list[str] = []
    try:
        with open_plain(path) as source:
            for fields, ends in _rows(source):
                if not names:
                    names = [name.strip() for name in fields]
                    continue
                place = f"{where}, after rank {printable(last['rank'], 20)}, event {printable(last['seq'], 20)}"
                row = dict(zip(names, fields, strict=False))
                if len(fields) != len(names) or not ends:
                    found = f"a line of {len(fields)} values" + ("" if ends else " without a line end")
                    return InputError(place, found, f"{len(names)} values and a line end", AGAIN)
                wrong = next((name for name in _PARSED if name in row and not _fits(name, row[name])), None)
                if wrong:
                    return InputError(place, f"{wrong} {printable(row[wrong], 60) or 'empty'}", "a number", AGAIN)
                last = row
    except UNREADABLE as cut:
        error = cut
    place = f"{where}, after rank {printable(last['rank'], 20)}, event {printable(last['seq'], 20)}"
    return InputError(place, f"an unreadable file ({printable(str(error), 100)})", "a complete trace", AGAIN)


def _rows(source: BinaryIO) -> Iterator[tuple[list[str], bool]]:
    for line in source:
        text = line.decode("utf-8-sig", "backslashreplace")
        yield next(csv.reader([text.rstrip("\r\n")]), []), text.endswith("\n")


def _fits(name: str, text: str) -> bool:
    value: Any
    try:
        value = _PARSED[name](text)
    except ValueError:
        return name in _EMPTY_ALLOWED and not text
    return bool(abs(value) < 2**63)


READERS: tuple[tuple[Callable[[Path], bool], Callable[[Path], tuple[pa.Table, Report]]], ...] = (
    (is_kept, read_kept), (is_archive, read_otf2_trace), (is_trace, read_csv_trace),
)  # fmt: skip
"""Per format what knows a path by its content, and what reads MPI_CALLS (s) from it or raises an InputError."""


def is_mpi_trace(path: Path) -> bool:
    """Whether a reader of traces knows the path."""
    return any(knows(path) for knows, _ in READERS)


def read_trace(path: Path) -> tuple[pa.Table, Report]:
    """MPI_CALLS of a trace of any format, s, and a Report of ranks and calls; InputError where none knows the path."""
    read = next((read for knows, read in READERS if knows(path)), None)
    if read is None:
        raise InputError(printable(str(path)), "no MPI trace", "a CSV or OTF2 trace")
    return read(path)
