"""`walltime doctor`: each damage is found by its own check, with what to do, and an intact store has no finding."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, get_args

import pytest

from flows.services import doctor
from flows.services.doctor import CHECKS, diagnose
from flows.services.published.published_folder import live_pointer
from flows.services.run_record import LAST_RUN, RUNNING, SERVED, SERVING, LastRun, Reason, write_run
from pipeline.errors import InputError
from pipeline.export.lookup_file import lookup_file
from pipeline.publish import Retention, load_manifest
from pipeline.publish.store import keep_step, take_run_lock, work_folder
from pipeline.report import Report, Tally
from pipeline.storage import write_table
from pipeline.tables import FITS, GROUPS, JOBS
from tests.publishing import facts_of, publish
from tests.rows import jobs_of
from tests.unit.publish.versions_of_tables import estimates, folder_of

NOW_S = 1_000_000
HOUR_S = 3600
ALL_OF_A_FOLDER = [name for name in CHECKS if name != "config"]


def put(out: Path, run_id: str, created_s: int = NOW_S - HOUR_S) -> None:
    staged = {
        "fits": write_table(out.parent / "staged" / run_id / "fits.parquet", FITS.empty(), FITS, {"run": run_id}),
        "groups": write_table(out.parent / "staged" / run_id / "groups.parquet", GROUPS.empty(), GROUPS),
    }
    facts = facts_of(run_id, "here", {}, [], "code")
    publish(staged, [], facts, output_dir=out, created_s=created_s, retention=Retention(newest=3))


def keep(folder: Path) -> None:
    report = Report("fit", "group", Tally(2), Tally(2))
    keep_step(folder, lambda _: ({"fits": FITS.empty()}, report), {"fits": FITS})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with two versions, `a` and the published `b`, and one finished step in its work folder."""
    put(tmp_path / "out", "a", NOW_S - 25 * HOUR_S)
    put(tmp_path / "out", "b")
    keep(tmp_path / "out" / "work" / "fit-1")
    return tmp_path / "out"


def looked_at(target: Path) -> dict[str, Any]:
    return diagnose(target, NOW_S, 48 * HOUR_S)


