"""The quick way through a block of regular SWF: leading comments, then 18 plain numbers in every line.

Whatever is not regular (a comment in mid-file, an odd character, a missing field, a fraction in a count, a number out
of bounds) makes it give the block up; scan_any.py, which decides what such lines mean, then reads the whole of it.
Where this one does answer, both give the same.
"""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.buffers import floats_of, integers
from pipeline.ingest.formats.swf.scanned import MAX_DIGITS, N_FIELDS, Scanned
from pipeline.ingest.sources import MAX_LINE_BYTES

Bytes = npt.NDArray[np.uint8]
_BLANKS = b" \t\r\v\f"
_STRANGE = b"x"
_PLAIN = bytes(b if chr(b) in "0123456789-. \n" else 32 if b in _BLANKS else _STRANGE[0] for b in range(256))
_NOT_SPACES = [bytes([byte]) for byte in b"\t\r\v\f\0"]
"""Blanks to be made spaces first; and zeros, which would otherwise be taken for those put in."""

_NAMES = [str(field + 1) for field in range(N_FIELDS)]
_CACHE_BYTES = 1 << 18
_EXACT = float(1 << 53)
_NO_BAD = np.empty((0, 5), np.int64)


def scan_regular(data: bytes, reals: Collection[int]) -> Scanned | None:
    """The block's rows; None where it is not regular throughout. reals: fields (from 1) that may have fractions."""
    comments, n_blank, start = _leading(data)
    if start == len(data) or _may_be_too_long(data):
        return None
    text = _single_spaced(data, start)
    columns = _columns(text, reals) if text is not None else None
    if columns is None and text is not None:
        # Blanks at the end of a line look like one field more. They are rare, so looking for them first does not pay.
        tidy = _without_loose_ends(text)
        columns = _columns(tidy, reals) if len(tidy) < len(text) else None
    if columns is None:
        return None
    whole, real, fractional = columns
    if (whole[0] == -1).any():
        return None
    line = np.arange(len(whole[0]), dtype=np.int64) + (len(comments) + n_blank)
    places = np.array(comments, np.int64).reshape(-1, 4)
    return Scanned(whole, real, fractional, line, _NO_BAD, places, N_FIELDS, n_blank)


def _leading(data: bytes) -> tuple[list[tuple[int, int, int, int]], int, int]:
    """Comments and blank lines above the first row: the comments, how many blanks, where the rows start."""
    comments: list[tuple[int, int, int, int]] = []
    n_blank, at = 0, 0
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        said = data[at : min(end, at + MAX_LINE_BYTES)].lstrip(_BLANKS)
        if said[:1] == b";":
            comments.append((0, len(comments) + n_blank, at, end))
        elif said:
            break
        else:
            n_blank += 1
        at = min(end + 1, len(data))
    return comments, n_blank, at


def _may_be_too_long(data: bytes) -> bool:
    """Whether half a line's greatest length goes by without a newline, as it must in a line that is too long."""
    step = MAX_LINE_BYTES // 2
    return any(data.find(b"\n", at, at + step) < 0 for at in range(0, len(data) - step, step))


def _single_spaced(data: bytes, start: int) -> Bytes | None:
    """The bytes from `start` with one space between fields and none at a line's start; None if one is strange."""
    parts, before = [], b"\n"
    # A slice at a time, so that a slice stays in the processor's cache through all its passes.
    for at in range(start, len(data), _CACHE_BYTES):
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


def _columns(text: Bytes, reals: Collection[int]) -> tuple[list[Ints], list[Floats], Bools] | None:
    kinds = {name: pa.float64() if int(name) in reals else pa.int64() for name in _NAMES}
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(pa.py_buffer(text)),
            # One thread: the same wall-clock time here, and half the CPU time. One block: columns in one piece.
            pyarrow.csv.ReadOptions(use_threads=False, column_names=_NAMES, block_size=len(text) + 1),
            pyarrow.csv.ParseOptions(delimiter=" ", quote_char=False, ignore_empty_lines=False),
            pyarrow.csv.ConvertOptions(column_types=kinds, null_values=[], strings_can_be_null=False),
        )
    except pa.ArrowInvalid:
        return None
    return _split([table.column(name) for name in _NAMES])


def _split(columns: list[pa.ChunkedArray]) -> tuple[list[Ints], list[Floats], Bools] | None:
    """Whole and real parts of parsed columns; None where a number is beyond what both parsers give alike."""
    whole, real, fractional = [], [], np.zeros(N_FIELDS, np.bool_)
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
