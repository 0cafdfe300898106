"""Types text for all formats: numbers, durations, memory, energy, and instants in a zone with its repeated hours.

Every function takes spans of one buffer, from start to end (int64 arrays), and gives one value a span; `instants` takes
an Arrow array of texts, as `texts` makes them of spans. What is empty, or a word for "unknown", is missing. What is
neither a value nor such a word is `invalid`: missing, too, and for the caller to set aside.
"""

import re
from dataclasses import dataclass
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import arrays as buffers
from pipeline.arrays import DAY_S, LATEST_S, Bools, Floats, Ints, arrow, nulls, offset_s, words_of
from pipeline.errors import ConfigError, printable
from pipeline.ingest.reader import by_word, categories
from pipeline.kernels import called_kernel, uncounted_kernel

Bytes = npt.NDArray[np.uint8]

NO_VALUE = (
    "unknown", "none", "n/a", "(null)", "null", "nan", "none assigned", "invalid", "?", "18446744073709551614",
    "18446744073709551615",
)  # fmt: skip
NO_LIMIT = (*NO_VALUE, "unlimited", "partition_limit", "infinite", "infinity", "inf", "+inf")
"""Words (in small letters) that stand for no value: man sacct (Timelimit, Start, End) and slurm.h (NO_VAL64)."""

NO_VALUES = (4294967294.0, 4294967295.0)
"""Slurm's marks of 32 bits for no value and no limit; those of 64 bits are two and one below 2^64."""

NO_KIB = 2.0**53
"""8 EiB, which no job uses; Slurm's marks for unset and infinite memory are 16 EiB less a byte or two."""

NO_DIVISOR, PER_NODE, PER_CPU = 0, 1, 2
NULL, OK, INVALID = 0, 1, 2

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
        return arrow(self.values, self.missing)

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


def integers(data: Bytes, start: Ints, end: Ints) -> Typed:
    """int64: a sign or none, and up to 18 digits. Unknown, N/A and the like are null."""
    values, kinds = np.empty(len(start), np.int64), np.empty(len(start), np.uint8)
    _parse_integers(data, start, end, values, kinds)
    return _typed(values, _with_words(data, start, end, kinds, NO_VALUE))


def durations(data: Bytes, start: Ints, end: Ints) -> Typed:
    """float64 seconds, NaN where null: `1-11:48:50`, `48:50`, `00:15.057`, `90.5`; UNLIMITED and the like are null."""
    values, kinds = np.empty(len(start), np.float64), np.empty(len(start), np.uint8)
    _parse_durations(data, start, end, values, kinds)
    return _typed(values, _with_words(data, start, end, kinds, NO_LIMIT))


def memory(data: Bytes, start: Ints, end: Ints, plain_kib: float = 1 / 1024) -> Memory:
    """float64 KiB, NaN where null: `31000Mn` (per node), `3000Mc` (per CPU), `62.50G`; a bare number is in `plain_kib`.

    8 EiB and more are unknown. 2147486648M is 2^31 + 3000: Slurm's mark for memory per CPU left in the number, so 3000
    MiB per CPU.
    """
    values, kinds, per = (
        np.empty(len(start), np.float64),
        np.empty(len(start), np.uint8),
        np.empty(len(start), np.uint8),
    )
    _parse_memory(data, start, end, plain_kib, values, per, kinds)
    typed = _typed(values, _with_words(data, start, end, kinds, NO_LIMIT))
    with np.errstate(invalid="ignore"):
        return Memory(values, typed.missing | (values >= NO_KIB), typed.invalid, per)


def energy_j(data: Bytes, start: Ints, end: Ints) -> Typed:
    """float64 J a span: `101630`, `4.58M` (prefixes of a thousand); 0 and Slurm's marks are null.

    Source: sacct's print.c and slurmctld's step_mgr.c (Slurm 22.05 to 25.05). A site without meters writes 0, and what
    was never gathered is NO_VAL64 or INFINITE64.
    """
    typed = memory(data, start, end, 1.0)
    last, factor = last_letters(data, start, end), np.ones(len(start))
    for power, letter in enumerate(b"kmgtpe"):
        factor[last == letter] = 1000.0 ** (power + 1) / 1024.0**power
    values = typed.values * factor
    with np.errstate(invalid="ignore"):
        unmeasured = ~typed.invalid & (~(values > 0) | np.isin(values, NO_VALUES) | (values >= _UNKNOWN_FROM_J))
    missing: Bools = typed.missing | unmeasured
    return Typed(values, missing, typed.invalid)


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


def last_letters(data: Bytes, start: Ints, end: Ints) -> npt.NDArray[Any]:
    """The last byte of each span as a small letter; 0 where it is empty."""
    return np.where(end > start, data[np.maximum(end - 1, 0)] | 32, 0) if len(data) else np.zeros(len(start))


@uncounted_kernel
def _parse_integers(data: Bytes, start: Ints, end: Ints, values: Ints, kinds: Bytes) -> None:
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


@called_kernel
def _number(data: Bytes, at: int, stop: int) -> tuple[float, int, bool]:
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


