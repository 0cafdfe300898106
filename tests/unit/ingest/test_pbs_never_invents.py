"""PBS records that a crash has cut or that are being written: set aside with the reason, read once they are whole."""

import gzip
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.ingest.formats.pbs import PBS
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.storage import write_batches
from pipeline.tables import JOBS
from tests.unit.ingest.pbs_logs import T0, ended, queued, read, record, started

OTHER = ended(job_id="2.srv")


def reasons(*logs: str, **options: str) -> list[str]:
    return read(*logs, **options).unreadable["reason"].to_pylist()


@pytest.mark.parametrize("kind", [queued, started, ended])
def test_a_last_record_without_a_line_end_is_set_aside_until_it_is_whole(kind) -> None:
    cut = read(OTHER + kind().rstrip("\n"))
    assert sorted(cut.rows()) == ["2.srv"]
    assert cut.unreadable["reason"].to_pylist() == ["no_line_end"]
    assert sorted(read(OTHER + kind()).rows()) == ["1.srv", "2.srv"]
    assert sorted(read(OTHER + kind().rstrip("\n"), last_line="take").rows()) == ["1.srv", "2.srv"]


def test_a_record_cut_in_a_time_or_an_instant_gives_no_job() -> None:
    log = OTHER + ended()
    for cut in ("resources_used.walltime=00:0", f"ctime={str(T0)[:4]}", "start=17", "Exit_status=", "jobname=ru"):
        found = read(log[: log.rindex(cut) + len(cut)])
        assert (sorted(found.rows()), found.unreadable.num_rows) == (["2.srv"], 1)


def test_a_log_that_ends_at_an_equals_sign_is_read() -> None:
    cut = ended(job_id="3.srv")
    found = read(OTHER + cut[: cut.index(" end=")] + " exec_vnode=")
    assert (sorted(found.rows()), found.unreadable["reason"].to_pylist()) == (["2.srv"], ["no_line_end"])


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        ("resources_used.walltime=00:0", "cut_short"), (f"end={T0 + 70}", "cut_short"), ("queue=wo", "cut_short"),
        (f"start={T0 + 10}", "cut_short"), ("start=179524", "bad_number"),
    ],
)  # fmt: skip
def test_a_record_without_its_closing_keys_is_set_aside(cut: str, reason: str) -> None:
    line = ended()
    assert reasons(line[: line.rindex(cut) + len(cut)] + "\n" + OTHER) == [reason]


@pytest.mark.parametrize("name", ["061/0 Rese", "ann g6:33;Q;96", "ann gropp336.sh"])
def test_a_name_with_parts_of_another_record_is_set_aside_also_in_a_file_too_small_to_judge(name: str) -> None:
    """Found by mutated lines: the end of exec_host, or the head of a record, stood in the user."""
    assert reasons(started().replace("user=", f"user={name}", 1) + OTHER) == ["cut_short"]
    assert reasons(started().replace("group=", "group=domain ", 1) + OTHER) == []


def test_a_start_record_without_its_start_is_set_aside() -> None:
    line = started()
    assert reasons(line[: line.index("start=")] + "\n" + OTHER) == ["cut_short"]


@pytest.mark.parametrize("written", ["00:01:00", "100:01:00", "0:01:00", "60"])
def test_a_whole_time_at_the_end_of_a_record_is_read(written: str) -> None:
    line = ended().replace("resources_used.walltime=00:01:00 run_count=1", f"resources_used.walltime={written}")
    assert read(line).unreadable.num_rows == 0


def test_a_record_behind_a_cut_one_is_read() -> None:
    """A server that starts anew appends to the line it had not finished."""
    outcome = read(ended()[:150] + OTHER + ended(job_id="3.srv"))
    assert sorted(outcome.rows()) == ["2.srv", "3.srv"]
    assert outcome.unreadable["reason"].to_pylist() == ["cut_short"]
    assert outcome.unreadable["source_line"].to_pylist() == [1]
    assert outcome.rows()["3.srv"]["source_line"] == 2


def test_zeros_within_a_record_are_a_reason() -> None:
    line = ended()
    assert reasons(line.replace("00:01:00", "00:\0\0\0\0\0") + OTHER) == ["nul_bytes"]


def test_gpus_stand_in_node_strings_by_any_name() -> None:
    for asked in ("nodes=2:ppn=4:gpus=1", "nodes=2:ppn=4:gpu=1", "nodes=1:gpu=2:ppn=4", "select=2:ncpus=4:ngpus=1"):
        assert read(started(message=f"Resource_List.{asked}")).only()["gpus"] == 2


