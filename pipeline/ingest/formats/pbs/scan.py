"""The byte parser of PBS accounting files: a block of lines in, records and the spans of their values out.

It knows lines, semicolons and `key=value`, and nothing of what a value means (fields.py does).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Ints
from pipeline.ingest.formats.pbs.numbers import Numbers, numbers
from pipeline.ingest.sources import MAX_LINE_BYTES
from pipeline.ingest.spans.kernels import Bytes
from pipeline.kernels import cached

REASONS = (
    "not_a_record", "no_record_type", "no_job_id", "cut_short", "bad_date", "bad_number", "line_too_long", "nul_bytes",
    "no_line_end",
)  # fmt: skip
_NOT_A_RECORD, _NO_TYPE, _NO_ID, _CUT_SHORT, _BAD_DATE, _BAD_NUMBER, _TOO_LONG = range(1, 8)
KINDS = "QSREDAz"
"""The record types read, in the order a job goes through them; z is a suspension."""

DATE_BYTES = 19
_BLANK, _CONTINUED, _PARENT, _JOINED = range(4)
_LEAST_RECORD_BYTES = DATE_BYTES + 3
_KIND_OF = np.full(256, -1, np.int64)
_KIND_OF[[ord(letter) for letter in KINDS]] = range(len(KINDS))
_N_WITH_KEYS = KINDS.index("E") + 1
_CLOSED, _OPEN = -2, -1
_MARKS = 3
"""Semicolons of a record; a line with more may hold two."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """What stands in one block.

    line: each record's first line in the block, from 0; start, end: its bytes, continuation lines included; kind: index
    into KINDS; id_start, id_end: the job id. values: those of its keys. bad: int64 (n, 4), line, start, end, reason
    (1 + index into REASONS). lines: how many are blank, continue a record, belong to an array's parent or are of
    another record type, by name. n_joined: lines that hold a cut record and, behind it, another one, which a server
    writes that starts anew after a crash: each is a bad row and a record.
    """

    data: Bytes
    line: Ints
    start: Ints
    end: Ints
    kind: Ints
    id_start: Ints
    id_end: Ints
    values: Numbers
    bad: Ints
    lines: Mapping[str, int]
    n_joined: int = 0

    def span(self, key: str) -> tuple[Ints, Ints]:
        """Start and end of a key's values."""
        return self.values.span(key)


def scan(data: bytes | memoryview, n_lines: int) -> Scanned:
    """The records and unreadable lines of a block of n_lines lines, whole records (the last may lack its newline)."""
    text = np.frombuffer(data, np.uint8)
    most = n_lines + len(text) // _LEAST_RECORD_BYTES
    # Pages of these arrays that are never written are never allocated.
    rows, bad = np.empty((7, most), np.int64), np.empty((most, 4), np.int64)
    counts, others = np.zeros(4, np.int64), np.zeros(256, np.int64)
    n_rows, n_bad = _lines(text, MAX_LINE_BYTES, _KIND_OF, rows, bad, counts, others)
    line, start, end, kind, id_start, id_end, message = rows[:, :n_rows]
    values = numbers(text, message, end, kind, _N_WITH_KEYS)
    lines = {"blank": counts[_BLANK], "continued": counts[_CONTINUED], "array_parent": counts[_PARENT]}
    lines |= {f"other_{chr(letter)}": others[letter] for letter in np.flatnonzero(others).tolist()}
    named = {name: int(n) for name, n in lines.items() if n}
    joined = int(counts[_JOINED])
    return Scanned(text, line, start, end, kind, id_start, id_end, values, bad[:n_bad], named, joined)


