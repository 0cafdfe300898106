"""Reads measured times of intervals: a CSV with a column `interval` from 0 and a column of seconds, plain or gzip."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from pipeline.core.errors import InputError
from pipeline.core.text import printable

DEFAULT_COLUMN = "time_s"
_DAMAGED = (OSError, EOFError, pa.ArrowException)


def read_interval_times(path: Path, n_intervals: int, column: str = DEFAULT_COLUMN) -> npt.NDArray[np.float64]:
    """The time of each interval in seconds, shape (n_intervals,), NaN where the file has no row of the interval.

    Raises InputError where the file cannot be read, lacks a column, or holds an interval twice, a number outside the
    run, or a time that is not positive.
    """
    label = printable(path.name)
    table = _read(path, label, ("interval", column))
    intervals, times_s = (table.column(i).to_numpy() for i in range(2))
    times = np.full(n_intervals, np.nan)
    for row, (interval, time_s) in enumerate(zip(intervals, times_s, strict=True), 2):
        where = f"{label}, line {row}"
        if not 0 <= interval < n_intervals:
            raise InputError(where, f"interval {interval}", f"an interval from 0 to {n_intervals - 1}")
        if not (time_s > 0 and np.isfinite(time_s)):
            raise InputError(where, f"a time of {time_s:g} s", "a positive number of seconds")
        if not np.isnan(times[interval]):
            raise InputError(where, f"interval {interval} a second time", "one row an interval")
        times[interval] = time_s
    return times


def _read(path: Path, label: str, columns: tuple[str, str]) -> pa.Table:
    try:
        # Arrow knows the compression by the name alone.
        source = pa.CompressedInputStream(str(path), "gzip") if _is_gzip(path) else pa.OSFile(str(path))
        with source:
            table = csv.read_csv(
                source,
                convert_options=csv.ConvertOptions(
                    column_types={columns[0]: pa.int64(), columns[1]: pa.float64()}, include_missing_columns=False
                ),
            )
    except _DAMAGED as error:
        raise InputError(label, f"a file that cannot be read ({_first_line(error)})", "a CSV of times") from error
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        found = ", ".join(printable(name, 40) for name in table.column_names[:10])
        raise InputError(label, f"the columns {found}", f"a column {missing[0]}", "name the column of the times")
    chosen = table.select(columns)
    if chosen.column(0).null_count or chosen.column(1).null_count:
        raise InputError(label, "a row without an interval or without a time", "both in every row")
    return chosen


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _first_line(error: BaseException) -> str:
    return printable(str(error).splitlines()[0] if str(error) else type(error).__name__)
