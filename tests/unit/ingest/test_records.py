"""Rows in memory or in the database: nothing lost, whole jobs together, one order."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline.arrays import CATEGORY
from pipeline.errors import TableError
from pipeline.ingest import records
from pipeline.ingest.records import Records, is_in_order, leading_digits
from pipeline.tables import JOBS
from tests.rows import jobs_of

SCHEMA = pa.schema([("job_id", pa.string()), ("user", CATEGORY), ("n", pa.int64()), ("never", pa.float64())])
HOLD = pytest.mark.parametrize("hold_bytes", [0, 1 << 30])


def table(ids: list[str], start: int = 0) -> pa.Table:
    users = pa.array([f"u{len(i)}" for i in ids]).dictionary_encode()
    numbers = pa.array(range(start, start + len(ids)), pa.int64())
    return pa.table([pa.array(ids), users.cast(CATEGORY), numbers, pa.nulls(len(ids), pa.float64())], schema=SCHEMA)


def shuffled_jobs() -> pa.Table:
    """Jobs whose ids and submits put every key of the order to use."""
    rng = np.random.default_rng(5)
    odd = ["x", "-5", "007", "7", "12.srv", "12.Srv", "12.srv.2", "-", "1234567890123456789", "99999999999999999999"]
    ids = rng.permutation([*map(str, range(8, 400)), *(f"7_{i}" for i in range(100)), *odd, "9\n1", "ä1", "z1"])
    submits = rng.choice([None, 1, 2, 3, 900], len(ids)).tolist()
    rows = [{"job_id": str(i), "submit_s": s} for i, s in zip(ids, submits, strict=True)]
    rows += [{"job_id": "6", "submit_s": 3, "restart": r, "cluster": c} for r in (1, 0, 2) for c in ("b", None, "a")]
    return jobs_of(rows)


def by_hand(jobs: pa.Table) -> list[dict[str, Any]]:
    """The rows in the order of JOBS: submit, the id's numbers as numbers, restart, cluster, site."""

    def key(job: dict[str, Any]) -> tuple[Any, ...]:
        found = re.match(r"(-?[0-9]{0,18})([^0-9]*)([0-9]{0,18})", job["job_id"])
        assert found is not None
        first, word, second = (found[1] in ("", "-") and -1) or int(found[1] or -1), found[2], int(found[3] or -1)
        submit = (job["submit_s"] is None, job["submit_s"] or 0)
        id_key = (first, word.encode(), second, job["job_id"].encode())
        return (*submit, *id_key, job["restart"], job["cluster"] or "", job["site"] or "")

    return sorted(jobs.to_pylist(), key=key)


def test_a_job_s_tasks_components_and_server_names_begin_alike() -> None:
    ids = pa.chunked_array(
        [["17", "17_4", "17_[5-9%2]", "17+1", "17.srv", "17[3].srv"], ["17.batch", "17\n1", "", "x1"]]
    )
    assert leading_digits(ids).to_pylist() == ["17"] * 8 + ["", "x1"]


@HOLD
@pytest.mark.parametrize("batch_rows", [3, 10_000])
def test_rows_come_back_with_whole_jobs_together(
    tmp_path: Path, hold_bytes: int, batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "BATCH_ROWS", batch_rows)
    rows = Records({"a": SCHEMA, "b": SCHEMA}, tmp_path, hold_bytes)
    ids = [f"{i % 97}_{i}" for i in range(1_000)]
    for kind, added in (("a", table(ids)), ("b", table(ids[:50])), ("a", table([])), ("a", table(ids[:10], 1_000))):
        rows.add(kind, added)
    found: dict[str, list[int]] = {"a": [], "b": []}
    homes: dict[str, int] = {}
    for place, tables in enumerate(rows.batches(["a", "b"])):
        for kind, some in tables.items():
            assert some.schema == SCHEMA
            found[kind] += some["n"].to_pylist()
            assert some["user"].to_pylist() == [f"u{len(i)}" for i in some["job_id"].to_pylist()]
            for job_id in some["job_id"].to_pylist():
                assert homes.setdefault(job_id.split("_")[0], place) == place
    assert sorted(found["a"]) == list(range(1_010)) and sorted(found["b"]) == list(range(50))
    assert rows.is_spilled == (hold_bytes == 0)


@HOLD
def test_rows_may_keep_the_order_in_which_they_came(tmp_path: Path, hold_bytes: int) -> None:
    rows = Records({"a": SCHEMA}, tmp_path, hold_bytes)
    for start in range(0, 50, 5):
        rows.add("a", table(["1"] * 5, start))
    assert pa.concat_tables(rows.tables("a"))["n"].to_pylist() == list(range(50))


@HOLD
def test_jobs_come_back_in_one_order(tmp_path: Path, hold_bytes: int) -> None:
    jobs = shuffled_jobs()
    rows = Records({"jobs": JOBS.schema()}, tmp_path, hold_bytes)
    for start in range(0, jobs.num_rows, 100):
        rows.add("jobs", jobs.slice(start, 100))
    rows.check_key(JOBS)
    assert pa.concat_tables(rows.ordered("jobs")).to_pylist() == by_hand(jobs)
    assert rows.is_spilled == (hold_bytes == 0)


def test_a_key_that_repeats_in_the_database_is_found(tmp_path: Path) -> None:
    rows = Records({"jobs": JOBS.schema()}, tmp_path, 0)
    for _ in range(2):
        rows.add("jobs", jobs_of([{"job_id": "1", "submit_s": 4}]))
    with pytest.raises(TableError, match="found 1 rows repeating the key"):
        rows.check_key(JOBS)


def test_only_jobs_whose_order_is_sure_are_left_as_they_are() -> None:
    numbers = jobs_of([{"job_id": "9", "submit_s": 1}, {"job_id": "10", "submit_s": 1}, {"job_id": "2"}])
    assert is_in_order(numbers)
    assert not is_in_order(numbers.take([1, 0, 2])) and not is_in_order(numbers.take([0, 0]))
    assert not is_in_order(jobs_of([{"job_id": "9_2", "submit_s": 1}, {"job_id": "9_10", "submit_s": 1}]))
