"""The scanner of the Standard Workload Format: a block of lines in, columns of numbers out.

Arrow's CSV parser reads regular lines: comments above, then as many plain numbers in every line. Odd lines between
these are sorted out and read one at a time in Python. The scanner knows bytes, lines and numbers, and nothing of what a
field means (fields.py does).
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import MAX_EMAX, MIN_EMIN, ROUND_DOWN, Context

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints, floats_of, integers
from pipeline.ingest.lines import columns_of, line_bounds, only_lines
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
_LEADING_DIGITS = Context(prec=MAX_DIGITS, rounding=ROUND_DOWN, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


@dataclass(frozen=True, slots=True)
class Scanned:
    """What stands in one block.

    whole: an array of int64 a field, each value floored, -1 in fields a short line lacks; real: one of float64, the
    value where it has a fraction, else 0, empty unless `fractional` is set; line: each row's place in the block from 0.
    bad: int64 (n, 4), line, start byte, end byte, reason (1 + index into REASONS). comments: int64 (n, 4), rows before
    it, line, start, end. width: how many fields each line of this file has, 0 before its first job. n_long, n_short:
    rows with more and with fewer than 18 fields.
    """

    whole: Sequence[Ints]
    real: Sequence[Floats]
    fractional: Bools
    line: Ints
    bad: Ints
    comments: Ints
    width: int
    n_blank: int = 0
    n_long: int = 0
    n_short: int = 0


def scan(data: bytes, width: int = 0, reals: Collection[int] = (), n_kept: int = N_FIELDS) -> Scanned:
    """The rows, unreadable lines and comments of a block of whole lines (the last may lack its newline).

    reals: the fields (from 1) read as fractions, a hint for speed. n_kept: how many fields are read. A line with
    another number of fields than `width`, that of most lines of the first block with jobs (at least 5), was cut or
    spliced, and is unreadable.
    """
    text = np.frombuffer(data, np.uint8)
    starts, ends = line_bounds(data)
    regular = np.arange(_n_leading(data, starts, ends), len(starts))
    found = _with_regular(data, starts, ends, regular, width, reals, n_kept)
    if found is None:
        # Looking at every byte takes longer than reading them, and few logs have odd lines.
        regular, width = _regular_lines(text, starts, ends, width)
        found = _with_regular(data, starts, ends, regular, width, reals, n_kept)
    return found or scan_lines(data, width, n_kept)


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


def _regular_lines(text: Bytes, starts: Ints, ends: Ints, width: int) -> tuple[Ints, int]:
    """The lines of `width` plain numbers, and that width; where it is 0, that of most lines that begin with a digit."""
    is_blank = _IS_BLANK[text]
    begins = ~is_blank
    begins[1:] &= is_blank[:-1]
    n_fields = np.add.reduceat(begins, starts, dtype=np.int64)
    is_plain = (np.add.reduceat(_IS_STRANGE[text], starts, dtype=np.int64) == 0) & (n_fields >= MIN_FIELDS)
    is_plain &= ends - starts <= MAX_LINE_BYTES
    if not width and (counted := n_fields[_begin_with_a_number(text, begins, starts) & (n_fields >= MIN_FIELDS)]).size:
        # Of two that are as common the larger one: a line is cut more often than it gets a field.
        width = int(counted.max() - np.bincount(counted)[::-1].argmax())
    return np.flatnonzero(is_plain & (n_fields == width)), width


def _begin_with_a_number(text: Bytes, begins: Bools, starts: Ints) -> Bools:
    """Whether the first field of each line begins as a number does; a line without a field takes the next one's."""
    fields = np.append(np.flatnonzero(begins), len(text) - 1)
    is_number: Bools = _IS_NUMBER[text[fields[np.searchsorted(fields[:-1], starts)]]]
    return is_number


def _with_regular(
    data: bytes, starts: Ints, ends: Ints, regular: Ints, width: int, reals: Collection[int], n_kept: int
) -> Scanned | None:
    """The block, these lines at once and the others one at a time; None where these are not regular all the same."""
    if not len(regular) or (ends - starts)[regular].max() > MAX_LINE_BYTES:
        return None
    is_odd = np.ones(len(starts), np.bool_)
    is_odd[regular] = False
    odd = np.flatnonzero(is_odd)
    # Before the first of the regular lines, an odd one may be the file's first job.
    n_early = int(regular[0])
    early = _one_by_one(data, odd[:n_early], starts, ends, width, n_kept)
    together = data[starts[n_early] :] if n_early == len(odd) else only_lines(data, starts, ~is_odd)
    rest = _at_once(together, regular, early.width, reals, n_kept)
    if rest is None:
        return None
    return _together([early, rest, _one_by_one(data, odd[n_early:], starts, ends, rest.width, n_kept)])