@cached
def _lines(
    data: Bytes, limit: int, kind_of: Ints, rows: Ints, bad: Ints, counts: Ints, others: Ints
) -> tuple[int, int]:
    """Rows of line, start, end, kind, id start, id end, message start; how many of them, and of bad lines."""
    at, number, n_rows, n_bad, is_open, begun = 0, 0, 0, 0, _CLOSED, 0
    while at < data.size:
        low = at
        stop, joined = _line_end(data, at)
        if joined:
            bad[n_bad, 0], bad[n_bad, 1], bad[n_bad, 2], bad[n_bad, 3] = number, low, joined, _CUT_SHORT
            n_bad += 1
            counts[_JOINED] += 1
            at, is_open = joined, _CLOSED
            continue
        at = stop + 1
        stop -= stop > low and data[stop - 1] == 13
        first = _after_blanks(data, low, stop)
        reason = 0
        if first == stop:
            counts[_BLANK] += 1
            is_open = _CLOSED
        elif stop - low > limit:
            reason = _TOO_LONG
        elif _is_dated(data, first, stop):
            reason, kind, id_start, id_end, message = _head(data, first, stop, kind_of)
            begun, is_open = low, _OPEN
            if reason == 0 and kind < 0:
                others[data[first + DATE_BYTES + 1]] += 1
            elif reason == 0 and _is_parent(data, id_start, id_end):
                counts[_PARENT] += 1
            elif not reason:
                rows[0, n_rows], rows[1, n_rows], rows[2, n_rows], rows[3, n_rows] = number, first, stop, kind
                rows[4, n_rows], rows[5, n_rows], rows[6, n_rows] = id_start, id_end, message
                is_open = n_rows
                n_rows += 1
        elif is_open != _CLOSED and stop - begun <= limit and _continues(data, first, stop):
            counts[_CONTINUED] += 1
            if is_open >= 0:
                rows[2, is_open] = stop
        else:
            reason = _NOT_A_RECORD
        if reason:
            bad[n_bad, 0], bad[n_bad, 1], bad[n_bad, 2], bad[n_bad, 3] = number, low, stop, reason
            n_bad += 1
            is_open = _CLOSED
        number += 1
    return n_rows, n_bad


@cached
def _line_end(data: Bytes, at: int) -> tuple[int, int]:
    """Where the line ends; where in it a second record begins (0: nowhere)."""
    low, n_marks = at, 0
    while at < data.size and data[at] != 10:
        n_marks += data[at] == 59
        at += 1
    return at, _joined_record(data, low, at) if n_marks > _MARKS else 0


@cached
def _after_blanks(data: Bytes, at: int, stop: int) -> int:
    while at < stop and data[at] <= 32:
        at += 1
    return at


@cached
def _joined_record(data: Bytes, low: int, stop: int) -> int:
    """Where in a line another record begins than the first; 0: nowhere."""
    for at in range(_after_blanks(data, low, stop) + 1, stop - DATE_BYTES - 2):
        if data[at + DATE_BYTES] == 59 and data[at + DATE_BYTES + 2] == 59 and _is_dated(data, at, stop):
            return at
    return 0


@cached
def _is_dated(data: Bytes, at: int, stop: int) -> bool:
    """Whether `dd/dd/dddd dd:dd:dd;` stands here."""
    if stop - at <= DATE_BYTES or data[at + DATE_BYTES] != 59:
        return False
    for k in range(DATE_BYTES):
        byte = data[at + k]
        if k == 2 or k == 5:  # noqa: PLR1714
            good = byte == 47
        elif k == 10:
            good = byte == 32
        elif k == 13 or k == 16:  # noqa: PLR1714
            good = byte == 58
        else:
            good = 48 <= byte <= 57
        if not good:
            return False
    return True


@cached
def _head(data: Bytes, first: int, stop: int, kind_of: Ints) -> tuple[int, int, int, int, int]:
    """Reason or 0, kind (-1: of no job that is read), the id's span, where the message starts."""
    letter = first + DATE_BYTES + 1
    if letter + 1 >= stop or data[letter + 1] != 59 or not 97 <= (data[letter] | 32) <= 122:
        return _NO_TYPE, -1, 0, 0, 0
    kind = kind_of[data[letter]]
    if kind < 0:
        return 0, -1, 0, 0, 0
    start = letter + 2
    end = start
    while end < stop and data[end] != 59:
        if data[end] <= 32:
            return _NO_ID, kind, 0, 0, 0
        end += 1
    if end >= stop:
        return _CUT_SHORT, kind, 0, 0, 0
    if not 48 <= data[start] <= 57:
        return _NO_ID, kind, 0, 0, 0
    return 0, kind, start, end, end + 1


@cached
def _is_parent(data: Bytes, at: int, end: int) -> bool:
    """Whether the id is an array's own, as in 170[].server."""
    for k in range(at, end - 1):  # noqa: SIM110
        if data[k] == 91 and data[k + 1] == 93:
            return True
    return False


@cached
def _continues(data: Bytes, first: int, stop: int) -> bool:
    """Whether a line goes on with `key=value`, and is no record whose date has been damaged (`;E;` near its start)."""
    for k in range(first, min(stop - 2, first + 40)):
        if data[k] == 59 and data[k + 2] == 59:
            return False
    at = first
    while at < stop and data[at] > 32:
        if data[at] == 61:
            return at > first
        at += 1
    return False
