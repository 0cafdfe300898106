"""Records that ran together are set aside with a reason; names with delimiters and dates are read whole."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings


def fates(path: Path, text: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The jobs of a log, and the reasons of the records set aside."""
    path.write_text(text)
    jobs, unreadable, report = ingest([path], SiteSettings(name="here"), IngestSettings())
    report.check()
    return jobs.to_pylist(), unreadable.column("reason").to_pylist()


def swf(job: int, runtime_s: int = 600, more: str = "") -> str:
    return f"{job} {job * 10} 5 {runtime_s} 4 -1 -1 4 900 -1 1 1 1 1 1 1 -1 -1{more}\n"


@pytest.mark.parametrize("place", [0, 1, 40, 79])
def test_an_swf_line_with_another_number_of_fields_is_set_aside(tmp_path: Path, place: int) -> None:
    lines = [swf(job) for job in range(1, 81)]
    # A field that was put in shifts the others: the wait is then read as the runtime.
    lines[place] = lines[place].replace(" 5 600", " 5 10 615", 1)
    jobs, reasons = fates(tmp_path / "log.swf", "".join(lines))
    assert len(jobs) == 79 and reasons == ["too_many_fields"]
    assert {(job["runtime_s"], job["procs"]) for job in jobs} == {(600.0, 4)}


@pytest.mark.parametrize("place", [0, 40])
def test_a_short_line_of_swf_does_not_set_the_others_aside(tmp_path: Path, place: int) -> None:
    lines = [swf(job) for job in range(1, 81)]
    lines[place] = " ".join(lines[place].split()[:9]) + "\n"
    jobs, reasons = fates(tmp_path / "log.swf", "".join(lines))
    assert len(jobs) == 79 and reasons == ["too_few_fields"]


def test_an_swf_id_that_ran_together_with_the_next_is_set_aside(tmp_path: Path) -> None:
    lines = [swf(job) for job in range(10001, 10081)]
    lines[39] = f"10040{lines.pop(40)}"
    jobs, reasons = fates(tmp_path / "log.swf", "".join(lines))
    assert len(jobs) == 78 and reasons == ["joined_ids"]


@pytest.mark.parametrize("ids", [(9999, 10000), (6000, 16500), (20000, 1), (500, 500501), (1004, 500123, 1007)])
def test_sound_ids_that_jump_are_read(tmp_path: Path, ids: tuple[int, ...]) -> None:
    jobs, reasons = fates(tmp_path / "log.swf", "".join(map(swf, ids)))
    assert len(jobs) == len(ids) and not reasons


PBS = (
    "11/20/2026 10:00:{s:02d};E;{job}.head;user={user} group=g jobname={name} queue=q ctime=1795168000 qtime=1795168000"
    " etime=1795168000 start={start} exec_host=n1/0 Resource_List.walltime=01:00:00 end={end} Exit_status=0"
    " resources_used.walltime=00:10:00\n"
)


def pbs(job: int, start: int = 1795168200, name: str = "relax", user: str = "ann") -> str:
    return PBS.format(job=job, user=user, name=name, start=start, end=start + 600, s=job % 60)


def test_a_pbs_record_with_a_key_twice_is_set_aside(tmp_path: Path) -> None:
    first, second = pbs(5033), pbs(5034, 1795169999, user="bob")
    cut, rest = first.index(" exec_host"), second.index(" start=")
    text = pbs(5032) + first[:cut] + second[rest:] + pbs(5035)
    jobs, reasons = fates(tmp_path / "20261120", text)
    assert [job["job_id"] for job in jobs] == ["5032.head", "5035.head"] and reasons == ["repeated_key"]


@pytest.mark.parametrize("name", ["a x=1", "user=bob", "2026-11-20T10:00:00|COMPLETED"])
def test_a_pbs_name_may_hold_what_looks_like_a_key(tmp_path: Path, name: str) -> None:
    jobs, reasons = fates(tmp_path / "20261120", pbs(1, name=name) + pbs(2))
    assert not reasons and [job["job_name"] for job in jobs] == [name, "relax"]