@uncounted_kernel
def _parse_durations(data: Bytes, start: Ints, end: Ints, values: Floats, kinds: Bytes) -> None:
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
        part, at, is_whole = _number(data, at, stop)
        days, n_colons, total, has_days = 0.0, 0, 0.0, False
        if is_whole and at < stop and data[at] == 45:
            days, has_days = part, True
            part, at, is_whole = _number(data, at + 1, stop)
        while is_whole and at < stop and data[at] == 58:
            total = (total + part) * 60.0
            part, at, is_whole = _number(data, at + 1, stop)
            n_colons += 1
        total = total + part
        # After days come hours: `2-12` is 2 days 12 hours, `2-12:30` has minutes too.
        for _ in range(2 - n_colons if has_days else 0):
            total *= 60.0
        if at == stop and n_colons <= 2 and not np.isnan(total + days):
            values[row] = -(total + days * 86400.0) if negative else total + days * 86400.0
            kinds[row] = OK


@uncounted_kernel
def _parse_memory(
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
        value, at, _ = _number(data, at, stop)
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


@called_kernel
def _scale(letter: int) -> float:
    """KiB in a unit, by its small letter (k m g t p e); 0: no unit."""
    size = 1.0
    for unit in (107, 109, 103, 116, 112, 101):
        if letter == unit:
            return size
        size *= 1024.0
    return 0.0


def truths(array: pa.Array) -> Bools:
    """Where an array of Booleans is true; not where it is null."""
    values, missing = buffers.integers(array.cast(pa.int8()))
    found: Bools = (values == 1) & ~missing
    return found


_LOCAL, _UTC, _SLASHED, _NULL, _TIME_ONLY, _INVALID = range(6)
_DAY = r"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_ISO = rf"^\d{{4}}-{_DAY}[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d$"
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d|60)(?:\.\d+)?)?(?: ?(?P<half>[AaPp])[Mm])?"
_TIME_OF_DAY = re.compile(_CLOCK, re.ASCII)
_INSTANT = re.compile(
    r"(?:(?P<year>\d{4})(?P<mark>[-/])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})|"
    r"(?P<one>\d{1,2})/(?P<other>\d{1,2})/(?P<last>\d{4}))"
    rf"(?:[T ]{_CLOCK})?(?P<zone> ?(?:Z|UTC|(?P<sign>[+-])(?P<east>\d\d)(?::?(?P<rest>\d\d))?))?",
    re.ASCII,
)
_MOST_EAST_MIN = 18 * 60


def instants(words: pa.Array, zone: str = "UTC", *, day_first: bool = False) -> Instants:
    """int64 UTC epoch seconds: ISO with T or a blank, 21/11/2026 with or without AM/PM, an offset or Z, epoch seconds.

    Times without an offset are of `zone` (IANA); Unknown, None, N/A, null and epoch 0 are missing. Years from 1970 to
    2199. ConfigError for a zone that is not known.
    """
    kinds, values = np.where(nulls(words), _NULL, _INVALID), np.zeros(len(words), np.int64)
    # Nearly all times are as Slurm writes them, which Arrow casts; a text of 19 bytes that it does not know is rare.
    is_iso = np.diff(words_of(words)[1]) == len("2024-01-31T23:59:59")
    try:
        clock = words.filter(arrow(is_iso)).cast(pa.timestamp("s"))
    except pa.ArrowInvalid:
        is_iso = truths(pc.match_substring_regex(words, _ISO))
        clock = words.filter(arrow(is_iso)).cast(pa.timestamp("s"))
    values[is_iso] = buffers.integers(clock.cast(pa.int64()))[0]
    kinds[is_iso & (values >= 0) & (values < LATEST_S)] = _LOCAL
    others = np.flatnonzero((kinds == _INVALID) & ~is_iso)
    if len(others):
        encoded = words.take(arrow(others)).dictionary_encode()
        distinct, found = encoded.dictionary, np.zeros((len(encoded.dictionary), 2), np.int64)
        is_epoch = truths(pc.match_substring_regex(distinct, r"^\d{1,11}$"))
        epochs = buffers.integers(distinct.filter(arrow(is_epoch)).cast(pa.int64()))[0]
        found[is_epoch] = np.stack([epochs, np.where(epochs == 0, _NULL, _UTC)], axis=1)
        odd = distinct.filter(arrow(~is_epoch)).to_pylist()
        found[~is_epoch] = np.array([_instant(word, day_first=day_first) for word in odd], np.int64).reshape(-1, 2)
        values[others], kinds[others] = found[buffers.integers(encoded.indices)[0]].T
    is_local = (kinds == _LOCAL) | (kinds == _SLASHED)
    repeat_s, n_skipped = np.zeros(len(values), np.int64), 0
    values[is_local], repeat_s[is_local], n_skipped = utc_of_local(values[is_local], zone)
    invalid, n_slashed = kinds >= _TIME_ONLY, int(np.count_nonzero(kinds == _SLASHED))
    n_local = int(np.count_nonzero(is_local))
    return Instants(values, kinds >= _NULL, invalid, n_skipped, n_slashed, n_local, kinds == _TIME_ONLY, repeat_s)


