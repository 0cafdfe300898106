"""Tables: what check() lets through, and what it refuses."""

import pyarrow as pa
import pytest

from pipeline.errors import TableError
from pipeline.tables import COLUMNS, OBSERVATIONS, TABLES
from tests.rows import jobs_of

SUFFIX_UNITS = {"_s": "s", "_kib": "KiB", "_pct": "%"}


def test_units_stand_in_names() -> None:
    for column in COLUMNS.values():
        for suffix, unit in SUFFIX_UNITS.items():
            if column.name.endswith(suffix):
                assert column.unit is not None and unit in column.unit, column.name


def test_every_key_is_among_the_columns() -> None:
    for kind in TABLES.values():
        assert set(kind.key) <= {column.name for column in kind.columns}


def test_a_table_of_other_columns_is_refused() -> None:
    with pytest.raises(TableError, match="columns"):
        OBSERVATIONS.check(pa.table({"procs": [1]}))


def test_a_wrong_type_is_refused() -> None:
    table = OBSERVATIONS.build(group_id=["a"], procs=[1], n_jobs=[1])
    wrong = table.set_column(1, "procs", pa.array([1.5]))
    with pytest.raises(TableError, match="procs"):
        OBSERVATIONS.check(wrong)


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"group_id": ["a", "a"], "procs": [1, 1], "n_jobs": [1, 1]}, "repeating the key|repeat the key"),
        ({"group_id": ["a"], "procs": [1], "n_jobs": [None]}, "nulls in column n_jobs"),
        ({"group_id": ["a"], "procs": [1], "n_jobs": [-1]}, "n_jobs = -1"),
        ({"group_id": ["a"], "procs": [1], "n_jobs": [1], "colour": ["red"]}, "colour"),
    ],
)
def test_a_broken_row_is_refused(columns: dict[str, list[object]], found: str) -> None:
    with pytest.raises(TableError, match=found):
        OBSERVATIONS.build(**columns)


def test_keys_of_several_columns_are_told_apart() -> None:
    jobs = jobs_of([{"job_id": "1", "restart": 0}, {"job_id": "1", "restart": 1}, {"job_id": "2", "restart": 0}])
    assert jobs.num_rows == 3


def test_nan_becomes_null() -> None:
    jobs = jobs_of([{"runtime_s": None}, {"runtime_s": 2.0}])
    assert jobs.column("runtime_s").to_pylist() == [None, 2.0]


def test_a_category_with_unused_words_does_not_hide_a_repeated_key() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([0, 0, 2], pa.int32()), pa.array(["a", "b", "c"]))
    with pytest.raises(TableError, match="repeating the key"):
        OBSERVATIONS.build(group_id=words, procs=[1, 1, 1], n_jobs=[1, 1, 1])
