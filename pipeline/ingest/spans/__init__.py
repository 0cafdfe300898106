"""Turns spans of one buffer, from start to end (int64 arrays), into typed columns without a Python loop.

Every function takes (data: uint8, start, end) and gives one value a span. An empty span is null. What is neither a
value nor a word for "unknown" is `invalid`: null in the values, and for the caller to set aside.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline import arrays as buffers
from pipeline.arrays import Bools, Floats, Ints
from pipeline.ingest.reader import by_word, categories
from pipeline.ingest.spans.instants import LOCAL, SLASHED, TIME_ONLY, parse_instants, repeats_s, utc_of_local
from pipeline.ingest.spans.kernels import (
    INVALID,
    NULL,
    PER_CPU,
    PER_NODE,
    Bytes,
    gather,
    parse_durations,
    parse_integers,
    parse_memory,
)

NO_VALUE = (
    "unknown", "none", "n/a", "(null)", "null", "nan", "none assigned", "invalid", "?", "18446744073709551614",
    "18446744073709551615",
)  # fmt: skip
NO_LIMIT = (*NO_VALUE, "unlimited", "partition_limit", "infinite", "infinity", "inf", "+inf")
"""Words (in small letters) that stand for no value: man sacct (Timelimit, Start, End) and slurm.h (NO_VAL64)."""

__all__ = [
    "PER_CPU", "PER_NODE", "Instants", "Memory", "Typed", "as_bytes", "category", "decoded", "duration_s", "energy_j",
    "instants_s", "integers", "last_letters", "memory_kib", "seconds_between",
    "settled", "texts",
]  # fmt: skip

NO_VALUES = (4294967294.0, 4294967295.0)
"""Slurm's marks of 32 bits for no value and no limit; those of 64 bits are two and one below 2^64."""

NO_KIB = 2.0**53
"""8 EiB, which no job uses; Slurm's marks for unset and infinite memory are 16 EiB less a byte or two."""

_UNKNOWN_FROM_J = 2.0**63
"""No job uses as much; NO_VAL64 and INFINITE64 are two and one below 2^64."""


@dataclass(frozen=True, slots=True)
class Typed:
    """values: anything where missing; missing: null or invalid; invalid: where the text is no value of this kind."""

    values: npt.NDArray[Any]
    missing: Bools
    invalid: Bools

    def arrow(self) -> pa.Array:
        """The values as an Arrow array, null where missing."""
        return buffers.arrow(self.values, self.missing)

    def floats(self) -> Floats:
        """The values as float64, NaN where missing."""
        return np.where(self.missing, np.nan, self.values)


@dataclass(frozen=True, slots=True)
class Memory(Typed):
    """KiB; per: PER_NODE, PER_CPU or 0 where the text does not say."""

    per: Bytes


@dataclass(frozen=True, slots=True)
class Instants(Typed):
    """UTC epoch seconds; how many wall-clock times never were (shifted forward).

    has_no_date: the invalid ones that are a time of day only; n_slashed: dates as 03/04/2026, read as `day_first` says;
    n_local: times without a zone of their own. repeat_s: after how long (s) the same time came again, else 0.
    """

    n_skipped: int
    n_slashed: int
    n_local: int
    has_no_date: Bools
    repeat_s: Ints


def as_bytes(data: bytes) -> Bytes:
    """The bytes as the array all of these take; not copied."""
    return np.frombuffer(data, np.uint8)


def category(data: Bytes, start: Ints, end: Ints) -> pa.DictionaryArray:
    """dictionary<int32, string>, distinct values sorted; bytes that are no UTF-8 are written as escapes."""
    return categories(texts(data, start, end), str)


def texts(data: Bytes, start: Ints, end: Ints) -> pa.StringArray:
    """string; bytes that are no UTF-8 are written as escapes."""
    size = int(np.maximum(end - start, 0).sum())
    offsets, out = np.empty(len(start) + 1, np.int32), np.empty(size, np.uint8)
    is_ascii = gather(data, start, end, offsets, out)
    empty = end <= start
    array = pa.StringArray.from_buffers(
        len(start), pa.py_buffer(offsets), pa.py_buffer(out), buffers.arrow(~empty).buffers()[1], int(empty.sum())
    )
    return array if is_ascii or _is_utf8(array) else _escaped(out.tobytes(), offsets, empty)


