"""Stages that compute group by group give the same tables in parts as at once."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline import large_tables
from pipeline.group import (
    assign_groups,
    assign_stored,
    describe_groups,
    observe,
    sort_by_group,
)
from pipeline.large_tables import LargeTable, Stage, each_part, groups_of, rows_of
from pipeline.settings import GroupSettings
from pipeline.tables import JOBS

SETTINGS = GroupSettings(template=("user", "queue"))


def flagged_jobs(n_jobs: int = 3000) -> pa.Table:
    """Jobs of forty users in two queues, a tenth of them set aside, and some without user and queue."""
    rng = np.random.default_rng(5)
    user = np.where(rng.random(n_jobs) < 0.05, None, np.char.add("u", rng.integers(0, 40, n_jobs).astype(str)))
    queue = np.where(user == None, None, np.where(rng.random(n_jobs) < 0.5, "a", "b"))  # noqa: E711
    submit_s = 1_700_000_000 + np.cumsum(rng.integers(1, 500, n_jobs))
    runtime_s = np.where(rng.random(n_jobs) < 0.5, 100.0, 5000.0) * rng.lognormal(0, 0.05, n_jobs)
    return JOBS.build(
        site=["s"] * n_jobs, job_id=[str(row) for row in range(n_jobs)], restart=np.zeros(n_jobs, np.int64),
        user=user.tolist(), queue=queue.tolist(), submit_s=submit_s, start_s=submit_s + 5,
        end_s=submit_s + 5 + runtime_s.astype(np.int64), runtime_s=runtime_s, procs=2 ** rng.integers(0, 5, n_jobs),
        state=["COMPLETED"] * n_jobs, is_lower_bound=rng.random(n_jobs) < 0.1, source_file=["log"] * n_jobs,
        source_line=np.arange(1, n_jobs + 1),
        flag=np.where(rng.random(n_jobs) < 0.1, "hang", None).tolist(),
    )  # fmt: skip


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_tables, "PART_ROWS", 211)


def sorted_at_once() -> LargeTable:
    return sort_by_group(assign_groups(flagged_jobs(), SETTINGS)[0], SETTINGS, None)[0]


@pytest.mark.usefixtures("small_parts")
def test_groups_are_assigned_part_by_part(tmp_path: Path) -> None:
    jobs, report = assign_stored(flagged_jobs(), SETTINGS, tmp_path)
    expected, expected_report = assign_groups(flagged_jobs(), SETTINGS)
    assert rows_of(jobs).to_pylist() == expected.to_pylist()
    assert report.facts == expected_report.facts
    assert {k: v.rows for k, v in report.set_aside.items()} == {k: v.rows for k, v in expected_report.set_aside.items()}


def test_a_column_that_only_one_part_has_is_not_called_empty(small_parts: None, tmp_path: Path) -> None:
    jobs = flagged_jobs()
    queue = pa.array([None] * 2900 + ["late"] * 100, pa.string())
    field = JOBS.schema().field("queue")
    jobs = jobs.set_column(jobs.column_names.index("queue"), field, queue.dictionary_encode().cast(field.type))
    assert not assign_stored(jobs, SETTINGS, tmp_path)[1].notes
    assert assign_stored(jobs.slice(0, 2000), SETTINGS, tmp_path)[1].notes


def test_jobs_sorted_on_disk_are_those_sorted_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = rows_of(sorted_at_once())
    ids = expected.column("group_id").to_pylist()
    assert ids == sorted(ids)
    grouped, _ = assign_stored(flagged_jobs(), SETTINGS, tmp_path)
    for n_rows in (100, 999, 5000):
        monkeypatch.setattr(large_tables, "PART_ROWS", n_rows)
        found, report = sort_by_group(grouped, SETTINGS, tmp_path)
        assert rows_of(found).to_pylist() == expected.to_pylist()
        assert report.kept.rows == expected.num_rows
        assert {path.name for path in tmp_path.iterdir()} == {"jobs.parquet", "grouped_jobs.parquet"}


@pytest.mark.parametrize("n_rows", [1, 50, 400, 100_000])
def test_a_part_holds_whole_groups(monkeypatch: pytest.MonkeyPatch, n_rows: int) -> None:
    grouped = sorted_at_once()
    monkeypatch.setattr(large_tables, "PART_ROWS", n_rows)
    parts = [part.column("group_id").to_pylist() for part in groups_of(grouped)]
    assert [name for part in parts for name in part] == rows_of(grouped).column("group_id").to_pylist()
    of_parts = [set(part) for part in parts]
    assert sum(map(len, of_parts)) == len(set().union(*of_parts))


@pytest.mark.parametrize(
    "stage",
    [observe, lambda part: describe_groups(part, SETTINGS)],
    ids=["observe", "describe"],
)
def test_a_stage_in_parts_gives_what_it_gives_at_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    grouped = sorted_at_once()
    expected, expected_report = stage(rows_of(grouped))
    monkeypatch.setattr(large_tables, "PART_ROWS", 100)
    found, report = each_part(grouped, stage)
    assert found.num_rows and found.to_pylist() == expected.to_pylist()
    assert report.facts == expected_report.facts
    assert (report.seen.rows, report.kept.rows) == (expected_report.seen.rows, expected_report.kept.rows)


def test_a_log_without_groups_gives_empty_tables(tmp_path: Path) -> None:
    jobs, _ = assign_groups(flagged_jobs(0), SETTINGS)
    grouped, _ = sort_by_group(jobs, SETTINGS, tmp_path)
    assert each_part(grouped, observe)[0].num_rows == 0
