"""A version stays long enough for its readers, who take no lock."""

import multiprocessing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.arrays import DAY_S
from pipeline.publish import Retention, load_manifest, read_version
from tests.unit.publish.numbered_versions import NOON, Clock

FORK = multiprocessing.get_context("forkserver")
HALF_A_DAY = Retention(newest=1, all_days=0.5)


def test_a_version_can_be_read_for_days_after_another_one_was_published(clock: Clock) -> None:
    first = clock.publish(1.0, NOON)
    manifest = read_version(clock.out)
    second = clock.publish(2.0, NOON + 30 * DAY_S, retention=HALF_A_DAY)
    third = clock.publish(3.0, int(NOON + 30.4 * DAY_S), retention=HALF_A_DAY)
    assert clock.folders == [first, second, third] and manifest.path("fits").exists()
    fourth = clock.publish(4.0, int(NOON + 30.6 * DAY_S), retention=HALF_A_DAY)
    assert clock.folders == [second, third, fourth]


def test_a_reader_needs_no_right_to_write(clock: Clock) -> None:
    first = clock.publish(1.0, NOON)
    folder = clock.out / "versions" / first
    before = sorted(folder.iterdir())
    folder.chmod(0o555)
    manifest = read_version(clock.out)
    assert manifest.folder == first and manifest.path("fits").exists()
    assert sorted(folder.iterdir()) == before


def _publish_many(folder: Path, first: int) -> None:
    clock = Clock(folder / f"w{first}")
    clock.out = folder / "out"
    for number in range(first, first + 15):
        clock.publish(float(number), NOON + number, retention=Retention(newest=1, all_days=1))


def test_two_writers_disturb_no_reader(clock: Clock, tmp_path: Path) -> None:
    clock.publish(0.0, NOON)
    writers = [FORK.Process(target=_publish_many, args=(tmp_path, first)) for first in (1, 101)]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        manifest = read_version(clock.out)
        found = {
            number
            for table, column in (("fits", "t1_s"), ("observations", "runtime_s_median"))
            for number in pq.read_table(manifest.path(table), partitioning=None).column(column).to_pylist()
        }
        assert len(found) == 1
        seen |= found
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert len(seen) > 3


def test_a_version_that_is_gone_is_one_sentence(clock: Clock) -> None:
    clock.publish(1.0, NOON)
    gone = load_manifest(clock.out)
    clock.publish(2.0, NOON + 60, retention=Retention(newest=1))
    with pytest.raises(Exception, match=r"fits.parquet.*: found no such file"):
        gone.path("fits")
