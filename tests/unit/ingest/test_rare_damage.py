"""What looks like damage is damage only where it is rare in its file, and messages of sacct are no jobs."""

from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.report import Report
from pipeline.settings import IngestSettings, SiteSettings

HEADER = "JobID|User|Submit|Start|End|ElapsedRaw|AllocCPUS|State|ReqMem|JobName"


def ended(number: int, user: str = "ann", group: str = "users", queue: str = "batch") -> str:
    """An E record of TORQUE whose job ran for an hour on 16 processors."""
    return (
        f"03/02/2026 09:05:00;E;{number}.srv;user={user} group={group} jobname=relax queue={queue} ctime=1772438400 "
        f"qtime=1772438400 etime=1772438400 start=1772438700 owner={user}@h1 exec_host=n1/0-15 "
        "Resource_List.walltime=02:00:00 end=1772442300 Exit_status=0 resources_used.cput=3000 "
        "resources_used.mem=5000kb resources_used.walltime=01:00:00\n"
    )


def row(number: int, memory: str = "4G", name: str = "relax") -> str:
    """A job's line in a dump of sacct."""
    times = "2026-03-02T08:00:00|2026-03-02T08:05:00|2026-03-02T09:05:00"
    return f"{number}|ann|{times}|3600|16|COMPLETED|{memory}|{name}"


def read(path: Path, text: str, **settings: object) -> tuple[list[dict[str, object]], list[str], Report]:
    """The jobs, the reasons of unreadable lines, and the report of a log with this text."""
    path.write_text(text)
    how = IngestSettings.model_validate(settings)
    jobs, unreadable, report = ingest([path], SiteSettings(name="s", timezone="UTC"), how)
    return jobs.to_pylist(), unreadable["reason"].to_pylist(), report


@pytest.mark.parametrize("column", ["user", "group", "queue"])
@pytest.mark.parametrize("name", ["CORP/bob", "Xy12/ab.Cd34E", "x/4Kd/9", "domain users", "a=b", "two  blanks here"])
def test_names_of_a_directory_service_or_of_a_hash_are_names(tmp_path: Path, column: str, name: str) -> None:
    lines = [ended(number, **{column: name if number % 2 else "plain"}) for number in range(1, 7)]
    jobs, reasons, _ = read(tmp_path / "20260302", "".join(lines))
    assert reasons == []
    of = {"group": "user_group"}.get(column, column)
    assert [job[of] for job in jobs] == [name, "plain"] * 3


def test_one_user_with_a_slash_among_many_keeps_the_job(tmp_path: Path) -> None:
    text = "".join(ended(number) for number in range(1, 200)) + ended(200, user="CORP/bob")
    jobs, reasons, _ = read(tmp_path / "20260302", text)
    assert (len(jobs), reasons, jobs[-1]["user"]) == (200, [], "CORP/bob")


@pytest.mark.parametrize("column", ["user", "group", "queue"])
def test_a_single_name_with_a_blank_among_many_without_may_be_two_parts(tmp_path: Path, column: str) -> None:
    text = "".join(ended(number) for number in range(1, 200)) + ended(200, **{column: "user123ser179 grers"})
    jobs, reasons, _ = read(tmp_path / "20260302", text)
    assert (len(jobs), reasons) == (199, ["cut_short"])


@pytest.mark.parametrize("column", ["user", "group", "queue"])
@pytest.mark.parametrize("name", ["bob gro.srv;user=bob", "bob.srv;user=bob", 'bob g"x=1'])
def test_a_record_that_begins_within_a_name_is_damage_however_often_it_does(
    tmp_path: Path, column: str, name: str
) -> None:
    lines = [ended(number, **{column: name if number < 6 else "plain"}) for number in range(1, 10)]
    jobs, reasons, _ = read(tmp_path / "20260302", "".join(lines), max_damaged=1)
    assert (len(jobs), reasons) == (4, ["cut_short"] * 5)


def queued(number: int, user: str) -> str:
    """A Q record of OpenPBS, with what names its user."""
    times = "ctime=1772438400 qtime=1772438400 etime=1772438400"
    return f"03/02/2026 08:00:00;Q;{number}.srv;{user} jobname=relax queue=batch {times} Resource_List.ncpus=4\n"


def test_a_name_that_swallowed_the_group_is_damage_though_it_comes_twice(tmp_path: Path) -> None:
    plain = "".join(queued(number, "user=ann group=users") for number in range(1, 60))
    jobs, reasons, _ = read(
        tmp_path / "damaged", plain + queued(60, "user=bob grousers") + queued(61, "user=bob grousers")
    )
    assert (len(jobs), reasons) == (59, ["cut_short"] * 2)
    names = ["user=bob smith group=users", "user=bob smith group=users", "user=cy"]
    jobs, reasons, _ = read(tmp_path / "whole", "".join(queued(number, name) for number, name in enumerate(names * 20)))
    assert (len(jobs), reasons) == (60, [])


def test_a_rare_name_that_comes_again_is_a_name_and_a_single_one_with_a_date_is_damage(tmp_path: Path) -> None:
    plain = "".join(ended(number) for number in range(1, 200))
    twice = ended(200, group="g1/20/2026") + ended(201, group="g1/20/2026")
    assert read(tmp_path / "twice", plain + twice)[1] == []
    jobs, reasons, _ = read(tmp_path / "once", plain + ended(200, group="g1/20/2026"))
    assert (len(jobs), reasons) == (199, ["cut_short"])


