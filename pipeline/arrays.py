"""Columns of tables as numpy arrays and back, without copies where that is possible; rows found by their values.

Named arrays, and named tuples of them, are the rows of STATE.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.report import Tally

Bools = npt.NDArray[np.bool_]
CATEGORY = pa.dictionary(pa.int32(), pa.string())
Numbers = npt.NDArray[Any]
_NONE = np.zeros(1, np.int32)
_NUMPY = {pa.float64(): np.float64, pa.int64(): np.int64, pa.bool_(): np.bool_}


def arrow(values: Numbers, missing: Bools | None = None) -> pa.Array:
    """A numpy array (numbers or booleans) as an Arrow array, null where `missing`; numbers are not copied."""
    n_missing = int(np.count_nonzero(missing)) if missing is not None else 0
    valid = _bits(~missing) if missing is not None and n_missing else None
    if values.dtype == np.bool_:
        kind, data = pa.bool_(), _bits(values)
    else:
        kind, data = pa.from_numpy_dtype(values.dtype), pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [valid, data], n_missing)


def texts(words: Sequence[str | None]) -> pa.Array:
    """Texts as an Arrow string array, null where None; pa.array would import pandas to see whether it is given one."""
    encoded = [b"" if word is None else word.encode("utf-8", "backslashreplace") for word in words]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    valid = _bits(np.array([word is not None for word in words])) if None in words else None
    return pa.Array.from_buffers(pa.string(), len(words), [valid, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))])


def words_of(array: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """The bytes of a string array's values, and their offsets: one more than there are values."""
    _, ends, data = array.buffers()
    places = np.frombuffer(ends, np.int32, count=array.offset + len(array) + 1)[array.offset :] if len(array) else _NONE
    return np.frombuffer(data if data is not None else b"", np.uint8), places


def lists(rows: Sequence[Numbers | None], element: pa.DataType) -> pa.Array:
    """Rows of numbers, booleans or texts as an Arrow array of lists, null where a row is None."""
    held = [row for row in rows if row is not None]
    ends = arrow(np.cumsum([0, *(0 if row is None else len(row) for row in rows)], dtype=np.int32))
    values = np.concatenate(held) if held else np.empty(0, _NUMPY.get(element, object))
    flat = texts(values.tolist()) if element == pa.string() else arrow(values)
    missing = arrow(np.array([row is None for row in rows], np.bool_))
    return pa.ListArray.from_arrays(ends, flat, pa.list_(pa.field("element", element)), mask=missing)


def list_values(column: pa.Array | pa.ChunkedArray) -> list[Numbers | None]:
    """The rows of a column of lists, the inverse of `lists`; numbers are read-only views."""
    array = one_piece(column)
    values, ends = _flat(array.values), integers(array.offsets)[0].tolist()
    bounds = zip(nulls(array), pairwise(ends), strict=True)
    return [None if is_null else values[first:after] for is_null, (first, after) in bounds]


def _flat(values: pa.Array) -> Numbers:
    """Values without nulls. Arrow's own `to_numpy` would load pandas, which a query does without."""
    if values.type == pa.string():
        found = np.empty(len(values), object)
        found[:] = values.to_pylist()
        return found
    if values.type == pa.bool_():
        bits = np.frombuffer(values.buffers()[1] or b"", np.uint8)
        return np.unpackbits(bits, count=values.offset + len(values), bitorder="little")[values.offset :].view(np.bool_)
    return _data(values, np.dtype(_NUMPY[values.type]))


def integers(column: pa.Array | pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], Bools]:
    """The values of an integer column as int64 (undefined where null), and where it is null."""
    array = one_piece(column)
    wide = array if array.type == pa.int64() else array.cast(pa.int64())
    return _data(wide, np.dtype(np.int64)), nulls(wide)


