"""Publishing: whole versions, also when a publisher dies in any step, and among others that publish."""

import json
import multiprocessing
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.publish import load_manifest
from pipeline.publish.manifest import table_entry
from pipeline.schema import Column, TableKind
from pipeline.storage import file_sha256
from tests.publishing import facts_of, publish
from tests.unit.publish.numbered_versions import ALL, die_in_step, numbers, put, stage

# Processes come from a server without threads: forking this one would copy the locks its other tests' threads hold.
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["pipeline.publish", "pytest"])


def test_manifest_says_what_is_there(tmp_path: Path) -> None:
    path = put(stage(tmp_path / "s", 1.0), "aa11", tmp_path / "out")
    manifest = load_manifest(tmp_path / "out")
    entry = manifest.tables["fits"]
    assert path == tmp_path / "out" / "manifest.json"
    assert (manifest.run_id, manifest.site, manifest.created_s, manifest.data_newest_end_s) == (
        "aa11",
        "riverbend",
        100,
        7,
    )
    assert manifest.path("fits") == tmp_path / "out/versions/1970-01-01T0001Z-aa11/fits.parquet"
    assert (entry.rows, entry.bytes) == (3, manifest.path("fits").stat().st_size)
    assert entry.sha256 == file_sha256(manifest.path("fits"))
    assert entry.key == ("group_id", "law")
    assert {c.name: c.unit for c in entry.columns}["t1_s"] == "s"
    assert manifest.reports[0]["facts"] == {"ratio": None}
    assert manifest.logs[0].name == "a.swf"
    assert json.loads(path.read_text())["format_version"] == 2


def test_a_manifest_is_ascii_json_whatever_the_names_and_numbers_are(tmp_path: Path) -> None:
    hostile = facts_of("aa11", 'ox"\x1b]0;\u202e', {"a\x07": [float("inf")]}, [("a\n\u202e.swf", "ab" * 32)], "code")
    publish(stage(tmp_path / "s", 1.0), [], hostile, output_dir=tmp_path / "out", created_s=1, retention=ALL)
    text = (tmp_path / "out/manifest.json").read_text(encoding="ascii")
    found = json.loads(text, parse_constant=pytest.fail)
    assert (found["site"], found["settings"]) == ('ox"\x1b]0;\u202e', {"a\x07": [None]})
    assert load_manifest(tmp_path / "out").logs[0].name == "a\n\u202e.swf"


def test_publishing_reads_each_staged_file_once_for_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, read = stage(tmp_path / "s", 1.0), []
    monkeypatch.setattr("pipeline.storage.file_sha256", lambda path: (read.append(path), file_sha256(path))[1])
    put(files, "aa11", tmp_path / "out")
    assert sorted(read) == sorted(files.values())


def test_nulls_are_counted_in_files_without_statistics_and_under_names_like_patterns(tmp_path: Path) -> None:
    columns = (Column("n", pa.int64(), ""), Column('s"; x', pa.string(), ""), Column("l", pa.list_(pa.int64()), ""))
    kind = TableKind("t", columns, (), "")
    folder = tmp_path / "a[1]*?"
    folder.mkdir()
    table = pa.table({"n": [1, None, 3], 's"; x': ["a", None, None], "l": pa.array([[1], None, []])})
    pq.write_table(table, folder / "t.parquet", row_group_size=2, write_statistics=False)
    found = table_entry(folder / "t.parquet", kind)
    assert (found.rows, [one.nulls for one in found.columns]) == (3, [1, 2, 1])


def test_versions_of_earlier_releases_go_with_all_their_files(tmp_path: Path) -> None:
    out = tmp_path / "out"
    put(stage(tmp_path / "s", 1.0), "aa11", out)
    for name in (".lock", "datapackage.json"):
        (out / "versions/1970-01-01T0001Z-aa11" / name).touch()
    put(stage(tmp_path / "s", 2.0), "bb22", out, created_s=200, keep=1)
    assert [path.name for path in (out / "versions").glob("[!.]*")] == ["1970-01-01T0003Z-bb22"]


def test_same_bytes_are_one_version(tmp_path: Path) -> None:
    out = tmp_path / "out"
    put(stage(tmp_path / "s", 1.0), "aa11", out)
    first = (out / "versions/1970-01-01T0001Z-aa11/fits.parquet").stat()
    put(stage(tmp_path / "s", 1.0), "aa11", out, created_s=200)
    assert (out / "versions/1970-01-01T0001Z-aa11/fits.parquet").stat().st_ino == first.st_ino
    assert load_manifest(out).previous == ()
    assert (load_manifest(out).created_s, load_manifest(out).published_s) == (100, 200)


def test_a_version_is_never_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "out"
    put(stage(tmp_path / "s", 1.0), "aa11", out)
    put(stage(tmp_path / "s", 2.0), "aa11", out)
    assert numbers(out) == {2.0}
    assert load_manifest(out).folder == "1970-01-01T0001Z-aa11-2"
    assert pq.read_table(out / "versions/1970-01-01T0001Z-aa11/fits.parquet").column("t1_s")[0].as_py() == 1.0


