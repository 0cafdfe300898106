"""An earlier table brought up to date: nothing twice, the newest record wins, and what vanished or changed is told."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.ingest import OnDisk, ingest
from pipeline.report import Report
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.storage import read_table, write_table
from pipeline.tables import JOBS
from tests.unit.ingest.logs import row

REAL = Path(__file__).resolve().parents[4] / "shared" / "data"
POSITION = ("source_file", "source_line")


def update(out: Path, *logs: Path, hold_bytes: int = 1 << 26, **site: Any) -> Report:
    """What `walltime ingest LOG --out OUT --update` does."""
    to = OnDisk(out, out.with_suffix(".bad"), hold_bytes=hold_bytes)
    *_, report = ingest(logs, SiteSettings(**site), IngestSettings(), out if out.exists() else None, to=to)
    return report


def content(out: Path) -> list[dict[str, Any]]:
    return read_table(out, JOBS).drop_columns(list(POSITION)).to_pylist()


def log(folder: Path, name: str, *rows: str) -> Path:
    path = folder / name
    path.write_text("; UnixStartTime: 0\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("hold_bytes", [0, 1 << 26])
def test_overlapping_splits_give_what_one_reading_gives(tmp_path: Path, hold_bytes: int) -> None:
    rows = [row(job_id=i % 70, submit_s=10 * i, user=i % 3) for i in range(120)]
    whole, out = tmp_path / "whole.parquet", tmp_path / "jobs.parquet"
    update(whole, log(tmp_path, "all", *rows))
    for start, stop in pairwise(range(0, 121, 30)):
        part = log(tmp_path, f"{start}", *rows[max(0, start - 10) : stop])
        report = update(out, part, hold_bytes=hold_bytes)
        report.check()
    assert content(out) == content(whole)
    assert (report.facts["new_jobs"], report.facts["unchanged_jobs"]) == (30, 10)
    assert not [note for note in report.notes if "vanished" in note]
    again = out.read_bytes()
    update(out, tmp_path / "90", hold_bytes=hold_bytes)
    assert out.read_bytes() == again


def test_what_vanished_and_what_changed_is_told(tmp_path: Path) -> None:
    out = tmp_path / "jobs.parquet"
    before = [row(job_id=i, submit_s=100 * i) for i in range(1, 9)]
    update(out, log(tmp_path, "one", *before))
    now = [row(job_id=i, submit_s=100 * i, queue=9 if i == 5 else 3) for i in (4, 5, 7, 9)]
    report = update(out, log(tmp_path, "two", *now))
    jobs = {job["job_id"]: job for job in content(out)}
    assert sorted(jobs) == list("123456789") and jobs["5"]["queue"] == "9"
    facts = {name: report.facts[f"{name}_jobs"] for name in ("new", "unchanged", "changed", "vanished", "completed")}
    # 8 was submitted while the newer log ran, and so was 6; 1, 2 and 3 had been before it began.
    assert facts == {"new": 1, "unchanged": 2, "changed": 1, "vanished": 2, "completed": 0}
    assert any("should be in these logs and are not; they stay: 6, 8" in note for note in report.notes)
    assert any("whose word is kept: 5" in note for note in report.notes)
    assert report.seen.rows == 8 + len(now) + 1


def test_an_older_log_does_not_undo_a_newer_one(tmp_path: Path) -> None:
    out = tmp_path / "jobs.parquet"
    running, done = row(job_id=1, runtime_s=-1, status=-1), row(job_id=1, runtime_s=300)
    update(out, log(tmp_path, "new", done))
    report = update(out, log(tmp_path, "old", running))
    assert [job["runtime_s"] for job in content(out)] == [300.0]
    assert report.facts["newer_in_earlier_jobs"] == 1


def test_a_job_number_used_again_is_a_restart_and_other_sites_stay(tmp_path: Path) -> None:
    out = tmp_path / "jobs.parquet"
    update(out, log(tmp_path, "a", row(job_id=7, submit_s=900)), name="north")
    update(out, log(tmp_path, "b", row(job_id=7, submit_s=500)), name="north")
    update(out, log(tmp_path, "c", row(job_id=7, submit_s=900)), name="south")
    rows = [(job["site"], job["restart"], job["submit_s"]) for job in content(out)]
    assert rows == [("north", 0, 500), ("south", 0, 900), ("north", 1, 900)]


@pytest.mark.shared
@pytest.mark.skipif(not REAL.exists(), reason="the real logs are not beside this checkout")
def test_a_real_snapshot_is_completed_by_the_final_dump(tmp_path: Path) -> None:
    folder = REAL / "sacct" / "real-slurm-22.05.8"
    out, final = tmp_path / "jobs.parquet", folder / "sacct-X-duplicates.txt.gz"
    update(out, folder / "sacct-X-midrun-snapshot.txt.gz")
    report = update(out, final)
    jobs, _, _ = ingest([final], SiteSettings(), IngestSettings())
    assert content(out) == jobs.drop_columns(list(POSITION)).to_pylist()
    assert (report.facts["completed_jobs"], report.facts["vanished_jobs"]) == (8, 0)


@pytest.mark.shared
@pytest.mark.skipif(not REAL.exists(), reason="the real logs are not beside this checkout")
@pytest.mark.parametrize("name", ["pbs/real-openpbs-23.06.06/20261121.gz", "swf/KTH-SP2-1996-2.1-cln.swf.gz"])
def test_re_reading_a_real_log_changes_nothing(tmp_path: Path, name: str) -> None:
    out = tmp_path / "jobs.parquet"
    update(out, REAL / name)
    before = out.read_bytes()
    report = update(out, REAL / name)
    assert out.read_bytes() == before
    assert (report.facts["new_jobs"], report.facts["changed_jobs"], report.facts["vanished_jobs"]) == (0, 0, 0)


def test_a_table_that_is_none_is_refused_and_stays(tmp_path: Path) -> None:
    from pipeline.errors import InputError

    out = tmp_path / "jobs.parquet"
    out.write_text("no table")
    with pytest.raises(InputError, match="jobs table"):
        update(out, log(tmp_path, "a", row()))
    assert out.read_text() == "no table"
    assert write_table(tmp_path / "x.parquet", JOBS.empty(), JOBS).exists()


SACCT = (
    "JobID|User|State|Submit|Start|End|Elapsed|AllocCPUS{more}\n7|ada|COMPLETED|{day}|{day}|{end}|00:10:00|4{values}\n"
)
DAY, END = "2026-01-01T00:00:00", "2026-01-01T00:10:00"


def dump(folder: Path, name: str, more: str = "", values: str = "", end: str = END) -> Path:
    path = folder / name
    path.write_text(SACCT.format(more=more, values=values, day=DAY, end=end))
    return path


def test_an_export_with_fewer_columns_empties_nothing(tmp_path: Path) -> None:
    out = tmp_path / "jobs.parquet"
    rich, poor = dump(tmp_path, "rich", "|Account|ExitCode", "|chem|3:0"), dump(tmp_path, "poor", "|QOS", "|high")
    update(out, rich)
    report = update(out, poor)
    (job,) = content(out)
    assert (job["account"], job["exit_code"], job["qos"]) == ("chem", 3, "high")
    assert report.facts["changed_jobs"] == 1
    assert update(out, rich).facts["unchanged_jobs"] == 1
    (both,) = ingest([rich, poor], SiteSettings(), IngestSettings())[0].drop_columns(list(POSITION)).to_pylist()
    assert both == job


def test_what_another_run_of_a_job_used_is_not_taken_over(tmp_path: Path) -> None:
    out = tmp_path / "jobs.parquet"
    first = dump(tmp_path, "first", "|ExitCode", "|3:0")
    update(out, first)
    first.write_text(first.read_text().replace(f"{DAY}|{END}", f"2026-01-02T00:00:00|{END.replace('-01T', '-02T')}"))
    again = dump(tmp_path, "again")
    again.write_text(again.read_text().replace(f"{DAY}|{END}", f"2026-01-02T00:00:00|{END.replace('-01T', '-02T')}"))
    update(out, again)
    (job,) = content(out)
    assert job["exit_code"] is None and job["start_s"] - job["submit_s"] == 86_400


def test_another_site_s_jobs_stand_beside_and_have_not_vanished(tmp_path: Path) -> None:
    out, rich = tmp_path / "jobs.parquet", dump(tmp_path, "rich")
    update(out, rich, name="one")
    report = update(out, rich, name="two")
    assert [job["site"] for job in content(out)] == ["one", "two"]
    assert (report.facts["vanished_jobs"], report.facts["other_sites_jobs"]) == (0, 1)
    assert "1 jobs of the earlier table are of other sites than two, and stay as they are: 7" in report.notes


def test_times_without_a_zone_are_told_with_the_one_they_are_read_as(tmp_path: Path) -> None:
    report = update(tmp_path / "jobs.parquet", dump(tmp_path, "rich"), timezone="Europe/Oslo")
    assert "times without a zone are read as of Europe/Oslo (site.timezone)" in report.notes


def altered(out: Path, how: str) -> None:
    """A table as another release, or a user's own script, may have left it."""
    table = pq.read_table(out)
    match how:
        case "more":
            table = table.append_column("mine", pa.array([1.0] * table.num_rows))
        case "fewer":
            table = table.drop_columns(["qos", "energy_j"])
        case "no key":
            table = table.drop_columns(["job_id"])
        case "type":
            table = table.set_column(
                table.column_names.index("procs"), "procs", table["procs"].cast(pa.string())
            )  # fmt: skip
        case "order":
            table = table.select(table.column_names[::-1])
    pq.write_table(table, out)


