"""Types the columns of a table: instants, durations, counts, memory and texts, whatever type they come in.

Every function gives values and which rows hold something that is no value of the kind.
"""

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Ints, arrow, floats_of, integers, nulls, words_of
from pipeline.errors import InputError
from pipeline.ingest import spans
from pipeline.ingest.reader import by_word, categories
from pipeline.ingest.spans import Memory, Typed
from pipeline.ingest.spans.instants import utc_of_local
from pipeline.ingest.spans.kernels import Bytes
from pipeline.ingest.tres import exit_code, gpus_of

MAX_TEXT_BYTES = 1 << 29
"""Of one column in one part of a table."""

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_PANDAS_DAYS = r"^(-?\d+) days?,? \+?"
_LATEST_S = 7_258_118_400
"""2200-01-01."""

_MOST = 2.0**40
"""More s, processors or GiB is an error in the table."""


def plain(column: pa.ChunkedArray) -> pa.Array:
    """One array without dictionary, in which text is `string`."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_dictionary(array.type):
        words = plain(array.dictionary)
        if pa.types.is_string(words.type):
            _check_unpacked(words, array.indices)
        return words.take(array.indices)
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    if pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type) or pa.types.is_binary(array.type):
        array = (array.cast(pa.binary()) if pa.types.is_string_view(array.type) else array).cast(
            pa.string(), safe=False
        )
    return _utf8(array) if pa.types.is_string(array.type) else array


def _utf8(array: pa.Array) -> pa.Array:
    """Texts, with escapes in place of bytes that are no UTF-8: whoever writes Parquet need not check them."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return spans.texts(*spans_of(array))
    return array


def _check_unpacked(words: pa.Array, places: pa.Array) -> None:
    """InputError where a column's texts would take more than memory should: a long one may repeat in every row."""
    sizes = integers(pc.binary_length(words.fill_null("")))[0]
    n_bytes = int(sizes[integers(places.drop_null())[0]].sum()) if len(words) else 0
    if n_bytes > MAX_TEXT_BYTES:
        found, expected = f"{n_bytes:,} bytes of text in {len(places):,} rows", f"at most {MAX_TEXT_BYTES:,}"
        raise InputError("a column of a table", found, expected, "see who wrote this file")


def is_numeric(array: pa.Array) -> bool:
    """Whether the values are numbers, or texts of which each is a number."""
    if not pa.types.is_string(array.type):
        return bool(pa.types.is_integer(array.type) or pa.types.is_floating(array.type))
    known = array.drop_null()
    return len(known) > 0 and bool(pc.all(pc.match_substring_regex(known, _NUMBER)).as_py())


def numbers(array: pa.Array) -> Typed:
    """float64 of numbers or texts; NaN is null."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    if pa.types.is_string(array.type):
        return _numbers_of_text(array)
    if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        known = ~nulls(array)
        return Typed(np.zeros(len(array)), np.ones(len(array), np.bool_), known)
    values = floats_of(array.cast(pa.float64()))
    return Typed(values, ~np.isfinite(values), np.isinf(values))


def _numbers_of_text(array: pa.Array) -> Typed:
    # Not all that Unicode counts as white: a digit of which a bit has flipped can become a control character.
    trimmed = pc.utf8_trim(array, " \t\u00a0")
    try:
        values = floats_of(trimmed.cast(pa.float64()))
    except pa.ArrowInvalid:
        is_number = pc.match_substring_regex(trimmed, _NUMBER)
        values = floats_of(pc.if_else(is_number, trimmed, pa.scalar(None, pa.string())).cast(pa.float64()))
    invalid = ~np.isfinite(values) & ~nulls(array)
    if invalid.any():
        invalid[np.flatnonzero(invalid)] = [
            word.strip().lower() not in spans.NO_LIMIT for word in array.filter(arrow(invalid)).to_pylist()
        ]
    return Typed(values, ~np.isfinite(values), invalid)


def instants(array: pa.Array, factor: float, zone: str, *, day_first: bool, zero_is_known: bool) -> tuple[Typed, int]:
    """Instants of timestamps, dates, texts, or numbers in `factor` s since 1970 (UTC s), and how many named no zone.

    Timestamps and texts without a zone are of `zone`. A negative number is unknown, and 0 unless it is known.
    """
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("s"))
    if pa.types.is_timestamp(array.type):
        return _timestamps(array, zone)
    if _is_words(array):
        typed = spans.instants_s(*spans_of(_without_fraction(array)), zone, day_first=day_first)
        return typed, typed.n_local
    read = numbers(array)
    values = np.floor(np.where(read.missing, 0.0, read.values) * factor + 1e-6)
    unknown = read.missing | (values < 0) | ((values == 0) & ~np.bool_(zero_is_known))
    too_late = ~unknown & (values > _LATEST_S)
    return Typed(values, unknown | too_late, read.invalid | too_late), 0


def _timestamps(array: pa.Array, zone: str) -> tuple[Typed, int]:
    missing = nulls(array)
    per_s = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[array.type.unit]
    values = np.floor_divide(integers(array.cast(pa.int64()))[0], per_s)
    outside = ~missing & ((values < 0) | (values > _LATEST_S))
    values = np.where(missing | outside, 86_400, values)
    n_local = 0
    if array.type.tz is None:
        values, _, _ = utc_of_local(values, zone)
        n_local = int(np.count_nonzero(~missing))
    none = np.zeros(len(values), np.bool_)
    return Typed(values, missing | outside, none), n_local


def _without_fraction(array: pa.Array) -> pa.Array:
    """Times without a fraction of a second, which pandas writes."""
    return pc.replace_substring_regex(array, r"(:\d\d)\.\d+", r"\1")


def durations(array: pa.Array, factor: float) -> Typed:
    """Seconds of durations, texts (`1-02:03:04`, `1 days 02:03:04`), or numbers in `factor` s; -1 is unknown."""
    if pa.types.is_duration(array.type):
        per_s = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[array.type.unit]
        missing = nulls(array)
        values = integers(array.cast(pa.int64()))[0] / per_s
        return Typed(np.where(missing, np.nan, values), missing, np.zeros(len(values), np.bool_))
    if pa.types.is_interval(array.type):
        took_s = [None if one is None else 86_400 * (30 * one[0] + one[1]) + one[2] / 1e9 for one in array.to_pylist()]
        return numbers(pa.array(took_s, pa.float64()))
    if _is_words(array):
        dashed = pc.replace_substring_regex(array, _PANDAS_DAYS, r"\1-")
        return spans.duration_s(*spans_of(dashed))
    read = numbers(array)
    unknown = read.missing | (read.values == -1)
    values = np.where(unknown, np.nan, read.values) * factor
    with np.errstate(invalid="ignore"):
        too_long = np.abs(values) > _MOST
    return Typed(np.where(too_long, np.nan, values), unknown | too_long, read.invalid | too_long)


def counts(array: pa.Array, factor: float) -> Typed:
    """Counts, with the part of a processor or GPU that a job shares; negative ones are unknown."""
    read = numbers(array)
    with np.errstate(invalid="ignore"):
        unknown = read.missing | (read.values < 0)
    values = np.where(unknown, 0.0, read.values) * factor
    too_many = values > _MOST
    return Typed(values, unknown | too_many, read.invalid | too_many)


def exit_codes(array: pa.Array) -> Typed:
    """Codes of numbers, or of texts such as `1:0` and `0:9`, where 128 + the signal is the code; else unknown."""
    read = _of_words(array, exit_code) if _is_words(array) else numbers(array)
    unknown = read.missing | (np.abs(np.where(read.missing, 0.0, read.values)) > _MOST)
    return Typed(read.values, unknown, np.zeros(len(array), np.bool_))


def gpus(array: pa.Array, factor: float) -> Typed:
    """GPUs as a number, or in a list of Slurm's resources such as `gpu:volta:2`, in which no GPU means none."""
    return _of_words(array, gpus_of) if _is_words(array) else counts(array, factor)


