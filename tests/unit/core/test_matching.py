"""Rows found by their values are those that Arrow finds."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.arrays import Value, matching_places

WORDS = st.sampled_from(["", "a", "b", "ab", "ba", "aé", "\x00", "a\x00"])
ROWS = st.lists(
    st.tuples(st.none() | WORDS, st.none() | st.integers(-2, 2), st.none() | st.sampled_from([0.5, 1.0, -2.0])),
    max_size=12,
)


def expected(table: pa.Table, wanted: dict[str, Value]) -> list[int]:
    places = range(table.num_rows)
    rows = table.to_pylist()
    return [place for place in places if all(rows[place][name] == value for name, value in wanted.items())]


@settings(deadline=None)
@given(rows=ROWS, text=st.none() | WORDS, whole=st.none() | st.integers(-2, 2), real=st.none() | st.just(1.0))
@pytest.mark.parametrize("cut", [0, 3])
@pytest.mark.parametrize("is_category", [False, True])
def test_rows_that_match_are_those_with_equal_values(
    rows: list[tuple[object, ...]], text: str | None, whole: int | None, real: float | None, cut: int, is_category: bool
) -> None:
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(KINDS)]
    table = pa.table(columns, names=["text", "whole", "real"]).slice(cut)
    if is_category:
        table = table.set_column(0, "text", pc.dictionary_encode(table["text"]))
    wanted: dict[str, Value] = {"text": text, "whole": whole, "real": real}
    for names in (["text"], ["whole"], ["real"], ["text", "whole", "real"]):
        asked = {name: wanted[name] for name in names}
        places = expected(table, asked)
        assert matching_places(table, asked).tolist() == places


KINDS = (pa.string(), pa.int64(), pa.float64())


def test_a_text_is_no_number() -> None:
    table = pa.table({"text": ["1"], "whole": [1]})
    assert not len(matching_places(table, {"text": 1})) and not len(matching_places(table, {"whole": "1"}))
    assert matching_places(table, {}).tolist() == [0]


def test_columns_in_several_pieces_are_looked_through() -> None:
    table = pa.concat_tables([pa.table({"text": ["a", None]}), pa.table({"text": ["b", "a"]})])
    assert matching_places(table, {"text": "a"}).tolist() == [0, 3]
    assert matching_places(table, {"text": None}).tolist() == [1]