def flip(path: Path) -> None:
    """Change one byte in the middle, as a failing disk does."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def test_an_intact_store_has_no_finding_and_is_left_as_it_was(store: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    assert looked_at(store) == {"output_dir": store, "worst": None, "checked": ALL_OF_A_FOLDER, "findings": []}
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


def relabelled(store: Path, **changed: object) -> None:
    path = store / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def fits_of(store: Path, run_id: str) -> Path:
    return folder_of(store, run_id) / "fits.parquet"


def older(store: Path) -> dict[str, object]:
    """The entry of version `a`, dated long ago."""
    return {"run_id": "a", "folder": folder_of(store, "a").name, "created_s": 0}


DAMAGES: dict[str, tuple[Callable[[Path], object], str, str, str, str]] = {
    "a flipped byte": (
        lambda s: flip(fits_of(s, "b")), "tables", "error", "damaged bytes", "an intact version"
    ),
    "a cut table": (
        lambda s: truncate(fits_of(s, "b")), "tables", "error", "manifest says", "intact version"
    ),
    "a lost table": (
        lambda s: fits_of(s, "b").unlink(), "tables", "error", "no such file", "an intact version"
    ),
    "a lost version": (
        lambda s: shutil.rmtree(folder_of(s, "a")), "versions", "warning", "no such folder", "do not return"
    ),
    "a version without a manifest": (
        lambda s: shutil.copytree(folder_of(s, "a"), s / "versions/c"),
        "versions", "note", "does not name", "remove"
    ),
    "a manifest that is none": (
        lambda s: (s / "manifest.json").write_text("{"), "manifest", "error", "not valid JSON", "run again"
    ),
    "no manifest": (
        lambda s: (s / "manifest.json").unlink(), "manifest", "error", "no published tables", "walltime run"
    ),
    "a draft of a version": (
        lambda s: (s / "versions/.c.1.draft").mkdir(), "leftovers", "note", "was killed", "next run removes it"
    ),
    "a hidden folder of another program": (
        lambda s: (s / "versions/.tmp-c").mkdir(), "leftovers", "note", "Walltime did not make", "remove it"
    ),
    "a draft of a step": (
        lambda s: (s / "work/.fit.1.draft").mkdir(), "leftovers", "note", "was killed", "next run removes it"
    ),
    "a draft of the manifest": (
        lambda s: (s / ".manifest.json.12.draft").touch(), "leftovers", "note", "was killed", "next run removes it"
    ),
    "old tables": (
        lambda s: relabelled(s, created_s=NOW_S - 50 * HOUR_S, previous=[older(s)]),
        "age", "warning", "2 days, 2:00:00 ago", "run again"
    ),
    "tables of the future": (
        lambda s: relabelled(s, created_s=NOW_S + HOUR_S), "age", "warning", "1:00:00 in the future", "clock"
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_each_damage_is_one_finding_of_its_check(store: Path, damage: str) -> None:
    do_damage, check, level, found, do = DAMAGES[damage]
    do_damage(store)
    (one,) = looked_at(store)["findings"]
    assert (one["check"], one["level"]) == (check, level)
    assert found in one["found"] and do in one["do"]


@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink])
def test_a_damaged_table_of_jobs_ends_no_check(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    """What shorter limits have done cannot be told from it; the check of tables says why."""
    rows = [{"submit_s": at, "start_s": at, "end_s": at + 50, "runtime_s": 50.0} for at in range(500)]
    file = write_table(tmp_path / "all.parquet", jobs_of(rows), JOBS)
    facts = facts_of("a", "here", {}, [("log", "0")])
    publish({"jobs": file}, [], facts, output_dir=tmp_path, created_s=NOW_S - 60, retention=Retention(newest=3))
    damage(load_manifest(tmp_path).place("jobs"))
    assert [one["check"] for one in looked_at(tmp_path)["findings"]] == ["tables"]


def test_a_run_in_progress_is_named_and_its_drafts_are_no_leftovers(store: Path) -> None:
    with work_folder(store) as work:
        (work / ".x.1.draft").mkdir()
        (one,) = diagnose(store, NOW_S, 10**10)["findings"]
        assert (one["check"], one["level"]) == ("lock", "note") and f"process {os.getpid()}" in one["found"]
        record = json.loads((work / ".lock").read_text())
        (late,) = [
            one for one in diagnose(store, record["since_s"] + 90_000, 10**10)["findings"] if one["check"] == "lock"
        ]
        assert (
            late["level"] == "warning"
            and "a run for 1 day, 1:00:00" in late["found"]
            and "end it if it hangs" in late["do"]
        )


def test_a_disk_without_room_is_told(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(entry.bytes for entry in load_manifest(store).tables.values())
    for free, level in ((2 * size, "warning"), (size // 2, "error"), (0, "error")):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: shutil._ntuple_diskusage(9 * size, 0, free))
        (one,) = looked_at(store)["findings"]
        assert (one["check"], one["level"]) == ("space", level) and "MiB free" in one["found"]


def test_a_folder_that_may_not_be_written_is_told(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, how: Path(path).name != "versions")
    (one,) = looked_at(store)["findings"]
    assert (one["check"], one["level"]) == ("permissions", "error") and one["where"] == str(store / "versions")


def config_of(store: Path, text: str) -> Path:
    path = store.parent / "site.toml"
    path.write_text(text)
    return path


def test_a_config_is_checked_with_its_logs(store: Path, tmp_path: Path) -> None:
    start = f"output_dir = '{store}'\n"
    (tmp_path / "a.swf").write_text("1 2 3\n")
    (tmp_path / "empty.swf").touch()
    for text, check, level, found in (
        (start + "logs = ['a.swf']\n", "", None, ""),
        (start + "logs = ['b.swf']\n", "logs", "error", "no such file"),
        (start + "logs = ['empty.swf']\n", "logs", "warning", "an empty file"),
        (start, "logs", "note", "no logs in the config"),
        ("nonsense", "config", "error", "found"),
        (start + "unknown = 1\n", "config", "error", "unknown"),
    ):
        diagnosis = looked_at(config_of(store, text))
        assert [(one["check"], one["level"]) for one in diagnosis["findings"]] == ([(check, level)] if check else [])
        assert diagnosis["worst"] == level
        assert all(found in f"{one['where']} found {one['found']}" for one in diagnosis["findings"])


def test_sacct_is_asked_where_it_is_the_source(store: Path, tmp_path: Path) -> None:
    start = f"output_dir = '{store}'\n"
    config = config_of(store, start + "[source]\nkind = 'sacct'\n")
    environment = {"PATH": str(tmp_path / "bin")}
    (absent,) = diagnose(config, NOW_S, 48 * HOUR_S, environment)["findings"]
    assert (absent["check"], absent["level"]) == ("sacct", "error") and "no program sacct" in absent["found"]
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "sacct"
    scripts = {"echo $1 > called": "", "echo gone >&2; exit 1": "gone", "exit 7": "code 7"}
    for script, found in scripts.items():
        program.write_text(f"#!/bin/sh\ncd '{tmp_path}'\n{script}\n")
        program.chmod(0o755)
        findings = diagnose(config, NOW_S, 48 * HOUR_S, environment)["findings"]
        assert [one["check"] for one in findings] == (["sacct"] if found else [])
        assert all(found in one["found"] for one in findings)
    assert (tmp_path / "called").read_text() == "--version\n"


def test_the_hashes_of_earlier_versions_are_compared_where_asked(store: Path) -> None:
    path = fits_of(store, "a")
    whole = path.read_bytes()
    # Still a Parquet table, as where a disk loses a bit of a value.
    path.write_bytes(whole.replace(b"ARROW:schema", b"ARROW:schemb", 1))
    assert looked_at(store)["findings"] == []
    found = diagnose(store, NOW_S, 48 * HOUR_S, is_deep=True)
    (one,) = found["findings"]
    assert (one["check"], one["level"], one["where"]) == ("tables", "warning", str(path))
    assert "damaged bytes" in one["found"] and found["checked"] == ALL_OF_A_FOLDER
    path.write_bytes(whole)
    flip(fits_of(store, "b"))
    # The published version's tables are always compared, and reported once.
    assert [one["check"] for one in diagnose(store, NOW_S, 48 * HOUR_S, is_deep=True)["findings"]] == ["tables"]


def test_a_store_that_is_not_there_yet_is_an_error_of_the_manifest_alone(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text("1 2 3\n")
    config = config_of(tmp_path / "out", f"output_dir = '{tmp_path / 'out'}'\nlogs = ['a.swf']\n")
    (one,) = looked_at(config)["findings"]
    assert (one["check"], one["found"]) == ("manifest", "no published tables")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="no such file or folder"):
        looked_at(tmp_path / "out")


def test_names_cannot_control_the_terminal(store: Path) -> None:
    relabelled(store, previous=[{"run_id": "x", "folder": "\x1b[31mred", "created_s": 0}])
    found = [one for one in looked_at(store)["findings"] if one["found"].startswith("no such folder")]
    assert len(found) == 1 and "\x1b" not in found[0]["where"]


def test_the_command_s_exit_code_says_how_bad_it_is(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from flows.cli.typer_app import application

    def doctor(*words: str) -> int | None:
        code: int | None = application()(["doctor", "--from", str(store), *words], standalone_mode=False)
        return code

    assert not doctor("--max-age", "30000d")
    assert "All 16 checks of" in capsys.readouterr().out
    assert doctor("--max-age", "1h") == 3
    assert "There is a warning" in capsys.readouterr().out
    flip(fits_of(store, "b"))
    assert doctor("--max-age", "30000d", "--json") == 4
    plain = json.loads(capsys.readouterr().out)
    assert plain["worst"] == "error" and plain["findings"][0]["check"] == "tables"


@pytest.mark.parametrize("scheduler", ["slurm", "openpbs"])
def test_a_look_up_that_is_damaged_or_older_than_the_tables_is_found(
    store: Path, tmp_path: Path, scheduler: str
) -> None:
    folder, day_s = tmp_path / ("server_priv" if scheduler == "openpbs" else ""), 86_400
    folder.mkdir(exist_ok=True)
    path = folder / "walltime.lookup"
    table = estimates(3, site=["here"] * 3, newest_end_s=[NOW_S - 5 * day_s] * 3)
    path.write_bytes(lookup_file(table, {}))
    environment = {"SLURM_CONF": str(tmp_path / "slurm.conf"), "PBS_HOME": str(tmp_path)}
    assert not diagnose(store, NOW_S, 48 * HOUR_S, environment)["findings"]
    relabelled(store, data_newest_end_s=NOW_S)
    (one,) = diagnose(store, NOW_S, 48 * HOUR_S, environment)["findings"]
    assert (
        one["check"] == "lookup"
        and "5 days, 0:00:00 older" in one["found"]
        and f"walltime export --for {scheduler}`" in one["do"]
    )
    flip(path)
    (one,) = diagnose(store, NOW_S, 48 * HOUR_S, environment)["findings"]
    assert one["check"] == "lookup" and "damaged" in one["found"]


@pytest.mark.parametrize(
    ("state", "reason", "level", "do"),
    [
        ("failed", "blocked", "error", "doctor --checks"),
        ("failed", "config", "error", "which setting"),
        ("failed", "input", "error", "in a terminal"),
        ("stopped", "signal", "warning", "run again"),
        ("succeeded", "done", None, ""),
    ],
)
def test_the_end_of_the_last_run_is_read(store: Path, state: str, reason: str, level: str | None, do: str) -> None:
    write_run(store / LAST_RUN, LastRun("here", "b", state, reason, 1, NOW_S - 7300.0, NOW_S - 7200.0, 1, {}))
    found = looked_at(store)["findings"]
    assert [(one["check"], one["level"]) for one in found] == ([("last_run", level)] if level is not None else [])
    assert all("failed 2:00:00 ago" in one["found"] and do in one["do"] for one in found)


def test_a_killed_run_is_known_by_its_record(store: Path) -> None:
    write_run(store / "work" / RUNNING, LastRun("here", "b", "running", "none", None, NOW_S - 60.0, None, 1, {}))
    (one,) = looked_at(store)["findings"]
    assert (one["check"], one["level"]) == ("last_run", "warning") and "it was killed" in one["found"]


class Api(BaseHTTPRequestHandler):
    """An API of Prefect that knows these automations."""

    automations: tuple[str, ...] = ()

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        found = [{"name": name} for name in asked["automations"]["name"]["any_"] if name in self.automations]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *_: object) -> None:
        pass


def test_a_site_that_is_served_needs_its_command_its_server_and_its_automation(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        api = f"http://127.0.0.1:{server.server_port}"
        (store / SERVING).mkdir()
        (store / SERVING / SERVED).write_text(json.dumps({"name": "here", "api": api}))
        found = looked_at(store)["findings"]
        assert [(one["check"], one["level"]) for one in found] == [("serving", "warning")] * 2
        assert "systemctl start walltime-here-serve" in found[0]["do"] and "restart `walltime serve`" in found[1]["do"]
        monkeypatch.setattr(Api, "automations", ("Walltime here: killed run",))
        with take_run_lock(store / SERVING):
            assert looked_at(store)["findings"] == []
        server.shutdown()
    with take_run_lock(store / SERVING):
        (one,) = looked_at(store)["findings"]
    assert "does not answer" in one["found"] and "systemctl start walltime-prefect" in one["do"]


def test_limits_without_a_guard_are_told(store: Path) -> None:
    config = config_of(store, f"output_dir = '{store}'\nlogs = []\n[export]\nmode = 'limit'\n")
    (one,) = [one for one in looked_at(config)["findings"] if one["level"] != "note"]
    assert one["check"] == "guard" and "systemctl start walltime-site-guard" in one["do"]
    with take_run_lock(live_pointer(store).parent):
        assert [one["check"] for one in looked_at(config)["findings"] if one["level"] != "note"] == []


def test_each_sentence_of_a_finding_belongs_to_a_check() -> None:
    lines = [line.split("\t") for line in Path(doctor.__file__).with_name("findings.tsv").read_text().splitlines()[1:]]
    assert {check for check, *_ in lines} == {*doctor.CHECKS}
    assert {level for _, _, level, *_ in lines} == set(doctor.LEVELS) and {len(line) for line in lines} == {5}
    code = Path(doctor.__file__).read_text()
    assert [name for _, name, *_ in lines if f'"{name}"' not in code and name not in get_args(Reason)] == []