def _is_words(array: pa.Array) -> bool:
    return bool(pa.types.is_string(array.type)) and not is_numeric(array)


def _of_words(array: pa.Array, value_of: Callable[[str], float | None]) -> Typed:
    """A function's value of each text; unknown where it gives None."""
    values = by_word(array.dictionary_encode(), value_of)
    return Typed(values, np.isnan(values), np.zeros(len(array), np.bool_))


def memory(array: pa.Array, factor: float | None) -> Memory:
    """KiB of texts (`8G`, `4000Mn`) or numbers in `factor` KiB; a number without a unit is unknown."""
    if _is_words(array):
        return spans.memory_kib(*spans_of(array), factor or 1 / 1024)
    read = numbers(array)
    with np.errstate(invalid="ignore"):
        unknown = read.missing | (read.values < 0) | (read.values > _MOST * 1024**2) | np.bool_(factor is None)
    return Memory(read.values * (factor or 1.0), unknown, read.invalid, np.zeros(len(array), np.uint8))


def as_texts(array: pa.Array) -> pa.Array:
    """Text of anything; a whole number has no fraction, though a column with nulls is one of floats in pandas."""
    if pa.types.is_floating(array.type):
        values = floats_of(array.cast(pa.float64()))
        known = values[np.isfinite(values)]
        if np.array_equal(known, np.floor(known)) and (not len(known) or np.abs(known).max() < 2.0**62):
            array = arrow(np.nan_to_num(values, posinf=0, neginf=0).astype(np.int64), ~np.isfinite(values))
    if pa.types.is_nested(array.type):
        return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())
    text = array.cast(pa.string())
    return pc.if_else(pc.equal(pc.utf8_length(text), 0), pa.scalar(None, pa.string()), text)


_STATES = {
    "COMPLETED": "completed complete finished terminated success successful succeeded pass passed done ok",
    "FAILED": "failed fail failure error",
    "CANCELLED": "cancelled canceled killed aborted evicted removed",
    "TIMEOUT": "timeout timed_out",
    "OUT_OF_MEMORY": "oom out_of_memory",
    "RUNNING": "running",
    "PENDING": "pending waiting queued",
}
_STATE_OF = {word: state for state, words in _STATES.items() for word in words.split()}
_SLURM_STATES = (
    "PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
    "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
)  # fmt: skip
"""slurm.h, enum job_states: the number that slurmdbd stores."""


def states(array: pa.Array, *, are_slurms: bool) -> pa.Array:
    """Categories in Slurm's terms where a word maps to one, else the word; are_slurms: numbers are slurmdbd's."""
    return categories(as_texts(array), _slurm_state if are_slurms else _state)


def _slurm_state(word: str) -> str:
    return _SLURM_STATES[int(word)] if re.fullmatch(r"\d{1,2}", word) and int(word) < 12 else _state(word)


def _state(word: str) -> str:
    found = re.sub(r" by \S+$", "", word.strip())
    return _STATE_OF.get(found.lower().replace(" ", "_"), found)


def spans_of(array: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """The bytes of an array of texts, and where each begins and ends; nothing where it is null."""
    data, offsets = words_of(array)
    start, end = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    return data, start, np.where(nulls(array), start, end)