def _instant(word: str, *, day_first: bool) -> tuple[int, int]:
    """The seconds since 1970 that a text's clock shows, and how they are to be read."""
    found = _INSTANT.fullmatch(word)
    if found is None:
        return _no_date(word)
    month, day = (found["other"], found["one"]) if day_first else (found["one"], found["other"])
    year, month, day = found["year"] or found["last"], found["month"] or month, found["day"] or day
    hour, east_min = int(found["hour"] or 0), int(found["east"] or 0) * 60 + int(found["rest"] or 0)
    if found["half"] and 1 <= hour <= 12:
        # `%H ... %p` writes 13:05 PM, `%I ... %p` 01:05 PM: only hours up to 12 take the mark's word.
        hour = hour % 12 + 12 * (found["half"] in "Pp")
    try:
        days = date(int(year), int(month), int(day)).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        days = -1
    seconds = days * DAY_S + hour * 3600 + int(found["minute"] or 0) * 60 + int(found["second"] or 0)
    if hour > 23 or east_min > _MOST_EAST_MIN or not 0 <= days < LATEST_S // DAY_S:
        return 0, _INVALID
    if found["zone"]:
        return seconds - (-60 if found["sign"] == "-" else 60) * east_min, _UTC
    return seconds, _SLASHED if "/" in word else _LOCAL


def _no_date(word: str) -> tuple[int, int]:
    """The same of a text without a date: a word for unknown, seconds with a fraction, or a time of day."""
    if word.lower() in NO_VALUE:
        return 0, _NULL
    if re.fullmatch(r"\d{9,11}\.\d+", word, re.ASCII):
        return int(word.partition(".")[0]), _UTC
    time = _TIME_OF_DAY.fullmatch(word)
    return 0, _TIME_ONLY if time and int(time["hour"]) < 24 else _INVALID


def utc_of_local(local_s: Ints, zone: str) -> tuple[Ints, Ints, int]:
    """UTC seconds of a zone's wall-clock seconds, after how many the same time came again, and how many never were.

    A time that came twice is read as the first. An hour that a clock skips is read as the same span after the change:
    02:30 becomes 03:30. ConfigError for a zone that is not known.
    """
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        found = f"'{printable(zone)}'"
        raise ConfigError("site.timezone", found, "an IANA zone, as in Europe/Stockholm", "correct it") from None
    if not len(local_s) or zone == "UTC":
        return local_s, np.zeros_like(local_s), 0
    before_s, after_s = offset_s(local_s - DAY_S, zone), offset_s(local_s + DAY_S, zone)
    utc_s, repeat_s = local_s - before_s, np.zeros_like(local_s)
    near = np.flatnonzero(before_s != after_s)
    before_s, after_s = before_s[near], after_s[near]
    is_first, is_last = (offset_s(local_s[near] - own, zone) == own for own in (before_s, after_s))
    repeat_s[near] = np.where(is_first & is_last, before_s - after_s, 0)
    utc_s[near] = local_s[near] - np.where(is_last & ~is_first, after_s, before_s)
    return utc_s, repeat_s, int(np.count_nonzero(~is_first & ~is_last))


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


def as_bytes(data: bytes) -> Bytes:
    """The bytes as the array that `texts` takes; not copied."""
    return np.frombuffer(data, np.uint8)


def category(data: Bytes, start: Ints, end: Ints) -> pa.DictionaryArray:
    """dictionary<int32, string>, distinct values sorted; bytes that are no UTF-8 are written as escapes."""
    return categories(texts(data, start, end), str)


def texts(data: Bytes, start: Ints, end: Ints) -> pa.StringArray:
    """The spans of a buffer as string, null where one is empty; bytes that are no UTF-8 are written as escapes."""
    size = int(np.maximum(end - start, 0).sum())
    if not size:
        return pa.nulls(len(start), pa.string())
    offsets, out = np.empty(len(start) + 1, np.int32), np.empty(size, np.uint8)
    is_ascii = _gather(data, start, end, offsets, out)
    empty = end <= start
    array = pa.StringArray.from_buffers(
        len(start), pa.py_buffer(offsets), pa.py_buffer(out), arrow(~empty).buffers()[1], int(empty.sum())
    )
    if not is_ascii:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            return _escaped(out.tobytes(), offsets, empty)
    return array


def decoded(word: bytes) -> str:
    """Text of bytes; what is no UTF-8 becomes \\x escapes."""
    return word.decode("utf-8", "backslashreplace")


@uncounted_kernel
def _gather(data: Bytes, start: Ints, end: Ints, offsets: npt.NDArray[np.int32], out: Bytes) -> bool:
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


def _escaped(data: bytes, offsets: npt.NDArray[np.int32], empty: Bools) -> pa.StringArray:
    words = [decoded(data[low:high]) for low, high in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    plain = buffers.texts(words)
    valid = arrow(~empty).buffers()[1]
    return pa.StringArray.from_buffers(len(words), plain.buffers()[1], plain.buffers()[2], valid, int(empty.sum()))
