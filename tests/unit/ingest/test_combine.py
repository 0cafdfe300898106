"""One record read twice, one number borne twice, and the order of rows."""

from pathlib import Path

import pyarrow as pa

from tests.unit.ingest.logs import UNIX_START, read, row


def test_overlapping_logs_count_a_record_once(tmp_path: Path) -> None:
    lines = [row(job_id=i, submit_s=i) + "\n" for i in range(1, 6)]
    jobs, _, report = read(tmp_path, UNIX_START + "".join(lines[:4]), UNIX_START + "".join(lines[2:]))
    assert jobs["job_id"].to_pylist() == ["1", "2", "3", "4", "5"]
    assert set(jobs["restart"].to_pylist()) == {0}
    superseded = report.set_aside["superseded"]
    assert (superseded.rows, superseded.proc_s) == (2, 2 * 16 * 300)
    assert report.seen.proc_s == 7 * 16 * 300
    assert any("2 records were read before" in note for note in report.notes)


def test_the_later_ending_reading_wins_whichever_comes_first(tmp_path: Path) -> None:
    running, done = row(runtime_s=-1, status=-1, queue=9) + "\n", row(runtime_s=300, status=1, queue=1) + "\n"
    for logs in ((running, done), (done, running), (running + done,), (done + running,)):
        jobs, _, report = read(tmp_path, *logs)
        assert (jobs["runtime_s"].to_pylist(), jobs["state"].to_pylist()) == ([300.0], ["COMPLETED"])
        assert report.set_aside["superseded"].rows == 1


def test_jobs_that_share_a_number_are_both_kept(tmp_path: Path) -> None:
    jobs, _, report = read(tmp_path, f"{row(submit_s=90)}\n{row(submit_s=50)}\n{row(submit_s=50, user=77)}\n")
    rows = [(job["submit_s"], job["user"], job["restart"]) for job in jobs.to_pylist()]
    assert sorted(rows) == [(50, "5", 0), (50, "77", 1), (90, "5", 2)]
    assert report.set_aside["superseded"].rows == 0
    assert any("1 job ids stand for several jobs" in note for note in report.notes)


def test_unknown_submits_come_last(tmp_path: Path) -> None:
    jobs, _, _ = read(tmp_path, f"{row(job_id=1, submit_s=-1)}\n{row(job_id=2, submit_s=3)}\n")
    assert jobs["job_id"].to_pylist() == ["2", "1"]


def test_categories_are_sorted_and_hold_only_what_is_there(tmp_path: Path) -> None:
    jobs, _, _ = read(
        tmp_path, row(job_id=1, user=30) + "\n", row(job_id=2, user=4) + "\n" + row(job_id=1, user=30) + "\n"
    )
    users = jobs["user"].combine_chunks()
    users = users.chunk(0) if isinstance(users, pa.ChunkedArray) else users
    assert users.dictionary.to_pylist() == ["30", "4"]