NAMES = "JobID|User|Account|JobName|Submit|Start|End|State|NCPUS|Elapsed\n"


def sacct(job: int, name: str = "relax", user: str = "u7", hour: int = 10) -> str:
    times = "|".join(f"2023-11-15T{hour}:{minute}:00" for minute in (10, 11, 21))
    return f"{job}|{user}|acc|{name}|{times}|COMPLETED|4|00:10:00\n"


CUT = len("5007|u7|acc|re")
SPLICES = {
    "within the name": sacct(5007)[:CUT] + sacct(5008, user="u8", hour=12),
    "within the account": sacct(5007)[: CUT - 4] + sacct(5008, user="u8", hour=12),
    "a name with times": sacct(5007, "a|2023-11-15T10:10:00|2023-11-15T10:11:00"),
    "a name with times and a line's end": sacct(5007, "a\n2023-11-15T10:10:00|COMPLETED|b"),
    "a time as the account": sacct(5007).replace("acc", "2023-11-15T10:19:23"),
    "a number as the start": sacct(5007).replace("2023-11-15T10:11:00", "32064"),
}


@pytest.mark.parametrize("case", sorted(SPLICES))
def test_sacct_records_that_ran_together_are_set_aside(tmp_path: Path, case: str) -> None:
    text = NAMES + "".join(map(sacct, range(5000, 5007))) + SPLICES[case] + "".join(map(sacct, range(5009, 5012)))
    jobs, reasons = fates(tmp_path / "dump.txt", text)
    assert [int(job["job_id"]) for job in jobs] == [*range(5000, 5007), 5009, 5010, 5011]
    assert len(reasons) == 1 and reasons[0] in {"joined_records", "shifted_fields", "not_a_time", "ambiguous_fields"}


BETWEEN_TIMES = "JobID|User|Account|State|NCPUS|End|JobName|Submit|Start|Elapsed|Partition"
LAST_BUT_FOR_NUMBERS = "JobID|User|Partition|State|NCPUS|Submit|Elapsed|Start|End|JobName"
STATE_BEHIND = "JobID|JobName|User|Account|State|NCPUS|Start|End|Elapsed|Submit"
NAME_LAST = "JobID|User|Submit|Start|End|State|NCPUS|Elapsed|Partition|JobName"
NAME_FIRST = "JobID|JobName|Partition|Account|NCPUS|State|Elapsed|Start|End"
SOUND = (
    "a|b|c|d", "a|b|c|d|e|f|g", "a|b|c|d|1|2|3", "x|x|x|x", "_|_|_|_", "FAILED|TIMEOUT",
    "COMPLETED|x", "COMPLETED|y|z", "RUNNING|a|b|c", "5|6|7|8", "n|1|2|3|4", 
    "run|v|x|y|2023-11-15", "2023-11-15T10:10:00",
    "acc1|acc2|normal|gpu", "4000M|4|cpu=4", "x=1|y=2|z=3|w=4", 
    "a|u7|acc", "CANCELLED by 123|x", "state=COMPLETED|cpu=4", "a\nb|c", "a\n5008", "a\nCOMPLETED\nb", "'a'|\"b\"",
    "run|v|x|y|z", "relax|relax", "RUNNING|RUNNING",
)  # fmt: skip
WITH_A_TIME = ("2023-11-15T10:10:00|x|y|z", "a|2023-11-15T10:10:00|2023-11-15T10:11:00")
"""Names that a record with a part of another in it has just so."""
BESIDE_TEXTS = ("a|b", "a|b|c", "x|COMPLETED", "|a|b|c|", "||||", "relax|", "|relax", "a|u7|acc", "RUNNING|a|b|c")
"""Names that a record with a field put in has just so, where the columns beside the name are texts as well."""


