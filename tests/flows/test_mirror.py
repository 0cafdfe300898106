"""`publish.mirror`: a night that is copied, one whose copy fails, and commands that read the copy."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.publish import load_manifest, mirror
from tests.flows.support import SAMPLES, Outcome

Walltime = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(mirror, "PAUSES_S", ())


def config_of(folder: Path, place: Path, more: str = "") -> Path:
    text = f"logs = ['{SAMPLES / 'traps.swf'}']\noutput_dir = '{folder / 'out'}'\n[site]\nname = 'oxbow'\n"
    (folder / "site.toml").write_text(f"{text}[publish]\nmirror = '{place}'\n{more}")
    return folder / "site.toml"


def test_a_night_whose_copy_fails_is_published_and_the_next_one_copies_it(tmp_path: Path, walltime: Walltime) -> None:
    place, out = tmp_path / "copies", tmp_path / "out"
    place.write_text("a file where a folder is needed")
    config = config_of(tmp_path, place)
    done = walltime("run", config, "--plain", "--quiet")
    assert done.code == 0 and done.err.count("\n") == 1
    assert f"walltime: the published version was not copied to {place}" in done.err
    (warning,) = json.loads((out / "last_run.json").read_text())["warnings"]
    assert warning in done.err and json.loads((out / "last_run.json").read_text())["state"] == "succeeded"
    place.unlink()
    assert walltime("run", config, "--plain", "--quiet") == Outcome(0, "", "")
    assert json.loads((out / "last_run.json").read_text())["warnings"] == []
    assert load_manifest(place).tables["jobs"].sha256 == load_manifest(out).tables["jobs"].sha256

    url = f"file://{place}"
    for words in (
        ("query", "--user", "u1", "--procs", "4", "--json"),
        ("show", "estimates", "--json"),
        ("scaling", "advise", "--json"),
    ):
        here, there = (json.loads(walltime(*words, "--from", folder).out) for folder in (out, url))
        assert {**here, "seconds": 0} == {**there, "seconds": 0}, words
    for folder in (out, url):
        assert walltime("export", "--for", "csv", tmp_path / "exported", "--from", folder).code == 0
    refused = walltime("versions", "rollback", "--from", url)
    assert refused.code == 2 and "the folder to which a run has published" in refused.err


def test_what_a_person_publishes_is_copied_too(tmp_path: Path, walltime: Walltime) -> None:
    place, out = tmp_path / "copies", tmp_path / "out"
    assert walltime("run", config_of(tmp_path, place), "--plain", "--quiet").code == 0
    first = load_manifest(out)
    other = config_of(tmp_path, place, "[scaling]\ncounts = [3]\n")
    assert walltime("run", other, "--plain", "--quiet").code == 0
    assert load_manifest(place).run_id == load_manifest(out).run_id != first.run_id
    assert walltime("versions", "rollback", "--from", out).code == 0
    assert load_manifest(place).run_id == first.run_id
