"""Every field, dialect and trap of the Standard Workload Format, each in a log small enough to read."""

from pathlib import Path

import pytest

from pipeline.errors import ConfigError, InputError
from pipeline.ingest.sources import MAX_LINE_BYTES
from pipeline.tables import JOBS, UNREADABLE
from tests.unit.ingest.logs import ROW, UNIX_START, only, read, row


def test_each_field_goes_to_its_column(tmp_path: Path) -> None:
    job = only(tmp_path, ROW)
    assert {name: value for name, value in job.items() if value is not None} == {
        "site": "here", "job_id": "7", "restart": 0, "submit_s": 1050, "start_s": 1070, "end_s": 1370,
        "runtime_s": 300.0, "procs": 16, "cpu_s": 250.0, "used_mem_kib": 2048.0, "requested_procs": 32,
        "requested_s": 600.0, "requested_mem_kib": 4096.0, "requested_memory": "4MiB/processor",
        "state": "COMPLETED", "user": "5", "user_group": "6",
        "application": "8", "queue": "3", "partition": "2", "preceding_job_id": "4", "think_s": 9.0,
        "source_file": "0.swf", "source_line": 2,
    }  # fmt: skip


def test_tables_and_report_are_as_declared(tmp_path: Path) -> None:
    jobs, unreadable, report = read(
        tmp_path, f"{UNIX_START}; MaxProcs: 64 (of 66)\n; Computer: A\n{ROW}\n\nsome text\n"
    )
    assert JOBS.check(jobs).schema == JOBS.schema()
    assert UNREADABLE.check(unreadable).num_rows == 1
    assert (report.check().seen.rows, report.kept.rows, report.kept.proc_s) == (6, 1, 16 * 300)
    assert {reason: tally.rows for reason, tally in report.set_aside.items()} == {
        "blank": 1, "comment": 3, "superseded": 0, "not_a_number": 1,
    }  # fmt: skip
    facts = {"files": 1, "jobs": 1, "max_procs": 64, "computer": "A", "first_submit_s": 1050, "last_submit_s": 1050}
    assert facts.items() <= report.facts.items()


def test_minus_one_is_null_in_every_field_but_the_job_number(tmp_path: Path) -> None:
    job = only(tmp_path, "7" + " -1" * 17)
    known = {"site", "job_id", "restart", "source_file", "source_line"}
    assert {name for name, value in job.items() if value is not None} == known


@pytest.mark.parametrize("missing", ["-1", "-1.0", "-1.00", "-01", "-1e0"])
def test_minus_one_is_null_however_it_is_written(tmp_path: Path, missing: str) -> None:
    job = only(tmp_path, row(runtime_s=missing, procs=missing, cpu_s=missing))
    assert (job["runtime_s"], job["procs"], job["cpu_s"], job["end_s"]) == (None, None, None, None)


def test_other_negative_numbers_stay_for_clean_to_flag(tmp_path: Path) -> None:
    job = only(tmp_path, row(runtime_s=-40, wait_s=-5, procs=-2, cpu_s=-0.5))
    assert (job["runtime_s"], job["start_s"], job["end_s"], job["procs"], job["cpu_s"]) == (-40, 1045, 1005, -2, -0.5)


@pytest.mark.parametrize("text", ["; text\n", ""])
def test_durations_keep_fractions_and_instants_floor(tmp_path: Path, text: str) -> None:
    line = row(submit_s="50.75", wait_s="0.5", runtime_s="300.9", procs="16.5", cpu_s="1e3")
    jobs, _, report = read(tmp_path, f"{UNIX_START}{line}\n{text}")
    job = jobs.to_pylist()[0]
    assert (job["submit_s"], job["start_s"], job["end_s"]) == (1050, 1051, 1352)
    assert (job["runtime_s"], job["procs"], job["cpu_s"]) == (300.9, 16, 1000.0)
    assert any("3 instants, counts or ids" in note for note in report.notes)


def test_between_minus_one_and_zero_is_no_null(tmp_path: Path) -> None:
    assert only(tmp_path, row(wait_s="-0.5", cpu_s="-0.25"))["cpu_s"] == -0.25
    assert only(tmp_path, row(wait_s="-0.5"))["start_s"] == 1049


