"""A stored table gives the same rows as the table in memory, however it is read."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import large_tables
from pipeline.errors import InputError, TableError
from pipeline.large_tables import StoredTable, newest_jobs, parts_of, rows_of, stored
from pipeline.storage import read_table, write_batches
from pipeline.tables import JOBS


def jobs_of(submit_s: np.ndarray) -> pa.Table:
    n = len(submit_s)
    return JOBS.build(
        site=["s"] * n, job_id=[str(row) for row in range(n)], restart=np.zeros(n, np.int64),
        user=[f"u{row % 7}" for row in range(n)], submit_s=pa.array(submit_s, mask=submit_s < 0),
        runtime_s=np.arange(1.0, n + 1), procs=np.full(n, 2), source_file=["log"] * n,
        source_line=np.arange(1, n + 1),
    )  # fmt: skip


JOBS_1000 = jobs_of(np.arange(1000))


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> StoredTable:
    found = stored([JOBS_1000.slice(0, 400), JOBS_1000.slice(400)], JOBS, tmp_path_factory.mktemp("t"), "jobs")
    assert isinstance(found, StoredTable)
    return found


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_any_rows_and_columns_are_those_in_memory(on_disk: StoredTable, first: int, after: int) -> None:
    first, after = sorted((first, after))
    names = ["user", "submit_s"]
    assert rows_of(on_disk, first, after, names).equals(rows_of(JOBS_1000, first, after, names))


@pytest.mark.parametrize("n_rows", [1, 300, 999, 1000, 5000])
def test_parts_hold_every_row_once(on_disk: StoredTable, n_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_tables, "PART_ROWS", n_rows)
    for table in (on_disk, JOBS_1000):
        parts = list(parts_of(table))
        assert [part.num_rows for part in parts[:-1]] == [n_rows] * (len(parts) - 1)
        assert pa.concat_tables(parts).unify_dictionaries().equals(JOBS_1000)
    assert rows_of(on_disk).equals(JOBS_1000)


def test_a_table_without_rows_has_one_empty_part(tmp_path: Path) -> None:
    empty = stored([], JOBS, tmp_path, "jobs")
    assert empty.num_rows == 0
    assert [part.num_rows for part in parts_of(empty)] == [0]
    assert stored([], JOBS, None, "jobs").num_rows == 0


def test_the_bytes_do_not_depend_on_the_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = []
    for n_rows in (1000, 130):
        monkeypatch.setattr(large_tables, "PART_ROWS", n_rows)
        table = stored(parts_of(JOBS_1000), JOBS, tmp_path / str(n_rows), "jobs")
        assert isinstance(table, StoredTable)
        paths.append(table.path.read_bytes())
    assert paths[0] == paths[1]


def test_a_table_without_a_category_breaks_its_declaration(tmp_path: Path) -> None:
    path = tmp_path / "jobs.parquet"
    pq.write_table(JOBS_1000.drop_columns(["flag"]), path)
    with pytest.raises(TableError, match="found columns"):
        read_table(path, JOBS)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.parquet"):
        rows_of(StoredTable(tmp_path / "gone.parquet", JOBS), 0, 1)


@pytest.mark.parametrize("least_jobs", [1, 10, 300, 667, 1000, 4000])
@pytest.mark.parametrize("until_s", [np.inf, 500.0])
def test_newest_jobs_are_those_of_the_table_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least_jobs: int, until_s: float
) -> None:
    # Jobs of one second must not be parted, also where a part begins among them; the last ones have no submit.
    submit_s = np.sort(np.random.default_rng(3).integers(0, 90, 1000)) * 10
    jobs = jobs_of(np.where(np.arange(1000) < 980, submit_s, -1))
    path = write_batches(tmp_path / "jobs.parquet", [jobs], JOBS)
    monkeypatch.setattr(large_tables, "PART_ROWS", 17)
    names = ("job_id", "submit_s")
    found, older = newest_jobs(StoredTable(path, JOBS), names, least_jobs, until_s)
    expected, expected_older = newest_jobs(jobs, names, least_jobs, until_s)
    assert found.equals(expected)
    assert (older.rows, older.proc_s) == (expected_older.rows, pytest.approx(expected_older.proc_s))
