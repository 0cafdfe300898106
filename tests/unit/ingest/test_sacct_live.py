"""The live source: a script plays sacct, well and badly."""

import json
import os
import shlex
import stat
import sys
import time
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path

import pytest

from flows.services.logs import log_sources, time_window
from pipeline.errors import InputError
from pipeline.ingest import FORMATS, ingest
from pipeline.ingest.formats.sacct.columns import COLUMNS
from pipeline.ingest.live import Program, Window, live, run
from pipeline.ingest.sources import ReadOnce, head, line_blocks
from pipeline.settings import IngestSettings, RunSettings, SiteSettings
from tests.flows.fake_programs import SACCT_FIELDS

SITE = SiteSettings(name="c", timezone="Europe/Stockholm")
STOCKHOLM = RunSettings(site=SITE)
WINDOW = Window(1_700_000_000, 1_700_086_400)
TOKEN = b"\x01\x02\x03\x04"
DELIMITER = "\x1f01020304"

FAKE = """import json, os, random, sys, time
help = {help!r}
if sys.argv[1:] == ["--helpformat"]:
    print(help)
    sys.exit({help_code})
fields = next(a for a in sys.argv if a.startswith("--format=")).partition("=")[2].split(",")
delimiter = next(a for a in sys.argv if a.startswith("--delimiter=")).partition("=")[2]
with open({log!r}, "a") as log:
    log.write(json.dumps([sys.argv[1:], dict(os.environ)]) + "\\n")
out = sys.stdout.buffer
for field in fields:
    if field.lower() not in help.lower().split():
        sys.exit("sacct: error: Invalid field requested: " + json.dumps(field))
def row(**values):
    out.write(delimiter.join(values.get(f, "") for f in fields).encode("utf-8", "surrogateescape") + b"\\n")
row(**{{f: f for f in fields}})
{body}
"""

JOB = {
    "JobID": "7", "JobIDRaw": "7", "User": "ann", "JobName": "hydro", "State": "COMPLETED", "ExitCode": "0:0",
    "Submit": "2023-11-15T08:00:00", "Start": "2023-11-15T08:00:10", "End": "2023-11-15T08:01:10", "ElapsedRaw": "60",
    "Elapsed": "00:01:00", "AllocCPUS": "4", "ReqCPUS": "4", "NNodes": "1", "Timelimit": "00:05:00",
    "TimelimitRaw": "5",
}  # fmt: skip

Fake = Callable[..., IngestSettings]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """Settings with a script for sacct: its --helpformat, and what it does after its header."""

    def make(body: str = "", help: str = SACCT_FIELDS, help_code: int = 0, **settings: object) -> IngestSettings:
        path, script = tmp_path / "sacct", tmp_path / "sacct.py"
        script.write_text(FAKE.format(help=help, help_code=help_code, log=str(tmp_path / "log"), body=body))
        # A first line naming Python itself would end at a space in the checkout's path.
        path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(script))} "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return IngestSettings(sacct_command=str(path), **settings)

    return make


def output_of(settings: IngestSettings) -> bytes:
    with live(SITE, settings, WINDOW, os.environ, TOKEN) as (source, *_):
        return b"".join(block.data for block in line_blocks(source))


def read(settings: IngestSettings):
    if "sacct" not in FORMATS:
        pytest.skip("no reader of sacct's text yet")
    with live(SITE, settings, WINDOW, os.environ, TOKEN) as (source, site, read_under):
        return ingest([source], site, read_under)


def rows(*jobs: dict[str, str]) -> str:
    return "\n".join(f"row(**{job!r})" for job in jobs)


def test_sacct_is_asked_for_its_own_fields_in_utc_with_no_shell(fake: Fake, tmp_path: Path) -> None:
    assert output_of(fake(help="JobID  User\nState Submit JobIDRaw Frobnicate")).startswith(b"JobID\x1f01020304User")
    arguments, environment = json.loads((tmp_path / "log").read_text())
    assert arguments == [
        "--allusers", "--duplicates", "--parsable2", "--noconvert", f"--delimiter={DELIMITER}",
        "--starttime=2023-11-14T22:13:20", "--endtime=2023-11-15T22:13:20",
        "--format=JobID,User,Submit,State,JobIDRaw",
    ]  # fmt: skip
    assert {k: environment[k] for k in ("TZ", "LC_ALL", "SLURM_TIME_FORMAT")} == {
        "TZ": "UTC", "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "standard",
    }  # fmt: skip