@pytest.mark.parametrize("written", ["250", "250.", "+250", "2.5e2", "2500E-1", "0250", "250.000", ".25e+3"])
def test_a_number_may_be_written_in_many_ways(tmp_path: Path, written: str) -> None:
    assert only(tmp_path, row(cpu_s=written, procs=written))["cpu_s"] == 250.0
    assert only(tmp_path, row(cpu_s=written, procs=written))["procs"] == 250


@pytest.mark.parametrize(
    "written",
    [
        "0.1",
        "123456789.123456789",
        "0.30000000000000004",
        "9007199254740993.5",
        "1.5e-23",
        "5e-300",
        "99999999999999999.9",
    ],
)
def test_fractions_round_as_python_rounds_them(tmp_path: Path, written: str) -> None:
    assert only(tmp_path, row(cpu_s=written), "; x\n;\n")["cpu_s"] == float(written)
    assert only(tmp_path, row(cpu_s=written, procs="+16"))["cpu_s"] == float(written)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Connection to host closed.", "not_a_number"),
        (row(runtime_s="n/a"), "not_a_number"),
        (row(runtime_s="-"), "not_a_number"),
        (row(runtime_s="1.2.3"), "not_a_number"),
        (row(runtime_s="1e"), "not_a_number"),
        (row(runtime_s="0x10"), "not_a_number"),
        (row(runtime_s="nan"), "not_a_number"),
        (row(procs="1-2"), "not_a_number"),
        ("\0\0\0" + ROW, "nul_bytes"),
        (row(user="1000000000000000000"), "number_too_large"),
        (row(user="-1000000000000000000"), "number_too_large"),
        (row(runtime_s="1e18"), "number_too_large"),
        (row(runtime_s="99999999999999999999999"), "number_too_large"),
        ("8 50 20 300", "too_few_fields"),
        (" ".join(ROW.split()[:17]), "too_few_fields"),
        (row(job_id=-1), "no_job_number"),
        (ROW + " " * MAX_LINE_BYTES, "line_too_long"),
    ],
)
def test_an_unreadable_line_is_set_aside_with_its_place_and_reason(tmp_path: Path, line: str, reason: str) -> None:
    text = f"{ROW}\n{line}\n{row(job_id=9)}\n"
    jobs, unreadable, report = read(tmp_path, text)
    assert jobs["source_line"].to_pylist() == [1, 3]
    found = unreadable.to_pylist()[0]
    assert (found["source_file"], found["source_line"], found["reason"]) == ("0.swf", 2, reason)
    assert found["byte_offset"] == len(ROW) + 1
    assert found["raw"] == line[:500]
    assert report.set_aside[reason].rows == 1
    note = next(note for note in report.notes if "unreadable" in note)
    assert "0.swf, line 2: found" in note
    assert "expected SWF" in note


def test_the_largest_numbers_are_read(tmp_path: Path) -> None:
    most = 10**18 - 1
    job = only(tmp_path, row(job_id=most, submit_s=most, wait_s=most, runtime_s=most, user=most))
    assert (job["job_id"], job["submit_s"], job["end_s"], job["user"]) == (
        str(most),
        most + 1000,
        3 * most + 1000,
        str(most),
    )


def test_a_duration_past_2_to_the_53_still_ends_to_the_second(tmp_path: Path) -> None:
    job = only(tmp_path, row(submit_s=0, wait_s=0, runtime_s=2**53 + 1))
    assert job["end_s"] == 1000 + 2**53 + 1


def test_strict_stops_at_the_first_unreadable_line(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, f"{ROW}\n\x1b[31mred\n", max_damaged=0)
    assert str(caught.value).startswith("0.swf, line 2: found not a number in '\\x1b[31mred', expected")


def test_fewer_fields_are_null_where_the_whole_log_has_fewer(tmp_path: Path) -> None:
    jobs, unreadable, report = read(tmp_path, "1 50 20 300 16\n2 50 20 300 16\n3 50 20 300\n")
    assert (jobs.num_rows, unreadable["reason"].to_pylist()) == (2, ["too_few_fields"])
    assert (jobs["cpu_s"].null_count, jobs["user"].null_count, jobs["procs"].to_pylist()) == (2, 2, [16, 16])
    assert any("2 lines have fewer than 18 fields" in note for note in report.notes)


def test_more_fields_are_left_alone(tmp_path: Path) -> None:
    jobs, _, report = read(tmp_path, f"{ROW} {{1,2}} q_long\n{row(job_id=8)} 19 20\n")
    assert jobs["think_s"].to_pylist() == [9.0, 9.0]
    assert any("2 lines have more than 18 fields" in note for note in report.notes)