def _together(parts: Sequence[Scanned]) -> Scanned:
    """Parts of one block, of which each has its own lines, in order of line."""
    filled = [part for part in parts if len(part.line)]
    rows = filled[0]
    if len(filled) > 1:
        line = np.concatenate([part.line for part in filled])
        order = np.argsort(line, kind="stable")
        fractional: Bools = np.logical_or.reduce([part.fractional for part in filled])
        real = [
            np.concatenate([p.real[k] if p.fractional[k] else np.zeros(len(p.line)) for p in filled])[order]
            if fractional[k] else np.empty(0)
            for k in range(len(rows.whole))
        ]  # fmt: skip
        whole = [np.concatenate([part.whole[k] for part in filled])[order] for k in range(len(rows.whole))]
        rows = replace(rows, whole=whole, real=real, fractional=fractional, line=line[order])
    comments = np.concatenate([part.comments for part in parts])
    comments[:, 0] = np.searchsorted(rows.line, comments[:, 1])
    n_blank, n_long, n_short = (
        sum(counts) for counts in zip(*((p.n_blank, p.n_long, p.n_short) for p in parts), strict=True)
    )
    bad, width = np.concatenate([part.bad for part in parts]), parts[-1].width
    return replace(
        rows, bad=bad, comments=comments, width=width, n_blank=n_blank, n_long=n_long, n_short=n_short
    )  # fmt: skip


def scan_lines(data: bytes, width: int, n_kept: int = N_FIELDS) -> Scanned:
    """The same of any lines, one at a time."""
    starts, ends = line_bounds(data)
    if not width and data:
        _, width = _regular_lines(np.frombuffer(data, np.uint8), starts, ends, 0)
    return _one_by_one(data, np.arange(len(starts)), starts, ends, width, n_kept)


def _one_by_one(data: bytes, numbers: Ints, starts: Ints, ends: Ints, width: int, n_kept: int) -> Scanned:
    """Some lines of a block, by their numbers from 0."""
    rows: list[tuple[int, list[int], list[float]]] = []
    bad, comments, n_blank, n_long, n_short = [], [], 0, 0, 0
    for number, start, end in zip(numbers.tolist(), starts[numbers].tolist(), ends[numbers].tolist(), strict=True):
        line = data[start:end]
        if line[: MAX_LINE_BYTES + 1].lstrip(_BLANKS)[:1] == b";":
            comments.append((len(rows), number, start, end))
            continue
        is_short = len(line) <= MAX_LINE_BYTES
        reason, n_fields, whole, real = _row(line, width, n_kept) if is_short else (_TOO_LONG, 0, [], [])
        if reason:
            bad.append((number, start, end, reason))
        elif not n_fields:
            n_blank += 1
        else:
            rows.append((number, whole, real))
            width = width or n_fields
            n_long += n_fields > N_FIELDS
            n_short += n_fields < N_FIELDS
    values = np.array([row[1] for row in rows], np.int64).reshape(-1, n_kept).T
    exact = np.array([row[2] for row in rows], np.float64).reshape(-1, n_kept).T
    fractional: Bools = (exact != 0).any(axis=1)
    return Scanned(
        list(values), list(exact), fractional, np.array([row[0] for row in rows], np.int64),
        np.array(bad, np.int64).reshape(-1, 4), np.array(comments, np.int64).reshape(-1, 4),
        width, n_blank, n_long, n_short,
    )  # fmt: skip


def _row(line: bytes, width: int, n_kept: int = N_FIELDS) -> tuple[int, int, list[int], list[float]]:
    """Reason or 0; how many fields (0: a blank line); those kept, floored; each of them that has a fraction."""
    fields = line.split()
    whole, real = [-1] * n_kept, [0.0] * n_kept
    for place, token in enumerate(fields[:n_kept]):
        reason, whole[place], real[place] = _number(token)
        if reason:
            return reason, len(fields), whole, real
    if fields and len(fields) < max(width, MIN_FIELDS):
        return _TOO_FEW, len(fields), whole, real
    if width and len(fields) > width:
        return _TOO_MANY, len(fields), whole, real
    return (_NO_JOB_NUMBER if fields and whole[0] == -1 else 0), len(fields), whole, real


