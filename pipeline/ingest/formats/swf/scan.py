"""The scanner of the Standard Workload Format: a block of lines in, columns of numbers out.

Arrow's CSV parser reads regular lines: comments above, then as many plain numbers in every line. Odd lines between
these are sorted out and read one at a time in Python. The scanner knows bytes, lines and numbers, and nothing of what a
field means (__init__.py does).
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import Bools, Ints, floats_of, integers
from pipeline.ingest.reader import columns_of, line_bounds, only_lines
from pipeline.ingest.sources import MAX_LINE_BYTES

N_FIELDS, MOST_FIELDS = 18, 21
"""Of the standard, and of the lines of some simulators, of which ingest.columns may name the last three."""

MIN_FIELDS = 5
"""A job line needs its number, submit, wait, runtime and processors; a dialect may leave the later ones out."""

MAX_DIGITS = 18
"""Numbers of 10^18 and more are refused, so that submit + wait + runtime always fits in 64 bits."""

REASONS = (
    "not_a_number", "number_too_large", "too_few_fields", "no_job_number", "line_too_long", "nul_bytes", "no_line_end",
    "too_many_fields", "joined_ids",
)  # fmt: skip
(
    _NOT_A_NUMBER, _TOO_LARGE, _TOO_FEW, _NO_JOB_NUMBER, _TOO_LONG, NUL_BYTES, OPEN_LINE, _TOO_MANY, JOINED_IDS,
) = range(1, len(REASONS) + 1)  # fmt: skip

Bytes = npt.NDArray[np.uint8]
_BLANKS = b" \t\r\v\f"
_STRANGE = b"x"
_PLAIN = bytes(b if chr(b) in "0123456789-. \n" else 32 if b in _BLANKS else _STRANGE[0] for b in range(256))
_NOT_SPACES = [bytes([byte]) for byte in b"\t\r\v\f\0"]
"""Blanks to be made spaces first; and zeros, which would otherwise be taken for those put in."""

_IS_BLANK = np.isin(np.arange(256), list(_BLANKS + b"\n"))
_IS_NUMBER = np.isin(np.arange(256), list(b"0123456789+-."))
_IS_STRANGE = np.frombuffer(_PLAIN, np.uint8) == _STRANGE[0]

_CACHE_BYTES = 1 << 18
_EXACT = float(1 << 53)
_WHOLE = re.compile(rb"[+-]?\d+")
_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")

Columns = Sequence[npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Scanned:
    """What stands in one block.

    columns: an array a field, -1 in fields that a short line lacks, of int64, float64 or, beyond what these hold
    exactly, long double. line: each row's line in the block, from 0. bad: int64 (n, 4), line, start byte, end byte,
    reason (1 + index into REASONS). comments: int64 (n, 3), line, start, end. width: how many fields each row of this
    file has, 0 before its first.
    """

    columns: Columns
    line: Ints
    bad: Ints
    comments: Ints
    width: int
    n_blank: int


def scan(data: bytes, width: int = 0, reals: Collection[int] = (), n_kept: int = N_FIELDS) -> Scanned:
    """The rows, unreadable lines and comments of a block of whole lines (the last may lack its newline).

    reals: the fields (from 1) read as fractions, a hint for speed. n_kept: how many fields are read. A line with
    another number of fields than `width`, that of most lines of the first block with jobs (at least 5), was cut or
    spliced, and is unreadable.
    """
    starts, ends = line_bounds(data)
    is_regular = np.arange(len(starts)) >= _n_leading(data, starts, ends)
    columns = _at_once(data, starts, ends, is_regular, width, reals, n_kept)
    if columns is None:
        # Looking at every byte takes longer than reading them, and few logs have odd lines.
        is_regular, width = _regular_lines(data, starts, ends, width)
        columns = _at_once(data, starts, ends, is_regular, width, reals, n_kept)
    if columns is None:
        return scan_lines(data, width, n_kept)
    width = width or len(data[starts[is_regular.argmax()] :][:1024].split(b"\n", 1)[0].split())
    return _with_odd_lines(data, starts, ends, is_regular, columns, width, n_kept)


def scan_lines(data: bytes, width: int, n_kept: int = N_FIELDS) -> Scanned:
    """The same of any lines, one at a time."""
    starts, ends = line_bounds(data)
    if not width and data:
        _, width = _regular_lines(data, starts, ends, 0)
    none = [np.empty(0, np.int64)] * n_kept
    return _with_odd_lines(data, starts, ends, np.zeros(len(starts), np.bool_), none, width, n_kept)


def looks_right(head: bytes) -> bool:
    """Whether a source's first bytes are SWF: a line of numbers, or nothing but comments and blanks."""
    whole = head[: head.rfind(b"\n") + 1] or head
    said = [line for line in map(bytes.strip, whole.split(b"\n")) if line and not line.startswith(b";")]
    return not said or any(_row(line, 0)[0] == 0 for line in said)