@pytest.mark.parametrize(
    "text",
    [
        (UNIX_START + ROW + "\n").replace("\n", "\r\n"),
        "\ufeff" + UNIX_START + ROW + "\n",
        UNIX_START + ROW.replace(" ", "\t") + "\n",
        UNIX_START + "   " + ROW.replace(" ", "  \t ") + " \t \n",
        UNIX_START + ROW + " ; a remark\n",
    ],
    ids=["CRLF", "byte order mark", "tabs", "runs of blanks", "a remark after the fields"],
)
def test_layout_does_not_matter(tmp_path: Path, text: str) -> None:
    jobs, _, _ = read(tmp_path, text, UNIX_START + row(job_id=8) + "\n")
    first, second = (dict(job, job_id=None, source_file=None) for job in jobs.to_pylist())
    assert first == second


def test_comments_in_mid_file_and_blank_lines_keep_line_numbers_right(tmp_path: Path) -> None:
    jobs, _, report = read(tmp_path, f"{UNIX_START}{ROW}\n  ; pause \xff\n\n \t\n{row(job_id=8)}\n;end")
    assert jobs["source_line"].to_pylist() == [2, 6]
    assert (report.seen.rows, report.set_aside["comment"].rows, report.set_aside["blank"].rows) == (7, 3, 2)


def test_comments_may_be_latin_1_or_junk(tmp_path: Path) -> None:
    jobs, _, report = read(tmp_path, b";\x00\xff\xfe\n; Computer: Z\xfcrich\n" + ROW.encode() + b"\n")
    assert (jobs.num_rows, report.facts["computer"]) == (1, "Zürich")


def test_a_header_without_a_space_is_read(tmp_path: Path) -> None:
    _, _, report = read(tmp_path, f";Computer: A\n;  MaxNodes:12\n;MaxProcs:\t64\n{ROW}\n")
    assert (report.facts["computer"], report.facts["max_procs"]) == ("A", 64)


def test_times_count_from_the_unix_start_time(tmp_path: Path) -> None:
    for header, start in ((";UnixStartTime: 5 # junk\n", 5), ("; UnixStartTime: none\n", 0), ("", 0)):
        assert only(tmp_path, ROW, header)["submit_s"] == start + 50
    _, _, report = read(tmp_path, f"{ROW}\n")
    assert any("no UnixStartTime" in note and "1 jobs" in note for note in report.notes)


def test_a_second_header_holds_from_its_line_on(tmp_path: Path) -> None:
    joined = f"{UNIX_START}; Queue: 3 day\n{ROW}\n; UnixStartTime: 9000\n; Queue: 3 night\n{row(job_id=8)}\n"
    jobs, _, _ = read(tmp_path, joined)
    assert jobs["submit_s"].to_pylist() == [1050, 9050]
    assert jobs["queue"].to_pylist() == ["day", "night"]


def test_queues_and_partitions_have_the_names_the_header_gives(tmp_path: Path) -> None:
    header = (
        "; Queue:  1  fast  lane  (2 h / 8 nodes)\n; Queue: 2 batch (p655)\n; Queue: 3 batch (p690)\n; Queue: 4  \n"
        "; Queue: 5 0\n; Partition: 2 main\n"
    )
    text = header + "".join(row(job_id=q, submit_s=q, queue=q) + "\n" for q in range(1, 7))
    jobs, _, _ = read(tmp_path, text)
    assert jobs["queue"].to_pylist() == ["fast lane", "batch #2", "batch #3", "4", "5", "6"]
    assert set(jobs["partition"].to_pylist()) == {"main"}


def test_the_status_field_in_the_standards_words(tmp_path: Path) -> None:
    text = "".join(row(job_id=i, submit_s=i, status=status) + "\n" for i, status in enumerate([-1, 0, 1, 5], 1))
    jobs, _, _ = read(tmp_path, text)
    assert jobs["state"].to_pylist() == [None, "FAILED", "COMPLETED", "CANCELLED"]
    assert jobs["exit_code"].null_count == 4


