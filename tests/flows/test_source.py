"""Where a run's jobs come from: a table of jobs gives what its log gives, and sacct is read a window at a time."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows.services.logs import resolve, run_settings, sacct_table
from flows.services.run.running import prepare_run
from pipeline.errors import InputError
from pipeline.publish import load_manifest
from pipeline.settings import RunSettings
from tests.flows.fake_programs import Sacct, job
from tests.flows.support import SAMPLES, Outcome

Walltime = Callable[..., Outcome]
DAY_S = 86_400
JANUARY_S = 1_767_225_600
TRAPS = SAMPLES / "traps.swf"


def configured(folder: Path, source: str, more: str = "") -> Path:
    path = folder / "site.toml"
    path.write_text(f"output_dir = '{folder / 'out'}'\n[site]\nname = 'oxbow'\n[source]\n{source}\n{more}")
    return path


def tables_of(out: Path) -> dict[str, object]:
    """The published tables, by name; those of States by their bytes, because their gaps equal nothing."""
    manifest = load_manifest(out)
    found: dict[str, object] = {}
    for name in manifest.tables:
        table = pq.read_table(manifest.path(name))
        found[name] = table.drop(["run_id"]) if "run_id" in table.column_names else table
    states = ("state", "memory_state")
    return found | {name: hashlib.sha256(manifest.path(name).read_bytes()).hexdigest() for name in states}


def test_a_table_of_jobs_gives_what_its_log_gives(walltime: Walltime, config: Path, tmp_path: Path) -> None:
    assert walltime("ingest", TRAPS, "--site", "oxbow", "--out", tmp_path / "jobs.parquet").code == 0
    assert walltime("run", config, "--plain", "--quiet", "--out", tmp_path / "of_log").code == 0
    given = ("--log", tmp_path / "jobs.parquet", "--out", tmp_path / "of_table")
    assert walltime("run", config, "--plain", "--quiet", *given).err == ""
    named = configured(tmp_path, "kind = 'jobs'\npath = 'jobs.parquet'")
    assert walltime("run", named, "--plain", "--quiet", "--out", tmp_path / "of_source").err == ""
    wanted = tables_of(tmp_path / "of_log")
    assert tables_of(tmp_path / "of_table") == tables_of(tmp_path / "of_source") == wanted


def test_a_cleaned_table_is_read_as_it_was_ingested(walltime: Walltime, config: Path, tmp_path: Path) -> None:
    jobs, cleaned = tmp_path / "jobs.parquet", tmp_path / "cleaned.parquet"
    assert walltime("ingest", TRAPS, "--site", "oxbow", "--out", jobs).code == 0
    assert walltime("clean", jobs, "--out", cleaned).code == 0
    assert set(pq.read_table(cleaned)["flag"].to_pylist()) != {None}
    scored = [backtested(walltime, config, path) for path in (TRAPS, jobs, cleaned)]
    assert scored[0] == scored[1] == scored[2] and scored[0]


def backtested(walltime: Walltime, config: Path, log: Path) -> list[dict[str, object]]:
    """The figures of two methods on a log, without its name."""
    shown = walltime("backtest", config, "--json", "--methods", "request,last_two", "--log", log)
    return [row | {"log": ""} for row in json.loads(shown.out)["logs"][0]["rows"]]


def test_a_folder_gives_the_files_of_its_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "accounting [1]"
    folder.mkdir()
    for name in ("20260101", "20260102", "notes.txt"):
        shutil.copy(TRAPS, folder / name)
    _, paths = resolve(configured(tmp_path, "kind = 'folder'\nfolder = 'accounting [1]'\npattern = '2026*'"))
    assert [path.name for path in paths] == ["20260101", "20260102"]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("kind = 'jobs'", "kind jobs needs path"),
        ("kind = 'folder'\nsince = '7d'", "since does not go with kind folder"),
        ("kind = 'sacct'\ncluster = '-M all'", r"source\.cluster"),
        ("kind = 'folder'\nfolder = 'none'", r"source\.folder = .*none, expected a folder of logs"),
        ("kind = 'jobs'\npath = 'none.parquet'", r"none\.parquet: found no such file"),
        ("kind = 'ldap'", r"source\.kind"),
    ],
)
def test_a_source_that_cannot_be_read_is_one_sentence(
    walltime: Walltime, tmp_path: Path, source: str, sentence: str
) -> None:
    shown = walltime("run", configured(tmp_path, source), "--plain")
    assert shown.code == 2 and shown.err.count("\n") == 1
    with pytest.raises(InputError, match=sentence):
        resolve(configured(tmp_path, source))


def test_logs_and_a_source_exclude_each_other(tmp_path: Path) -> None:
    path = configured(tmp_path, "kind = 'jobs'\npath = 'jobs.parquet'")
    path.write_text("logs = ['a.log']\n" + path.read_text())
    with pytest.raises(InputError, match=r"logs beside source\.kind = jobs"):
        resolve(path)


@pytest.fixture
def sacct(tmp_path: Path) -> Sacct:
    return Sacct(tmp_path / "bin", [job(n) for n in range(8)])


def live_config(tmp_path: Path, sacct: Sacct, more: str = "") -> Path:
    return configured(tmp_path, f"kind = 'sacct'\nsince = '2026-01-01'\n{more}[ingest]\nsacct_command = '{sacct.path}'")


def live_settings(tmp_path: Path, sacct: Sacct, more: str = "") -> RunSettings:
    return run_settings(live_config(tmp_path, sacct, more))


def ids_in(table: Path) -> list[str]:
    return sorted(pq.read_table(table)["job_id"].to_pylist(), key=int)


def test_sacct_is_read_once_and_then_from_the_watermark_on(tmp_path: Path, sacct: Sacct) -> None:
    settings = live_settings(tmp_path, sacct)
    first = sacct_table(settings, JANUARY_S + DAY_S)
    assert ids_in(first) == [str(n) for n in range(8)]
    sacct.knows([job(n) for n in range(5, 8)] + [job(8, day=2), job(9, day=2, state="RUNNING")])
    second = sacct_table(settings, JANUARY_S + 2 * DAY_S)
    # What the accounting no longer tells stays.
    assert ids_in(second) == [str(n) for n in range(10)]
    assert sacct.windows == [
        ("2026-01-01T00:00:00", "2026-01-02T00:00:00"),
        ("2026-01-01T18:00:00", "2026-01-03T00:00:00"),
    ]
    assert first.exists() and first != second


def test_a_reading_without_news_gives_the_same_table(tmp_path: Path, sacct: Sacct) -> None:
    settings = live_settings(tmp_path, sacct)
    tables = {sacct_table(settings, JANUARY_S + n * DAY_S) for n in range(1, 5)}
    assert len(tables) == 1
    assert len(sacct.windows) == 4


def test_a_running_job_is_brought_up_to_date(tmp_path: Path, sacct: Sacct) -> None:
    settings = live_settings(tmp_path, sacct)
    sacct.knows([job(1, state="RUNNING")])
    assert pq.read_table(sacct_table(settings, JANUARY_S + DAY_S))["runtime_s"].to_pylist() == [None]
    sacct.knows([job(1, End="2026-01-05T01:31:00", Elapsed="4-00:30:00", ElapsedRaw="347400")])
    late = pq.read_table(sacct_table(settings, JANUARY_S + 5 * DAY_S))
    assert late["runtime_s"].to_pylist() == [347400.0]


@pytest.mark.parametrize("harm", ["other settings", "damaged table", "no watermark", "torn watermark"])
def test_what_cannot_be_added_to_is_read_anew(tmp_path: Path, sacct: Sacct, harm: str) -> None:
    settings = live_settings(tmp_path, sacct)
    table = sacct_table(settings, JANUARY_S + DAY_S)
    mark = table.with_name("watermark.json")
    match harm:
        case "other settings":
            settings = live_settings(tmp_path, sacct, "cluster = 'two'\n")
        case "damaged table":
            table.write_bytes(table.read_bytes()[:-9])
        case "no watermark":
            mark.unlink()
        case "torn watermark":
            mark.write_text(mark.read_text()[:40])
    again = sacct_table(settings, JANUARY_S + 2 * DAY_S)
    assert sacct.windows[1][0] == "2026-01-01T00:00:00"
    assert ids_in(again) == [str(n) for n in range(8)]
    assert (harm == "other settings") == ("--clusters=two" in sacct.calls[-1])


def test_old_tables_go_and_a_clock_set_back_leaves_a_window(tmp_path: Path, sacct: Sacct) -> None:
    settings = live_settings(tmp_path, sacct)
    for n in range(6):
        sacct.knows([job(k, day=k + 1) for k in range(n + 1)])
        sacct_table(settings, JANUARY_S + (n + 1) * DAY_S)
    sacct_table(settings, JANUARY_S + DAY_S)
    assert sacct.windows[-1][0] < sacct.windows[-1][1] == "2026-01-02T00:00:00"
    assert len(list((tmp_path / "out" / "source").glob("jobs-*.parquet"))) == 3


def test_a_failing_sacct_leaves_the_table_and_its_time(tmp_path: Path, sacct: Sacct) -> None:
    settings = live_settings(tmp_path, sacct)
    sacct.fails(True)
    with pytest.raises(InputError, match="slurmdbd is not there"):
        sacct_table(settings, JANUARY_S + DAY_S)
    assert not (tmp_path / "out").exists()
    sacct.fails(False)
    table = sacct_table(settings, JANUARY_S + DAY_S)
    mark = table.with_name("watermark.json").read_text()
    sacct.fails(True)
    with pytest.raises(InputError, match="slurmdbd is not there"):
        sacct_table(settings, JANUARY_S + 9 * DAY_S)
    assert table.with_name("watermark.json").read_text() == mark
    sacct.fails(False)
    sacct_table(settings, JANUARY_S + 9 * DAY_S)
    assert sacct.windows[-1][0] == "2026-01-01T18:00:00"


def test_a_run_over_sacct_publishes_and_a_second_one_is_the_same_run(
    walltime: Walltime, tmp_path: Path, sacct: Sacct
) -> None:
    config = live_config(tmp_path, sacct)
    assert walltime("run", config, "--plain", "--quiet").err == ""
    first = load_manifest(tmp_path / "out")
    assert first.tables["jobs"].rows == 8
    run = prepare_run(*resolve(config))
    assert run.run_id == first.run_id
    assert walltime("ingest", "--live", "--config", config, "--out", tmp_path / "jobs.parquet").code == 0
    assert sacct.windows[-1][0] == "2026-01-01T00:00:00"
    assert ids_in(tmp_path / "jobs.parquet") == ids_in(first.path("jobs"))


def test_names_that_are_plain_are_not_run_under_a_key(walltime: Walltime, config: Path, tmp_path: Path) -> None:
    key = tmp_path / "walltime.key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    plain, hashed = tmp_path / "plain.parquet", tmp_path / "hashed.parquet"
    assert walltime("ingest", TRAPS, "--site", "oxbow", "--out", plain).code == 0
    assert walltime("ingest", TRAPS, "--site", "oxbow", "--key-file", key, "--out", hashed).code == 0
    secret = tmp_path / "secret.toml"
    site = f"[site]\nname = 'oxbow'\nanonymise = true\nkey_file = '{key}'\n"
    secret.write_text(f"output_dir = '{tmp_path / 'o'}'\n{site}")
    refused = walltime("run", secret, "--plain", "--log", plain)
    assert refused.code == 2 and "names that are plain" in refused.err
    assert walltime("run", secret, "--plain", "--quiet", "--log", hashed).err == ""
    assert walltime("run", config, "--plain", "--quiet", "--log", hashed).err == ""
    assert walltime("run", config, "--plain", "--log", hashed, "--log", plain).code == 2
