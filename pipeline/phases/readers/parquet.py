"""Reads a table MPI_CALLS that was kept, so that a large archive is read once."""

from pathlib import Path

import pyarrow as pa

from pipeline.core.errors import InputError
from pipeline.core.phase_tables import MPI_CALLS
from pipeline.core.report import Report, Tally
from pipeline.core.store import read_metadata, read_table
from pipeline.core.text import printable
from pipeline.phases.readers.registry import TraceReader


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


PARQUET = TraceReader("a table mpi_calls of walltime phases", is_kept, read_kept)
"""`walltime phases` keeps it in its folder, in order of rank and call."""