def test_times_that_all_records_write_without_hours_are_times(tmp_path: Path) -> None:
    text = "".join(ended(number) for number in range(1, 50)).replace("walltime=01:00:00\n", "walltime=60:00\n")
    jobs, reasons, _ = read(tmp_path / "20260302", text)
    assert reasons == [] and {job["runtime_s"] for job in jobs} == {3600.0}


ERROR = "sacct: error: slurmdbd: Sending PersistInit msg: No error"


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("n_messages", [1, 3])
def test_a_message_of_sacct_is_skipped_and_said(tmp_path: Path, place: int, n_messages: int) -> None:
    lines = [HEADER, row(1), row(2), row(3)]
    lines[place:place] = [ERROR] * n_messages
    jobs, reasons, report = read(tmp_path / "dump.txt", "\n".join(lines) + "\n")
    assert [(job["job_id"], job["job_name"]) for job in jobs] == [(str(n), "relax") for n in (1, 2, 3)]
    assert reasons == [] and report.set_aside["comment"].rows == n_messages
    assert any("stderr" in note for note in report.notes)


DOCUMENT = (
    '{"meta": {"plugin": {"type": "openapi/dbv0.0.39"}}, "jobs": [{"job_id": 7, "name": "relax", "user": "ann", '
    '"state": {"current": ["COMPLETED"]}, "time": {"submission": 1772438400, "start": 1772438700, '
    '"end": 1772442300, "elapsed": 3600}, "tres": {"allocated": [{"type": "cpu", "count": 16}]}, "steps": []}]}'
)


@pytest.mark.parametrize("before", [f"{ERROR}\n", f"{ERROR}\r\n\n{ERROR}\n ", f"sacct: fatal: {{x\n{ERROR}\n"])
def test_messages_before_a_document_are_skipped_and_said(tmp_path: Path, before: str) -> None:
    jobs, reasons, report = read(tmp_path / "jobs.json", before + DOCUMENT)
    assert [(job["job_id"], job["runtime_s"], job["source_line"]) for job in jobs] == [
        ("7", 3600.0, before.count("\n") + 1)
    ]
    assert reasons == [] and report.set_aside["comment"].rows == before.count("sacct: ")
    assert any("stderr" in note for note in report.notes)
    plain, _, report = read(tmp_path / "plain.json", DOCUMENT)
    assert len(plain) == 1 and "comment" not in report.set_aside
    assert not any("stderr" in note for note in report.notes)


def test_a_message_within_a_name_of_two_lines_is_no_part_of_it(tmp_path: Path) -> None:
    text = "\n".join([HEADER, row(1, name="two"), ERROR, "lines", row(2)]) + "\n"
    jobs, reasons, report = read(tmp_path / "dump.txt", text)
    assert [job["job_name"] for job in jobs] == ["two\nlines", "relax"] and reasons == []
    assert report.set_aside["comment"].rows == 1


def test_a_lost_memory_size_is_unknown_and_its_job_stays(tmp_path: Path) -> None:
    jobs, reasons, _ = read(tmp_path / "dump.txt", "\n".join([HEADER, row(1, "?"), row(2)]) + "\n")
    assert reasons == [] and [job["requested_mem_kib"] is None for job in jobs] == [True, False]


def damaged(n_whole: int, n_bad: int) -> str:
    """Whole records, and some that lack what every end tells."""
    whole = "".join(ended(number) for number in range(1, n_whole + 1))
    return whole + ended(9_999).replace(" Exit_status=0", "") * n_bad


def test_a_log_of_which_much_looks_damaged_in_one_way_ends_the_command_unless_told_to_go_on(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ingest\.max_damaged") as refused:
        read(tmp_path / "log", damaged(1_000, 20))
    assert refused.value.exit_code == 4 and "20 of 1,020 records (2.0%)" in str(refused.value)
    jobs, reasons, report = read(tmp_path / "log", damaged(1_000, 20), max_damaged=1)
    assert len(jobs) == 1_000 and reasons == ["cut_short"] * 20
    assert "20 of 1,020 records (1.96%)" in " ".join(report.notes)


def test_day_files_that_are_each_too_small_to_tell_are_judged_together(tmp_path: Path) -> None:
    for day in range(4):
        (tmp_path / f"2026030{day}").write_text(damaged(300, 6))
    with pytest.raises(InputError, match="24 of 1,224 records"):
        ingest([tmp_path], SiteSettings(name="s"), IngestSettings())


@pytest.mark.parametrize(("n_whole", "n_bad", "is_told"), [(100, 19, True), (2_100, 20, True), (1_500, 1, False)])
def test_less_damage_ends_no_command_and_is_told_above_a_thousandth(
    tmp_path: Path, n_whole: int, n_bad: int, is_told: bool
) -> None:
    jobs, _, report = read(tmp_path / "log", damaged(n_whole, n_bad))
    assert len(jobs) == n_whole
    assert ("processor-hours are unknown" in " ".join(report.notes)) is is_told
