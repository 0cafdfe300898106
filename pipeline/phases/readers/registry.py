"""The formats of MPI traces: a new one is a file and a line here."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.core.report import Report

READERS = {
    "parquet": "pipeline.phases.readers.parquet:PARQUET",
    "otf2": "pipeline.phases.readers.otf2:OTF2",
    "csv": "pipeline.phases.readers.csv:CSV",
}
"""Per format the TraceReader, imported when it is asked."""


@dataclass(frozen=True, slots=True)
class TraceReader:
    """`looks_right` knows a path by its content; `read` gives MPI_CALLS (s) or raises an InputError."""

    expects: str
    looks_right: Callable[[Path], bool]
    read: Callable[[Path], tuple[pa.Table, Report]]


def reader_of(path: Path) -> TraceReader | None:
    """The first reader that knows the path; None where no one does."""
    for place in READERS.values():
        module, _, attribute = place.partition(":")
        reader: Any = getattr(import_module(module), attribute)
        if reader.looks_right(path):
            return reader  # type: ignore[no-any-return]
    return None
