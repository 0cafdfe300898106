"""Reads MPI traces: calls that walltime kept, OTF2 archives, CSV with a line per call. A new format: a line in READERS.

A CSV has the columns rank, seq, op, peer, tag, count, bytes, t_start, t_end, and optionally communicator. `peer` is the
destination of a send, the source of a receive, the root of a rooted collective; `source>destination` for the request
that a wait completes, and for MPI_Sendrecv. Times are seconds. Gzip is known by content.
"""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from pipeline.arrays import CATEGORY, category_codes, unknown
from pipeline.errors import InputError, printable
from pipeline.phase_tables import MPI_CALLS
from pipeline.phases.mpi_calls import AGAIN, UNKNOWN, calls_table, known, numbers_of_calls
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
    except (InputError, OSError):
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
NEEDED = tuple(name for name in TYPES if name != "communicator")
_PARSED: dict[str, Callable[[str], Any]] = {
    name: int if kind == pa.int64() else float for name, kind in TYPES.items() if kind != CATEGORY
}
_EMPTY_ALLOWED = ("tag", "bytes")
MOST_RANKS = 2**31


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
    peer, peers = category_codes(table, "peer")
    # The last row is that of no peer, which has the code -1. Many requests name few peers: each is read once.
    ranks = np.array([*(_ranks(where, text) for text in peers), (UNKNOWN, UNKNOWN)], np.int64)[peer]
    named = "communicator" in table.column_names
    return calls_table(where, pa.table({
        "rank": table["rank"], "event": table["seq"], "op": table["op"], "first": known(ranks[:, 0]),
        "second": known(ranks[:, 1]), "tag": table["tag"], "bytes": known(numbers_of_calls(table, "bytes")),
        "communicator": table["communicator"] if named else unknown(table.num_rows, CATEGORY),
        "t_start_s": table["t_start"], "t_end_s": table["t_end"],
    }))  # fmt: skip


def _ranks(where: str, text: str) -> tuple[int, int]:
    """The ranks of `3`, or of `3>5`; a negative one stands for any rank."""
    before, _, after = text.partition(">")
    try:
        found = max(int(before), UNKNOWN), max(int(after), UNKNOWN) if after else UNKNOWN
    except ValueError:
        found = (MOST_RANKS, UNKNOWN)
    if max(found) >= MOST_RANKS:
        raise InputError(where, f"peer {printable(text, 60)}", "a rank, or source>destination")
    return found


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
    if missing := [name for name in NEEDED if name not in names]:
        raise InputError(where, f"no column {printable(', '.join(missing))}", f"the columns {','.join(NEEDED)}")
    types = {name: kind for name, kind in TYPES.items() if name in names}
    read = pa.csv.ReadOptions(column_names=names, block_size=1 << 24)
    convert = pa.csv.ConvertOptions(
        include_columns=list(types), column_types=types, null_values=[""], strings_can_be_null=True
    )
    table = pa.csv.read_csv(watched, read_options=read, convert_options=convert)
    if watched.last != b"\n":
        raise pa.ArrowInvalid("the last line has no end")
    if any(table.column(name).null_count for name in _PARSED if name not in _EMPTY_ALLOWED):
        raise pa.ArrowInvalid("a number is missing")
    return table


def _damage(path: Path, where: str, error: Exception) -> InputError:
    """The first damaged place of a trace, in a sentence with rank and event."""

    def said(found: str, expected: str) -> InputError:
        place = f"{where}, after rank {printable(last['rank'], 20)}, event {printable(last['seq'], 20)}"
        return InputError(place, found, expected, AGAIN)

    last, names = {"rank": "none", "seq": "none"}, header_of(path)
    try:
        with open_plain(path) as source:
            source.readline()
            for line in source:
                fields = next(csv.reader([line.decode("utf-8", "backslashreplace").rstrip("\r\n")]), [])
                row = dict(zip(names, fields, strict=False))
                if len(fields) != len(names) or not line.endswith(b"\n"):
                    end = "" if line.endswith(b"\n") else " without a line end"
                    return said(f"a line of {len(fields)} values{end}", f"{len(names)} values and a line end")
                if wrong := next((name for name in _PARSED if name in row and not _fits(name, row[name])), None):
                    return said(f"{wrong} {printable(row[wrong], 60) or 'empty'}", "a number")
                last = row
    except UNREADABLE as cut:
        error = cut
    return said(f"an unreadable file ({printable(str(error), 100)})", "a complete trace")


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
