"""SWF lines whose meaning could be mistaken: a damaged status, a cut last line, the fields of a dialect."""

import gzip
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings
from tests.unit.ingest.logs import ROW, UNIX_START, read, row

STANDARD = "".join(row(job_id=i, status=1 if i % 5 else 0) + "\n" for i in range(1, 401))
CODES = "".join(row(job_id=1000 + i, status=(0, 0, 0, 1, 0, 2, 0, 139)[i % 8]) + "\n" for i in range(400))


def test_one_wrong_status_changes_no_other_job(tmp_path: Path) -> None:
    log = STANDARD + row(job_id=999, status=77) + "\n"
    jobs, _, report = read(tmp_path, log)
    states = jobs["state"].to_pylist()
    assert (states.count("COMPLETED"), states.count("FAILED"), states.count("77")) == (320, 80, 1)
    assert jobs["exit_code"].null_count == jobs.num_rows
    (note,) = [note for note in report.notes if "status" in note]
    assert note.startswith(
        "1 status values of 0.swf lie outside -1 to 5: the others say that the field is the standard"
    )


def test_the_meaning_of_status_is_decided_for_each_file(tmp_path: Path) -> None:
    jobs, _, report = read(tmp_path, STANDARD, CODES)
    found = jobs.to_pylist()
    assert {job["state"] for job in found if int(job["job_id"]) < 1000 and job["exit_code"] is None} == {
        "COMPLETED", "FAILED",
    }  # fmt: skip
    codes = {(job["state"], job["exit_code"]) for job in found if int(job["job_id"]) >= 1000}
    assert codes == {("COMPLETED", 0), ("FAILED", 1), ("FAILED", 2), ("FAILED", 139)}
    assert any(
        "50 status values of 1.swf lie outside -1 to 5: the field is read as an exit code" in n for n in report.notes
    )
    assert any("exit code in 1 files and as the standard status in 1" in note for note in report.notes)


def test_a_standard_log_of_many_wrong_statuses_stays_standard(tmp_path: Path) -> None:
    wrong = "".join(row(job_id=900 + i, status=99) + "\n" for i in range(40))
    jobs, _, _ = read(tmp_path, STANDARD + wrong)
    assert jobs["state"].to_pylist().count("COMPLETED") == 320


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_last_line_without_a_line_end_is_set_aside_until_it_is_whole(tmp_path: Path, is_packed: bool) -> None:
    def log(text: str) -> bytes:
        return gzip.compress(text.encode()) if is_packed else text.encode()

    first, last = row(job_id=1) + "\n", row(job_id=2, think_s=36)
    jobs, unreadable, report = read(tmp_path, log(first + last[:-1]))
    assert jobs["job_id"].to_pylist() == ["1"]
    assert unreadable["reason"].to_pylist() == ["no_line_end"]
    assert unreadable["source_line"].to_pylist() == [2]
    assert any('ingest.last_line = "take"' in note for note in report.notes)
    jobs, unreadable, _ = read(tmp_path, log(first + last + "\n"))
    assert (jobs["think_s"].to_pylist(), unreadable.num_rows) == ([9.0, 36.0], 0)
    jobs, unreadable, _ = read(tmp_path, log(first + last), last_line="take")
    assert (jobs["think_s"].to_pylist(), unreadable.num_rows) == ([9.0, 36.0], 0)


@pytest.mark.parametrize("last", [row(job_id=2, think_s=-1), row(job_id=2) + " ", row(job_id=2) + "\r"])
def test_a_last_line_that_is_surely_whole_needs_no_line_end(tmp_path: Path, last: str) -> None:
    jobs, unreadable, _ = read(tmp_path, row(job_id=1) + "\n" + last)
    assert (jobs.num_rows, unreadable.num_rows) == (2, 0)


def test_every_cut_of_a_log_gives_only_values_of_its_whole_lines(tmp_path: Path) -> None:
    log = (
        UNIX_START + row(job_id=11) + " {8} q_long 1:ppn=1\n" + row(job_id=12, think_s=123) + " {7,7} q_long 2:ppn=12\n"
    )
    whole = {job["job_id"]: job for job in read(tmp_path, log)[0].to_pylist()}
    for cut in range(len(UNIX_START) + 5, len(log)):
        try:
            jobs, *_ = read(tmp_path, log[:cut])
        except InputError:
            continue
        for job in jobs.to_pylist():
            assert all(value in (None, whole[job["job_id"]][name]) for name, value in job.items())


def test_a_log_that_is_one_open_line_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no job in 1 lines, and a last line without a line end.* ingest.last_line"):
        read(tmp_path, ROW)
    jobs, unreadable, _ = read(tmp_path, ROW, row(job_id=8) + "\n")
    assert (jobs["job_id"].to_pylist(), unreadable["reason"].to_pylist()) == (["8"], ["no_line_end"])


def test_fields_behind_the_standards_are_read_where_the_settings_name_them(tmp_path: Path) -> None:
    text = f"{row(cpu_s=300)} 8 3600 all:excl:2x4\n{row(job_id=8)} 0 60 normal\n{row(job_id=9)} -1 60 all\n"
    jobs, _, report = read(tmp_path, text, columns={"gpus": 19, "cpu_s": 0})
    assert (jobs["gpus"].to_pylist(), jobs["cpu_s"].null_count) == ([8, 0, None], 3)
    assert any("3 lines have more than 18 fields" in note for note in report.notes)
    assert read(tmp_path, text)[0]["gpus"].null_count == 3


def test_damaged_gzip_is_one_clear_sentence(tmp_path: Path) -> None:
    packed = gzip.compress(STANDARD.encode())
    with pytest.raises(InputError, match=r"0.swf, line \d+: found a compressed file that ends in the middle"):
        read(tmp_path, packed[: len(packed) // 2])
    broken = packed[:60] + bytes(40) + packed[100:]
    with pytest.raises(InputError, match=r"0.swf, line \d+: found compressed data that is damaged"):
        read(tmp_path, broken)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_one_clear_sentence(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(STANDARD.encode(encoding))
    with pytest.raises(
        InputError, match=r"^log, line 1: found text in UTF-16, expected text in UTF-8 or ASCII; convert"
    ):
        ingest([path], SiteSettings(name="s"), IngestSettings(format="swf"))


def test_a_file_of_zeros_is_one_clear_sentence(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(5000))
    with pytest.raises(
        InputError, match=r"^log, line 1: found nothing but zero bytes in its first 5000, expected a log"
    ):
        ingest([path], SiteSettings(name="s"), IngestSettings())