@pytest.mark.parametrize("how", ["fewer", "order"])
def test_a_table_of_another_release_is_updated(tmp_path: Path, how: str) -> None:
    out = tmp_path / "jobs.parquet"
    update(out, log(tmp_path, "one", row(job_id=1, submit_s=100), row(job_id=2, submit_s=200)))
    before = content(out)
    altered(out, how)
    report = update(out, log(tmp_path, "two", row(job_id=3, submit_s=300)))
    assert content(out)[:2] == before
    assert len(content(out)) == 3
    assert any("lacks columns qos, energy_j" in note for note in report.notes) == (how == "fewer")


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("more", r"jobs\.parquet: found column mine, which jobs does not have, expected .*; write to another --out"),
        ("no key", r"jobs\.parquet: found values that break its own rules \(table jobs: .* nulls in column job_id"),
        ("type", r"jobs\.parquet: found values that break its own rules \(table jobs: .*column procs of type string"),
    ],
)
def test_a_table_that_cannot_be_updated_is_left_as_it_is(tmp_path: Path, how: str, sentence: str) -> None:
    out = tmp_path / "jobs.parquet"
    update(out, log(tmp_path, "one", row(job_id=1, submit_s=100)))
    altered(out, how)
    before = out.read_bytes()
    with pytest.raises(InputError, match=sentence):
        update(out, log(tmp_path, "two", row(job_id=3, submit_s=300)))
    assert out.read_bytes() == before


@pytest.mark.parametrize("times", [1, 2])
def test_a_corrected_record_replaces_the_earlier_one_though_that_ends_later(tmp_path: Path, times: int) -> None:
    """Both are final: what was read last is the scheduler's correction, and the report says so."""
    out = tmp_path / "jobs.parquet"
    update(out, log(tmp_path, "wrong", row(job_id=5, runtime_s=2_587_000_000), row(job_id=7)))
    for _ in range(times):
        report = update(out, log(tmp_path, "right", row(job_id=5, runtime_s=599)))
    assert {job["job_id"]: job["runtime_s"] for job in content(out)}["5"] == 599
    assert [job["restart"] for job in content(out)] == [0, 0]
    assert (report.facts["changed_jobs"], report.facts["newer_in_earlier_jobs"]) == (times == 1, 0)
    assert any("read otherwise in these logs, whose word is kept: 5" in note for note in report.notes) == (times == 1)
    assert any("of two final ones that of these logs" in note for note in report.notes)
