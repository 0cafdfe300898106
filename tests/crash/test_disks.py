"""Whole runs on a full and on a read-only disk: one sentence, the old tables stay, the next run recovers alone."""

import time
from pathlib import Path

import pytest

from flows.services.doctor import diagnose
from tests.crash.nights import FlowRun, PlainRun, expected_version, make_nights
from tests.small_disk import small_disk

pytestmark = pytest.mark.usefixtures("prefect_api")


def run(night: object, store: Path, log: Path, kind: type = PlainRun) -> tuple[int, str]:
    """Exit code and output of a run, by default of `walltime run --plain`."""
    log.unlink(missing_ok=True)
    code = kind(night, store, log).wait()
    return code, log.read_text()


@pytest.mark.parametrize("free_kib", [0, 40, 200])
def test_a_run_on_a_full_disk_ends_in_one_sentence_and_the_next_one_recovers(tmp_path: Path, free_kib: int) -> None:
    full_disk(tmp_path, free_kib, PlainRun)


@pytest.mark.parametrize("free_kib", [0, 200])
def test_a_flow_on_a_full_disk_ends_in_one_sentence_and_the_next_one_recovers(tmp_path: Path, free_kib: int) -> None:
    full_disk(tmp_path, free_kib, FlowRun)


def full_disk(tmp_path: Path, free_kib: int, kind: type) -> None:
    """Fill the disk of a store up to some KiB, run, free it, and run again."""
    nights, log = make_nights(tmp_path), tmp_path / "run.log"
    assert run(nights[1], tmp_path / "alone", log) == (0, "")
    with small_disk(tmp_path / "disk", "16m") as disk:
        store = disk.path / "store"
        assert run(nights[0], store, log, kind) == (0, "")
        before = expected_version(store)
        disk.leave(free_kib * 1024)
        code, text = run(nights[1], store, log, kind)
        assert code == 2 and text.count("\n") == 1 and "found a full disk, expected room to write" in text
        assert expected_version(store) == before
        disk.free_all()
        assert run(nights[1], store, log, kind) == (0, "")
        assert expected_version(store) == expected_version(tmp_path / "alone")
        assert diagnose(store, int(time.time()), 3600)["findings"] == []


def test_a_run_on_a_read_only_disk_ends_in_one_sentence(tmp_path: Path) -> None:
    nights, log = make_nights(tmp_path), tmp_path / "run.log"
    with small_disk(tmp_path / "disk", "16m") as disk:
        store = disk.path / "store"
        assert run(nights[0], store, log) == (0, "")
        before = expected_version(store)
        disk.remount("ro")
        code, text = run(nights[1], store, log)
        assert code == 2 and text.count("\n") == 1 and "found a read-only disk" in text
        assert expected_version(store) == before
        (one,) = diagnose(store, int(time.time()), 3600)["findings"]
        assert (one["check"], one["found"]) == ("permissions", "a read-only disk")