def decoded(word: bytes) -> str:
    """Text of bytes; what is no UTF-8 becomes \\x escapes."""
    return word.decode("utf-8", "backslashreplace")


def integers(data: Bytes, start: Ints, end: Ints) -> Typed:
    """int64: a sign or none, and up to 18 digits. Unknown, N/A and the like are null."""
    values, kinds = np.empty(len(start), np.int64), np.empty(len(start), np.uint8)
    parse_integers(data, start, end, values, kinds)
    return _typed(values, _with_words(data, start, end, kinds, NO_VALUE))


def duration_s(data: Bytes, start: Ints, end: Ints) -> Typed:
    """float64 seconds, NaN where null: `1-11:48:50`, `48:50`, `00:15.057`, `90.5`; UNLIMITED and the like are null."""
    values, kinds = np.empty(len(start), np.float64), np.empty(len(start), np.uint8)
    parse_durations(data, start, end, values, kinds)
    return _typed(values, _with_words(data, start, end, kinds, NO_LIMIT))


def memory_kib(data: Bytes, start: Ints, end: Ints, plain_kib: float = 1 / 1024) -> Memory:
    """float64 KiB, NaN where null: `31000Mn` (per node), `3000Mc` (per CPU), `62.50G`; a bare number is in `plain_kib`.

    8 EiB and more are unknown. 2147486648M is 2^31 + 3000: Slurm's mark for memory per CPU left in the number, so 3000
    MiB per CPU.
    """
    values, kinds, per = (
        np.empty(len(start), np.float64),
        np.empty(len(start), np.uint8),
        np.empty(len(start), np.uint8),
    )
    parse_memory(data, start, end, plain_kib, values, per, kinds)
    typed = _typed(values, _with_words(data, start, end, kinds, NO_LIMIT))
    with np.errstate(invalid="ignore"):
        return Memory(values, typed.missing | (values >= NO_KIB), typed.invalid, per)


def energy_j(data: Bytes, start: Ints, end: Ints) -> Typed:
    """float64 J a span: `101630`, `4.58M` (prefixes of a thousand); 0 and Slurm's marks are null.

    Source: sacct's print.c and slurmctld's step_mgr.c (Slurm 22.05 to 25.05). A site without meters writes 0, and what
    was never gathered is NO_VAL64 or INFINITE64.
    """
    typed = memory_kib(data, start, end, 1.0)
    values = typed.values * _decimal_factor(data, start, end)
    with np.errstate(invalid="ignore"):
        unmeasured = ~typed.invalid & (~(values > 0) | np.isin(values, NO_VALUES) | (values >= _UNKNOWN_FROM_J))
    missing: Bools = typed.missing | unmeasured
    return Typed(values, missing, typed.invalid)


def last_letters(data: Bytes, start: Ints, end: Ints) -> npt.NDArray[Any]:
    """The last byte of each span as a small letter; 0 where it is empty."""
    return np.where(end > start, data[np.maximum(end - 1, 0)] | 32, 0) if len(data) else np.zeros(len(start))


def _decimal_factor(data: Bytes, start: Ints, end: Ints) -> Floats:
    """What a memory's KiB, MiB/KiB and so on have to be multiplied by to be prefixes of a thousand."""
    factor, last = np.ones(len(start)), last_letters(data, start, end)
    for power, letter in enumerate(b"kmgtpe"):
        factor[last == letter] = 1000.0 ** (power + 1) / 1024.0**power
    return factor


