"""Each trap of a sacct dump, in a few lines of it."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.ingest.formats.sacct import SACCT
from pipeline.ingest.reader import STEPS, chunks_of, jobs_table
from pipeline.ingest.sources import Source
from pipeline.settings import IngestSettings, SiteSettings
from tests.unit.ingest.logs import in_memory

NAMES = "JobID|JobName|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|AllocCPUS|NNodes|ReqMem|State|ExitCode"
ROW = "7|hello|ada|2026-03-01T10:00:00|2026-03-01T10:00:05|2026-03-01T10:01:05|60|10|4|4|2|4000M|COMPLETED|0:0"


class Read:
    """What a reader made of some text, folded."""

    def __init__(self, folder: Path, text: str | bytes, *, zone: str = "UTC", **settings: object) -> None:
        path = folder / "dump.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        site, asked = SiteSettings(timezone=zone), IngestSettings.model_validate(settings)
        chunks = list(chunks_of(SACCT, Source(path, "dump.txt"), site, asked))
        jobs = pa.concat_tables([chunk.jobs for chunk in chunks])
        parts = pa.concat_tables([chunk.parts or STEPS.empty_table() for chunk in chunks])
        self.raw = jobs.to_pylist()
        self.lines: Counter[str] = sum((Counter(chunk.lines) for chunk in chunks), Counter())
        self.unreadable = [row for chunk in chunks for row in chunk.unreadable.to_pylist()]
        n_lines = sum(chunk.n_lines for chunk in chunks)
        assert n_lines == jobs.num_rows + parts.num_rows + len(self.unreadable) + self.lines.total()
        assert SACCT.fold is not None
        folded = SACCT.fold(jobs, parts, site, asked)
        assert parts.num_rows == sum(folded.lines.values())
        self.lines += Counter(folded.lines)
        self.jobs = folded.jobs.to_pylist()
        remarks = sum((chunk.remarks for chunk in chunks), Counter())
        self.notes = SACCT.notes(remarks, asked)

    @property
    def job(self) -> dict[str, object]:
        (job,) = self.jobs
        return job


def changed(**cells: str) -> str:
    """ROW with some cells changed, by column name."""
    row = dict(zip(NAMES.split("|"), ROW.split("|"), strict=True)) | cells
    return "|".join(row.values())


def test_a_plain_job(tmp_path: Path) -> None:
    job = Read(tmp_path, f"{NAMES}\n{ROW}\n").job
    expected = {
        "job_id": "7", "job_name": "hello", "user": "ada", "submit_s": 1772359200, "start_s": 1772359205,
        "end_s": 1772359265, "runtime_s": 60.0, "requested_s": 600.0, "requested_procs": 4, "procs": 4, "nodes": 2,
        "requested_mem_kib": 1000 * 1024.0, "state": "COMPLETED", "exit_code": 0, "source_line": 2,
    }  # fmt: skip
    assert {name: job[name] for name in expected} == expected


@pytest.mark.parametrize("delimiter", ["|", "^|^", "\x1f", ";", "\t", "@@", "\x1f0f3b"])
@pytest.mark.parametrize("end", ["", "delimiter"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_any_delimiter_at_the_end_too(tmp_path: Path, delimiter: str, end: str, newline: str) -> None:
    lines = [line.replace("|", delimiter) + (delimiter if end else "") for line in (NAMES, ROW)]
    settings = {"delimiter": delimiter} if delimiter.startswith("\x1f0") else {}
    assert Read(tmp_path, newline.join([*lines, ""]), **settings).job["exit_code"] == 0


def test_without_a_header_the_settings_name_the_fields(tmp_path: Path) -> None:
    assert Read(tmp_path, f"{ROW}\n", fields=NAMES.split("|")).job["job_id"] == "7"
    assert Read(tmp_path, f"{ROW}|\n", fields=NAMES.split("|")).job["job_id"] == "7"
    with pytest.raises(InputError, match=r"set ingest.fields"):
        Read(tmp_path, f"{ROW}\n")
    with pytest.raises(InputError, match="JobID among them"):
        Read(tmp_path, f"{ROW}\n", fields=["User", "State"])


def test_fixed_width_columns_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"fixed width.*parsable2"):
        Read(
            tmp_path, "JobID           JobName  Partition \n------------ ---------- ---------- \n1    hello   batch \n"
        )


def test_header_names_in_any_case_with_widths(tmp_path: Path) -> None:
    names = NAMES.lower().replace("jobname", "JOBNAME%30").replace("|state", "|State%-20")
    assert Read(tmp_path, f"{names}\n{ROW}\n").job["job_name"] == "hello"


@pytest.mark.parametrize("name", ["new\nline", "a|b\nc|d", "\n", "a\n\nb", 'quo"te', "üñ_模"])
def test_hostile_job_names(tmp_path: Path, name: str) -> None:
    rows = [ROW, changed(JobID="8", JobName=name), changed(JobID="9")]
    read = Read(tmp_path, "\n".join([NAMES, *rows, ""]))
    assert [(job["job_id"], job["job_name"]) for job in read.jobs] == [("7", "hello"), ("8", name), ("9", "hello")]
    assert read.lines["continued"] == name.count("\n")
    assert [job["source_line"] for job in read.jobs] == [2, 3, 4 + name.count("\n")]


@pytest.mark.parametrize("name", ["pipe|in|name", "|", "a|", "|b"])
def test_a_name_with_delimiters_beside_the_user_is_set_aside_with_what_to_do(tmp_path: Path, name: str) -> None:
    """Where a name and a user stand side by side, `a|b|ada` is a name with a delimiter or a field too many."""
    read = Read(tmp_path, "\n".join([NAMES, ROW, changed(JobID="8", JobName=name), ""]))
    assert [row["reason"] for row in read.unreadable] == ["ambiguous_fields"] and read.job["job_id"] == "7"
    # The same names are read where the delimiter is one that they do not hold.
    names, rows = NAMES.replace("|", "\x1f"), [ROW.replace("|", "\x1f"), changed(JobName="?").replace("|", "\x1f")]
    rows[1] = rows[1].replace("?", name)
    assert [job["job_name"] for job in Read(tmp_path, "\n".join([names, *rows, ""])).raw] == ["hello", name]


def test_the_last_column_may_go_on_for_lines(tmp_path: Path) -> None:
    rows = [f"{ROW}|sbatch x\n\nsecond|line\n", f"{changed(JobID='8')}|srun y\n", "\n"]
    read = Read(tmp_path, f"{NAMES}|SubmitLine\n" + "".join(rows), keep_submit_line=True)
    assert [job["submit_line"] for job in read.raw] == ["sbatch x\n\nsecond|line", "srun y"]
    assert read.lines == {"header": 1, "continued": 2, "blank": 1}


def test_texts_that_share_a_surplus_are_unknown_and_the_job_is_read(tmp_path: Path) -> None:
    row = f"{ROW}|/scratch/a|b|c|sbatch x"
    job = Read(tmp_path, f"{NAMES}|WorkDir|Comment|SubmitLine\n{row}\n", keep_submit_line=True).raw[0]
    assert (job["work_dir"], job["submit_line"], job["state"]) == (None, "sbatch x", "COMPLETED")


def test_a_name_that_could_lie_in_two_ways_is_unreadable(tmp_path: Path) -> None:
    rows = "1|a|b|c|COMPLETED|2026-01-01T00:00:00\n2|x|None|FAILED|2026-01-01T00:00:00\n"
    text = f"JobID|JobName|Reason|State|Submit\n{rows}"
    read = Read(tmp_path, text)
    assert [(row["source_line"], row["reason"]) for row in read.unreadable] == [(2, "ambiguous_fields")]
    assert read.job["job_id"] == "2"


def test_a_cut_line_is_no_continuation(tmp_path: Path) -> None:
    read = Read(tmp_path, f"{NAMES}|SubmitLine\n{ROW}|sbatch x\n8|half|ada|2026-03-01T1")
    assert [(row["source_line"], row["reason"], row["raw"]) for row in read.unreadable] == [
        (3, "cut_off", "8|half|ada|2026-03-01T1")
    ]


def test_a_cut_line_before_a_whole_one_leaves_two_readings_and_neither_is_taken(tmp_path: Path) -> None:
    """`8|half` may be a cut record, or job 8's name may go on with what looks like job 7."""
    rows = ["8|half", f"{ROW}|sbatch x", "second line", f"{changed(JobID='9')}|srun y"]
    read = Read(tmp_path, "\n".join([f"{NAMES}|SubmitLine", *rows, ""]))
    assert [(row["source_line"], row["reason"]) for row in read.unreadable] == [
        (2, "ambiguous_fields"),
        (4, "too_few_fields"),
    ]
    assert (read.job["job_id"], read.lines["continued"]) == ("9", 1)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"JobID": "x7"}, "no_job_id"),
        ({"JobID": ""}, "no_job_id"),
        ({"Submit": "yesterday"}, "not_a_time"),
        ({"Submit": "2026-13-01T10:00:00"}, "not_a_time"),
        ({"Submit": "10:00:00"}, "time_without_date"),
        ({"ElapsedRaw": "soon"}, "not_a_duration"),
        ({"ElapsedRaw": "104.5:53:58"}, "not_a_duration"),
        ({"ElapsedRaw": "2.0-01"}, "not_a_duration"),
        ({"ElapsedRaw": "21-08:03:35:21"}, "not_a_duration"),
        ({"TimelimitRaw": "-5"}, "not_a_duration"),
        ({"ElapsedRaw": "-60"}, "not_a_duration"),
        ({"TimelimitRaw": "00:05"}, "not_a_number"),
        ({"AllocCPUS": "4x"}, "not_a_number"),
        ({"ReqMem": "4Q"}, "not_a_memory_size"),
        ({"ExitCode": "0:0:0"}, "not_an_exit_code"),
        ({"State": ""}, "no_state"),
    ],
)
def test_a_value_that_cannot_be_read_sets_its_record_aside(tmp_path: Path, cells: dict[str, str], reason: str) -> None:
    bad = changed(**cells)
    read = Read(tmp_path, f"{NAMES}\n{ROW}\n{bad}\n")
    (row,) = read.unreadable
    offset = len(NAMES) + len(ROW) + 2
    assert (row["source_line"], row["byte_offset"], row["reason"], row["raw"]) == (3, offset, reason, bad)
    assert read.job["job_id"] == "7"
    with pytest.raises(InputError, match="line 3"):
        Read(tmp_path, f"{NAMES}\n{ROW}\n{bad}\n", max_damaged=0)


