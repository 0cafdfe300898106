"""Spill files: nothing lost, whole jobs together, and a merge that leaves one order."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.arrays import CATEGORY
from pipeline.ingest import merge
from pipeline.ingest.combine import in_order
from pipeline.ingest.spill import PartitionedRows, Room, SpooledTables, partition_of
from pipeline.tables import JOBS
from tests.rows import jobs_of

SCHEMA = pa.schema([("job_id", pa.string()), ("user", CATEGORY), ("n", pa.int64()), ("never", pa.float64())])


def table(ids: list[str], start: int = 0) -> pa.Table:
    users = pa.array([f"u{len(i)}" for i in ids]).dictionary_encode()
    numbers = pa.array(range(start, start + len(ids)), pa.int64())
    return pa.table([pa.array(ids), users.cast(CATEGORY), numbers, pa.nulls(len(ids), pa.float64())], schema=SCHEMA)


def test_a_job_s_tasks_components_and_server_names_fall_together() -> None:
    ids = pa.chunked_array([["17", "17_4", "17_[5-9%2]", "17+1", "17.srv", "17[3].srv"], ["17.batch", "", "x", "x_1"]])
    codes = partition_of(ids, 64)
    assert len(set(codes[:7].tolist())) == 1
    assert codes.tolist() == partition_of(pa.chunked_array([ids.combine_chunks()]), 64).tolist()
    spread = partition_of(pa.chunked_array([[str(i) for i in range(10_000)]]), 16)
    assert np.bincount(spread, minlength=16).min() > 400
    assert partition_of(ids.slice(3, 4), 64).tolist() == codes[3:7].tolist()


@pytest.mark.parametrize("hold_bytes", [0, 1 << 30])
@pytest.mark.parametrize("most_rows", [10, 10_000])
def test_a_pile_gives_back_what_it_took(tmp_path: Path, hold_bytes: int, most_rows: int) -> None:
    partitioned = PartitionedRows(tmp_path / "partitioned", 8, Room(hold_bytes=hold_bytes, most_rows=most_rows))
    for kind in ("a", "b"):
        partitioned.declare(kind, SCHEMA)
    ids = [f"{i % 97}_{i}" for i in range(1_000)]
    partitioned.add("a", table(ids))
    partitioned.add("b", table(ids[:50]))
    partitioned.add("a", table([]))
    partitioned.add("a", table(ids[:10], 1_000))
    found: dict[str, list[int]] = {"a": [], "b": []}
    homes: dict[str, int] = {}
    for place, tables in enumerate(partitioned.partitions()):
        for kind, rows in tables.items():
            assert rows.schema == SCHEMA
            found[kind] += rows["n"].to_pylist()
            assert rows["user"].to_pylist() == [f"u{len(i)}" for i in rows["job_id"].to_pylist()]
            for job_id in rows["job_id"].to_pylist():
                assert homes.setdefault(job_id.split("_")[0], place) == place
    assert sorted(found["a"]) == list(range(1_010)) and sorted(found["b"]) == list(range(50))
    assert partitioned.is_spilled == (hold_bytes == 0)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("hold_bytes", [0, 1 << 30])
def test_a_tape_keeps_the_order(tmp_path: Path, hold_bytes: int) -> None:
    unreadable_rows = SpooledTables(tmp_path / "unreadable_rows", hold_bytes)
    for start in range(0, 50, 5):
        unreadable_rows.add(table(["1"] * 5, start))
    assert pa.concat_tables(list(unreadable_rows.tables(SCHEMA)))["n"].to_pylist() == list(range(50))


@pytest.mark.parametrize("window_rows", [4, 64, 1 << 17])
def test_runs_merge_into_one_order(tmp_path: Path, window_rows: int) -> None:
    room = Room(window_rows=window_rows)
    rng = np.random.default_rng(5)
    ids = rng.permutation([*map(str, range(400)), *(f"7_{i}" for i in range(100)), "x", "-5", "007", "12.srv"])
    submits = rng.choice([None, 1, 2, 3, 900], len(ids)).tolist()
    jobs = jobs_of([{"job_id": str(i), "submit_s": s} for i, s in zip(ids, submits, strict=True)])
    codes = rng.integers(0, 5, len(ids))
    runs = []
    for code in range(5):
        runs.append(tmp_path / f"{code}")
        merge.write_run(runs[-1], in_order(jobs.filter(pa.array(codes == code))), 5, room)
    merged = pa.concat_tables(list(merge.merged(runs, JOBS.schema(), room)))
    assert merged.to_pylist() == in_order(jobs).to_pylist()
