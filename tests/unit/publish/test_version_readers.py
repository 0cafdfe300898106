"""Readers' locks on versions, and the grace period of readers without one."""

import fcntl
import multiprocessing
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.publish import Retention, load_manifest, reading
from tests.unit.publish.numbered_versions import NOON, Clock

FORK = multiprocessing.get_context("forkserver")


def test_a_version_in_use_stays_until_its_reader_ends(clock: Clock) -> None:
    first = clock.publish(1.0, NOON)
    short = Retention(newest=1)
    with reading(clock.out) as manifest:
        second = clock.publish(2.0, NOON + 60, retention=short)
        assert clock.folders == [first, second]
        assert manifest.path("fits").exists()
    third = clock.publish(3.0, NOON + 120, retention=short)
    assert clock.folders == [third]


def _read_and_wait(out: Path, ready: str) -> None:
    with reading(out):
        Path(ready).touch()
        while True:
            time.sleep(60)


def test_a_reader_needs_no_right_to_write(clock: Clock) -> None:
    first = clock.publish(1.0, NOON)
    lock = clock.out / "versions" / first / ".lock"
    lock.chmod(0o444)
    with reading(clock.out) as manifest, lock.open("rb") as other:
        assert manifest.folder == first
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_lock_of_a_killed_reader_is_released(clock: Clock, tmp_path: Path) -> None:
    clock.publish(1.0, NOON)
    ready = tmp_path / "ready"
    reader = FORK.Process(target=_read_and_wait, args=(clock.out, str(ready)))
    reader.start()
    while not ready.exists():
        assert reader.is_alive()
        time.sleep(0.01)
    clock.publish(2.0, NOON + 60, retention=Retention(newest=1))
    assert len(clock.folders) == 2
    reader.kill()
    reader.join()
    third = clock.publish(3.0, NOON + 120, retention=Retention(newest=1))
    assert clock.folders == [third]


def _publish_many(folder: Path, first: int) -> None:
    clock = Clock(folder / f"w{first}")
    clock.out = folder / "out"
    for number in range(first, first + 15):
        clock.publish(float(number), NOON + number, retention=Retention(newest=1))


def test_readers_with_a_lock_are_never_disturbed(clock: Clock, tmp_path: Path) -> None:
    clock.publish(0.0, NOON)
    writers = [FORK.Process(target=_publish_many, args=(tmp_path, first)) for first in (1, 101)]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        with reading(clock.out) as manifest:
            found = {
                number
                for table, column in (("fits", "t1_s"), ("observations", "runtime_s_median"))
                for number in pq.read_table(manifest.path(table), partitioning=None).column(column).to_pylist()
            }
        assert len(found) == 1
        seen |= found
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert len(seen) > 3


def test_a_reader_that_is_overtaken_reads_the_next_version(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    clock.publish(1.0, NOON)
    overtaken = load_manifest(clock.out)
    second = clock.publish(2.0, NOON + 60, retention=Retention(newest=1))
    answers = iter([overtaken, load_manifest(clock.out)])
    monkeypatch.setattr("pipeline.publish.versions.read_manifest", lambda *_: next(answers))
    with reading(clock.out) as manifest:
        assert manifest.folder == second


def test_another_program_has_a_grace_period(clock: Clock) -> None:
    first = clock.publish(1.0, NOON)
    graced = Retention(newest=1, grace_s=600)
    second = clock.publish(2.0, NOON + 900, retention=graced)
    third = clock.publish(3.0, NOON + 1200, retention=graced)
    assert clock.folders == [first, second, third]
    fourth = clock.publish(4.0, NOON + 1600, retention=graced)
    assert clock.folders == [second, third, fourth]
