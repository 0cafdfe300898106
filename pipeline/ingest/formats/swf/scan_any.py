"""The byte parser of the Standard Workload Format: any block of lines in, columns of numbers out.

One compiled pass; it knows bytes, lines and numbers, and nothing of what a field means (fields.py does).
"""

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.ingest.compiled import kernel
from pipeline.ingest.formats.swf.scanned import MAX_DIGITS, MIN_FIELDS, N_FIELDS, Scanned
from pipeline.ingest.sources import MAX_LINE_BYTES

Bytes = npt.NDArray[np.uint8]
_NOT_A_NUMBER, _TOO_LARGE, _TOO_FEW, _NO_JOB_NUMBER, _TOO_LONG = range(1, 6)
_BLANK, _LONG, _SHORT, _WIDTH = range(4)


def scan_any(data: bytes, width: int) -> Scanned:
    """Rows, unreadable lines and comments of a block, as `swf_scan.scan` says."""
    n_lines = data.count(b"\n") + (not data.endswith(b"\n"))
    # Pages of these arrays that are never written are never allocated, so the worst case costs nothing.
    whole = np.empty((N_FIELDS, n_lines), np.int64)
    real = np.zeros((N_FIELDS, n_lines), np.float64)
    fractional = np.zeros(N_FIELDS, np.bool_)
    line = np.empty(n_lines, np.int64)
    bad = np.empty((n_lines, 5), np.int64)
    comments = np.empty((n_lines, 4), np.int64)
    counts = np.array([0, 0, 0, width], np.int64)
    inexact = np.empty((n_lines, 3), np.int64)
    rows, n_bad, n_comments, n_inexact = _scan(
        np.frombuffer(data, np.uint8), whole, real, fractional, line, bad, comments, counts, inexact, MAX_LINE_BYTES
    )
    for row, start, end in inexact[:n_inexact].tolist():
        for field, token in enumerate(data[start:end].split()[:N_FIELDS]):
            if real[field, row] != 0:
                real[field, row] = float(token)
    return Scanned(
        list(whole[:, :rows]), list(real[:, :rows]), fractional, line[:rows], bad[:n_bad].copy(),
        comments[:n_comments].copy(), int(counts[_WIDTH]), int(counts[_BLANK]), int(counts[_LONG]), int(counts[_SHORT]),
    )  # fmt: skip


@kernel
def _scan(
    data: Bytes,
    whole: Ints,
    real: Floats,
    fractional: Bools,
    line: Ints,
    bad: Ints,
    comments: Ints,
    counts: Ints,
    inexact: Ints,
    limit: int,
) -> tuple[int, int, int, int]:
    size, at, number = data.size, 0, 0
    rows, n_bad, n_comments, n_inexact = 0, 0, 0, 0
    while at < size:
        start = at
        at = _skip_space(data, at)
        if at < size and data[at] == 59 and at - start <= limit:  # ;
            end = _line_end(data, at)
            comments[n_comments] = rows, number, start, end
            n_comments += 1
        else:
            n_fields, reason, is_exact, at = _fields(data, at, whole, real, fractional, rows)
            end = _line_end(data, at)
            if end - start > limit:
                reason = _TOO_LONG
            elif n_fields == 0 and reason == 0:
                counts[_BLANK] += 1
                reason = -1
            elif reason == 0 and n_fields < max(counts[_WIDTH], MIN_FIELDS):
                reason = _TOO_FEW
            elif reason == 0 and whole[0, rows] == -1:
                reason = _NO_JOB_NUMBER
            if reason == 0:
                if not is_exact:
                    inexact[n_inexact] = rows, start, end
                    n_inexact += 1
                line[rows] = number
                rows += 1
                if counts[_WIDTH] == 0:
                    counts[_WIDTH] = min(n_fields, N_FIELDS)
                counts[_LONG] += n_fields > N_FIELDS
                counts[_SHORT] += n_fields < N_FIELDS
            elif reason > 0:
                _forget(real, rows)
                bad[n_bad] = number, start, end, reason, n_fields
                n_bad += 1
            else:
                _forget(real, rows)
        number += 1
        at = end + 1
    return rows, n_bad, n_comments, n_inexact