def test_the_status_field_as_an_exit_code(tmp_path: Path) -> None:
    text = "".join(row(job_id=i, submit_s=i, status=status) + "\n" for i, status in enumerate([-1, 0, 1, 2, 127], 1))
    jobs, _, report = read(tmp_path, text)
    assert jobs["state"].to_pylist() == [None, "COMPLETED", "FAILED", "FAILED", "FAILED"]
    assert jobs["exit_code"].to_pylist() == [None, 0, 1, 2, 127]
    assert any("exit code" in note for note in report.notes)
    jobs, _, report = read(tmp_path, text, swf_status="standard")
    assert jobs["state"].to_pylist() == [None, "FAILED", "COMPLETED", "PARTIAL", "127"]
    assert not any("exit code" in note for note in report.notes)
    jobs, _, _ = read(tmp_path, row(status=1) + "\n", swf_status="exit_code")
    assert (jobs["state"].to_pylist(), jobs["exit_code"].to_pylist()) == (["FAILED"], [1])


def test_partial_executions_follow_their_summary(tmp_path: Path) -> None:
    parts = [
        row(runtime_s=300, status=1),
        row(runtime_s=100, status=2),
        row(submit_s=-1, wait_s=10, runtime_s=110, status=2),
        row(submit_s=-1, wait_s=15, runtime_s=90, status=3),
    ]
    for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]):
        jobs, _, report = read(tmp_path, UNIX_START + "".join(parts[i] + "\n" for i in order))
        seen = sorted(zip(*(jobs[c].to_pylist() for c in ("restart", "runtime_s", "state", "submit_s")), strict=True))
        assert seen == [
            (0, 300.0, "COMPLETED", 1050), (1, 100.0, "PARTIAL", 1050),
            (2, 110.0, "PARTIAL", None), (3, 90.0, "PARTIAL", None),
        ]  # fmt: skip
        assert report.set_aside["superseded"].rows == 0


def test_submits_that_go_backwards_are_counted_and_sorted(tmp_path: Path) -> None:
    jobs, _, report = read(
        tmp_path, "".join(row(job_id=i, submit_s=s) + "\n" for i, s in ((1, 50), (2, 40), (3, 60), (4, 1)))
    )
    assert jobs["job_id"].to_pylist() == ["4", "2", "1", "3"]
    assert any("backwards 2 times" in note for note in report.notes)


def test_absent_wait_times_leave_starts_unknown(tmp_path: Path) -> None:
    jobs, _, report = read(tmp_path, row(wait_s=-1) + "\n")
    assert (jobs["start_s"].null_count, jobs["end_s"].null_count, jobs["runtime_s"].to_pylist()) == (1, 1, [300.0])
    assert any("no wait times" in note for note in report.notes)


def test_a_dialect_moves_fields(tmp_path: Path) -> None:
    job = only(tmp_path, ROW, columns={"requested_s": 6, "nodes": 5, "procs": 5})
    assert (job["requested_s"], job["cpu_s"], job["nodes"], job["procs"]) == (250.0, None, 16, 16)


@pytest.mark.parametrize("moved", [{"requested_time": 6}, {"requested_s": -1}, {"requested_s": 22}])
def test_a_dialect_that_cannot_be_is_a_config_error(tmp_path: Path, moved: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="columns"):
        read(tmp_path, ROW + "\n", columns=moved)


@pytest.mark.parametrize("n_lines", [1, 99, 100, 250])
def test_a_log_of_unreadable_lines_is_no_log(tmp_path: Path, n_lines: int) -> None:
    with pytest.raises(InputError, match=r"^0.swf, line 2: found not a number in 'to whom it"):
        read(tmp_path, ";\n" + "to whom it may concern\n" * n_lines)


def test_up_to_99_unreadable_lines_may_come_first(tmp_path: Path) -> None:
    jobs, unreadable, _ = read(tmp_path, "preamble\n" * 99 + ROW + "\n", max_damaged=1)
    assert (jobs.num_rows, unreadable.num_rows) == (1, 99)
    jobs, unreadable, _ = read(tmp_path, "preamble\n" * 60 + ROW + "\n" + "postscript\n" * 60, max_damaged=1)
    assert (jobs.num_rows, unreadable.num_rows) == (1, 120)
    with pytest.raises(InputError):
        read(tmp_path, "preamble\n" * 100 + ROW + "\n", max_damaged=1)


def test_a_log_without_a_job_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no job in 2 lines"):
        read(tmp_path, "; Version: 2.2\n\n")
    jobs, _, _ = read(tmp_path, "; Version: 2.2\n\n", ROW + "\n")
    assert jobs.num_rows == 1
