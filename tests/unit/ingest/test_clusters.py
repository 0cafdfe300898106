"""Jobs of several clusters in one accounting may share an id: none is lost, and none is taken for a restart."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.clean import clean
from pipeline.estimate.history import history
from pipeline.estimate.state import ids_of
from pipeline.ingest import OnDisk, ingest
from pipeline.settings import CleanSettings, IngestSettings, SiteSettings
from pipeline.storage import read_table
from pipeline.tables import JOBS

NAMES = "JobID|JobName|User|Cluster|Partition|Submit|Start|End|ElapsedRaw|AllocCPUS|State|ExitCode|MaxRSS"
ALPHA_RUNS = "101|relax|ann|alpha|cpu|2026-03-02T08:00:00|2026-03-02T08:05:00|Unknown|3600|16|RUNNING|0:0|"
ALPHA = "101|relax|ann|alpha|cpu|2026-03-02T08:00:00|2026-03-02T08:05:00|2026-03-02T09:05:00|3600|16|COMPLETED|0:0|"
STEP = "101.0|relax||alpha||2026-03-02T08:05:00|2026-03-02T08:05:00|2026-03-02T09:05:00|3600|16|COMPLETED|0:0|4096K"
BETA = "101|fold|bob|beta|gpu|2026-03-02T08:00:00|2026-03-02T08:01:00|2026-03-02T08:31:00|1800|4|FAILED|1:0|"
TWINS = [
    f"102|relax|ann|{name}|cpu|2026-03-02T09:00:00|2026-03-02T09:05:00|2026-03-02T10:05:00|3600|16|COMPLETED|0:0|"
    for name in ("alpha", "beta")
]


def read(folder: Path, lines: list[str], earlier: Path | None = None, to: OnDisk | None = None) -> tuple[Any, Any]:
    log = folder / "dump.txt"
    log.write_text("\n".join([NAMES, *lines]) + "\n")
    jobs, _, report = ingest([log], SiteSettings(), IngestSettings(), earlier, to=to)
    return jobs, report


def named(jobs: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in jobs.select(["cluster", "job_id", "restart", "user"]).to_pylist()]


def without_cluster(line: str) -> str:
    cells = line.split("|")
    return "|".join([*cells[:3], *cells[4:]])


def test_two_clusters_with_equal_ids_lose_nothing(tmp_path: Path) -> None:
    jobs, report = read(tmp_path, [ALPHA_RUNS, BETA, *TWINS])
    assert named(jobs) == [
        ("alpha", "101", 0, "ann"), ("beta", "101", 0, "bob"), ("alpha", "102", 0, "ann"), ("beta", "102", 0, "ann"),
    ]  # fmt: skip
    assert report.set_aside["superseded"].rows == 0
    assert any("jobs of 2 clusters" in note and "alpha (2), beta (2)" in note for note in report.notes)
    flagged, *_ = clean(jobs, CleanSettings())
    assert flagged.column("flag").null_count == 4


@pytest.mark.parametrize("order", [(ALPHA, STEP, BETA), (STEP, ALPHA, BETA), (ALPHA, BETA, STEP), (BETA, STEP, ALPHA)])
def test_a_step_is_that_of_its_own_cluster(tmp_path: Path, order: tuple[str, ...]) -> None:
    jobs, _ = read(tmp_path, list(order))
    assert named(jobs) == [("alpha", "101", 0, "ann"), ("beta", "101", 0, "bob")]
    assert jobs.column("max_rss_kib").to_pylist() == [4096.0, None]


def test_the_clusters_of_json_are_told_apart_too(tmp_path: Path) -> None:
    def job(cluster: str, user: str) -> dict[str, Any]:
        times = {"elapsed": 60, "submission": 1_772_438_400, "start": 1_772_438_700, "end": 1_772_438_760}
        return {
            "job_id": 101, "cluster": cluster, "user": user, "state": {"current": ["COMPLETED"]}, "time": times,
            "steps": [{"step": {"id": "0"}, "tres": {"requested": {"max": [{"type": "mem", "count": 1 << 20}]}}}],
        }  # fmt: skip

    (tmp_path / "dump.json").write_text(json.dumps({"jobs": [job("alpha", "ann"), job("beta", "bob")]}))
    jobs, _, report = ingest([tmp_path / "dump.json"], SiteSettings(), IngestSettings())
    assert named(jobs) == [("alpha", "101", 0, "ann"), ("beta", "101", 0, "bob")]
    assert jobs.column("max_rss_kib").to_pylist() == [1024.0, 1024.0]
    assert any("jobs of 2 clusters" in note for note in report.notes)


def test_a_later_dump_of_both_clusters_changes_each_job_by_its_own_record(tmp_path: Path) -> None:
    out = tmp_path / "jobs.parquet"
    read(tmp_path, [ALPHA_RUNS, BETA, *TWINS], to=OnDisk(out))
    read(tmp_path, [ALPHA, BETA], earlier=out, to=OnDisk(out))
    jobs = read_table(out, JOBS)
    assert len(jobs) == 4
    assert [row["state"] for row in jobs.to_pylist()] == ["COMPLETED", "FAILED", "COMPLETED", "COMPLETED"]
    again, *_ = ingest([out], SiteSettings(), IngestSettings())
    assert named(again) == named(jobs)


def test_a_dump_without_the_column_names_the_same_jobs(tmp_path: Path) -> None:
    """Where the other records of an id name one cluster, an unknown one is that: also in an earlier table."""
    out = tmp_path / "jobs.parquet"
    log = tmp_path / "plain.txt"
    lines = [NAMES, ALPHA_RUNS, TWINS[0]]
    log.write_text("\n".join(map(without_cluster, lines)) + "\n")
    ingest([log], SiteSettings(), IngestSettings(), to=OnDisk(out))
    assert {name for name, *_ in named(read_table(out, JOBS))} == {None}
    read(tmp_path, [ALPHA, TWINS[0]], earlier=out, to=OnDisk(out))
    assert named(read_table(out, JOBS)) == [("alpha", "101", 0, "ann"), ("alpha", "102", 0, "ann")]
    ingest([log], SiteSettings(), IngestSettings(), out, to=OnDisk(out))
    assert named(read_table(out, JOBS)) == [("alpha", "101", 0, "ann"), ("alpha", "102", 0, "ann")]


def test_a_state_tells_the_clusters_apart(tmp_path: Path) -> None:
    jobs, _ = read(tmp_path, [ALPHA, BETA, *TWINS])
    ids = ids_of(jobs, history(jobs))
    assert len(ids) == len(set(ids)) == 4
