"""A published table in which one byte has changed is refused by every command that reads it, in one sentence."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from flows.services.run.running import run_and_publish
from pipeline.publish import load_manifest
from pipeline.tables import ESTIMATES, JOBS, PREDICTIONS, STATE
from tests.flows.support import SAMPLES, Outcome

Walltime = Callable[..., Outcome]
READERS = {
    "export": (ESTIMATES, ("export", "--for", "slurm", "{out}", "--from", "{store}")),
    "export names": (JOBS, ("export", "--for", "pbs", "{out}", "--from", "{store}")),
    "show": (ESTIMATES, ("show", "estimates", "--from", "{store}")),
    "query": (STATE, ("query", "--user", "u1", "--procs", "4", "--from", "{store}")),
    "advise": (PREDICTIONS, ("scaling", "advise", "--from", "{store}")),
    "report": (PREDICTIONS, ("report", "--from", "{store}", "--out", "{out}")),
}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    text = f"logs = ['{SAMPLES / 'traps.swf'}']\noutput_dir = '{folder / 'out'}'\n[site]\nname = 'oxbow'\n"
    (folder / "site.toml").write_text(text)
    run_and_publish(str(folder / "site.toml"))
    return folder / "out"


@pytest.mark.parametrize("reader", sorted(READERS))
def test_a_changed_byte_is_one_sentence_and_nothing_is_written(
    walltime: Walltime, published: Path, tmp_path: Path, reader: str
) -> None:
    store, out = tmp_path / "store", tmp_path / "new"
    shutil.copytree(published, store)
    kind, words = READERS[reader]
    path = load_manifest(store).place(kind.name)
    whole = path.read_bytes()
    for at in np.random.default_rng(29).integers(4, len(whole) - 8, 3).tolist():
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        done = walltime(*(word.format(out=out, store=store) for word in words))
        assert done.code == 2 and done.err.count("\n") == 1, done.err
        assert str(path) in done.err and load_manifest(store).folder in done.err
        # There is no earlier version to go back to.
        assert "rollback" not in done.err and "a run publishes the table anew" in done.err and "doctor" in done.err
        assert not out.exists()


def test_a_file_is_hashed_once_for_each_state(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    monkeypatch.setattr("pipeline.storage.file_sha256", lambda path: read.append(path) or entry.sha256)
    manifest = load_manifest(published)
    entry = manifest.tables["fits"]
    path = manifest.place("fits")
    os.utime(path, (1, 1))
    for _ in range(3):
        assert manifest.path("fits") == path
    os.utime(path, (2, 2))
    manifest.path("fits")
    assert read == [path, path]


def test_a_served_night_makes_a_damaged_table_again(published: Path, tmp_path: Path) -> None:
    """The served flow calls `run_and_publish`: nothing new to read is no reason to publish damaged bytes again."""
    store, config = tmp_path / "store", tmp_path / "site.toml"
    shutil.copytree(published, store)
    config.write_text(f"logs = ['{SAMPLES / 'traps.swf'}']\noutput_dir = '{store}'\n[site]\nname = 'oxbow'\n")
    path = load_manifest(store).place("estimates")
    whole = path.read_bytes()
    path.write_bytes(whole[:-30] + bytes([whole[-30] ^ 1]) + whole[-29:])
    run_and_publish(str(config))
    assert load_manifest(store).path("estimates").read_bytes() == whole


@pytest.mark.parametrize("name", ["a/../../b", "a\nb", "a\x00b", "a\r", ".."])
@pytest.mark.parametrize("words", [("run",), ("rerun", "--name", "try-7"), ("ingest",)], ids=lambda words: words[0])
def test_a_site_name_that_leaves_its_folder_is_one_sentence(
    walltime: Walltime, tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    config = tmp_path / "site.toml"
    config.write_text(f"logs = ['{SAMPLES / 'traps.swf'}']\noutput_dir = '{tmp_path / 'out'}'\n")
    given = (SAMPLES / "traps.swf", "--out", tmp_path / "out.csv") if words == ("ingest",) else (config, "--plain")
    done = walltime(words[0], *given, *words[1:], "--site", name)
    assert done.code == 2 and "expected a valid value" in done.err, done
    assert done.err.count("\n") == 1 and done.err.strip().isprintable()
    assert not (tmp_path / "out").exists()