@kernel
def _fields(data: Bytes, at: int, whole: Ints, real: Floats, fractional: Bools, row: int) -> tuple[int, int, bool, int]:
    """Fields read (19: there are more than 18; at a bad one, its number), reason or 0, whether each is exact, place.

    A fraction is exact where it is one division of exact doubles: up to 15 digits, and no more than 22 places.
    """
    n, is_exact = 0, True
    while at < data.size and data[at] != 10:
        if n == N_FIELDS:
            return n + 1, 0, is_exact, at
        start = at
        reason, value, fraction, at = _number(data, at)
        if reason:
            return n + 1, reason, is_exact, at
        whole[n, row] = value
        if fraction != 0.0:
            real[n, row] = fraction
            fractional[n] = True
            is_exact = is_exact and at - start <= 16 and abs(fraction) > 1e-6
        n += 1
        at = _skip_space(data, at)
    for missing in range(n, N_FIELDS):
        whole[missing, row] = -1
    return n, 0, is_exact, at


@kernel
def _number(data: Bytes, at: int) -> tuple[int, int, float, int]:
    """Reason or 0; the value floored; the value if it has a fraction, else 0; the place after it."""
    size = data.size
    negative = data[at] == 45
    if negative or data[at] == 43:
        at += 1
    digits, scale, used, seen = 0, 0, 0, 0
    while at < size and 48 <= data[at] <= 57:
        seen += 1
        if used < MAX_DIGITS:
            digits = digits * 10 + (data[at] - 48)
            used += digits > 0
        else:
            scale += 1
        at += 1
    if at >= size or data[at] == 32 or data[at] == 9 or data[at] == 10:
        if seen == 0:
            return _NOT_A_NUMBER, 0, 0.0, at
        if scale:
            return _TOO_LARGE, 0, 0.0, at
        return 0, -digits if negative else digits, 0.0, at
    return _decimal(data, at, negative, digits, scale, used, seen)


@kernel
def _decimal(
    data: Bytes, at: int, negative: bool, digits: int, scale: int, used: int, seen: int
) -> tuple[int, int, float, int]:
    """The rest of a number after its integer digits: fraction and exponent."""
    size = data.size
    if data[at] == 46:
        at += 1
        while at < size and 48 <= data[at] <= 57:
            seen += 1
            if used < MAX_DIGITS:
                digits = digits * 10 + (data[at] - 48)
                used += digits > 0
                scale -= 1
            at += 1
    if seen == 0:
        return _NOT_A_NUMBER, 0, 0.0, at
    if at < size and (data[at] == 101 or data[at] == 69):
        at += 1
        sign = -1 if at < size and data[at] == 45 else 1
        if at < size and (data[at] == 45 or data[at] == 43):
            at += 1
        exponent, seen = 0, 0
        while at < size and 48 <= data[at] <= 57:
            exponent = min(exponent * 10 + (data[at] - 48), 1_000_000)
            seen += 1
            at += 1
        if seen == 0:
            return _NOT_A_NUMBER, 0, 0.0, at
        scale += sign * exponent
    if at < size and data[at] != 10 and not _is_space(data[at]):
        return _NOT_A_NUMBER, 0, 0.0, at
    return _scaled(negative, digits, scale, used, at)


@kernel
def _scaled(negative: bool, digits: int, scale: int, used: int, at: int) -> tuple[int, int, float, int]:
    """digits * 10^scale, by one division at most."""
    if digits == 0:
        return 0, 0, 0.0, at
    if scale >= 0:
        if used + scale > MAX_DIGITS:
            return _TOO_LARGE, 0, 0.0, at
        for _ in range(scale):
            digits *= 10
        return 0, -digits if negative else digits, 0.0, at
    whole, rest, divisor = digits, False, 1.0
    for _ in range(min(-scale, 400)):
        rest = rest or whole % 10 != 0
        whole //= 10
        divisor *= 10.0
    value = digits / divisor
    if not rest or value == 0.0:
        return 0, -whole if negative else whole, 0.0, at
    return 0, -whole - 1 if negative else whole, -value if negative else value, at


@kernel
def _is_space(byte: int) -> bool:
    return byte == 32 or (9 <= byte <= 13 and byte != 10)


@kernel
def _skip_space(data: Bytes, at: int) -> int:
    while at < data.size and _is_space(data[at]):
        at += 1
    return at


@kernel
def _line_end(data: Bytes, at: int) -> int:
    while at < data.size and data[at] != 10:
        at += 1
    return at


@kernel
def _forget(real: Floats, row: int) -> None:
    """The row's place is used again by the next line, which writes fractions only where it has them."""
    for field in range(N_FIELDS):
        real[field, row] = 0.0