def test_the_whole_record_is_taken_when_a_later_read_has_it(tmp_path: Path) -> None:
    log, out = tmp_path / "20261121", tmp_path / "jobs.parquet"
    settings, site = IngestSettings(), SiteSettings(name="s")
    whole = OTHER + ended()
    log.write_text(whole[:-20])
    jobs, unreadable, report = ingest([log], site, settings)
    assert (jobs["job_id"].to_pylist(), unreadable.num_rows) == (["2.srv"], 1)
    assert any("still being written" in note for note in report.notes)
    write_batches(out, [jobs], JOBS, {})
    log.write_text(whole)
    jobs, unreadable, _ = ingest([log], site, settings, out)
    assert (jobs["job_id"].to_pylist(), unreadable.num_rows) == (["1.srv", "2.srv"], 0)


def test_every_cut_of_a_log_gives_only_values_of_its_whole_records(tmp_path: Path) -> None:
    log, path = queued("5.srv") + ended() + OTHER, tmp_path / "log"
    settings, site = IngestSettings(format="pbs"), SiteSettings(name="s")
    path.write_text(log)
    whole = {job["job_id"]: job for job in ingest([path], site, settings)[0].to_pylist()}
    for cut in range(60, len(log), 3):
        path.write_text(log[:cut])
        try:
            jobs, *_ = ingest([path], site, settings)
        except InputError:
            continue
        for job in jobs.to_pylist():
            assert all(value in (None, whole[job["job_id"]][name]) for name, value in job.items())


def test_damaged_gzip_is_one_clear_sentence(tmp_path: Path) -> None:
    packed, path = gzip.compress((OTHER * 300).encode()), tmp_path / "log"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match=r"log, line \d+: found a compressed file that ends in the middle"):
        ingest([path], SiteSettings(name="s"), IngestSettings(format="pbs"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_one_clear_sentence(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(OTHER.encode(encoding))
    with pytest.raises(
        InputError, match=r"^log, line 1: found text in UTF-16, expected text in UTF-8 or ASCII; convert"
    ):
        ingest([path], SiteSettings(name="s"), IngestSettings(format="pbs"))


def test_a_file_of_zeros_is_one_clear_sentence(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(5000))
    with pytest.raises(
        InputError, match=r"^log, line 1: found nothing but zero bytes in its first 5000, expected a log"
    ):
        ingest([path], SiteSettings(name="s"), IngestSettings())


def test_a_file_whose_first_record_is_being_written_stops_no_other() -> None:
    outcome = read(OTHER, ended().rstrip("\n"))
    assert (sorted(outcome.rows()), outcome.unreadable["reason"].to_pylist()) == (["2.srv"], ["no_line_end"])


ZONE = "America/New_York"
"""Its clocks went back on 2026-11-01 at 06:00 UTC, from 02:00 to 01:00."""
BACK_S = 1793512800
"""2026-11-01T06:00:00 UTC."""


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        # The job starts at 00:30 local time, 04:30 UTC. The first 01:30 is 05:30 UTC, the second 06:30.
        ("01:00:00", -1800),
        ("02:00:00", 1800),
        # PBS measures the walltime some seconds apart from the dates.
        ("01:59:48", 1800),
        # It fits neither: the first is read.
        ("01:30:00", -1800),
        ("", -1800),
    ],
)
def test_a_doubtful_hour_is_settled_by_walltime(used: str, expected: int) -> None:
    start = BACK_S - 5400
    walltime = f" resources_used.walltime={used}" if used else ""
    rerun = record("R", message=f"user=ann ctime={start} start={start}{walltime}", date="11/01/2026 01:30:00")
    found = read(rerun, timezone=ZONE)
    assert found.only()["end_s"] - BACK_S == expected
    said = " ".join(PBS.notes(found.remarks, IngestSettings()))
    assert ("settled by walltime" in said) == (used not in ("01:30:00", ""))
    assert ("read as the first" in said) == (used in ("01:30:00", ""))


def test_the_date_of_a_record_that_tells_its_instant_is_never_doubtful() -> None:
    """Its second reading is the instant that the record tells, so that nothing is wrong with the zone."""
    message = f"user=ann ctime={BACK_S} start={BACK_S} end={BACK_S + 1800} Exit_status=0"
    found = read(record("E", message=message, date="11/01/2026 01:30:00"), timezone=ZONE)
    assert found.only()["end_s"] == BACK_S + 1800
    assert (found.remarks["dated"], found.remarks["dated_off"]) == (1, 0)
    assert (found.remarks["ambiguous_times"], found.remarks["settled_times"]) == (0, 0)