def instants_s(data: Bytes, start: Ints, end: Ints, timezone: str = "UTC", *, day_first: bool = False) -> Instants:
    """int64 UTC epoch seconds: ISO with T or a blank, 21/11/2026 with or without AM/PM, an offset or Z, epoch seconds.

    Times without an offset are of `timezone` (IANA); Unknown, None, N/A, an empty span and epoch 0 are null. Years from
    1970 to 2199. ConfigError for a zone that is not known.
    """
    values, kinds = np.empty(len(start), np.int64), np.empty(len(start), np.uint8)
    parse_instants(data, start, end, day_first, values, kinds)
    kinds = _with_words(data, start, end, kinds, NO_VALUE)
    local = (kinds == LOCAL) | (kinds == SLASHED)
    n_ambiguous = n_skipped = 0
    if local.all():
        values, n_ambiguous, n_skipped = utc_of_local(values, timezone)
    else:
        values[local], n_ambiguous, n_skipped = utc_of_local(values[local], timezone)
    has_no_date = kinds == TIME_ONLY
    invalid = (kinds == INVALID) | has_no_date
    n_slashed = int(np.count_nonzero(kinds == SLASHED))
    n_local, missing = int(np.count_nonzero(local)), invalid | (kinds == NULL)
    repeat_s = np.zeros(len(start), np.int64)
    if n_ambiguous:
        repeat_s[local] = repeats_s(values[local], timezone)
    return Instants(values, missing, invalid, n_skipped, n_slashed, n_local, has_no_date, repeat_s)


def _typed(values: Floats | Ints, kinds: Bytes) -> Typed:
    invalid = kinds == INVALID
    return Typed(values, invalid | (kinds == NULL), invalid)


def _with_words(data: Bytes, start: Ints, end: Ints, kinds: Bytes, words: tuple[str, ...]) -> Bytes:
    """The kinds, with NULL where an invalid span is one of the words."""
    strange = np.flatnonzero(kinds == INVALID)
    if len(strange):
        told = category(data, start[strange], end[strange])
        kinds[strange[by_word(told, lambda word: word.lower() in words) == 1]] = NULL
    return kinds


def _is_utf8(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _escaped(data: bytes, offsets: npt.NDArray[np.int32], empty: Bools) -> pa.StringArray:
    words = [decoded(data[low:high]) for low, high in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    plain = buffers.texts(words)
    valid = buffers.arrow(~empty).buffers()[1]
    return pa.StringArray.from_buffers(len(words), plain.buffers()[1], plain.buffers()[2], valid, int(empty.sum()))


def settled(start: Instants, end: Instants, span_s: Floats, tolerance_s: float) -> tuple[Ints, Ints, Bools]:
    """Starts and ends (UTC seconds), and which rows could be settled.

    A row is settled where exactly one reading of its start and end is `span_s` apart, within the tolerance. The others
    stay first readings. NaN in `span_s` settles nothing.
    """
    start_s, end_s = start.values, end.values
    is_settled = np.zeros(len(start_s), np.bool_)
    rows = np.flatnonzero((start.repeat_s > 0) | (end.repeat_s > 0))
    if not len(rows):
        return start_s, end_s, is_settled
    n_fitting = np.zeros(len(rows), np.int64)
    found_s = np.stack([start_s[rows], end_s[rows]])
    is_unknown = (start.missing | end.missing)[rows]
    for start_again, end_again in ((0, 0), (0, 1), (1, 0), (1, 1)):
        of_start, of_end = start_again * start.repeat_s[rows], end_again * end.repeat_s[rows]
        is_new = (of_start > 0) >= bool(start_again)
        is_new &= (of_end > 0) >= bool(end_again)
        first_s, last_s = start_s[rows] + of_start, end_s[rows] + of_end
        fits = is_new & (np.abs(seconds_between(first_s, last_s, is_unknown) - span_s[rows]) <= tolerance_s)
        n_fitting += fits
        found_s = np.where(fits, np.stack([first_s, last_s]), found_s)
    chosen = rows[n_fitting == 1]
    is_settled[chosen] = True
    start_s, end_s = start_s.copy(), end_s.copy()
    start_s[chosen], end_s[chosen] = found_s[:, n_fitting == 1]
    return start_s, end_s, is_settled


def seconds_between(start_s: Ints, end_s: Ints, is_unknown: Bools) -> Floats:
    """Seconds from start to end, NaN where either is unknown."""
    return np.where(is_unknown, np.nan, (end_s - start_s).astype(np.float64))
