"""Types text for all formats: numbers, durations, memory, energy, and instants in a zone with its repeated hours; and
says what several columns tell of a job's memory, in one way for all formats.

A typing function takes an Arrow array of texts and gives one value a text. What is null, or a word for "unknown", is
missing. What is neither a value nor such a word is `invalid`: missing, too, and for the caller to set aside. Texts that
come again are typed once.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import arrays as buffers
from pipeline.arrays import DAY_S, LATEST_S, Bools, Floats, Ints, arrow, floats_of, nulls, offset_s, words_of
from pipeline.errors import ConfigError, printable
from pipeline.ingest.reader import categories

Bytes = npt.NDArray[np.uint8]
Per = npt.NDArray[np.int8]

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

PROCESSOR, NODE, JOB = range(3)
"""What memory is counted per."""

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
    """KiB; per: PROCESSOR, NODE, or JOB where the text does not say."""

    per: Per


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


_MOST_DIGITS = 18
_INTEGER = r"^[+-]?\d{1,18}$"
_DURATION = (
    r"^(?P<minus>-?)(?:(?P<days>\d{1,18})-)?(?:(?:(?P<hours>\d{1,18}):)?(?P<minutes>\d{1,18}):)?"
    r"(?P<seconds>\d{1,18}(?:\.\d+)?)$"
)
_SIZE = r"^(?P<number>\d{1,18}(?:\.\d+)?)(?P<unit>[KkMmGgTtPpEe]?)(?P<tail>(?:i?[Bb]|[Ww])?)(?P<per>[NnCc]?)$"
_KIB = {letter: 1024.0**power for power, letter in enumerate("KMGTPE")}
_JOULES = {letter: 1000.0**power for power, letter in enumerate("KMGTPE", 1)}
_MARK, _MARK_END = 2.0**31, 2.0**32


def integers(words: pa.Array) -> Typed:
    """int64: a sign or none, and up to 18 digits. Unknown, N/A and the like are missing."""
    if (pc.max(pc.binary_length(words)).as_py() or 0) <= _MOST_DIGITS:
        # Nearly all columns hold nothing but plain numbers; Arrow takes 0x1F as well.
        with suppress(pa.ArrowInvalid):
            values, missing = buffers.integers(words.cast(pa.int64()))
            if not truths(pc.match_substring(words, "x")).any():
                return Typed(values, missing, np.zeros(len(values), np.bool_))
    distinct, place = _distinct(words)
    is_number = pc.match_substring_regex(distinct, _INTEGER)
    plain = pc.utf8_ltrim(pc.if_else(is_number, distinct, pa.scalar(None, pa.string())), "+").cast(pa.int64())
    return _read(buffers.integers(plain)[0], truths(is_number), distinct, NO_VALUE, place)


def durations(words: pa.Array) -> Typed:
    """float64 s, NaN where missing: `1-11:48:50`, `48:50`, `00:15.057`, `90.5`; UNLIMITED and the like are missing.

    After days come hours: `2-12` is 2 days 12 hours, `2-12:30` has minutes too.
    """
    distinct, place = _distinct(words)
    parts = pc.extract_regex(distinct, _DURATION)
    days, hours, minutes, seconds = (_numbers(parts, name) for name in ("days", "hours", "minutes", "seconds"))
    n_colons = _has(parts, "hours").astype(np.int64) + _has(parts, "minutes")
    lasted_s = (hours * 3600 + minutes * 60 + seconds) * np.where(_has(parts, "days"), 60.0 ** (2 - n_colons), 1.0)
    lasted_s = (days * DAY_S + lasted_s) * np.where(_has(parts, "minus"), -1.0, 1.0)
    return _read(lasted_s, ~nulls(parts), distinct, NO_LIMIT, place)


def memory(words: pa.Array, plain_kib: float = 1 / 1024) -> Memory:
    """float64 KiB, NaN where missing: `31000Mn` (per node), `3000Mc` (per CPU), `62.50G`, `4gb`, `2kw` (words of 8
    bytes); a bare number is in `plain_kib`.

    8 EiB and more are unknown. 2147486648M is 2^31 + 3000: Slurm's mark for memory per CPU left in the number, so 3000
    MiB per CPU.
    """
    distinct, place = _distinct(words)
    parts = pc.extract_regex(distinct, _SIZE)
    number, unit_kib = _numbers(parts, "number"), _by_letter(parts, "unit", _KIB)
    bare_kib = np.where(_has(parts, "tail"), 1 / 1024, plain_kib)
    unit_kib = np.where(np.isnan(unit_kib), bare_kib, unit_kib) * np.nan_to_num(
        _by_letter(parts, "tail", {"W": 8.0}), nan=1.0
    )
    per = np.nan_to_num(_by_letter(parts, "per", {"C": PROCESSOR, "N": NODE}), nan=JOB)
    # Slurm marks memory per CPU by the top bit; where 32 bits were read as 64, the mark is still in the number.
    is_marked = (unit_kib == 1024.0) & (number >= _MARK) & (number < _MARK_END)
    kib = (number - _MARK * is_marked) * unit_kib
    per[is_marked] = PROCESSOR
    typed = _read(kib, ~nulls(parts), distinct, NO_LIMIT, place)
    return Memory(
        typed.values,
        typed.missing | (typed.values >= NO_KIB),
        typed.invalid,
        np.append(per, JOB)[place].astype(np.int8),
    )


def energy_j(words: pa.Array) -> Typed:
    """float64 J a text: `101630`, `4.58M` (prefixes of a thousand); 0 and Slurm's marks are missing.

    Source: sacct's print.c and slurmctld's step_mgr.c (Slurm 22.05 to 25.05). A site without meters writes 0, and what
    was never gathered is NO_VAL64 or INFINITE64.
    """
    distinct, place = _distinct(words)
    parts = pc.extract_regex(distinct, _SIZE)
    energy = _numbers(parts, "number") * np.nan_to_num(_by_letter(parts, "unit", _JOULES), nan=1.0)
    typed = _read(energy, ~nulls(parts), distinct, NO_LIMIT, place)
    unmeasured = ~(typed.values > 0) | np.isin(typed.values, NO_VALUES) | (typed.values >= _UNKNOWN_FROM_J)
    return Typed(typed.values, typed.missing | unmeasured, typed.invalid)


def _distinct(words: pa.Array) -> tuple[pa.Array, Ints]:
    """The texts, each once, and for each row the place of its text; -1 where it is null."""
    encoded = words.dictionary_encode()
    return encoded.dictionary, np.where(nulls(words), -1, buffers.integers(encoded.indices)[0])


def _read(values: Floats | Ints, fits: Bools, distinct: pa.Array, unknown: Sequence[str], place: Ints) -> Typed:
    """The rows' values, from those of the distinct texts that fit; the words for unknown are missing, not invalid."""
    is_word = truths(pc.is_in(pc.utf8_lower(distinct), buffers.texts([*unknown, ""])))
    invalid = np.append(~fits & ~is_word, False)
    return Typed(np.append(values, 0)[place], np.append(~fits, True)[place], invalid[place])


