"""The command line: what each command prints and writes, and one sentence with exit code 2 for what it cannot use."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from pipeline.run import PUBLISHED, STEPS
from pipeline.storage import read_table
from pipeline.tables import JOBS, TABLES
from tests.flows.support import SAMPLES, Outcome

Walltime = Callable[..., Outcome]

LOG = b"; MaxProcs: 64\n" + b"".join(
    b"%d %d 5 100 4 -1 -1 4 200 -1 1 1 1 1 1 1 -1 -1\n" % (n, 1000 * n) for n in range(1, 300)
)
BAD_INPUTS = (
    "empty file", "binary file", "truncated gz", "no job", "missing path", "glob of nothing", "escape in a name",
)  # fmt: skip


def bad_inputs(folder: Path) -> dict[str, tuple[list[str], str]]:
    """Name -> what to give beside the config, and what the sentence names."""
    (folder / "empty.swf").write_bytes(b"")
    (folder / "image.swf").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 64)
    (folder / "cut.swf.gz").write_bytes(gzip.compress(LOG)[:-200])
    (folder / "only.swf").write_text("; MaxProcs: 64\n; nothing else\n")
    return {
        "empty file": (["--log", str(folder / "empty.swf")], "empty.swf"),
        "binary file": (["--log", str(folder / "image.swf")], "image.swf"),
        "truncated gz": (["--log", str(folder / "cut.swf.gz")], "cut.swf.gz"),
        "no job": (["--log", str(folder / "only.swf")], "only.swf"),
        "missing path": (["--log", str(folder / "none.swf")], "none.swf"),
        "glob of nothing": (["--log", str(folder / "*.none")], "*.none"),
        "escape in a name": (["--log", "\x1b[31m.swf"], "\\x1b[31m.swf"),
    }


@pytest.mark.usefixtures("prefect")
@pytest.mark.parametrize("mode", ["--plain", "--quiet"])
@pytest.mark.parametrize("what", BAD_INPUTS)
def test_bad_input_is_one_sentence(config: Path, tmp_path: Path, walltime: Walltime, what: str, mode: str) -> None:
    given, named = bad_inputs(tmp_path)[what]
    refused = walltime("run", config, *given, mode)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.count("\n") == 1 and refused.err.startswith("walltime: ") and refused.err.endswith(".\n")
    assert named in refused.err and "expected" in refused.err and "Traceback" not in refused.err
    assert not (tmp_path / "out").exists()


def test_a_failure_leaves_what_was_published(config: Path, tmp_path: Path, walltime: Walltime) -> None:
    assert walltime("run", config, "--plain", "--quiet").code == 0
    record = tmp_path / "out" / "last_run.json"
    lock = tmp_path / "out" / "work" / ".lock"
    before = {
        path: path.read_bytes()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file() and path not in (record, lock)
    }
    for given, _ in bad_inputs(tmp_path).values():
        assert walltime("run", config, "--plain", *given).code == 2
    assert json.loads(record.read_text())["state"] == "failed"
    record.unlink()
    lock.unlink()
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("logs = ['x']\n[site]\nmax_proc = 1\n", "did you mean max_procs"),
        ("logs = ['x']\n[publish]\nkeep_versions = 1\n", "publish.keep_versions = 1"),
        ("logs = [\n", "TOML error"),
        ("", "no logs"),
        ("logs = []", "empty list of logs"),
        ("logs = ['none.swf']", "none.swf"),
    ],
)
def test_a_config_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, walltime: Walltime, text: str, named: str
) -> None:
    (tmp_path / "site.toml").write_text(text)
    refused = walltime("run", tmp_path / "site.toml")
    assert refused.code == 2 and named in refused.err and refused.err.count("\n") == 1


def test_run_ends_with_a_summary(config: Path, tmp_path: Path, walltime: Walltime) -> None:
    shown = walltime("run", config, "--plain", "--site", "elsewhere")
    assert shown.code == 0
    words = (
        "lines read,143,cancelled_before_start,processor-hours,groups,predictions,estimates,seconds,peak MiB,Sample:"
    )
    for word in (*words.split(","), "elsewhere", "walltime show", str(tmp_path / "out/manifest.json")):
        assert word in shown.out, word
    assert [line.split()[0] for line in shown.err.splitlines()][:2] == ["ingest", "clean"]


def test_what_is_piped_is_whole_and_bare(config: Path, tmp_path: Path, walltime: Walltime) -> None:
    out = tmp_path / "two words"
    shown = walltime("run", config, "--plain", "--out", out).out
    assert f"walltime show --from '{out}'" in shown and "swf.toml" not in shown
    assert "Groups by chosen law and fit status\n" in shown
    advice = walltime("show", "--from", out, "predictions").out
    assert "later runs have been compared with this row to judge it: " in advice and "…" not in advice
    ingested = walltime("ingest", SAMPLES / "traps.swf", "--out", tmp_path / "jobs.parquet").out
    assert "1704672059 (2024-01-08 00:00:59+00:00)" in ingested
    for text in (shown, advice, ingested, walltime("show", "--columns").out):
        assert [line for line in text.splitlines() if line != line.rstrip()] == []


def test_the_summary_says_how_many_predictions_are_ok_and_for_how_many_jobs(config: Path, walltime: Walltime) -> None:
    summary = json.loads(walltime("run", config, "--plain", "--json").out)
    rows = {name: pq.read_table(summary["tables"][name]).to_pylist() for name in ("predictions", "observations")}
    ok = {(row["group_id"], row["procs"]) for row in rows["predictions"] if row["reliability"] == "ok"}
    jobs = sum(row["n_jobs"] for row in rows["observations"] if (row["group_id"], row["procs"]) in ok)
    assert (summary["predictions_ok"], summary["predictions_ok_jobs"]) == (len(ok), jobs)
    words = [row["reliability"] for row in rows["predictions"]]
    assert {word: n for word, n in summary["reliability"].items() if n} == {word: words.count(word) for word in words}
    assert jobs < summary["kept"]["jobs"]


def test_run_json_is_all_there_is_on_stdout(config: Path, walltime: Walltime) -> None:
    summary = json.loads(walltime("run", config, "--plain", "--json").out)
    assert summary["lines_read"] == 143
    assert summary["jobs"] == summary["kept"]["jobs"] + summary["set_aside_total"]["jobs"]
    assert summary["lines_read"] == summary["jobs"] + sum(summary["no_jobs"].values())
    assert summary["set_aside_total"]["jobs"] == sum(one["jobs"] for one in summary["set_aside"].values())
    assert summary["seconds"] > 0 and summary["peak_mib"] > 0
    assert all(Path(path).is_file() for path in summary["tables"].values())


def test_inspect_prints_times_as_show_does(walltime: Walltime) -> None:
    dump = SAMPLES / "millrace.sacct.txt"
    shown, raw = (
        walltime("ingest", "--dry-run", dump).out,
        json.loads(walltime("ingest", "--dry-run", dump, "--json").out),
    )
    assert "2024-01-08T00:28:30Z" in shown and "1704673710" not in shown
    assert raw["logs"][0]["jobs"][0]["submit_s"] == 1704673710


def test_columns_says_how_show_prints_times(walltime: Walltime) -> None:
    said = "Times are numbers in the files; `walltime show` prints them as UTC"
    assert said in walltime("show", "--columns", "jobs").out


def test_show_and_columns(config: Path, tmp_path: Path, walltime: Walltime) -> None:
    assert walltime("run", config, "--plain", "--quiet").code == 0
    out = tmp_path / "out"
    assert "oxbow" in walltime("show", "--from", out).out
    facts = json.loads(walltime("show", "--from", out, "--json").out)
    assert set(facts["tables"]) == set(PUBLISHED)
    found = json.loads(
        walltime("show", "--from", out, "jobs", "--where", "flag = 'never_ran'", "--limit", "2", "--json").out
    )
    assert found["matching"] == 6 and len(found["shown"]) == 2 and found["shown"][0]["flag"] == "never_ran"
    assert "of 94 rows" in walltime("show", "--from", out, "jobs", "--limit", "3").out
    assert "0 of 0 rows" in walltime("show", "--from", out, "fits", "--where", "false").out
    for arguments in (("nope",), ("jobs", "--where", "nope >"), ("--where", "true")):
        assert walltime("show", "--from", out, *arguments).code == 2
    assert walltime("show", "--from", tmp_path).code == 2
    described = json.loads(walltime("show", "--columns", "--json").out)
    assert set(described) == set(TABLES)
    assert "Processors allocated." in walltime("show", "--columns", "observations").out
    assert walltime("show", "--columns", "nope").code == 2


def test_what_cannot_be_opened_is_one_sentence(config: Path, tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "afile").touch()
    (tmp_path / "latin.toml").write_bytes(b"logs = ['\xe9']")
    refused = {
        ("run", config, "--plain", "--out", tmp_path / "afile"): "afile: found a file where a folder is needed",
        ("run", config, "--plain", "--out", "/proc/x"): "found a folder that cannot be created",
        ("run", config, "--plain", "--out", ""): "--out: found an empty path",
        ("run", tmp_path): "found a folder, expected a TOML config",
        ("run", tmp_path / "latin.toml"): "latin.toml, line 1: found bytes that are no UTF-8",
        ("ingest", SAMPLES / "traps.swf", "--out", tmp_path / "afile/x.csv"): "afile: found a file where a folder",
        ("scaling", "fit", tmp_path): "found a folder, expected a table with a column of counts",
    }
    for arguments, sentence in refused.items():
        shown = walltime(*arguments)
        assert shown.code == 2 and sentence in shown.err and shown.err.count("walltime:") == 1, shown
        assert "Errno" not in shown.err and "codec" not in shown.err and not shown.err.endswith("?.\n")


def test_a_log_that_may_not_be_read_is_the_same_sentence_in_run_as_in_ingest(
    config: Path, tmp_path: Path, walltime: Walltime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests may run as root, who may read everything."""

    def refuse(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pipeline.ingest.sources._packing_of", refuse)
    ran = walltime("run", config, "--plain")
    assert ran.code == 2 and "traps.swf: found a file that you may not read, expected a log that can be read" in ran.err
    assert "ask for permission to read" in ran.err and "line 1" not in ran.err


def test_a_condition_that_cannot_be_used_is_told_without_our_own_query(
    config: Path, tmp_path: Path, walltime: Walltime
) -> None:
    assert walltime("run", config, "--plain", "--quiet").code == 0
    told = (("proc > 1", "did you mean procs?"), ("procs >", "syntax error"), ("procs > 'x'", "Could not convert"))
    for condition, sentence in told:
        shown = walltime("show", "--from", tmp_path / "out", "jobs", "--where", condition)
        assert shown.code == 2 and sentence in shown.err, shown
        assert "read_parquet" not in shown.err and "LINE" not in shown.err


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_ingest_writes_jobs_and_what_it_could_not_read(tmp_path: Path, walltime: Walltime, suffix: str) -> None:
    out = tmp_path / f"jobs.{suffix}"
    done = walltime("ingest", SAMPLES / "traps.swf", "--out", out, "--site", "oxbow", "--json")
    report = json.loads(done.out)["report"]
    rows = read_table(out, JOBS).num_rows if suffix == "parquet" else pyarrow.csv.read_csv(out).num_rows
    assert rows == report["kept"]["rows"] == 94
    beside = tmp_path / f"jobs.unreadable.{suffix}"
    unread = pq.read_metadata(beside).num_rows if suffix == "parquet" else pyarrow.csv.read_csv(beside).num_rows
    others = ("blank", "comment", "superseded")
    assert unread == sum(tally["rows"] for name, tally in report["set_aside"].items() if name not in others) > 0
    assert walltime("ingest", SAMPLES / "riverbend.swf.gz", "--out", out).code == 0
    assert not beside.exists()


def test_ingest_refuses(tmp_path: Path, walltime: Walltime) -> None:
    log = SAMPLES / "traps.swf"
    assert walltime("ingest", log, "--out", tmp_path / "jobs.txt").code == 2
    assert walltime("ingest", log, "--out", tmp_path / "jobs.parquet", "--format", "sacct9").code == 2
    assert walltime("ingest", log).code == 2
    assert walltime("ingest", tmp_path / "none", "--out", tmp_path / "jobs.parquet").code == 2
    assert list(tmp_path.iterdir()) == []


def test_usage_errors_exit_2_and_help_0(walltime: Walltime) -> None:
    assert walltime("run").code == 2
    assert walltime("nope").code == 2
    assert walltime("run", "x.toml", "--nope").code == 2
    for arguments in (("nope",), ("run", "x.toml", "--nope"), ("query", "--procs", "many"), ("ingest", "x")):
        misused = walltime(*arguments)
        assert (misused.code, misused.err.count("\n")) == (2, 1) and "--help explains." in misused.err
    assert walltime("--help").code == 0
    assert walltime("--version").out.startswith("walltime 0.")


@pytest.mark.parametrize("mode", ["--plain", "--quiet"])
@pytest.mark.usefixtures("prefect")
def test_interrupt_exits_130_and_leaves_nothing(
    config: Path, tmp_path: Path, walltime: Walltime, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    def interrupt(*_: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pipeline.run.ingest", interrupt)
    stopped = walltime("run", config, mode)
    assert (stopped.code, stopped.out) == (130, "")
    assert "Traceback" not in stopped.err
    assert not (tmp_path / "out").exists()


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "flows.cli", *map(str, arguments)]


def test_a_reader_who_leaves_early_is_no_failure_worth_a_word() -> None:
    with subprocess.Popen(command("show", "--columns"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as shown:
        assert shown.stdout is not None and shown.stderr is not None
        shown.stdout.close()
        assert shown.stderr.read() == b""


def test_help_does_not_wait_for_heavy_imports() -> None:
    code = "import sys, flows.cli; print(*sys.modules)"
    imported = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert not {"prefect", "pandas", "numba", "scipy", "pyarrow"} & set(imported)


def test_a_failed_flow_in_its_own_process_says_one_sentence(config: Path, tmp_path: Path) -> None:
    """With Prefect's own embedded API and its own log, as a user has them."""
    (tmp_path / "empty.swf").write_bytes(b"")
    environment = {k: v for k, v in os.environ.items() if k != "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"}
    done = subprocess.run(
        command("run", config, "--log", tmp_path / "empty.swf"), capture_output=True, text=True, timeout=180,
        env=environment | {"PREFECT_HOME": str(tmp_path / "prefect")}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "empty.swf" in done.stderr


def test_a_prefect_api_out_of_reach_is_one_sentence(config: Path, tmp_path: Path) -> None:
    environment = os.environ | {"PREFECT_HOME": str(tmp_path / "prefect"), "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    done = subprocess.run(
        command("run", config), capture_output=True, text=True, timeout=180, env=environment, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "127.0.0.1:9" in done.stderr and "--plain" in done.stderr
    assert not (tmp_path / "out").exists()


def test_kill_9_leaves_nothing_that_the_next_run_keeps(config: Path, tmp_path: Path, walltime: Walltime) -> None:
    log = SAMPLES / "riverbend.swf.gz"
    with subprocess.Popen(command("run", config, "--log", log, "--plain"), stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        first = run.stderr.readline()
        assert first.startswith("ingest"), first
        run.send_signal(signal.SIGKILL)
    assert list((tmp_path / "out/work").glob("ingest-*"))
    assert not (tmp_path / "out/manifest.json").exists()
    killed = walltime("doctor", "--metrics", "-", "--from", tmp_path / "out")
    assert 'state="killed"} 1' in killed.out and 'state="running"} 0' in killed.out
    time.sleep(0.05)
    assert walltime("run", config, "--plain", "--quiet").code == 0
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == ["last_run.json", "manifest.json", "versions", "work"]
    kept = {path.name.partition("-")[0] for path in (tmp_path / "out/work").iterdir()}
    assert kept == {".lock", *(step.name for step in STEPS)}
    assert len(list((tmp_path / "out/work").glob("ingest-*"))) == 1