def named(columns: str, job: int, name: str) -> str:
    """A record of some columns; the user and the account vary by job."""
    times = {"Submit": "2023-11-15T10:10:00", "Start": "2023-11-15T10:11:00", "End": "2023-11-15T10:21:00"}
    texts = {"JobName": name, "User": f"u{job % 5}", "Account": f"acc{job % 3}", "Partition": "normal"}
    values = times | texts | {"JobID": str(job), "State": "COMPLETED", "NCPUS": "4", "Elapsed": "00:10:00"}
    return "|".join(values[column] for column in columns.split("|")) + "\n"


def fate_of_a_name(path: Path, columns: str, name: str) -> tuple[list[tuple[str, str]], list[str]]:
    """The name and the state of the job in question, and the reasons of what was set aside, among 30 other jobs."""
    lines = [named(columns, job, "relax") for job in range(5001, 5032)]
    jobs, reasons = fates(
        path, "".join([f"{columns}\n", *lines, named(columns, 5032, name), lines[0].replace("5001", "5033")])
    )
    assert {job["job_id"] for job in jobs} >= {str(job) for job in (*range(5001, 5032), 5033)}
    return [(job["job_name"], job["state"]) for job in jobs if job["job_id"] == "5032"], reasons


@pytest.mark.parametrize("columns", [BETWEEN_TIMES, LAST_BUT_FOR_NUMBERS])
def test_a_name_whose_columns_fit_in_one_way_is_read_whole(tmp_path: Path, columns: str) -> None:
    found = {name: fate_of_a_name(tmp_path / "dump.txt", columns, name) for name in SOUND}
    assert found == {name: ([(name, "COMPLETED")], []) for name in SOUND}


@pytest.mark.parametrize("columns", [BETWEEN_TIMES, LAST_BUT_FOR_NUMBERS])
@pytest.mark.parametrize("name", WITH_A_TIME)
def test_a_name_with_more_than_a_time_is_set_aside(tmp_path: Path, columns: str, name: str) -> None:
    jobs, reasons = fate_of_a_name(tmp_path / "dump.txt", columns, name)
    assert not jobs and set(reasons) <= {"joined_records", "ambiguous_fields", "too_few_fields"}


@pytest.mark.parametrize("columns", [STATE_BEHIND, NAME_LAST, NAME_FIRST])
@pytest.mark.parametrize("name", BESIDE_TEXTS)
def test_a_name_with_delimiters_beside_other_texts_is_set_aside(tmp_path: Path, columns: str, name: str) -> None:
    assert fate_of_a_name(tmp_path / "dump.txt", columns, name) == ([], ["ambiguous_fields"])


@pytest.mark.parametrize("columns", [STATE_BEHIND, NAME_LAST, NAME_FIRST])
def test_a_name_with_a_line_s_end_beside_other_texts_is_read_whole(tmp_path: Path, columns: str) -> None:
    for name in ("a\nb", "a\n5008", "a\nCOMPLETED\nb"):
        assert fate_of_a_name(tmp_path / "dump.txt", columns, name) == ([(name, "COMPLETED")], [])


def test_a_pbs_record_whose_beginning_is_lost_is_set_aside(tmp_path: Path) -> None:
    record = pbs(42)
    lost = record[: record.index("user=")] + record[record.index("=1795168000 qtime") :]
    assert fates(tmp_path / "20261120", pbs(41) + lost)[1] == ["cut_short"]


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        ((" qtime=1795168000", ""), "cut_short"),
        ((" exec_host=n1/0", ""), "cut_short"),
        ((" exec_host=n1/0 Resource_List.walltime=01:00:00", " exec_h2+n3/0"), "word_without_key"),
        ((" Resource_List.walltime=", " exec_vnode=(n1:ncpus=2)+(n2:nc Resource_List.walltime="), "cut_short"),
        ((" queue=q", " queue=q:01;E;3.head;user=bob"), "cut_short"),
        ((" queue=q", " queue=q 10:00:01;E;3.head;owner=bob"), "cut_short"),
        ((" group=g", " group=g1/20/2026"), "cut_short"),
    ],
)
def test_a_pbs_record_that_lost_a_part_in_its_middle_is_set_aside(
    tmp_path: Path, lost: tuple[str, str], reason: str
) -> None:
    damaged = pbs(2).replace(*lost, 1)
    assert damaged != pbs(2)
    jobs, reasons = fates(tmp_path / "20261120", pbs(1) + damaged + pbs(3) + pbs(4))
    assert [job["job_id"] for job in jobs] == ["1.head", "3.head", "4.head"] and reasons == [reason]


