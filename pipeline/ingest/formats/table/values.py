"""Types the columns of a table: instants, durations, counts, memory and texts, whatever type they come in.

Every function gives values and which rows hold something that is no value of the kind.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import arrow, floats_of, integers, nulls
from pipeline.errors import InputError
from pipeline.ingest import values as text_values
from pipeline.ingest.reader import by_word
from pipeline.ingest.slurm_texts import exit_code, gpus_of, resource
from pipeline.ingest.values import Memory, Typed, truths, utc_of_local

MAX_TEXT_BYTES = 1 << 29
"""Of one column in one part of a table."""

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_PANDAS_DAYS = r"^(-?\d+) days?,? \+?"
_LATEST_S = 7_258_118_400
"""2200-01-01."""

_MOST = 2.0**40
"""More s, processors or GiB is an error in the table."""

_BIT_63, _PER_CPU = 1 << 63, r"^9223372036\d{9}$"
_FRACTION = r"(:\d\d)\.\d+"
DOTTED = r"^\s*(\d{1,2})\.(\d{1,2})\.(\d{4})"


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
    return text_values.utf8(array) if pa.types.is_string(array.type) else array


def _check_unpacked(words: pa.Array, places: pa.Array) -> None:
    """InputError where a column's texts would take more than memory should: a long one may repeat in every row."""
    sizes = integers(pc.binary_length(words.fill_null("")))[0]
    n_bytes = int(sizes[integers(places.drop_null())[0]].sum()) if len(words) else 0
    if n_bytes > MAX_TEXT_BYTES:
        found, expected = f"{n_bytes:,} bytes of text in {len(places):,} rows", f"at most {MAX_TEXT_BYTES:,}"
        raise InputError("a column of a table", found, expected, "see who wrote this file")


def is_numeric(array: pa.Array) -> bool:
    """Whether most of the values that are known are numbers, or texts that are."""
    read = numbers(array)
    return int(np.count_nonzero(~read.missing)) > int(np.count_nonzero(read.invalid))


def numbers(array: pa.Array) -> Typed:
    """float64 of numbers or texts; null, NaN, infinite and Slurm's marks for no value are unknown, Booleans invalid."""
    invalid = np.zeros(len(array), np.bool_)
    if pa.types.is_string(array.type):
        # Not all that Unicode counts as white: a digit of which a bit has flipped can become a control character.
        trimmed = pc.utf8_trim(array, " \t\u00a0")
        is_number = pc.match_substring_regex(trimmed, _NUMBER)
        is_word = pc.is_in(pc.utf8_lower(trimmed), pa.array([*text_values.NO_LIMIT, ""]))
        invalid = ~truths(pc.or_(is_number, is_word)) & ~nulls(array)
        array = pc.if_else(is_number, trimmed, pa.scalar(None, pa.string()))
    elif not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        return Typed(np.zeros(len(array)), np.ones(len(array), np.bool_), ~nulls(array))
    values = floats_of(array.cast(pa.float64(), safe=False))
    # Slurm's marks of 64 bits are near 2^64, and pandas' for no time is -2^63.
    is_mark = np.isin(values, text_values.NO_VALUES) | ((np.abs(values) >= _BIT_63) & (np.abs(values) <= 2 * _BIT_63))
    return Typed(values, ~np.isfinite(values) | is_mark, invalid)


def _with_texts(read: Typed, array: pa.Array, typed: Callable[[pa.Array], Typed]) -> Typed:
    """Numbers, and for the texts that are none what `typed` makes of them."""
    odd = np.flatnonzero(read.invalid)
    if not len(odd) or not pa.types.is_string(array.type):
        return read
    found = typed(array.take(arrow(odd)))
    for whole, part in ((read.values, found.values), (read.missing, found.missing), (read.invalid, found.invalid)):
        whole[odd] = part
    return replace(found, values=read.values, missing=read.missing, invalid=read.invalid)


@dataclass(frozen=True, slots=True)
class Timed(Typed):
    """UTC s; n_local: how many named no zone."""

    n_local: int = 0


