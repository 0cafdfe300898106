"""What a sacct dump does not say, or says twice, is never made up: cut lines, missing columns, doubtful hours."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.clean import clean
from pipeline.errors import InputError
from pipeline.ingest import OnDisk, ingest
from pipeline.report import Report
from pipeline.settings import CleanSettings, IngestSettings, SiteSettings
from pipeline.storage import read_table
from pipeline.tables import JOBS

NAMES = "JobID|JobName|User|Submit|Start|End|State|AllocCPUS|ElapsedRaw"
FIRST = "6|hello|ada|2026-03-01T10:00:00|2026-03-01T10:00:05|2026-03-01T11:00:05|COMPLETED|4|3600"
LAST = "7|hello|ada|2026-03-01T10:00:00|2026-03-01T10:00:05|2026-03-01T11:00:05|COMPLETED|4|3600"


def read(folder: Path, text: str | bytes, *, zone: str = "UTC", **settings: Any) -> tuple[pa.Table, pa.Table, Report]:
    path = folder / "dump.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return ingest([path], SiteSettings(timezone=zone), IngestSettings(format="sacct", **settings))


def dump(*rows: str, names: str = NAMES) -> str:
    return "\n".join([names, *rows, ""])


def ids(jobs: pa.Table) -> list[str]:
    return sorted(jobs["job_id"].to_pylist())


def reasons(unreadable: pa.Table) -> list[tuple[int, str]]:
    return list(zip(unreadable["source_line"].to_pylist(), unreadable["reason"].to_pylist(), strict=True))


@pytest.mark.parametrize("n_lost", [1, 2, 3, 4, 6, 40, len(LAST)])
def test_a_last_line_that_is_cut_is_no_job(tmp_path: Path, n_lost: int) -> None:
    """ElapsedRaw 36 of 3600 looks whole: only the newline tells that a line is."""
    jobs, unreadable, _ = read(tmp_path, dump(FIRST, LAST)[: -1 - n_lost] or "")
    assert ids(jobs) == ["6"]
    assert reasons(unreadable) == ([(3, "cut_off")] if n_lost < len(LAST) else [])


def test_a_last_line_without_its_newline_is_set_aside_and_taken_by_a_later_read(tmp_path: Path) -> None:
    log, out, bad = tmp_path / "dump.txt", tmp_path / "jobs.parquet", tmp_path / "bad.parquet"
    how = IngestSettings(format="sacct")
    log.write_text(dump(FIRST, LAST)[:-3])
    ingest([log], SiteSettings(), how, to=OnDisk(out, bad))
    assert ids(read_table(out, JOBS)) == ["6"]
    log.write_text(dump(FIRST, LAST))
    ingest([log], SiteSettings(), how, out, to=OnDisk(out, bad))
    assert read_table(out, JOBS)["runtime_s"].to_pylist() == [3600.0, 3600.0]
    assert not bad.exists()


def test_a_setting_takes_the_last_line_of_a_finished_archive(tmp_path: Path) -> None:
    jobs, unreadable, _ = read(tmp_path, dump(FIRST, LAST)[:-1], last_line="take")
    assert (ids(jobs), unreadable.num_rows) == (["6", "7"], 0)


def test_a_dump_of_one_cut_line_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cut off.*last_line"):
        read(tmp_path, dump(LAST)[:-1])


def test_a_cut_line_is_not_taken_for_more_text_of_the_record_before(tmp_path: Path) -> None:
    names = "JobID|State|Submit|SubmitLine"
    rows = [f"{i}|COMPLETED|2026-03-01T10:00:00|sbatch x" for i in (5, 6, 7)]
    whole = dump(*rows, names=names)
    for cut in range(len(whole) - len(rows[2]), len(whole)):
        jobs, unreadable, _ = read(tmp_path, whole[:cut], keep_submit_line=True)
        assert set(jobs["submit_tokens"].to_pylist()) == {"sbatch x"}, whole[:cut]
        assert "7" not in ids(jobs)
        assert set(unreadable["reason"].to_pylist()) == {"cut_off"}


def test_a_cut_step_adds_nothing_to_its_job(tmp_path: Path) -> None:
    names = "JobID|State|Submit|Start|End|MaxRSS"
    clock = "2026-03-01T10:00:00|2026-03-01T10:00:05|2026-03-01T11:00:05"
    text = dump(f"7|COMPLETED|{clock}|", f"7.batch|COMPLETED|{clock}|1500K", names=names)
    jobs, unreadable, _ = read(tmp_path, text[:-3])
    assert jobs["max_rss_kib"].to_pylist() == [None]
    assert reasons(unreadable) == [(3, "cut_off")]


def without(column: str, *rows: str) -> str:
    place = NAMES.split("|").index(column)
    kept = ["|".join(cell for i, cell in enumerate(row.split("|")) if i != place) for row in (NAMES, *rows)]
    return "\n".join([*kept, ""])


def test_without_elapsed_the_runtime_is_end_minus_start(tmp_path: Path) -> None:
    open_row = LAST.replace("2026-03-01T11:00:05|COMPLETED", "Unknown|RUNNING").replace("7|", "8|", 1)
    jobs, _, report = read(tmp_path, without("ElapsedRaw", FIRST, LAST, open_row))
    assert dict(zip(jobs["job_id"].to_pylist(), jobs["runtime_s"].to_pylist(), strict=True)) == {
        "6": 3600.0, "7": 3600.0, "8": None,
    }  # fmt: skip
    (note,) = [note for note in report.notes if "Elapsed" in note]
    assert "3 jobs" in note and "End - Start" in note


def test_without_elapsed_time_suspended_is_taken_off_where_it_is_known(tmp_path: Path) -> None:
    text = without("ElapsedRaw", FIRST).replace("User", "User|Suspended").replace("|ada|", "|ada|00:10:00|")
    assert read(tmp_path, text)[0]["runtime_s"].to_pylist() == [3000.0]


@pytest.mark.parametrize(
    ("column", "cost"),
    [("Submit", "impossible_times"), ("Start", "waited"), ("State", "failed"), ("AllocCPUS", "no_procs")],
)
def test_a_missing_column_is_named_with_what_it_costs(tmp_path: Path, column: str, cost: str) -> None:
    _, _, report = read(tmp_path, without(column, FIRST, LAST))
    (note,) = [note for note in report.notes if f"no {column}" in note]
    assert cost in note and "2 jobs" in note
    assert not [note for note in read(tmp_path, dump(FIRST))[2].notes if f"no {column}" in note]


ZONE = "America/New_York"
"""Its clocks went back on 2026-11-01 at 06:00 UTC, from 02:00 to 01:00."""
BACK_S = 1793512800
"""2026-11-01T06:00:00 UTC."""


@pytest.mark.parametrize(
    ("start", "end", "elapsed", "suspended", "expected"),
    [
        # The first 01:30 is 05:30 UTC, the second 06:30.
        ("00:30", "01:30", 3600, 0, (-5400, -1800)),
        ("00:30", "01:30", 7200, 0, (-5400, 1800)),
        ("01:30", "03:00", 5400, 0, (1800, 7200)),
        ("01:30", "03:00", 9000, 0, (-1800, 7200)),
        ("01:50", "01:10", 1200, 0, (-600, 600)),
        ("00:30", "01:30", 6600, 600, (-5400, 1800)),
        # Elapsed fits both: the first is read.
        ("01:10", "01:20", 600, 0, (-3000, -2400)),
        # It fits none: the first is read.
        ("00:30", "01:30", 4000, 0, (-5400, -1800)),
    ],
)
def test_doubtful_hours_are_settled_by_elapsed(
    tmp_path: Path, start: str, end: str, elapsed: int, suspended: int, expected: tuple[int, int]
) -> None:
    names = "JobID|State|Submit|Start|End|ElapsedRaw|Suspended"
    day = "2026-11-01T"
    row = f"7|COMPLETED|2026-10-31T12:00:00|{day}{start}:00|{day}{end}:00|{elapsed}|{suspended // 60:02d}:00"
    jobs, _, report = read(tmp_path, dump(row, names=names), zone=ZONE)
    assert (jobs["start_s"][0].as_py() - BACK_S, jobs["end_s"][0].as_py() - BACK_S) == expected
    is_settled = any("settled by Elapsed" in note for note in report.notes)
    assert is_settled == (elapsed not in (600, 4000))


def test_only_times_that_elapsed_cannot_settle_are_called_doubtful(tmp_path: Path) -> None:
    names = "JobID|State|Submit|Start|End|ElapsedRaw"
    day = "2026-11-01T"
    rows = [
        f"1|COMPLETED|{day}01:00:00|{day}01:30:00|{day}03:00:00|5400",
        f"2|COMPLETED|{day}00:00:00|{day}01:30:00|{day}03:00:00|5400",
    ]
    _, _, report = read(tmp_path, dump(*rows, names=names), zone=ZONE)
    assert [note for note in report.notes if note.startswith("1 local time came twice")]
    assert [note for note in report.notes if note.startswith("2 local times came twice") and "settled" in note]


def test_a_name_that_begins_with_blank_lines_and_digits_is_ambiguous(tmp_path: Path) -> None:
    """The third line of the record looks like a whole record of job 7 (found by Hypothesis)."""
    names = "JobID|JobName|User|Submit|Start|End|Elapsed|AllocCPUS|ReqMem|State|ExitCode|MaxRSS|DBIndex"
    rest = "a|2026-01-01T00:00:00|2026-01-01T01:00:00|2026-01-01T01:00:00|1:00:00|4|4G|COMPLETED|1:0||"
    plain = f"9|run|{rest}"
    for name in ("\n7|", "\n\n7|", "\n\n\n \n7|", "x\n\n7|", "\n\n7|\n\n8|"):
        jobs, unreadable, report = read(tmp_path, dump(plain, f"1|{name}|{rest}", plain, names=names))
        assert set(ids(jobs)) == {"9"}, name
        assert set(unreadable["reason"].to_pylist()) == {"ambiguous_fields"}
        report.check()


@pytest.mark.parametrize("delimiter", [",", "|", ";", "\t"])
@pytest.mark.parametrize("name", ["hello", "a,b", "two\nlines", 'a ""quoted"" word', "c|d;e"])
def test_an_export_with_every_value_in_quotes_is_read(tmp_path: Path, delimiter: str, name: str) -> None:
    rows = [row.split("|") for row in (NAMES, FIRST, LAST)]
    rows[2][1] = name
    text = "".join(delimiter.join(f'"{cell}"' for cell in row) + "\n" for row in rows)
    jobs, unreadable, _ = read(tmp_path, text)
    assert (ids(jobs), unreadable.num_rows) == (["6", "7"], 0)
    assert set(jobs["job_name"].to_pylist()) == {"hello", name.replace('""', '"')}
    assert jobs["runtime_s"].to_pylist() == [3600.0, 3600.0]


@pytest.mark.parametrize("format", ["auto", "sacct"])
def test_a_dump_without_job_ids_is_refused_in_one_sentence(tmp_path: Path, format: str) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(without("JobID", FIRST, LAST))
    with pytest.raises(InputError, match=r"line 1: found columns without a job id .*; export again with JobID"):
        ingest([path], SiteSettings(), IngestSettings(format=format))


def test_zeros_that_a_crash_left_behind_are_set_aside(tmp_path: Path) -> None:
    jobs, unreadable, _ = read(tmp_path, dump(FIRST, LAST).encode() + b"\0" * 300)
    assert ids(jobs) == ["6", "7"]
    assert reasons(unreadable) == [(4, "cut_off")]
    within = dump(FIRST).encode() + LAST[:60].encode() + b"\0" * 300 + b"\n" + dump(LAST).split("\n", 1)[1].encode()
    jobs, unreadable, _ = read(tmp_path, within)
    assert ids(jobs) == ["6", "7"]
    assert unreadable.num_rows == 1


def test_elapsed_that_disagrees_with_end_minus_start_is_flagged_and_both_are_kept(tmp_path: Path) -> None:
    wrong, suspended = LAST.replace("|3600", "|36"), LAST.replace("7|", "8|", 1).replace("|3600", "|3000")
    rows = [f"{FIRST}|00:00:00", f"{wrong}|00:00:00", f"{suspended}|00:10:00"]
    jobs, _, _ = read(tmp_path, dump(*rows, names=f"{NAMES}|Suspended"))
    flagged, *_ = clean(jobs, CleanSettings())
    found = {row["job_id"]: row for row in flagged.to_pylist()}
    assert {job_id: row["flag"] for job_id, row in found.items()} == {"6": None, "7": "elapsed_disagrees", "8": None}
    assert (found["7"]["runtime_s"], found["7"]["end_s"] - found["7"]["start_s"]) == (36.0, 3600)