def _numbers(parts: pa.StructArray, name: str) -> Floats:
    """A part of each text as a number, 0 where it is left out; NaN in texts that do not fit."""
    return floats_of(pc.replace_substring_regex(pc.struct_field(parts, name), "^$", "0").cast(pa.float64()))


def _has(parts: pa.StructArray, name: str) -> Bools:
    has: Bools = buffers.integers(pc.binary_length(pc.struct_field(parts, name)))[0] > 0
    return has


def _by_letter(parts: pa.StructArray, name: str, meaning: Mapping[str, float]) -> Floats:
    """What a part's letter means, NaN where it is another or none."""
    place, missing = buffers.integers(
        pc.index_in(pc.utf8_upper(pc.struct_field(parts, name)), buffers.texts([*meaning]))
    )
    return np.where(missing, np.nan, np.array([*meaning.values()])[np.where(missing, 0, place)])


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


def utf8(array: pa.StringArray) -> pa.StringArray:
    """Texts, with escapes in place of bytes that are no UTF-8: whoever writes a log or Parquet need not check them."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        words = array.cast(pa.binary()).to_pylist()
        return buffers.texts([None if word is None else decoded(word) for word in words])
    return array


def decoded(word: bytes) -> str:
    """Text of bytes; what is no UTF-8 becomes \\x escapes."""
    return word.decode("utf-8", "backslashreplace")


# ---------------- what several columns tell of a job

_PER = ("processor", "node", "job")
_UNITS = ("KiB", "MiB", "GiB", "TiB")


def first_known(*told: Floats) -> Floats:
    """Of several ways to tell one thing the first that a job has; NaN where it has none."""
    found = told[0]
    for other in told[1:]:
        found = np.where(np.isnan(found), other, found)
    return found


def positive(values: Floats) -> Floats:
    """The values above 0; NaN elsewhere."""
    return np.where(values > 0, values, np.nan)


def per_processor(kib: Floats, per: Per, procs: Floats, nodes: Floats, placed: Floats | None = None) -> Floats:
    """Memory per processor, NaN where that is unknown.

    kib: what was counted per PROCESSOR, NODE or JOB. placed: processors on these nodes, where those that a job's total
    is for are others.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        of_nodes = kib * nodes / (procs if placed is None else placed)
        own = np.select([per == PROCESSOR, per == NODE], [kib, of_nodes], kib / procs)
    return np.where(np.isfinite(own), own, np.nan)


def requested_memory(kib: Floats, per: Per) -> pa.DictionaryArray:
    """A category per job from the amount, KiB (NaN: unknown), and PROCESSOR, NODE or JOB."""
    is_unknown = ~np.isfinite(kib)
    amounts = arrow(np.where(is_unknown, 0.0, kib)).dictionary_encode()
    distinct, codes = floats_of(amounts.dictionary), buffers.integers(amounts.indices)[0] * len(_PER) + per

    def text_of(code: int) -> str:
        return memory_text(float(distinct[code // len(_PER)]), code % len(_PER))

    return categories(arrow(codes, is_unknown), text_of)


def memory_text(kib: float, per: int) -> str:
    """The amount in the largest binary unit in which it is a whole number."""
    unit = 0
    while kib >= 1024 and kib % 1024 == 0 and unit + 1 < len(_UNITS):
        kib, unit = kib / 1024, unit + 1
    return f"{kib:.15g}{_UNITS[unit]}/{_PER[per]}"