def _n_leading(data: bytes, starts: Ints, ends: Ints) -> int:
    """How many comments and blank lines stand above the first row."""
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        said = data[start : min(end, start + MAX_LINE_BYTES)].lstrip(_BLANKS)
        if said and said[:1] != b";":
            return number
    return len(starts)


def _regular_lines(data: bytes, starts: Ints, ends: Ints, width: int) -> tuple[Bools, int]:
    """The lines of `width` plain numbers, and that width; where it is 0, that of most lines that begin with a digit."""
    text = np.frombuffer(data, np.uint8)
    is_blank = _IS_BLANK[text]
    begins = ~is_blank
    begins[1:] &= is_blank[:-1]
    n_fields = np.add.reduceat(begins, starts, dtype=np.int64)
    is_plain = (np.add.reduceat(_IS_STRANGE[text], starts, dtype=np.int64) == 0) & (n_fields >= MIN_FIELDS)
    is_plain &= ends - starts <= MAX_LINE_BYTES
    if not width and (counted := n_fields[_begin_with_a_number(text, begins, starts) & (n_fields >= MIN_FIELDS)]).size:
        # Of two that are as common the larger one: a line is cut more often than it gets a field.
        width = int(counted.max() - np.bincount(counted)[::-1].argmax())
    return is_plain & (n_fields == width), width


def _begin_with_a_number(text: Bytes, begins: Bools, starts: Ints) -> Bools:
    """Whether the first field of each line begins as a number does; a line without a field takes the next one's."""
    fields = np.append(np.flatnonzero(begins), len(text) - 1)
    is_number: Bools = _IS_NUMBER[text[fields[np.searchsorted(fields[:-1], starts)]]]
    return is_number


def _with_odd_lines(
    data: bytes, starts: Ints, ends: Ints, is_regular: Bools, columns: Columns, width: int, n_kept: int
) -> Scanned:
    """The block: the columns of its regular lines, and the other lines one at a time."""
    odd = np.flatnonzero(~is_regular)
    rows, places, bad, comments, n_blank = [], [], [], [], 0
    for place, start, end in zip(odd.tolist(), starts[odd].tolist(), ends[odd].tolist(), strict=True):
        line = data[start:end]
        if line[: MAX_LINE_BYTES + 1].lstrip(_BLANKS)[:1] == b";":
            comments.append((place, start, end))
            continue
        is_short = len(line) <= MAX_LINE_BYTES
        reason, n_fields, values = _row(line, width, n_kept) if is_short else (_TOO_LONG, 0, [])
        if reason:
            bad.append((place, start, end, reason))
        elif not n_fields:
            n_blank += 1
        else:
            rows.append(values)
            places.append(place)
            width = width or n_fields
    line_of = np.append(np.flatnonzero(is_regular), np.array(places, np.int64))
    if rows:
        order = np.argsort(line_of, kind="stable")
        line_of = line_of[order]
        # A long double holds whole numbers of 18 digits, and fractions as Python reads them.
        found = np.array(rows, np.longdouble).T
        columns = [np.append(column, more)[order] for column, more in zip(columns, found, strict=True)]
    return Scanned(
        columns, line_of, np.array(bad, np.int64).reshape(-1, 4), np.array(comments, np.int64).reshape(-1, 3),
        width, n_blank,
    )  # fmt: skip