def test_retention_keeps_the_newest_and_what_is_not_ours(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for n in range(6):
        put(stage(tmp_path / "s", float(n)), f"r{n}", out, created_s=n)
        if n == 0:
            (out / "versions/notes").mkdir()
            (out / "versions/notes/mine.txt").write_text("keep")
    assert sorted(p.name for p in (out / "versions").iterdir() if not p.name.startswith(".")) == [
        "1970-01-01T0000Z-r3",
        "1970-01-01T0000Z-r4",
        "1970-01-01T0000Z-r5",
        "notes",
    ]
    assert [entry.run_id for entry in load_manifest(out).previous] == ["r4", "r3"]


def test_an_older_run_published_again_is_current(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for run_id, number in (("a", 1.0), ("b", 2.0), ("a", 1.0)):
        put(stage(tmp_path / "s", number), run_id, out)
    assert numbers(out) == {1.0}
    assert [entry.run_id for entry in load_manifest(out).previous] == ["b"]


def test_a_corrupt_manifest_does_not_stop_a_publish_nor_lose_versions(tmp_path: Path) -> None:
    out = tmp_path / "out"
    put(stage(tmp_path / "s", 1.0), "a", out)
    (out / "manifest.json").write_text("{")
    put(stage(tmp_path / "s", 2.0), "b", out)
    assert numbers(out) == {2.0}
    assert (out / "versions/1970-01-01T0001Z-a/fits.parquet").exists()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "not valid JSON"),
        ("[]", "JSON list"),
        ('{"format_version": 2}', "run_id"),
        ('{"format_version": 1}', "format version 1, expected 2; run again"),
        ('{"format_version": 99}', "format version 99, expected 2; install a newer Walltime"),
    ],
)
def test_a_manifest_that_is_none_is_one_sentence(tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=found):
        load_manifest(tmp_path)


def test_missing_manifest_and_missing_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_manifest(tmp_path)
    put(stage(tmp_path / "s", 1.0), "a", tmp_path)
    with pytest.raises(InputError, match="no table jobs, expected one of fits, observations"):
        load_manifest(tmp_path).path("jobs")
    (tmp_path / "versions/1970-01-01T0001Z-a/fits.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="found 4 bytes"):
        load_manifest(tmp_path)


def _publish_and_die(staged: dict[str, Path], out: Path, step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        die_in_step(step, patch)
        put(staged, "new", out, keep=2)
    os._exit(0)


@pytest.mark.slow
def test_death_in_any_step_leaves_one_whole_version(tmp_path: Path) -> None:
    old, older, new = (stage(tmp_path / str(n), float(n)) for n in (1, 2, 3))
    seen: list[set[float]] = []
    for step in range(1_000):
        out = tmp_path / f"out{step}"
        for run_id, staged in (("older", older), ("old", old)):
            put(staged, run_id, out, keep=2)
        child = FORK.Process(target=_publish_and_die, args=(new, out, step))
        child.start()
        child.join(30)
        seen.append(numbers(out))
        put(new, "new", out, keep=2)
        assert numbers(out) == {3.0}
        left = {p.name for p in (out / "versions").iterdir()}
        assert left == {".lock", "1970-01-01T0001Z-new", "1970-01-01T0001Z-old"} and not list(out.glob(".*draft"))
        if child.exitcode == 0:
            break
    assert len(seen) > 12, "publishing takes more steps than were tried"
    assert {1.0} in seen and {3.0} in seen and all(one in ({1.0}, {3.0}) for one in seen)


def test_a_failing_step_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    put(stage(tmp_path / "s", 1.0), "a", out)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for module, name in ((os, "link"), (shutil, "copyfile")):
        monkeypatch.setattr(module, name, full)
    with pytest.raises(OSError, match="No space"):
        put(stage(tmp_path / "s", 2.0), "b", out)
    assert {p.name for p in (out / "versions").iterdir()} == {".lock", "1970-01-01T0001Z-a"}
    assert numbers(out) == {1.0}


def _publish_many(folder: Path, out: Path, first: int, n_versions: int) -> None:
    for n in range(first, first + n_versions):
        put(stage(folder / str(n), float(n), n_rows=50), f"r{n}", out, created_s=n, keep=3)


def test_readers_among_concurrent_publishers_never_see_a_mixture(tmp_path: Path) -> None:
    out = tmp_path / "out"
    put(stage(tmp_path / "s", 0.0), "r0", out)
    writers = [FORK.Process(target=_publish_many, args=(tmp_path / f"w{i}", out, 1 + 100 * i, 15)) for i in range(2)]
    for writer in writers:
        writer.start()
    looks = 0
    while any(writer.is_alive() for writer in writers):
        try:
            assert len(numbers(out)) == 1
        except (FileNotFoundError, InputError) as error:  # three publishes overtook this look: it starts again
            assert "versions" in str(error)
            continue
        looks += 1
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert looks > 5
    assert len(load_manifest(out).previous) == 2
    assert isinstance(pq.read_table(load_manifest(out).path("fits")), pa.Table)