def floats_of(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """A float64 column's values, NaN where it is null."""
    values = _data(one_piece(column), np.dtype(np.float64))
    return np.where(nulls(column), np.nan, values) if column.null_count else values


def nulls(column: pa.Array | pa.ChunkedArray) -> Bools:
    """Where a column is null."""
    found: Bools = _flat(one_piece(column).is_null())
    return found


def unknown(n_rows: int, kind: pa.DataType) -> pa.Array:
    """An array of nulls. Unlike pa.nulls, all such arrays share one buffer of zeros; lists have their own."""
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(unknown(n_rows, kind.index_type), texts([]))
    if pa.types.is_list(kind):
        return pa.nulls(n_rows, kind)
    zeros = _zeros(n_rows.bit_length())
    return pa.Array.from_buffers(kind, n_rows, [zeros] * (3 if kind == pa.string() else 2), n_rows)


@lru_cache(maxsize=2)
def _zeros(n_bits: int) -> pa.Buffer:
    """Zeros for fewer than 2^n_bits values and one offset more."""
    return pa.py_buffer(np.zeros(8 << n_bits, np.uint8))


def one_piece(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array, not copied where it is one already."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.nulls(0, column.type)


def _data(array: pa.Array, kind: np.dtype[Any]) -> Numbers:
    if not len(array):
        return np.empty(0, kind)
    return np.frombuffer(array.buffers()[1], kind, count=array.offset + len(array))[array.offset :]


def _bits(truths: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(truths, bitorder="little"))


def replaced(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The table with these values in a column it has, in that column's type."""
    place = table.column_names.index(name)
    field = table.schema.field(place)
    return table.set_column(place, field, values if values.type == field.type else values.cast(field.type))


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Array = npt.NDArray[Any]


def floats(table: pa.Table, name: str) -> Floats:
    """A numeric column as float64, null as NaN."""
    column = table.column(name)
    # A cast loads Arrow's computations, which a query does without. Integers beyond 2^53 are rounded.
    return floats_of(column if column.type == pa.float64() else column.cast(pa.float64(), safe=False))


def category_codes(table: pa.Table, name: str) -> tuple[Ints, list[str]]:
    """Codes into the sorted distinct values of a text column, -1 for null; the values."""
    column = table.column(name)
    array = one_piece((column if column.type == CATEGORY else column.dictionary_encode()).unify_dictionaries())
    words, raw = array.dictionary.to_pylist(), dense_codes(array)
    used = np.flatnonzero(np.bincount(raw + 1, minlength=1)[1:])
    values = sorted({words[i] for i in used})
    place = {word: rank for rank, word in enumerate(values)}
    lookup = np.full(len(words) + 1, -1, np.int64)
    lookup[used] = [place[words[i]] for i in used]
    return lookup[raw], values


def dense_codes(values: pa.Array | pa.ChunkedArray) -> Ints:
    """A code per value, equal where values are equal, -1 for null, in time linear in the values."""
    array = one_piece(values.unify_dictionaries() if isinstance(values, pa.ChunkedArray) else values)
    codes, is_null = integers((array if array.type == CATEGORY else array.dictionary_encode()).indices)
    return np.where(is_null, -1, codes)


def row_codes(*columns: Numbers) -> Ints:
    """A code per row, equal where all these columns (without NaN) are equal; from 0 in order of first appearance."""
    first, *others = (dense_codes(arrow(values)) for values in columns)
    for own in others:
        first = dense_codes(arrow(first * (int(own.max(initial=0)) + 1) + own))
    return first


def median(values: Floats) -> float:
    """np.median to the bit, NaN included, without importing masked arrays (0.02 s of a query)."""
    if not len(values):
        return np.nan
    ordered = np.sort(values)
    middle = ordered.take([(len(values) - 1) // 2, len(values) // 2]).mean()
    return np.nan if np.isnan(ordered[-1]) else float(middle)


def grouped_jobs(jobs: pa.Table, columns: Iterable[str]) -> pa.Table:
    """The jobs that have a group, with these columns alone: a copy of all columns would double the memory of a log."""
    names = dict.fromkeys(("group_id", *columns))
    return jobs.select(list(names)).filter(pc.is_valid(jobs.column("group_id")))


def job_procs(jobs: pa.Table) -> Floats:
    """Processors per job: allocated, else requested; NaN where neither is known and positive."""
    allocated, requested = floats(jobs, "procs"), floats(jobs, "requested_procs")
    chosen = np.where(allocated > 0, allocated, requested)
    return np.where(chosen > 0, chosen, np.nan)


def proc_seconds(jobs: pa.Table) -> Floats:
    """Processor-seconds per job for reports: 0 where size or runtime is unknown or negative."""
    return work_s(job_procs(jobs), floats(jobs, "runtime_s"))


def tally(proc_s: Floats, chosen: Bools | Ints | None = None) -> Tally:
    """How many of these jobs are chosen (all by default), and their processor-seconds."""
    own = proc_s if chosen is None else proc_s[chosen]
    return Tally(len(own), float(own.sum()))


def tally_of(jobs: pa.Table) -> Tally:
    """How many jobs, and their processor-seconds."""
    return tally(proc_seconds(jobs))


LARGEST_WORK_S = 1e290
"""More processor-seconds of one job are an error in the log; sums of 10^18 jobs with so many do not overflow."""


def work_s(procs: Floats, runtime_s: Floats) -> Floats:
    """Processor-seconds, 0 where size or runtime is unknown or negative; at most LARGEST_WORK_S."""
    with np.errstate(over="ignore"):
        return np.minimum(np.nan_to_num(procs * np.maximum(runtime_s, 0.0)), LARGEST_WORK_S)


def lower_bounds(jobs: pa.Table) -> Bools:
    """Where a job's runtime is known to be only a lower bound."""
    bounds: Bools = pc.fill_null(jobs.column("is_lower_bound"), False).to_numpy()
    return bounds


HOUR_S, DAY_S, WEEK_S = 3_600, 86_400, 604_800
MONDAY_S = 4 * DAY_S
"""The first Monday after the epoch, which begins on a Thursday: weeks are counted from it."""

EARLIEST_S, LATEST_S = 0, 7_258_118_400
"""1970 to 2200. An instant outside is an error in the log and counts as unknown."""
QUARTER_S = 900
"""Offsets of zones are multiples of a quarter of an hour and change at such multiples."""


def offset_s(instants: Ints, zone: str) -> Ints:
    """Offset of a zone from UTC (s, positive east) at each instant (s since 1970)."""
    clock = ZoneInfo(zone)
    days: Ints = instants // DAY_S
    if not len(days):
        return days
    at_midnight = _looked_up(np.arange(days.min(), days.max() + 2), DAY_S, clock)
    offsets: Ints = at_midnight[days - days.min()]
    changing = np.flatnonzero((np.diff(at_midnight) != 0)[days - days.min()])
    offsets[changing] = _looked_up(instants[changing] // QUARTER_S, QUARTER_S, clock)
    return offsets


def _looked_up(units: Ints, unit_s: int, clock: ZoneInfo) -> Ints:
    there, place = np.unique(units, return_inverse=True)
    offsets = [datetime.fromtimestamp(int(unit) * unit_s, clock).utcoffset() for unit in there]
    by_unit = np.array([int(offset.total_seconds()) for offset in offsets if offset is not None], np.int64)
    return by_unit[place]


Value = str | float | int | None


def matching_places(table: pa.Table, wanted: Mapping[str, Value]) -> Ints:
    """All rows whose named columns hold these values (None: null)."""
    found = np.ones(table.num_rows, np.bool_)
    for name, value in wanted.items():
        found &= _same(table.column(name), value)
    return np.flatnonzero(found)


def _same(column: pa.ChunkedArray, value: Value) -> Bools:
    """Where a column holds a value; false everywhere where one is text and the other a number."""
    if value is None:
        return nulls(column)
    is_text = pa.types.is_string(column.type) or pa.types.is_dictionary(column.type)
    if isinstance(value, str) != is_text:
        return np.zeros(len(column), np.bool_)
    # A value of Python's would load pandas, which a query does without.
    wanted = texts([value]) if isinstance(value, str) else arrow(np.array([value]))
    equal = one_piece(pc.equal(column, wanted[0]))
    return _flat(equal) & ~nulls(equal)


STORED_AS = {"floats": pa.float64(), "integers": pa.int64(), "flags": pa.bool_(), "texts": pa.string()}
"""The columns of STATE that hold values, with the type of their elements."""
NARROW = (".codes", ".heads", ".jobs")
"""Ends of the names of arrays of 32-bit integers."""


def stored_arrays(arrays: Mapping[str, Array]) -> dict[str, Any]:
    """The columns of a STATE of named arrays."""
    shapes = [np.array(values.shape, np.int64) for values in arrays.values()]
    columns = {"array": list(arrays), "shape": lists(shapes, pa.int64())}
    for name, element in STORED_AS.items():
        kind = np.dtype(_NUMPY.get(element, object)).kind
        columns[name] = lists([one.ravel() if one.dtype.kind == kind else None for one in arrays.values()], element)
    return columns


def arrays_in(table: pa.Table) -> dict[str, Array]:
    """The arrays of a STATE by name; they can be written."""
    names, shapes = table.column("array").to_pylist(), list_values(table.column("shape"))
    by_kind = zip(*(list_values(table.column(name)) for name in STORED_AS), strict=True)
    held = [next(values for values in row if values is not None) for row in by_kind]
    found = {name: one.reshape(shape).copy() for name, shape, one in zip(names, shapes, held, strict=True)}
    # A table has one type of integers; a kernel is compiled for one type of each of its arrays.
    return found | {name: found[name].astype(np.int32) for name in names if name.endswith(NARROW)}


def arrays_of(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    """The arrays of a named tuple, and of the tuples in it, each under the names of the fields that lead to it."""
    if isinstance(value, tuple):
        for key, one in value._asdict().items():  # type: ignore[attr-defined]
            yield from arrays_of(f"{name}.{key}", one)
    else:
        yield name, value


def tuple_of(kind: Any, name: str, arrays: Mapping[str, Array]) -> Any:
    """The inverse of `arrays_of` for a class of named tuples; KeyError where an array is missing."""
    if not (isinstance(kind, type) and issubclass(kind, tuple)):
        return arrays[name]
    return kind(**{key: tuple_of(inner, f"{name}.{key}", arrays) for key, inner in kind.__annotations__.items()})


def copied(value: Any) -> Any:
    """The tuple with arrays of its own."""
    return type(value)(*map(copied, value)) if isinstance(value, tuple) else value.copy()