def test_a_file_of_unreadable_lines_is_no_dump(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 2: found time without date.*SLURM_TIME_FORMAT"):
        Read(tmp_path, f"{NAMES}\n{changed(Submit='10:00:00')}\n")
    with pytest.raises(InputError, match="no column names"):
        Read(tmp_path, "a,b\n1,2\n")


def test_headers_again_and_another_header(tmp_path: Path) -> None:
    other = "User|JobID|State|Elapsed\nbob|8|FAILED|1-00:00:01"
    read = Read(tmp_path, f"{NAMES}\n{ROW}\n{NAMES}\n{changed(JobID='9')}\n{other}\n")
    assert [(job["job_id"], job["user"]) for job in read.jobs] == [("7", "ada"), ("9", "ada"), ("8", "bob")]
    assert (read.jobs[-1]["runtime_s"], read.lines["header"]) == (86401.0, 3)


def test_a_quoted_name_may_hold_a_blank_and_a_time(tmp_path: Path) -> None:
    name, row = "a,2026-03-01T10:00:00", ROW.replace("|", ",")
    row = row.replace("hello", f'"{name}"').replace("ada", '"ada l"')
    job = Read(tmp_path, f"{NAMES.replace('|', ',')}\n{row}\n").job
    assert (job["job_name"], job["user"]) == (name, "ada l")


def test_comma_separated_export_with_quotes(tmp_path: Path) -> None:
    names = "JobID,User,Timelimit,ReqCPUS,Start,ElapsedRaw,State,JobName"
    row = '5,u1,172800.0,10,2019-01-01 08:55:56,99825.0,COMPLETED,"a, ""b"""'
    job = Read(tmp_path, f"{names}\n{row}\n").job
    assert (job["requested_s"], job["requested_procs"], job["runtime_s"], job["job_name"]) == (
        172800,
        10,
        99825,
        'a, "b"',
    )


@pytest.mark.parametrize(
    ("text", "state"),
    [("CANCELLED by 1004", "CANCELLED"), ("CANCELLED+", "CANCELLED"), ("OUT_OF_ME+", "OUT_OF_MEMORY"), ("FOO", "FOO")],
)
def test_states(tmp_path: Path, text: str, state: str) -> None:
    read = Read(tmp_path, f"{NAMES}\n{changed(State=text)}\n")
    assert read.job["state"] == state
    assert any("FOO (1)" in note for note in read.notes) == (state == "FOO")


@pytest.mark.parametrize(
    ("text", "kib"),
    [
        ("4000Mn", 2000 * 1024),
        ("3000Mc", 3000 * 1024),
        ("1G", 262144),
        ("2147486648Mn", 3000 * 1024),
        ("0n", None),
        ("", None),
    ],
)
def test_requested_memory_is_per_processor(tmp_path: Path, text: str, kib: float | None) -> None:
    assert Read(tmp_path, f"{NAMES}\n{changed(ReqMem=text)}\n").job["requested_mem_kib"] == kib


@pytest.mark.parametrize(
    ("text", "typed"),
    [("4000Mn", "4000MiB/node"), ("3000Mc", "3000MiB/processor"), ("1G", "512MiB/node"), ("", None)],
)
def test_requested_memory_as_typed(tmp_path: Path, text: str, typed: str | None) -> None:
    assert Read(tmp_path, f"{NAMES}\n{changed(ReqMem=text)}\n").job["requested_memory"] == typed


@pytest.mark.parametrize(("text", "code"), [("0:0", 0), ("3:0", 3), ("0:9", 137), ("0:125", 253), ("", None)])
def test_exit_codes(tmp_path: Path, text: str, code: int | None) -> None:
    assert Read(tmp_path, f"{NAMES}\n{changed(ExitCode=text)}\n").job["exit_code"] == code


@pytest.mark.parametrize(
    ("allocated", "asked", "named"),
    [
        ("cpu=8,gres/gpu=2,gres/gpu:a100=2", "", "a100"),
        ("cpu=8,gres/gpu:v100=1,gres/gpu:a100=2", "", "a100+v100"),
        ("cpu=8,gres/gpu=2", "gres/gpu:a100=2", None),
        ("", "gpu:a100:2(S:0-1)", "a100"),
        ("", "gpu:4", None),
        ("cpu=8,mem=1G", "gres/gpu:a100=2", None),
    ],
)
def test_the_type_of_gpus_is_what_the_record_names(
    tmp_path: Path, allocated: str, asked: str, named: str | None
) -> None:
    text = f"JobID|State|AllocTRES|ReqTRES\n1|COMPLETED|{allocated}|{asked}\n"
    assert Read(tmp_path, text).job["gpu_type"] == named


@pytest.mark.parametrize(
    ("allocated", "asked", "count"),
    [
        ("cpu=8,gres/gpu=2,gres/gpu:a100=2", "", 2),
        ("cpu=8,gres/gpu:a100=1,gres/gpu:v100=2", "", 3),
        ("cpu=8,mem=1G", "gres/gpu=2", 0),
        ("", "gres/gpu=2", 2),
        ("", "gpu:4", 4),
        ("", "gpu:a100:2(S:0-1)", 2),
        ("", '2"', None),
        ("", "", None),
    ],
)
def test_gpus(tmp_path: Path, allocated: str, asked: str, count: int | None) -> None:
    text = f"JobID|State|AllocTRES|ReqTRES\n1|COMPLETED|{allocated}|{asked}\n"
    assert Read(tmp_path, text).job["gpus"] == count


def test_limits_and_times_that_are_not_known(tmp_path: Path) -> None:
    names = "JobID|State|Start|End|Timelimit|Elapsed\n"
    rows = [
        "1|PENDING|Unknown|Unknown|UNLIMITED|00:00:00",
        "2|RUNNING|2026-01-01T00:00:00|Unknown|Partition_Limit|48:50",
    ]
    pending, running = Read(tmp_path, names + "\n".join([*rows, ""])).jobs
    assert (pending["start_s"], pending["requested_s"], running["end_s"], running["runtime_s"]) == (
        None,
        None,
        None,
        2930,
    )


def test_a_job_past_its_limit_and_a_suspended_one_keep_both_numbers(tmp_path: Path) -> None:
    names = "JobID|State|Start|End|Elapsed|Suspended|Timelimit"
    row = "1|TIMEOUT|2026-01-01T00:00:00|2026-01-01T00:02:00|00:01:30|00:00:30|00:01:00"
    job = Read(tmp_path, f"{names}\n{row}\n").job
    assert (job["runtime_s"], job["suspended_s"], job["requested_s"]) == (90, 30, 60)
    assert job["end_s"] - job["start_s"] == 120


def test_local_times_and_the_hours_that_clocks_repeat_and_skip(tmp_path: Path) -> None:
    text = (
        "JobID|State|Submit\n1|FAILED|2026-11-01T01:30:00\n2|FAILED|2026-03-08T02:30:00\n3|FAILED|2026-07-01T00:00:00\n"
    )
    read = Read(tmp_path, text, zone="America/New_York")
    assert [job["submit_s"] for job in read.jobs] == [1793511000, 1772955000, 1782878400]
    assert len([note for note in read.notes if "column" not in note]) == 3


def test_arrays_and_heterogeneous_jobs(tmp_path: Path) -> None:
    ids = ["12_3", "12_[8-99%4]", "124+1", "124+1.batch", "12_3.batch"]
    read = Read(tmp_path, "JobID|State\n" + "".join(f"{i}|COMPLETED\n" for i in ids))
    assert [(job["job_id"], job["array_id"], job["het_id"]) for job in read.jobs] == [
        ("12_3", "12", None), ("12_[8-99%4]", "12", None), ("124+1", None, "124"),
    ]  # fmt: skip
    assert read.lines["step"] == 2


def test_ids_of_a_federation_are_kept_whole(tmp_path: Path) -> None:
    # Slurm sets the origin's number into the bits from 26 on.
    ids = [str((1 << 26) + 5), str((2 << 26) + 5), f"{(3 << 26) + 5}_7", f"{(63 << 26) + 5}+1"]
    read = Read(tmp_path, "JobID|State\n" + "".join(f"{one}|COMPLETED\n" for one in ids))
    assert sorted(job["job_id"] for job in read.jobs) == sorted(ids)


STEP_NAMES = "JobID|State|Submit|Start|End|MaxRSS|ExitCode\n"


def test_steps_are_folded_into_the_attempt_they_ran_in(tmp_path: Path) -> None:
    rows = [
        "5|REQUEUED|2026-01-01T00:00:00|2026-01-01T01:00:00|2026-01-01T02:00:00||0:0",
        "5.0|COMPLETED||2026-01-01T01:00:05|2026-01-01T02:00:00|10K|3:0",
        "5|COMPLETED|2026-01-01T02:00:00|2026-01-01T03:00:00|2026-01-01T04:00:00||0:0",
        "5.batch|COMPLETED||2026-01-01T03:00:00|2026-01-01T04:00:00|30K|9:0",
        "5.0|COMPLETED||2026-01-01T03:30:00|2026-01-01T04:00:00|20K|0:9",
        "6.0|COMPLETED||2026-01-01T03:30:00|2026-01-01T04:00:00|20K|0:9",
    ]
    for order in (rows, rows[::-1], rows[1::2] + rows[::2]):
        read = Read(tmp_path, STEP_NAMES + "\n".join([*order, ""]))
        told = {job["state"]: (job["max_rss_kib"], job["derived_exit_code"]) for job in read.jobs}
        assert told == {"REQUEUED": (10, 3), "COMPLETED": (30, 137)}
        assert (read.lines["step"], read.lines["orphan_step"]) == (3, 1)


def test_used_memory_is_that_of_all_tasks_of_the_largest_step_over_the_job_s_processors(tmp_path: Path) -> None:
    names = "JobID|State|Submit|Start|End|AllocCPUS|NTasks|MaxRSS|AveRSS\n"
    rows = [
        "5|COMPLETED|2026-01-01T00:00:00|2026-01-01T01:00:00|2026-01-01T02:00:00|8|||",
        "5.batch|COMPLETED||2026-01-01T01:00:00|2026-01-01T02:00:00|8|1|16K|",
        "5.0|COMPLETED||2026-01-01T01:00:05|2026-01-01T01:30:00|8|4|30K|20K",
        "5.1|COMPLETED||2026-01-01T01:30:05|2026-01-01T02:00:00|8|2|15K|",
    ]
    for order in (rows, rows[::-1]):
        read = Read(tmp_path, names + "\n".join([*order, ""]))
        # Four tasks of 20 KiB in the mean, on eight processors; without a mean the largest task stands for each.
        assert (read.job["used_mem_kib"], read.job["max_rss_kib"]) == (10, 30)
    assert Read(tmp_path, names + "\n".join([*rows[:2], rows[3], ""])).job["used_mem_kib"] == 30 / 8
    # A step of one task cannot be told from one of a thousand where NTasks is missing.
    without = "\n".join("|".join((*row.split("|")[:6], *row.split("|")[7:])) for row in rows)
    read = Read(tmp_path, names.replace("NTasks|", "") + without + "\n")
    assert (read.job["used_mem_kib"], read.job["max_rss_kib"]) == (None, 30)


def test_a_step_without_a_time_goes_to_its_only_job(tmp_path: Path) -> None:
    read = Read(
        tmp_path,
        STEP_NAMES + "5.0|RUNNING||Unknown|Unknown|10K|0:0\n5|RUNNING|2026-01-01T00:00:00|Unknown|Unknown||0:0\n",
    )
    assert (read.job["max_rss_kib"], read.lines["step"]) == (10, 1)


def test_old_dumps_in_the_layout_of_xdmod(tmp_path: Path) -> None:
    who = "41|41|c|p|q|acc|grp|7|ada|8"
    when = "2015-06-26T13:57:00|2015-06-26T13:57:00|2015-06-28T02:55:50|2015-07-01T02:55:50|3-00:00:00"
    row = f"{who}|{when}|1:0|TIMEOUT|32|256|256|3000Mc|||3-00:00:00|d[1-2]|a|b"
    job = Read(tmp_path, f"{row}\n").job
    assert (job["user"], job["procs"], job["job_name"], job["requested_mem_kib"]) == ("ada", 256, "a|b", 3000 * 1024)


def test_what_looks_right() -> None:
    assert SACCT.looks_right(f"{NAMES}\n{ROW}\n".encode())
    assert SACCT.looks_right(f"{ROW}\n".encode())
    assert not SACCT.looks_right(b"; Version: 2\n1 2 3 4 5 6\n")
    assert not SACCT.looks_right(b'{"jobs": []}')
    assert not SACCT.looks_right(b"04/01/2026 00:00:00;E;1.server;user=ada queue=q ctime=1\n")


def test_columns_shown_for_inspection() -> None:
    assert SACCT.layout is not None
    shown = SACCT.layout(in_memory(f"{NAMES}|Foo\n{ROW}|x\n".encode()), SiteSettings(), IngestSettings())
    assert ("foo" in shown.ignored, "jobid" in shown.found, "suspended" in shown.missing) == (True, True, True)


def test_an_empty_table_folds() -> None:
    assert SACCT.fold is not None
    empty = jobs_table(0, attempt_key=pa.nulls(0, pa.int64()))
    assert SACCT.fold(empty, STEPS.empty_table(), SiteSettings(), IngestSettings()).jobs.num_rows == 0
