"""Small sums over arrays that stand in for numpy's, and lists of values in a column of a table."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.arrays import list_values, lists, median


@given(st.lists(st.none() | st.lists(st.floats(width=64), max_size=4)))
def test_lists_of_numbers_come_back_bit_for_bit(rows: list[list[float] | None]) -> None:
    given_rows = [None if row is None else np.array(row, np.float64) for row in rows]
    found = list_values(lists(given_rows, pa.float64()))
    assert [row if row is None else row.tobytes() for row in found] == [
        row if row is None else row.tobytes() for row in given_rows
    ]


@given(st.lists(st.none() | st.lists(st.booleans(), max_size=9)), st.lists(st.none() | st.lists(st.text(max_size=3))))
def test_lists_of_truths_and_texts_come_back(flags: list[list[bool] | None], words: list[list[str] | None]) -> None:
    for rows, dtype, kind in ((flags, np.bool_, pa.bool_()), (words, object, pa.string())):
        encodable = [row for row in rows if row is None or all(str(one).isascii() for one in row)]
        found = list_values(lists([None if row is None else np.array(row, dtype) for row in encodable], kind))
        assert [None if row is None else row.tolist() for row in found] == encodable


@given(st.lists(st.floats(-1e300, 1e300) | st.just(np.nan), max_size=9))
def test_a_median_is_that_of_numpy(numbers: list[float]) -> None:
    values = np.array(numbers)
    expected = np.median(values) if numbers else np.nan
    assert np.array_equal(median(values), expected, equal_nan=True)
