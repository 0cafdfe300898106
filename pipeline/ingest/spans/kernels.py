"""Compiled loops over spans: values as bytes of one buffer, each from start to end; __init__.py types their results."""

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Floats, Ints
from pipeline.kernels import uncounted

Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int32]
NULL, OK, INVALID = 0, 1, 2
NO_DIVISOR, PER_NODE, PER_CPU = 0, 1, 2


@uncounted
def unique(data: Bytes, start: Ints, end: Ints, codes: Codes, table: Codes, first: Ints) -> int:
    """Codes in order of first sight, -1 where empty; `first` gets the row of each; how many there are.

    table: -1 throughout, a power of two of slots, more than rows.
    """
    n, mask = 0, table.size - 1
    before = -1
    for row in range(start.size):
        low, size = start[row], end[row] - start[row]
        if size <= 0:
            codes[row] = -1
            continue
        if before >= 0 and _same(data, low, start[before], size, end[before] - start[before]):
            codes[row] = codes[before]
            continue
        before = row
        mixed = np.uint64(14695981039346656037)
        for at in range(low, low + size):
            mixed = (mixed ^ np.uint64(data[at])) * np.uint64(1099511628211)
        slot = np.int64((mixed ^ (mixed >> np.uint64(29))) & np.uint64(mask))
        while True:
            known = table[slot]
            if known < 0:
                table[slot] = n
                first[n] = row
                codes[row] = n
                n += 1
                break
            other = first[known]
            if _same(data, low, start[other], size, end[other] - start[other]):
                codes[row] = known
                break
            slot = (slot + 1) & mask
    return n


@uncounted
def _same(data: Bytes, one: int, other: int, size: int, other_size: int) -> bool:
    if size != other_size:
        return False
    for k in range(size):  # noqa: SIM110
        if data[one + k] != data[other + k]:
            return False
    return True


@uncounted
def gather(data: Bytes, start: Ints, end: Ints, offsets: Codes, out: Bytes) -> bool:
    """The spans' bytes end to end, and where each begins; whether all are ASCII."""
    place, mixed = 0, np.uint8(0)
    offsets[0] = 0
    for row in range(start.size):
        for at in range(start[row], end[row]):
            out[place] = data[at]
            mixed |= data[at]
            place += 1
        offsets[row + 1] = place
    return bool(mixed < 128)


@uncounted
def parse_integers(data: Bytes, start: Ints, end: Ints, values: Ints, kinds: Bytes) -> None:
    """Optional sign and up to 18 digits; empty is null."""
    for row in range(start.size):
        at, stop = start[row], end[row]
        values[row] = 0
        if at >= stop:
            kinds[row] = NULL
            continue
        negative = data[at] == 45
        if negative or data[at] == 43:
            at += 1
        value, seen = 0, 0
        while at < stop and 48 <= data[at] <= 57 and seen < 19:
            value = value * 10 + (data[at] - 48)
            seen += 1
            at += 1
        kinds[row] = OK if at == stop and 0 < seen < 19 else INVALID
        values[row] = -value if negative else value


@uncounted
def number(data: Bytes, at: int, stop: int) -> tuple[float, int]:
    """An unsigned decimal number, and the place after it; NaN where there is no digit, or more than 18."""
    digits, seen, divisor = 0, 0, 1.0
    while at < stop and 48 <= data[at] <= 57 and seen < 19:
        digits = digits * 10 + (data[at] - 48)
        seen += 1
        at += 1
    if seen and at + 1 < stop and data[at] == 46 and 48 <= data[at + 1] <= 57:
        at += 1
        while at < stop and 48 <= data[at] <= 57:
            if seen < 18:
                digits = digits * 10 + (data[at] - 48)
                divisor *= 10.0
                seen += 1
            at += 1
    return (digits / divisor if 0 < seen < 19 else np.nan), at


@uncounted
def parse_durations(data: Bytes, start: Ints, end: Ints, values: Floats, kinds: Bytes) -> None:
    """[days-][[hours:]minutes:]seconds[.fraction], or a number of seconds, maybe after a minus; words are INVALID."""
    for row in range(start.size):
        at, stop = start[row], end[row]
        values[row] = np.nan
        if at >= stop:
            kinds[row] = NULL
            continue
        negative = data[at] == 45
        if negative:
            at += 1
        kinds[row] = INVALID
        part, at = number(data, at, stop)
        days, n_colons, total = 0.0, 0, 0.0
        if at < stop and data[at] == 45:
            days = part
            part, at = number(data, at + 1, stop)
            n_colons = -3
        while at < stop and data[at] == 58:
            total = (total + part) * 60.0
            part, at = number(data, at + 1, stop)
            n_colons += 1
        total = total + part
        if n_colons < 0:
            # After days come hours: `2-12` is 2 days 12 hours, `2-12:30` has minutes too.
            for _ in range(-1 - n_colons):
                total *= 60.0
            fits = n_colons <= -1
        else:
            fits = n_colons <= 2
        if at == stop and fits and not np.isnan(total + days):
            values[row] = -(total + days * 86400.0) if negative else total + days * 86400.0
            kinds[row] = OK


@uncounted
def parse_memory(
    data: Bytes, start: Ints, end: Ints, plain_kib: float, values: Floats, per: Bytes, kinds: Bytes
) -> None:
    """Number, unit (K M G T P E, either case, maybe B or iB), n or c; `plain_kib` is the unit where none stands."""
    for row in range(start.size):
        at, stop = start[row], end[row]
        values[row], per[row] = np.nan, NO_DIVISOR
        if at >= stop:
            kinds[row] = NULL
            continue
        kinds[row] = INVALID
        value, at = number(data, at, stop)
        unit = plain_kib
        if at < stop:
            scale = _scale(data[at] | 32)
            if scale > 0:
                unit = scale
                at += 1
                if at < stop and data[at] == 105:
                    at += 1
                if at < stop and (data[at] | 32) == 98:
                    at += 1
        if at < stop and (data[at] | 32) == 110:
            per[row] = PER_NODE
            at += 1
        elif at < stop and (data[at] | 32) == 99:
            per[row] = PER_CPU
            at += 1
        if at != stop or np.isnan(value):
            continue
        # Slurm marks memory per CPU by the top bit; where 32 bits were read as 64, the mark is still in the number.
        if unit == 1024.0 and 2147483648.0 <= value < 4294967296.0:
            value -= 2147483648.0
            per[row] = PER_CPU
        values[row] = value * unit
        kinds[row] = OK


@uncounted
def _scale(letter: int) -> float:
    """KiB in a unit, by its small letter (k m g t p e); 0: no unit."""
    size = 1.0
    for unit in (107, 109, 103, 116, 112, 101):
        if letter == unit:
            return size
        size *= 1024.0
    return 0.0


@uncounted
def matches(data: Bytes, start: Ints, end: Ints, rows: Ints, words: Bytes, bounds: Ints, found: Bytes) -> None:
    """Sets found[k] where the span of rows[k] is one of the words (small letters, bounds between), either case."""
    for k in range(rows.size):
        low, size = start[rows[k]], end[rows[k]] - start[rows[k]]
        for w in range(bounds.size - 1):
            if bounds[w + 1] - bounds[w] != size:
                continue
            same = True
            for j in range(size):
                byte = data[low + j]
                if (byte | 32 if 65 <= byte <= 90 else byte) != words[bounds[w] + j]:
                    same = False
                    break
            if same:
                found[k] = 1
                break