def _number(token: bytes) -> tuple[int, int, float]:
    """Reason or 0; the value floored; the value if it has a fraction, else 0. Digits after the 18th count as zeros."""
    if _WHOLE.fullmatch(token):
        digits = token.lstrip(b"+-").lstrip(b"0")
        if len(digits) > MAX_DIGITS:
            return _TOO_LARGE, 0, 0.0
        return 0, int(digits or b"0") * (-1 if token[:1] == b"-" else 1), 0.0
    if not _NUMBER.fullmatch(token):
        return _NOT_A_NUMBER, 0, 0.0
    exact = _LEADING_DIGITS.create_decimal(token.decode())
    if not (exact.is_finite() and exact.copy_abs() < 10**MAX_DIGITS):
        return _TOO_LARGE, 0, 0.0
    floored, value = math.floor(exact), float(token)
    if exact == floored or value == 0.0:
        return 0, int(exact), 0.0
    return 0, floored, value


def _at_once(data: bytes, line: Ints, width: int, reals: Collection[int], n_kept: int) -> Scanned | None:
    """Regular lines, given by their places in the block and all their text; None where any is not regular.

    A number beyond what both ways of reading give alike is not.
    """
    n_fields = len(data[:1024].split(b"\n", 1)[0].split())
    text = _single_spaced(data) if n_fields >= MIN_FIELDS and n_fields == (width or n_fields) else None
    columns = _columns(text, n_fields, reals, n_kept) if text is not None else None
    if columns is None and text is not None:
        # Blanks at the end of a line look like one field more. They are rare, so looking for them first does not pay.
        tidy = _without_loose_ends(text)
        columns = _columns(tidy, n_fields, reals, n_kept) if len(tidy) < len(text) else None
        columns = columns or _columns(tidy, n_fields, range(1, n_kept + 1), n_kept)
    if columns is None or len(columns[0][0]) != len(line) or (columns[0][0] == -1).any():
        return None
    n_rows, n_more = len(line), max(n_kept - n_fields, 0)
    whole = [*columns[0], *([np.full(n_rows, -1, np.int64)] * n_more)]
    real, fractional = [*columns[1], *([np.empty(0)] * n_more)], np.append(columns[2], np.zeros(n_more, np.bool_))
    n_long, n_short = n_rows * (n_fields > N_FIELDS), n_rows * (n_fields < N_FIELDS)
    nothing, width = np.empty((0, 4), np.int64), width or n_fields
    return Scanned(whole, real, fractional, line, nothing, nothing, width, 0, n_long, n_short)


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


def _without_loose_ends(spaced: Bytes) -> Bytes:
    """Single-spaced text without spaces at the ends of lines."""
    ends_line = np.append(spaced[1:], 10) == 10
    tidy: Bytes = spaced[~(ends_line & (spaced == 32))]
    return tidy


def _first_spaces(text: Bytes, *, after_edge: bool) -> bytes:
    """The text without those spaces that follow a space or newline, and with what is no number's made strange."""
    is_kept = text != 32
    is_kept[1:] |= text[:-1] > 32
    is_kept[0] |= not after_edge
    # Zeros put in and taken out again: half the time that numpy needs to pick bytes.
    kept: bytes = (text * is_kept).tobytes()
    return kept.translate(_PLAIN, b"\0")


def _columns(
    text: Bytes, n_fields: int, reals: Collection[int], n_kept: int
) -> tuple[list[Ints], list[Floats], Bools] | None:
    kinds = {k: pa.float64() if k + 1 in reals else pa.int64() for k in range(min(n_fields, n_kept))}
    try:
        return _split([*columns_of(pa.py_buffer(text), n_fields, kinds, " ").values()])
    except pa.ArrowInvalid:
        return None


def _split(columns: list[pa.ChunkedArray]) -> tuple[list[Ints], list[Floats], Bools] | None:
    """Whole and real parts of parsed columns; None where a number is beyond what both ways give alike."""
    whole, real, fractional = [], [], np.zeros(len(columns), np.bool_)
    for field, column in enumerate(columns):
        if column.type == pa.int64():
            values, _ = integers(column)
            fraction = np.empty(0)
            if len(values) and max(-int(values.min()), int(values.max())) >= 10**MAX_DIGITS:
                return None
        else:
            exact = floats_of(column)
            if len(exact) and not (exact.min() > -_EXACT and exact.max() < _EXACT):
                return None
            values, fraction = exact.astype(np.int64), np.empty(0)
            fractional[field] = bool((values != exact).any())
            if fractional[field]:
                floored = np.floor(exact)
                values, fraction = floored.astype(np.int64), np.where(floored != exact, exact, 0.0)
        whole.append(values)
        real.append(fraction)
    return whole, real, fractional