def test_every_column_that_the_reader_reads_is_asked_for_and_read(fake: Fake, tmp_path: Path) -> None:
    told = {
        "Cluster": "oxbow", "Group": "phys", "Account": "phys7", "Partition": "long", "QOS": "normal", "NCPUS": "4",
        "Eligible": "2023-11-15T08:00:05", "Suspended": "00:00:00", "ReqNodes": "1", "ReqMem": "8G", "MaxRSS": "1024K",
        "AveRSS": "1000K", "NTasks": "4", "TotalCPU": "00:03:20", "ConsumedEnergyRaw": "7200", "ConsumedEnergy": "7.2K",
        "DerivedExitCode": "1:0", "AllocTRES": "cpu=4,mem=8G,node=1,energy=7200,gres/gpu=2", "ReqTRES": "cpu=4,mem=8G",
        "DBIndex": "77", "WorkDir": "/home/ann", "Comment": "a|b", "SubmitLine": "sbatch run.sh",
    }  # fmt: skip
    read(fake(rows(JOB | told)))
    asked = json.loads((tmp_path / "log").read_text().splitlines()[0])[0][-1].removeprefix("--format=").split(",")
    offers = {word.lower() for word in SACCT_FIELDS.split()}
    wanted = {next((name for name in column.names if name in offers), "") for column in COLUMNS.values()} - {""}
    assert wanted <= {name.lower() for name in asked}
    jobs = read(fake(rows(JOB | told)))[0].to_pylist()[0]
    assert (jobs["energy_j"], jobs["cpu_s"], jobs["gpus"], jobs["derived_exit_code"]) == (7200.0, 50.0, 2, 1)
    assert (jobs["user_group"], jobs["account"], jobs["qos"], jobs["max_rss_kib"]) == ("phys", "phys7", "normal", 1024)


def test_a_field_that_this_sacct_lacks_is_not_asked_for(fake: Fake) -> None:
    old = " ".join(name for name in SACCT_FIELDS.split() if name not in ("ConsumedEnergyRaw", "SubmitLine", "JobIDRaw"))
    assert read(fake(rows(JOB | {"ConsumedEnergy": "7.2K"}), help=old))[0]["energy_j"].to_pylist() == [7200.0]


def test_the_sites_own_format_is_no_part_of_the_environment(fake: Fake, tmp_path: Path) -> None:
    with live(SITE, fake(), WINDOW, dict(os.environ) | {"SACCT_FORMAT": "jobid"}, TOKEN) as (source, *_):
        head(source)
    assert "SACCT_FORMAT" not in (tmp_path / "log").read_text()


def test_hostile_names_come_through(fake: Fake) -> None:
    names = ["a|b", "new\nline", "7|8\n9|", 'quo"te', "übung", "-n", "a\x1fb", "\x1f", "tab\t", " x "]
    jobs = [JOB | {"JobID": str(n), "JobIDRaw": str(n), "JobName": name} for n, name in enumerate(names, 1)]
    table, unreadable, _ = read(fake(rows(*jobs)))
    assert (table.num_rows, unreadable.num_rows) == (len(names), 0)
    assert [name.strip() for name in table["job_name"].to_pylist()] == [name.strip() for name in names]
    assert table["submit_s"].to_pylist() == [1_700_035_200] * len(names)
    assert set(table["runtime_s"].to_pylist()) == {60.0}


