"""Reads SimPoint frequency vectors: one line an interval, `T:block:count   :block:count ...`, plain or gzip.

valgrind's exp-bbv and the tools of Pin write this form. Lines that start with `#` are comments, and empty lines are
skipped. Block numbers need not be dense. A block that a line repeats counts with the sum of its counts.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from gzip import BadGzipFile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Floats, Ints
from pipeline.errors import InputError, printable
from pipeline.phases.phase_input import open_plain
from pipeline.phases.platforms import csv_rows, seconds_of

EXPECTED = "intervals of the form T:block:count :block:count ..."
MAX_LINE_BYTES = 1 << 26
"""Bound of one line, 64 MiB (about five million blocks): a damaged file must not fill the memory."""

_INTERVAL = re.compile(rb"T[ \t]*(?::\d{1,10}:\d{1,15}[ \t]*)+")
"""Ten digits number any block of a program, and fifteen digits are exact in a 64-bit float."""


@dataclass(frozen=True, slots=True)
class FrequencyVectors:
    """The intervals of a run in compressed rows, 12 bytes an entry.

    Interval i has entries `first_entry[i]` to `first_entry[i + 1]` of `block` (positions in `block_ids`) and `count`.
    """

    label: str
    first_entry: Ints
    block: npt.NDArray[np.int32]
    count: Floats
    block_ids: Ints
    n_comments: int

    @property
    def n_intervals(self) -> int:
        """Number of intervals."""
        return len(self.first_entry) - 1

    @property
    def totals(self) -> Floats:
        """Sum of the counts of each interval."""
        return np.add.reduceat(self.count, self.first_entry[:-1])


def looks_like_vectors(path: Path) -> bool:
    """Whether the first line of a file that is neither empty nor a comment starts as an interval does."""
    try:
        return next(_lines(path, path.name), (0, b""))[1].startswith(b"T")
    except InputError:
        return False


def read_frequency_vectors(path: Path) -> FrequencyVectors:
    """The intervals of a .bb or .bb.gz file, in the order of its lines.

    Raises InputError, one sentence with file and line, where the file is cut off, damaged, empty or not of this form.
    """
    label = printable(path.name)
    sizes: list[int] = []
    entries: list[Ints] = []
    n_comments = 0
    for number, line in _lines(path, label, with_comments=True):
        if line.startswith(b"#"):
            n_comments += 1
            continue
        entries.append(_entries(line, f"{label}, line {number}"))
        sizes.append(len(entries[-1]))
    if not entries:
        raise InputError(label, "no interval", EXPECTED, "name a file written by exp-bbv or a tool of Pin")
    block_ids, block = np.unique(np.concatenate([part[:, 0] for part in entries]), return_inverse=True)
    count = np.concatenate([part[:, 1] for part in entries]).astype(np.float64)
    first_entry = np.concatenate(([0], np.cumsum(sizes)))
    return FrequencyVectors(label, first_entry, block.astype(np.int32), count, block_ids, n_comments)


def _entries(line: bytes, where: str) -> Ints:
    """Block numbers and counts of one line, shape (n, 2)."""
    if not _INTERVAL.fullmatch(line):
        raise InputError(where, f"'{printable(line[:40].decode('utf-8', 'backslashreplace'))}'", EXPECTED)
    numbers = np.array(line[1:].replace(b":", b" ").split(), np.int64).reshape(-1, 2)
    if not numbers[:, 1].any():
        raise InputError(where, "an interval without executions", "counts above 0")
    return numbers


def _lines(path: Path, label: str, *, with_comments: bool = False) -> Iterator[tuple[int, bytes]]:
    """Numbers from 1 and texts of the lines that are not empty; InputError where the file is cut off or damaged."""
    number = 0
    try:
        with open_plain(path) as stream:
            while line := stream.readline(MAX_LINE_BYTES):
                number += 1
                _check_end(line, f"{label}, line {number}")
                text = line.strip()
                if text and (with_comments or not text.startswith(b"#")):
                    yield number, text
    except (EOFError, zlib.error, BadGzipFile) as error:
        # BadGzipFile is an OSError too: it is caught here, before the errors of the disk.
        raise InputError(f"{label}, after line {number}", f"damaged gzip data ({error})", "a whole file", DO) from error
    except OSError as error:
        raise InputError(label, f"a file that cannot be read ({error.strerror})", "a readable file") from error


DO = "the file is cut off or damaged; write or copy it again"


def _check_end(line: bytes, where: str) -> None:
    if line.endswith(b"\n"):
        return
    if len(line) == MAX_LINE_BYTES:
        raise InputError(where, f"more than {MAX_LINE_BYTES >> 20} MiB without a line end", EXPECTED)
    raise InputError(where, "a last line without its line end", "a whole file", DO)


def read_interval_times(path: Path, n_intervals: int, column: str = "time_s") -> Floats:
    """(intervals,) seconds of a CSV with a column `interval` from 0 and one of times; NaN where it has no row.

    InputError where the file cannot be read, lacks a column, or holds an interval twice, a number outside the run, or a
    time that is not positive.
    """
    times_s = np.full(n_intervals, np.nan)
    for where, row in csv_rows(path, ("interval", column)):
        text = row["interval"]
        if not text.isdecimal() or int(text) >= n_intervals:
            found = f"interval {printable(text, 40) or 'empty'}"
            raise InputError(where, found, f"an interval from 0 to {n_intervals - 1}")
        if not np.isnan(times_s[int(text)]):
            raise InputError(where, f"interval {text} a second time", "one row an interval")
        times_s[int(text)] = seconds_of(row, column, where, is_positive=True)
    return times_s
