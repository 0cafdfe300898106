"""Array tasks on their way through several exports: what stands for tasks yet to start, which order, what is unsure."""

from pathlib import Path

from tests.unit.ingest.test_shared_ids import TASKS, ingested, line

WAITING = "7_[8-99]|task|ada|PENDING|2026-01-01T10:00:00|Unknown|Unknown|0|1"
STARTED = "7_8|task|ada|RUNNING|2026-01-01T10:00:00|2026-01-01T10:00:05|Unknown|30|1"
STILL_WAITING = WAITING.replace("7_[8-99]", "7_[9-99]")
OTHER = "900|other|ada|COMPLETED|2026-01-01T10:00:00|2026-01-01T10:00:05|2026-01-01T10:00:35|30|1"


def test_a_placeholder_goes_once_its_tasks_start(tmp_path: Path) -> None:
    ingested(tmp_path, [WAITING])
    jobs, report = ingested(tmp_path, [STARTED, STILL_WAITING], "--update")
    assert [job["job_id"] for job in jobs] == ["7_8", "7_[9-99]"]
    assert report["facts"]["vanished_jobs"] == 0
    assert report["set_aside"]["superseded"]["rows"] == 1


def test_a_placeholder_goes_with_its_last_task(tmp_path: Path) -> None:
    ingested(tmp_path, [STILL_WAITING])
    jobs, _ = ingested(tmp_path, [STARTED, OTHER], "--update")
    assert [job["job_id"] for job in jobs] == ["7_8", "900"]


def test_a_placeholder_stays_while_it_waits_or_where_nothing_tells_of_its_array(tmp_path: Path) -> None:
    ingested(tmp_path, [WAITING])
    same, report = ingested(tmp_path, [WAITING, OTHER], "--update")
    assert [job["job_id"] for job in same] == ["7_[8-99]", "900"] and report["facts"]["unchanged_jobs"] == 1
    _, report = ingested(tmp_path, [OTHER], "--update")
    assert report["facts"]["vanished_jobs"] == 1 and report["kept"]["rows"] == 2


def test_ids_sort_by_their_numbers(tmp_path: Path) -> None:
    lines = [OTHER.replace("900", job_id, 1) for job_id in ("10", "9_10", "9", "9_2", "100_1", "9_[11-20]")]
    jobs, _ = ingested(tmp_path, lines)
    ids = [job["job_id"] for job in jobs]
    assert [job_id for job_id in ids if job_id[0] == "9" and "[" not in job_id] == ["9", "9_2", "9_10"]
    assert ids.index("9_10") < ids.index("10") < ids.index("100_1")


def test_records_that_agree_in_all_but_share_their_id_are_said_to_be_unsure(tmp_path: Path) -> None:
    _, report = ingested(tmp_path, [*TASKS, TASKS[1]])
    assert report["facts"]["indistinct_records"] == 1
    assert any("cannot be told" in note and "JobID" in note for note in report["notes"])


def test_a_log_read_twice_leaves_no_doubt(tmp_path: Path) -> None:
    _, report = ingested(tmp_path, [line(1, 20), line(1, 20)])
    assert report["facts"]["indistinct_records"] == 0
    assert not [note for note in report["notes"] if "cannot be told" in note]
