"""Formats told by content, whatever the name, packing or company; and a look at logs before they are read."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.ingest import FORMATS, ingest, inspect
from pipeline.settings import IngestSettings, SiteSettings
from tests.unit.ingest.logs import row

SWF_LOG = "; Version: 2.2\n" + row(job_id=1) + "\n" + row(job_id=2) + "\n"
SACCT = (
    "JobID|User|JobName|State|Submit|Start|End|Elapsed|Timelimit|AllocCPUS|NNodes\n"
    "11|ada|relax_1|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T00:11:00|00:10:00|01:00:00|4|1\n"
)
PBS = (
    "01/01/2026 00:11:00;E;21.srv;user=ada group=g jobname=x queue=q ctime=1767225600 qtime=1767225600 "
    "etime=1767225600 start=1767225660 exec_host=n/0*4 Resource_List.ncpus=4 Resource_List.walltime=01:00:00 "
    "end=1767226260 Exit_status=0 resources_used.walltime=00:10:00\n"
)
JSON = json.dumps(
    {"jobs": [{"job_id": 31, "user": "ada", "name": "y", "state": {"current": "COMPLETED"}, "time": {
        "submission": 1767225600, "start": 1767225660, "end": 1767226260, "elapsed": 600}}]}
)  # fmt: skip
TABLE = "id,owner,submit_time,start,end,cores\n41,ada,2026-01-01T00:00:00,2026-01-01T00:01:00,2026-01-01T00:11:00,4\n"
LSF = (
    '"JOB_FINISH" "7.06" 1767226260 51 1000 33554434 4 1767225600 0 0 1767225660 "ada" "normal" "" "" "" "login1" '
    '"/home" "" "" "" "1.51" 0 1 "4*n1" 64 60.0 "relax" "./run.sh" 1.0 0.5 '
    + "-1 "
    * 17
    + '"" "chem" 0 4 "" "" 0 2048 0 '
    '"" "" "" "" 0 "" 0 "" -1 "" "" "" "" -1 "" "" 0 "" 1767225660 "" "" 0\n'
)
JOBCOMP = (
    "JobId=61 UserId=ada(1001) GroupId=g(100) Name=x JobState=COMPLETED Partition=q TimeLimit=60 "
    "StartTime=2026-01-01T00:01:00 EndTime=2026-01-01T00:11:00 NodeList=n1 NodeCnt=1 ProcCnt=4 WorkDir=/home "
    "ReservationName= Tres=cpu=4,node=1 Account=chem QOS=normal WcKey= Cluster=c SubmitTime=2026-01-01T00:00:00 "
    "EligibleTime=2026-01-01T00:00:00 DerivedExitCode=0:0 ExitCode=0:0 \n"
)
LOGS = {
    "swf": SWF_LOG, "sacct": SACCT, "pbs": PBS, "sacct_json": JSON, "table": TABLE, "lsf": LSF, "jobcomp": JOBCOMP,
}  # fmt: skip
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zstd": lambda data: pa.compress(data, "zstd", asbytes=True),
}


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("name", LOGS)
def test_a_log_is_known_by_what_is_in_it(tmp_path: Path, name: str, packing: str) -> None:
    path = tmp_path / "some.log"
    path.write_bytes(PACKERS[packing](LOGS[name].encode()))
    _, unreadable, report = ingest([path], SiteSettings(), IngestSettings())
    assert (report.facts["format"], unreadable.num_rows) == (name, 0)
    (seen,) = inspect([path], SiteSettings(timezone="Europe/Oslo"), IngestSettings())
    assert (seen.format, seen.compression, seen.error, seen.timezone) == (name, packing, None, "Europe/Oslo")
    assert seen.is_whole and "job_id" in seen.filled and "problem_size" in seen.empty


def test_a_known_layout_without_column_names_is_known_whatever_its_states_are(tmp_path: Path) -> None:
    cells = "345|345|c|batch|qos|chem|chem|891|ada|891|2020-06-24T15:06:34|2020-06-24T15:06:34|2020-06-30T19:24:08|"
    cells += "2020-06-30T19:34:08|00:10:00|0:0|FOO|1|12|12|48000Mn|cpu=12|cpu=12|3-00:00:00|n1|0065\n"
    path = tmp_path / "some.log"
    path.write_text(cells)
    jobs, unreadable, report = ingest([path], SiteSettings(), IngestSettings())
    assert (report.facts["format"], unreadable.num_rows) == ("sacct", 0)
    assert jobs.column("state").to_pylist() == ["FOO"]
    assert jobs.column("runtime_s").to_pylist() == [600.0]


def test_every_format_is_tested_here() -> None:
    assert set(LOGS) == set(FORMATS) and len(FORMATS) == len(LOGS)


def test_several_formats_of_one_site_in_one_go(tmp_path: Path) -> None:
    for name, text in LOGS.items():
        (tmp_path / f"{name}.log").write_text(text)
    (tmp_path / "notes.md").write_text("# nothing of use\n")
    jobs, _, report = ingest([tmp_path], SiteSettings(), IngestSettings())
    assert sorted(jobs["job_id"].to_pylist()) == ["1", "11", "2", "21.srv", "31", "41", "51", "61"]
    assert report.facts["format"] == "+".join(name for name in FORMATS if name in LOGS)
    assert report.facts["files"] == 7 and any("notes.md" in note for note in report.notes)


def test_the_same_job_in_two_dumps_of_one_system_is_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(SACCT.replace("11|ada", "31|ada"))
    (tmp_path / "b.json").write_text(JSON)
    jobs, _, report = ingest([tmp_path], SiteSettings(), IngestSettings())
    assert jobs.num_rows == 1 and report.set_aside["superseded"].rows == 1


def test_a_format_that_is_named_is_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(SACCT)
    with pytest.raises(InputError, match="SWF"):
        ingest([path], SiteSettings(), IngestSettings(format="swf"))


def test_inspecting_says_why_a_file_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("dear diary\n" * 50)
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "c").write_bytes(gzip.compress(SWF_LOG.encode() * 99)[:-30])
    found = {seen.label: seen for seen in inspect([tmp_path], SiteSettings(), IngestSettings())}
    assert all(seen.error and not seen.jobs.num_rows for seen in found.values()) and len(found) == 3


def test_inspecting_a_table_of_walltime_says_what_takes_it(tmp_path: Path) -> None:
    pq.write_table(pa.table({"cores": [1]}).replace_schema_metadata({"table": "groups"}), tmp_path / "mine.parquet")
    (found,) = inspect([tmp_path / "mine.parquet"], SiteSettings(), IngestSettings())
    assert found.error is not None and "PAR1" not in found.error
    assert "found a table of Walltime, not a log" in found.error and "backtest and clean" in found.error


def test_inspecting_reads_the_beginning_only_unless_asked_for_all(tmp_path: Path) -> None:
    path = tmp_path / "long.swf"
    path.write_text("; Version: 2.2\n" + "".join(row(job_id=i) + "\n" for i in range(1, 30_000)))
    (seen,) = inspect([path], SiteSettings(), IngestSettings())
    assert not seen.is_whole and 0 < seen.jobs.num_rows < 29_999 and not seen.unreadable.num_rows
    (seen,) = inspect([path], SiteSettings(), IngestSettings(), is_all=True)
    assert seen.is_whole and seen.jobs.num_rows == 29_999