def instants(array: pa.Array, factor: float, zone: str, *, day_first: bool, zero_is_known: bool) -> Timed:
    """Instants of timestamps, dates, texts, or numbers in `factor` s since 1970.

    Timestamps and texts without a zone are of `zone`. A negative number is unknown, and 0 unless it is known.
    """
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("s"))
    if pa.types.is_timestamp(array.type):
        return _timestamps(array, zone)
    read = numbers(array)
    values = np.floor(np.where(read.missing, 0.0, read.values) * factor + 1e-6)
    unknown = read.missing | (values < 0) | ((values == 0) & ~np.bool_(zero_is_known))
    too_late = ~unknown & (values > _LATEST_S)

    def of_texts(words: pa.Array) -> Timed:
        plain_times = pc.replace_substring_regex(words, _FRACTION, r"\1")
        slashed = pc.replace_substring_regex(plain_times, DOTTED, r"\1/\2/\3")
        typed = text_values.instants(slashed, zone, day_first=day_first)
        return Timed(typed.values.astype(np.float64), typed.missing, typed.invalid, typed.n_local)

    return cast(Timed, _with_texts(Timed(values, unknown | too_late, read.invalid | too_late), array, of_texts))


def _timestamps(array: pa.Array, zone: str) -> Timed:
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
    return Timed(values, missing | outside, none, n_local)


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
    read = numbers(array)
    unknown = read.missing | (read.values == -1)
    values = np.where(unknown, np.nan, read.values) * factor
    with np.errstate(invalid="ignore"):
        too_long = np.abs(values) > _MOST
    found = Typed(np.where(too_long, np.nan, values), unknown | too_long, read.invalid | too_long)
    return _with_texts(
        found,
        array,
        lambda words: text_values.durations(pc.replace_substring_regex(words, _PANDAS_DAYS, r"\1-")),
    )


def counts(array: pa.Array, factor: float) -> Typed:
    """Counts, with the part of a processor or GPU that a job shares; negative ones are unknown."""
    read = numbers(array)
    unknown = read.missing | (read.values < 0)
    values = np.where(unknown, 0.0, read.values) * factor
    too_many = values > _MOST
    return Typed(values, unknown | too_many, read.invalid | too_many)


def resources(array: pa.Array, target: str) -> Typed:
    """Processors, nodes or GPUs of a list of Slurm's resources: `cpu=4,node=1,gres/gpu=2`, or `1=4,4=1,1001=2`."""
    return _of_words(as_texts(array), partial(resource, target))


def exit_codes(array: pa.Array, *, is_status: bool) -> Typed:
    """Codes of numbers, or of texts such as `1:0` and `0:9`, where 128 + the signal is the code; else unknown.

    is_status: a number is a status of wait(2), with the code in its second byte and the signal in its first.
    """
    read = _of_words(array, exit_code) if _is_words(array) else numbers(array)
    codes = np.where(read.missing | (np.abs(read.values) > _MOST), np.nan, read.values)
    if is_status:
        signal = codes % 128
        codes = np.where(signal > 0, 128 + signal, codes // 256 % 256)
    return Typed(codes, np.isnan(codes), np.zeros(len(array), np.bool_))


def gpus(array: pa.Array, factor: float) -> Typed:
    """GPUs as a number, or in a list of Slurm's resources such as `gpu:volta:2`, in which no GPU means none."""
    return _of_words(array, gpus_of) if _is_words(array) else counts(array, factor)


def _is_words(array: pa.Array) -> bool:
    return bool(pa.types.is_string(array.type)) and bool(numbers(array).invalid.any())


def _of_words(array: pa.Array, value_of: Callable[[str], float | None]) -> Typed:
    """A function's value of each text; unknown where it gives None."""
    values = by_word(array.dictionary_encode(), value_of)
    return Typed(values, np.isnan(values), np.zeros(len(array), np.bool_))


def memory(array: pa.Array, factor: float | None) -> Memory:
    """KiB of texts (`8G`, `4000Mn`) or numbers in `factor` KiB; a number without a unit is unknown.

    Slurm marks a number that is per processor by its highest bit, of 64.
    """
    if _is_words(array):
        return text_values.memory(array, factor or 1 / 1024)
    read = numbers(array)
    words = as_texts(array.cast(pa.uint64(), safe=False) if pa.types.is_integer(array.type) else array)
    is_marked = truths(pc.match_substring_regex(words, _PER_CPU))
    marked = np.array([int(word) - _BIT_63 for word in words.filter(arrow(is_marked)).to_pylist()], np.float64)
    values = read.values.copy()
    values[is_marked] = marked
    kib = values * (factor or 1.0)
    unknown = (read.missing & ~is_marked) | ~((kib >= 0) & (kib < text_values.NO_KIB)) | np.bool_(factor is None)
    return Memory(
        kib, unknown, read.invalid, np.where(is_marked, text_values.PROCESSOR, text_values.JOB).astype(np.int8)
    )


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