def test_it_is_asked_once_though_its_start_is_looked_at_first(fake: Fake, tmp_path: Path) -> None:
    with live(SITE, fake(rows(*[JOB] * 5000)), WINDOW, os.environ, TOKEN) as (source, *_):
        start = head(source)
        whole = b"".join(block.data for block in line_blocks(source))
    assert whole.startswith(start)
    assert whole.count(b"\n") == 5001
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_it_is_read_once(fake: Fake, tmp_path: Path) -> None:
    with live(SITE, fake(rows(*[JOB] * 20_000)), WINDOW, os.environ, TOKEN) as (source, *_):
        assert sum(block.n_lines for block in line_blocks(source)) == 20_001
        with pytest.raises(ValueError, match="read once"):
            list(line_blocks(source))
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_a_look_at_the_start_leaves_a_reading_alone(fake: Fake) -> None:
    with live(SITE, fake(rows(*[JOB] * 5000)), WINDOW, os.environ, TOKEN) as (source, *_):
        blocks = line_blocks(source, 200_000)
        first = next(blocks)
        assert first.data.startswith(head(source))
        assert (first.data + b"".join(block.data for block in blocks)).count(b"\n") == 5001


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("sys.stderr.write('sacct: error: slurmdbd:\\n Connection refused\\n'); sys.exit(1)",
         "found exit code 1 and 'sacct: error: slurmdbd: Connection refused', expected records and exit code 0"),
        ("sys.exit(3)", "found exit code 3, expected"),
        ("out.flush(); os.kill(os.getpid(), 9)", "found signal 9, expected"),
        ("sys.stderr.write('x' * 1000000); sys.exit(1)", "found exit code 1 and 'xxx"),
        ("sys.stderr.write('\\x1b[31mred'); sys.exit(1)", r"and '\\x1b\[31mred'"),
    ],
)  # fmt: skip
def test_its_failure_is_one_sentence(fake: Fake, body: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as failure:
        output_of(fake(body))
    assert "\n" not in str(failure.value)


def test_its_silence_ends(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.ingest.live.SACCT_TIMEOUT_S", 0.5)
    began = time.monotonic()
    with pytest.raises(InputError, match=r"found no output for 0.5 s"):
        output_of(fake("out.flush(); time.sleep(600)"))
    assert time.monotonic() - began < 30


def test_what_it_started_ends_with_it(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.ingest.live.SACCT_TIMEOUT_S", 1.0)
    pid_file = tmp_path / "pid"
    child = f"import subprocess; n = subprocess.Popen(['sleep', '600']).pid; open({str(pid_file)!r}, 'w').write(str(n))"
    with pytest.raises(InputError, match="no output"):
        output_of(fake(f"{child}; out.flush(); time.sleep(600)"))
    pid = int(pid_file.read_text())
    for _ in range(100):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError("the child still runs")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (IngestSettings(sacct_command="/nowhere/sacct"), "/nowhere/sacct: found a program that cannot be run"),
        (IngestSettings(sacct_command="no-such-program"), "found a program that cannot be run"),
        (IngestSettings(sacct_command="/"), "found a program that cannot be run"),
        (IngestSettings(sacct_command="true"), "found no field list from --helpformat"),
        (IngestSettings(sacct_command="echo"), "found no field list from --helpformat"),
        (IngestSettings(sacct_command="false"), "found exit code 1"),
    ],
)
def test_another_program_is_refused(settings: IngestSettings, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        output_of(settings)


def test_no_job_in_the_window_is_one_sentence(fake: Fake) -> None:
    with pytest.raises(InputError, match="found no job"):
        read(fake())


@pytest.mark.parametrize(
    "body", ["out.write(random.Random(4).randbytes(100000))", "out.write(b'x' * 3000000)", "out.write(b'\\0' * 9)"]
)
def test_garbage_among_the_records_loses_no_job(fake: Fake, body: str) -> None:
    settings = fake("\n".join([rows(JOB), body, 'out.write(b"\\n")', rows(JOB | {"JobID": "8"})]))
    jobs, _, _ = read(settings.model_copy(update={"max_damaged": 1.0}))
    assert "7" in jobs["job_id"].to_pylist()


def test_a_window_that_ends_before_it_begins_is_refused(fake: Fake) -> None:
    with pytest.raises(InputError, match="--since"), live(SITE, fake(), Window(5, 5), os.environ, TOKEN):
        pass


def test_dates_are_of_the_sites_zone() -> None:
    assert time_window("2026-01-01", "2026-07-01T12:00", STOCKHOLM, 0) == Window(1767222000, 1782900000)
    assert time_window("2026-01-01T00:00:00+00:00", None, STOCKHOLM, 1767225601) == Window(1767225600, 1767225601)
    assert time_window(None, None, RunSettings(), 8 * 86400) == Window(86400, 8 * 86400)
    with pytest.raises(InputError, match="--since: found 'yesterday'"):
        time_window("yesterday", None, RunSettings(), 0)


@pytest.mark.parametrize(
    ("paths", "is_live", "since", "sentence"),
    [
        (["a.log"], True, None, "found --live and a.log"),
        (["a.log"], False, "2026-01-01", "found no --live"),
        ([], False, None, "found no log"),
    ],
)
def test_files_or_live_but_not_both(paths: list[str], is_live: bool, since: str | None, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence), log_sources(paths, is_live, since, None, RunSettings(site=SITE)):
        pass


def test_a_short_program_is_run_whole() -> None:
    assert run(("echo", "a b"), os.environ, 10, "") == b"a b\n"
    with Program(("sh", "-c", "printf abc"), os.environ, 10, "") as program:
        output = ReadOnce(BufferedReader(program))
        assert (output.view().read(2), output.view().read(), output.view().read(5)) == (b"ab", b"abc", b"abc")
