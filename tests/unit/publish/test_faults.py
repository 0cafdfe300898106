"""Publishing to a full or read-only disk, over damaged versions, and under a clock that jumps."""

import errno
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.publish import load_manifest
from pipeline.publish.versions import version_name
from tests.small_disk import PAGE, small_disk
from tests.unit.publish.numbered_versions import numbers, put, stage
from tests.unit.publish.versions_of_tables import folder_of

CREATED_S = 100


def test_a_disk_that_fills_at_any_instant_keeps_the_published_version(tmp_path: Path) -> None:
    old, new = stage(tmp_path / "old", 1.0), stage(tmp_path / "new", 2.0)
    versions = {version_name(CREATED_S, run_id) for run_id in ("old", "new")}
    outcomes = []
    with small_disk(tmp_path / "disk", "512k") as disk:
        for n_pages in range(60):
            out = disk.path / f"out{n_pages}"
            put(old, "old", out)
            disk.leave(n_pages * PAGE)
            try:
                put(new, "new", out)
                outcomes.append("published")
                assert numbers(out) == {2.0}
            except OSError as error:
                assert error.errno == errno.ENOSPC
                outcomes.append("full")
                assert numbers(out) == {1.0}
                assert {path.name for path in (out / "versions").iterdir()} <= {".lock", *versions}
                assert not list(out.glob(".*draft"))
            disk.free_all()
            put(new, "new", out)
            assert numbers(out) == {2.0}
            assert [entry.run_id for entry in load_manifest(out).previous] == ["old"]
            # Space is given back, so that later sizes are tried on the same disk.
            for path in sorted(out.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            if outcomes[-3:] == ["published"] * 3:
                break
    assert outcomes[0] == "full" and outcomes.count("full") >= 3 and outcomes[-1] == "published"


def test_a_read_only_disk_is_read_and_not_written(tmp_path: Path) -> None:
    staged = stage(tmp_path / "s", 1.0)
    with small_disk(tmp_path / "disk", "1m") as disk:
        put(staged, "old", disk.path / "out")
        disk.remount("ro")
        with pytest.raises(OSError) as refused:
            put(stage(tmp_path / "s2", 2.0), "new", disk.path / "out")
        assert refused.value.errno == errno.EROFS
        assert numbers(disk.path / "out") == {1.0}
        disk.remount("rw")
        put(stage(tmp_path / "s2", 2.0), "new", disk.path / "out")
        assert numbers(disk.path / "out") == {2.0}


@pytest.mark.parametrize("damage", ["a flipped byte", "a cut file", "a lost file"])
def test_the_next_run_replaces_a_damaged_version(tmp_path: Path, damage: str) -> None:
    staged, out = stage(tmp_path / "s", 1.0), tmp_path / "out"
    put(staged, "a", out)
    path = load_manifest(out).path("fits")
    data = path.read_bytes()
    half = len(data) // 2
    if damage == "a lost file":
        path.unlink()
    else:
        path.write_bytes(data[:half] if damage == "a cut file" else data[:half] + b"\xff\xfe\xfd" + data[half + 3 :])
    # A version and the step it was published from may be one file: the run computes it again.
    put(stage(tmp_path / "again", 1.0), "a", out)
    assert load_manifest(out).path("fits").read_bytes() == data
    assert numbers(out) == {1.0}


def test_versions_stay_in_the_order_of_publication_when_the_clock_jumps_back(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for n, created_s in enumerate((1000, 5000, 10, 2000)):
        put(stage(tmp_path / str(n), float(n)), f"r{n}", out, created_s)
        assert numbers(out) == {float(n)}
        assert load_manifest(out).created_s == created_s
    assert [(entry.run_id, entry.created_s) for entry in load_manifest(out).previous] == [("r2", 10), ("r1", 5000)]
    assert set((out / "versions").glob("[!.]*")) == {folder_of(out, run_id) for run_id in ("r1", "r2", "r3")}


def test_tables_are_compared_by_all_their_rows(tmp_path: Path) -> None:
    """The check of this file sees a mixture."""
    out = tmp_path / "out"
    put(stage(tmp_path / "a", 1.0) | {"observations": stage(tmp_path / "b", 2.0)["observations"]}, "a", out)
    assert numbers(out) == {1.0, 2.0}
    assert isinstance(pq.read_table(load_manifest(out).path("fits")), pa.Table)
