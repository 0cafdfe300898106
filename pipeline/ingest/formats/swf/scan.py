"""The choice between the two parsers of SWF: the quick one where a block is regular, else the exact one."""

import math
import re
from collections.abc import Collection

from pipeline.ingest.formats.swf.scan_regular import scan_regular
from pipeline.ingest.formats.swf.scanned import MAX_DIGITS, MIN_FIELDS, N_FIELDS, Scanned

_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def scan(data: bytes, width: int = 0, reals: Collection[int] = ()) -> Scanned:
    """The rows, unreadable lines and comments of a block of whole lines (the last may lack its newline).

    reals: the fields (from 1) read as fractions, a hint for speed. A line with fewer fields than `width`, the first
    job's of its file (at most 18, at least 5), has been cut short and is unreadable.
    """
    regular = scan_regular(data, reals)
    if regular is not None:
        return regular
    # numba takes half a second to wake up: a log without oddities need not wait for it.
    from pipeline.ingest.formats.swf.scan_any import scan_any  # noqa: PLC0415

    return scan_any(data, width)


def shows_rows(data: bytes) -> bool:
    """Whether a block holds a row, or nothing but comments and blank lines, without waking a parser up."""
    said = [line for line in map(bytes.strip, data.split(b"\n")) if line and not line.startswith(b";")]
    return not said or any(map(_is_row, said))


def _is_row(line: bytes) -> bool:
    fields = line.split(None, N_FIELDS)[:N_FIELDS]
    if len(fields) < MIN_FIELDS or not all(map(_NUMBER.fullmatch, fields)):
        return False
    values = [_value(field) for field in fields]
    return all(abs(value) < 10**MAX_DIGITS for value in values) and math.floor(values[0]) != -1


def _value(field: bytes) -> float:
    """The number, exact where that decides whether it is too large."""
    is_short_integer = len(field) < 2 * MAX_DIGITS and field.lstrip(b"+-").isdigit()
    return int(field) if is_short_integer else float(field)
