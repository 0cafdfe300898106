"""Exports that drop array indices give one job id to every task: each stays a job, however often it is read."""

import json
from pathlib import Path

import pyarrow.parquet as pq
from typer.testing import CliRunner

from flows.cli.typer_app import application

HEADER = "JobIDRaw|JobName|User|State|Submit|Start|End|ElapsedRaw|AllocCPUS"


def line(start: int, end: int | None, state: str = "COMPLETED") -> str:
    ended = f"2026-01-01T10:00:{end:02d}" if end is not None else "Unknown"
    elapsed = (end or start) - start
    return f"7|task|ada|{state}|2026-01-01T10:00:00|2026-01-01T10:00:{start:02d}|{ended}|{elapsed}|1"


def ingested(tmp_path: Path, lines: list[str], *options: str) -> tuple[list[dict[str, object]], dict[str, object]]:
    log, out = tmp_path / "log.txt", tmp_path / "jobs.parquet"
    log.write_text("\n".join([HEADER, *lines]) + "\n")
    done = CliRunner().invoke(application(), ["ingest", str(log), "--out", str(out), "--json", *options])
    assert done.exit_code == 0, done.output
    return pq.read_table(out).to_pylist(), json.loads(done.stdout)["report"]


TASKS = [line(1, 20), line(1, 30), line(5, 30), line(6, 31)]


def test_tasks_that_share_an_id_and_a_submit_stay_apart(tmp_path: Path) -> None:
    jobs, report = ingested(tmp_path, TASKS)
    assert [job["runtime_s"] for job in jobs] == [19.0, 29.0, 25.0, 25.0]
    assert [job["restart"] for job in jobs] == [0, 1, 2, 3]
    assert report["set_aside"]["superseded"]["rows"] == 0


def test_one_record_read_twice_is_one_job(tmp_path: Path) -> None:
    jobs, report = ingested(tmp_path, [*TASKS, TASKS[1]])
    assert len(jobs) == 4 and report["set_aside"]["superseded"]["rows"] == 1


def test_a_running_record_gives_way_to_the_ended_one(tmp_path: Path) -> None:
    jobs, _ = ingested(tmp_path, [line(1, None, "RUNNING"), line(1, 20)])
    assert [(job["state"], job["runtime_s"]) for job in jobs] == [("COMPLETED", 19.0)]


def test_an_update_with_the_same_tasks_changes_nothing(tmp_path: Path) -> None:
    first, _ = ingested(tmp_path, TASKS)
    again, _ = ingested(tmp_path, TASKS, "--update")
    assert again == first


def test_a_lone_record_whose_end_was_corrected_replaces_the_old_one(tmp_path: Path) -> None:
    ingested(tmp_path, [line(1, 20)])
    jobs, report = ingested(tmp_path, [line(1, 25)], "--update")
    assert [job["runtime_s"] for job in jobs] == [24.0]
    assert report["facts"]["changed_jobs"] == 1