def _row(line: bytes, width: int, n_kept: int = N_FIELDS) -> tuple[int, int, list[float]]:
    """Reason or 0; how many fields (0: a blank line); those kept."""
    fields = line.split()
    values: list[float] = [-1] * n_kept
    for place, token in enumerate(fields[:n_kept]):
        reason, values[place] = _number(token)
        if reason:
            return reason, len(fields), values
    if fields and len(fields) < max(width, MIN_FIELDS):
        return _TOO_FEW, len(fields), values
    if width and len(fields) > width:
        return _TOO_MANY, len(fields), values
    return (_NO_JOB_NUMBER if fields and values[0] == -1 else 0), len(fields), values


def _number(token: bytes) -> tuple[int, float]:
    """Reason or 0, and the value, an int where it is written as one."""
    if not _NUMBER.fullmatch(token):
        return _NOT_A_NUMBER, 0
    value = int(token[:99]) if _WHOLE.fullmatch(token) else float(token)
    return (0, value) if abs(value) < 10**MAX_DIGITS else (_TOO_LARGE, 0)


def _at_once(
    data: bytes, starts: Ints, ends: Ints, is_regular: Bools, width: int, reals: Collection[int], n_kept: int
) -> Columns | None:
    """The columns of these lines; None where any is not regular, or has a number beyond what both ways read alike."""
    n_rows = np.count_nonzero(is_regular)
    if not n_rows or (ends - starts)[is_regular].max() > MAX_LINE_BYTES:
        return None
    first = int(is_regular.argmax())
    together = data[starts[first] :] if n_rows == len(starts) - first else only_lines(data, starts, is_regular)
    n_fields = len(together[:1024].split(b"\n", 1)[0].split())
    text = _single_spaced(together) if n_fields >= MIN_FIELDS and n_fields == (width or n_fields) else None
    if text is None:
        return None
    columns = _columns(text, n_fields, reals, n_kept)
    if columns is None:
        # Blanks at the end of a line look like one field more. They are rare, so looking for them first does not pay.
        ends_line = np.append(text[1:], ord("\n")) == ord("\n")
        tidy = text[~(ends_line & (text == ord(" ")))]
        columns = _columns(tidy, n_fields, reals, n_kept) if len(tidy) < len(text) else None
        columns = columns or _columns(tidy, n_fields, range(1, n_kept + 1), n_kept)
    if columns is None or len(columns[0]) != n_rows or (columns[0] == -1).any():
        return None
    return [*columns, *([np.full(n_rows, -1, np.int64)] * (n_kept - len(columns)))]


def _single_spaced(data: bytes) -> Bytes | None:
    """The bytes with one space between fields and none at a line's start; None if one is strange."""
    parts, before = [], b"\n"
    # A slice at a time, so that a slice stays in the processor's cache through all its passes.
    for at in range(0, len(data), _CACHE_BYTES):
        part = data[at : at + _CACHE_BYTES]
        if any(byte in part for byte in _NOT_SPACES):
            part = part.translate(_PLAIN)
        parts.append(_first_spaces(np.frombuffer(part, np.uint8), after_edge=before in (b" ", b"\n")))
        if _STRANGE in parts[-1]:
            return None
        before = part[-1:]
    return np.frombuffer(b"".join(parts), np.uint8)


def _first_spaces(text: Bytes, *, after_edge: bool) -> bytes:
    """The text without those spaces that follow a space or newline, and with what is no number's made strange."""
    is_kept = text != 32
    is_kept[1:] |= text[:-1] > 32
    is_kept[0] |= not after_edge
    # Zeros put in and taken out again: half the time that numpy needs to pick bytes.
    kept: bytes = (text * is_kept).tobytes()
    return kept.translate(_PLAIN, b"\0")


def _columns(text: Bytes, n_fields: int, reals: Collection[int], n_kept: int) -> Columns | None:
    kinds = {k: pa.float64() if k + 1 in reals else pa.int64() for k in range(min(n_fields, n_kept))}
    try:
        found = columns_of(pa.py_buffer(text), n_fields, kinds, " ").values()
    except pa.ArrowInvalid:
        return None
    columns = [integers(column)[0] if column.type == pa.int64() else floats_of(column) for column in found]
    bounds = (float(10**MAX_DIGITS) if column.dtype == np.int64 else _EXACT for column in columns)
    is_exact = all(
        float(column.max(initial=0)) < bound and float(column.min(initial=0)) > -bound
        for column, bound in zip(columns, bounds, strict=True)
    )
    return columns if is_exact else None
