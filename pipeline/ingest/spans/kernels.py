"""Compiled loops over spans: values as bytes of one buffer, each from start to end; __init__.py types their results."""

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Floats, Ints
from pipeline.kernels import uncounted

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]
NULL, OK, INVALID = 0, 1, 2
NO_DIVISOR, PER_NODE, PER_CPU = 0, 1, 2


@uncounted
def gather(data: Bytes, start: Ints, end: Ints, offsets: Offsets, out: Bytes) -> bool:
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
def number(data: Bytes, at: int, stop: int) -> tuple[float, int, bool]:
    """An unsigned decimal number (NaN of none, or over 18, digits), the place after it, and whether it has no point."""
    digits, seen, divisor, is_whole = 0, 0, 1.0, True
    while at < stop and 48 <= data[at] <= 57 and seen < 19:
        digits = digits * 10 + (data[at] - 48)
        seen += 1
        at += 1
    if seen and at + 1 < stop and data[at] == 46 and 48 <= data[at + 1] <= 57:
        at, is_whole = at + 1, False
        while at < stop and 48 <= data[at] <= 57:
            if seen < 18:
                digits = digits * 10 + (data[at] - 48)
                divisor *= 10.0
                seen += 1
            at += 1
    return (digits / divisor if 0 < seen < 19 else np.nan), at, is_whole


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
        part, at, is_whole = number(data, at, stop)
        days, n_colons, total, has_days = 0.0, 0, 0.0, False
        if is_whole and at < stop and data[at] == 45:
            days, has_days = part, True
            part, at, is_whole = number(data, at + 1, stop)
        while is_whole and at < stop and data[at] == 58:
            total = (total + part) * 60.0
            part, at, is_whole = number(data, at + 1, stop)
            n_colons += 1
        total = total + part
        # After days come hours: `2-12` is 2 days 12 hours, `2-12:30` has minutes too.
        for _ in range(2 - n_colons if has_days else 0):
            total *= 60.0
        if at == stop and n_colons <= 2 and not np.isnan(total + days):
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
        value, at, _ = number(data, at, stop)
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