def test_a_pbs_log_of_which_many_records_lack_a_key_is_read_whole(tmp_path: Path) -> None:
    lines = [pbs(job).replace(" exec_host=n1/0" if job % 4 == 0 else "\0", "") for job in range(1, 41)]
    jobs, reasons = fates(tmp_path / "20261120", "".join(lines))
    assert len(jobs) == 40 and not reasons


def test_a_pbs_server_that_never_writes_a_key_is_read_whole(tmp_path: Path) -> None:
    text = "".join(pbs(job).replace(" qtime=1795168000", "").replace(" exec_host=n1/0", "") for job in range(1, 9))
    jobs, reasons = fates(tmp_path / "20261120", text)
    assert len(jobs) == 8 and not reasons


def test_a_pbs_job_that_never_ran_is_read_among_those_that_did(tmp_path: Path) -> None:
    idle = pbs(2).replace(" start=1795168200 exec_host=n1/0", "").replace(" resources_used.walltime=00:10:00", "")
    assert idle != pbs(2)
    jobs, reasons = fates(tmp_path / "20261120", pbs(1) + idle + pbs(3))
    assert len(jobs) == 3 and not reasons


TWICE = (
    "JobID|JobIDRaw|JobName|User|Account|State|Submit|Start|End|Elapsed|AveRSS|NCPUS|NNodes|ReqMem|Comment|AllocTRES\n"
)


def told_twice(job: int, name: str = "relax", user: str = "", start: str = "10:11:00") -> str:
    times = f"2023-11-15T10:10:00|2023-11-15T{start}|2023-11-15T10:21:00|00:10:00"
    own = f"{job}|{job}|{name}|{user or f'u{job % 7}'}|acc{job % 3}|COMPLETED"
    return f"{own}|{times}||4|1|4000M||cpu=4,mem=4000M,node=1\n"


DAMAGED = {
    "a doubled user": ("|u5|", "|u5|u5|"),
    "a doubled account": ("|acc0|", "|acc0|acc0|"),
    "a doubled state": ("|COMPLETED|", "|COMPLETED|COMPLETED|"),
    "a field of another column before the account": ("|acc0|", "|/scratch/a|acc0|"),
    "a doubled number": ("|4|1|4000M|", "|4|4|1|4000M|"),
    "a doubled size": ("|4000M|", "|4000M|4000M|"),
    "a doubled group in an unknown user's place": ("|u5|acc0|", "|zed|acc0|acc0|"),
    "a doubled id": ("40|40|", "40|40|40|"),
    "another id beside it": ("40|40", "40|41"),
    "two ids that ran together": ("40|40", "1000000001000041|40"),
    "other processors": ("cpu=4", "cpu=16"),
    "processors that are a size": ("cpu=4,mem=4000M", "cpu=4000M"),
    "other nodes": ("node=1", "node=16"),
}


@pytest.mark.parametrize("case", sorted(DAMAGED))
def test_a_sacct_record_whose_columns_contradict_each_other_is_set_aside(tmp_path: Path, case: str) -> None:
    damaged = told_twice(40).replace("acc1", "acc0").replace(*DAMAGED[case])
    text = TWICE + "".join(map(told_twice, range(10, 40))) + damaged + told_twice(41)
    jobs, reasons = fates(tmp_path / "dump.txt", text)
    assert [int(job["job_id"]) for job in jobs] == [*range(10, 40), 41]
    assert len(reasons) == 1 and reasons[0] in {"shifted_fields", "ambiguous_fields"}
