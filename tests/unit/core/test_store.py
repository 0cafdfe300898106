"""The Parquet door: whole or absent, readable by strangers, the same bytes for the same table."""

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import storage as store
from pipeline.errors import InputError, TableError
from pipeline.tables import JOBS
from tests.rows import jobs_of


def test_a_round_trip_keeps_values_units_and_metadata(tmp_path: Path) -> None:
    jobs = jobs_of([{"user": "ada"}, {"user": None}])
    path = store.write_table(tmp_path / "jobs.parquet", jobs, JOBS, {"code": "1"})
    assert store.read_table(path, JOBS).to_pylist() == jobs.to_pylist()
    assert store.read_metadata(path)["code"] == "1"
    assert pq.read_schema(path).field("requested_mem_kib").metadata[b"unit"] == b"KiB per processor"


def test_other_programs_read_plain_columns(tmp_path: Path) -> None:
    path = store.write_table(tmp_path / "jobs.parquet", jobs_of([{"user": "ada"}, {"user": None}]), JOBS)
    assert pl.read_parquet(path)["user"].to_list() == ["ada", None]
    assert pd.read_parquet(path)["user"].isna().tolist() == [False, True]
    assert duckdb.sql(f"SELECT user FROM '{path}'").fetchall() == [("ada",), (None,)]


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    jobs = jobs_of([{"user": name} for name in ("b", "a", "b")])
    one = store.write_table(tmp_path / "one.parquet", jobs, JOBS).read_bytes()
    assert store.write_table(tmp_path / "two.parquet", jobs, JOBS).read_bytes() == one


def test_the_bytes_do_not_tell_how_words_were_numbered_or_rows_cut(tmp_path: Path) -> None:
    jobs = jobs_of([{"user": name} for name in ("b", "a", None, "b")])
    place = JOBS.schema().names.index("user")
    words = pa.DictionaryArray.from_arrays(pa.array([3, 1, None, 3], pa.int32()), pa.array(["z", "a", "y", "b"]))
    other = jobs.set_column(place, jobs.schema.field(place), words)
    one = store.write_table(tmp_path / "one.parquet", jobs, JOBS).read_bytes()
    assert store.write_table(tmp_path / "two.parquet", other, JOBS).read_bytes() == one
    cut = [jobs.slice(0, 1), other.slice(1, 2), jobs.slice(3)]
    assert store.write_batches(tmp_path / "three.parquet", cut, JOBS).read_bytes() == one


def test_a_word_that_is_null_is_null(tmp_path: Path) -> None:
    jobs = jobs_of([{"user": "a"}, {"user": "b"}])
    place = JOBS.schema().names.index("user")
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array([None, "b"]))
    path = store.write_table(tmp_path / "jobs.parquet", jobs.set_column(place, jobs.schema.field(place), words), JOBS)
    assert pl.read_parquet(path)["user"].to_list() == [None, "b"]


def test_a_file_s_schema_is_the_declared_one(tmp_path: Path) -> None:
    path = store.write_table(tmp_path / "jobs.parquet", jobs_of([{"user": "a"}]), JOBS, {"code": "1"})
    declared = JOBS.schema(on_disk=True).with_metadata({"table": "jobs", "code": "1"})
    assert pq.read_schema(path).equals(declared, check_metadata=True)


def test_a_failing_writer_leaves_nothing(tmp_path: Path) -> None:
    def fail(sink: object) -> None:
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError):
        store.write_atomically(tmp_path / "table", fail)
    assert list(tmp_path.iterdir()) == []


def test_a_failing_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = store.write_text(tmp_path / "page", "old")
    with pytest.raises(TableError):
        store.write_table(path, jobs_of([{}]).drop(["user"]), JOBS)
    assert path.read_text() == "old"


@pytest.mark.parametrize("content", [b"", b"no parquet at all", None])
def test_a_file_that_is_no_table_is_one_sentence(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "jobs.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match="expected a jobs table"):
        store.read_table(path, JOBS)
