"""The Parquet door: whole or absent, readable by strangers, the same bytes for the same table."""

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

from pipeline.core import store
from pipeline.core.errors import InputError, TableError
from pipeline.core.tables import JOBS
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
