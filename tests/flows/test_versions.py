"""The commands on versions: a rerun, its comparison and promotion, rollback, holds, and tables as of a date."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.publish import load_manifest
from pipeline.publish.versions import find_version
from tests.flows.support import SAMPLES, Outcome

Walltime = Callable[..., Outcome]


@pytest.fixture
def night(config: Path, tmp_path: Path, walltime: Walltime, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run over the log with every trap, made on 2026-10-01 at 03:10."""
    monkeypatch.setattr("time.time", lambda: 1_790_824_200.0)
    assert walltime("run", config, "--plain", "--quiet") == Outcome(0, "", "")
    return tmp_path / "out"


def test_a_rerun_is_compared_promoted_and_rolled_back(
    night: Path, config: Path, walltime: Walltime, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_manifest(night)
    assert first.folder == f"2026-10-01T0310Z-{first.run_id[:8]}"
    monkeypatch.setattr("time.time", lambda: 1_790_910_600.0)
    ends = [job["end_s"] for job in shown(walltime, night, "jobs", "--limit", 9999)["shown"] if job["end_s"]]
    middle_s = sorted(ends)[len(ends) // 2]
    changes = ("--until", iso(middle_s), "--set", "scaling.counts=[3]")
    done = walltime("rerun", config, *changes, "--name", "try-7", "--plain", "--quiet")
    assert done == Outcome(0, "", "")
    assert load_manifest(night) == first
    tried = find_version(night, "try-7").manifest
    assert tried is not None and tried.settings["scaling"]["counts"] == [3] and tried.to_s == middle_s
    ingest = tried.reports[0]
    assert ingest["set_aside"]["outside_window"]["rows"] + ingest["kept"]["rows"] == first.tables["jobs"].rows
    assert ingest["kept"]["rows"] == tried.tables["jobs"].rows > 0

    found = json.loads(walltime("versions", "compare", "--from", night, "try-7", "try-7", "--json").out)
    assert found["later_jobs"] > 0 and found["estimates"]["jobs"] > 0
    assert found["estimates"]["each"][0] == found["estimates"]["each"][1]
    assert found["groups"]["in_both"] == found["groups"]["each"][0] and found["fits"]["other_law"] == 0
    assert all(found[what]["change"]["change"] in (None, 0.0) for what in ("predictions", "estimates"))
    said = walltime("versions", "compare", "--from", night, "try-7", "try-7").out
    assert "Verdict on predictions: " in said and "Verdict on estimates: " in said
    assert "no version published before" in walltime("versions", "compare", "--from", night).err
    same = walltime("versions", "compare", "--from", night, first.folder, "try-7")
    assert same.code == 0 and "No version on disk has later jobs" in same.out

    rows = json.loads(walltime("versions", "list", "--from", night, "--json").out)["versions"]
    assert [(row["name"], row["is_published"], row["was_published"]) for row in rows] == [
        ("", True, True), ("try-7", False, False),
    ]  # fmt: skip
    assert "never published" in walltime("versions", "list", "--from", night).out
    assert walltime("versions", "promote", "--from", night, "try-7").code == 0
    assert load_manifest(night).folder == tried.folder
    assert shown(walltime, night)["version"] == tried.folder
    assert shown(walltime, night, "--as-of", "2026-10-01")["version"] == first.folder
    back = walltime("versions", "rollback", "--from", night).out
    assert back.startswith(
        f"Version {first.folder} is published now.\nIt is pinned; version {tried.folder} is withdrawn."
    )
    assert "the next run publishes a new version" in back
    assert walltime("versions", "unpin", "--from", night, first.folder).code == 0
    assert load_manifest(night).folder == first.folder
    assert walltime("versions", "pin", "--from", night, "try-7").code == 0
    assert "withdrawn, pinned" in walltime("versions", "list", "--from", night).out
    assert walltime("versions", "unpin", "--from", night, "try-7").code == 0
    assert "pinned" not in walltime("versions", "list", "--from", night).out


def iso(seconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat()


def shown(walltime: Walltime, folder: Path, *more: object) -> dict[str, object]:
    return json.loads(walltime("show", "--from", folder, *more, "--json").out)


def test_every_reader_takes_a_date(night: Path, tmp_path: Path, walltime: Walltime) -> None:
    commands = (
        ("show", "--from", night), ("show", "--from", night, "estimates"), ("scaling", "advise", "--from", night),
        ("query", "--from", night),
        ("report", "--from", night, "--out", tmp_path / "pages"),
    )  # fmt: skip
    for command in commands:
        assert walltime(*command, "--as-of", "2026-10-01").code == 0, command
        early = walltime(*command, "--as-of", "2026-10-01T03:09")
        assert early.code == 2 and "2026-10-01T03:10Z or later" in early.err, command
    batch = tmp_path / "jobs.csv"
    batch.write_text("user,procs\n1,4\n")
    assert walltime("query", "--from", night, "--batch", batch, "--as-of", "2026-10-01").code == 0
    assert walltime("query", "--from", night, "--batch", batch, "--as-of", "2026-09-30").code == 2


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("versions", "list", "--from", "DIR"), "found no versions"),
        (("versions", "promote", "--from", "DIR", "x"), "found no versions"),
        (("versions", "rollback", "--from", "DIR"), "found no versions"),
        (("versions", "pin", "--from", "DIR", "x"), "found no versions"),
        (("versions", "compare", "--from", "DIR", "a", "b"), "found no version b"),
    ],
)
def test_a_folder_without_versions_is_one_sentence(
    arguments: tuple[str, ...], found: str, tmp_path: Path, walltime: Walltime
) -> None:
    done = walltime(*(tmp_path / "none" if word == "DIR" else word for word in arguments))
    assert (done.code, done.out) == (2, "") and found in done.err and "Traceback" not in done.err
    assert not (tmp_path / "none").exists()


def test_a_rerun_that_fails_leaves_nothing(config: Path, tmp_path: Path, walltime: Walltime) -> None:
    for more, found in (
        (("--until", "1980-01"), "none of them submitted"),
        (("--set", "group.templat=user"), "did you mean template"),
        (("--log", SAMPLES / "none.swf"), "none.swf"),
    ):
        done = walltime("rerun", config, "--name", "try-7", *more, "--plain", "--quiet")
        assert done.code == 2 and found in done.err
    assert walltime("rerun", config, "--name", "../try", "--plain", "--quiet").code == 2
    assert not (tmp_path / "out").exists()
