"""datapackage.json: what it says of the files, its bytes, and hostile text in it."""

import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.publish import Retention, load_manifest
from pipeline.publish.manifest import DATAPACKAGE, table_entry
from pipeline.schema import Column, TableKind, text
from pipeline.storage import file_sha256
from pipeline.tables import JOBS, TABLES
from tests.publishing import publish
from tests.unit.publish.versions_of_tables import folder_of, jobs, run_facts, staged


def text_of(files: dict[str, Path], facts: dict[str, Any], created_s: int) -> str:
    with TemporaryDirectory() as out:
        publish(files, [], facts, output_dir=Path(out), created_s=created_s, retention=Retention(newest=2))
        return (folder_of(Path(out), facts["run_id"]) / DATAPACKAGE).read_text(encoding="utf-8")


def test_it_describes_every_file_with_bytes_hash_rows_schema_and_key(tmp_path: Path) -> None:
    files = staged(tmp_path, jobs=jobs(5, user=["ann", None, None, "bob", "ann"]))
    package = json.loads(text_of(files, run_facts(), 1_700_000_000))
    assert package["$schema"] == "https://datapackage.org/profiles/2.0/datapackage.json"
    assert package["created"] == "2023-11-14T22:13:20Z"
    assert package["sources"] == [{"title": "a.swf", "sha256": "ab" * 32}]
    assert package["walltime"]["code"] == run_facts()["code"] and package["walltime"]["run_id"] == "aa11"
    by_name = {one["name"]: one for one in package["resources"]}
    assert set(by_name) == set(files)
    for name, one in by_name.items():
        held = files[name].read_bytes()
        assert (one["path"], one["bytes"]) == (f"{name}.parquet", len(held))
        assert one["hash"] == f"sha256:{hashlib.sha256(held).hexdigest()}"
        assert one["rows"] == pq.read_metadata(files[name]).num_rows
        assert [field["name"] for field in one["schema"]["fields"]] == pq.read_schema(files[name]).names
    assert by_name["jobs"]["schema"]["uniqueKeys"] == [["site", "cluster", "job_id", "restart"]]
    assert by_name["estimates"]["schema"]["uniqueKeys"] == [list(TABLES["estimates"].key)]
    fields = {field["name"]: field for field in by_name["jobs"]["schema"]["fields"]}
    assert fields["user"]["nulls"] == 2 and fields["user"]["constraints"] == {"required": False}
    assert fields["runtime_s"]["unit"] == "s" and fields["runtime_s"]["type"] == "number"
    assert fields["site"]["constraints"] == {"required": True} and fields["end_s"]["type"] == "integer"


def test_its_bytes_depend_on_the_content_and_the_given_time_alone(tmp_path: Path) -> None:
    first, second = (text_of(staged(tmp_path / one), run_facts(), 7) for one in ("a", "b"))
    assert first == second
    later = text_of(staged(tmp_path / "a"), run_facts(), 8)
    changed = {line for line in later.splitlines() if line not in first.splitlines()}
    assert {line.split('"')[1] for line in changed} == {"created", "created_s"}


def test_hostile_text_is_escaped_and_numbers_are_json(tmp_path: Path) -> None:
    facts = run_facts(
        site='ox"\x1b]0;\u202e\udcff', logs=[("a\n\udc80.swf", "ab" * 32)], settings={"a\x07": [float("inf"), "\udcff"]}
    )
    text = text_of(staged(tmp_path), facts, 7)
    package = json.loads(text, parse_constant=pytest.fail)
    text.encode("ascii")
    assert "\\udc" not in text.replace("\\\\udc", "")
    assert package["walltime"]["site"] == 'ox"\\x1b]0;\\u202e\\udcff'
    assert package["sources"][0]["title"] == "a\\n\\udc80.swf"
    assert package["walltime"]["settings"] == {"a\\x07": [None, "\\udcff"]}


def test_every_version_has_one_and_it_reads_back(tmp_path: Path) -> None:
    for run_id, n in (("aa11", 150), ("bb22", 160)):
        files = staged(tmp_path / "staged", jobs=jobs(n))
        publish(files, [], run_facts(run_id), output_dir=tmp_path / "out", created_s=n, retention=Retention(newest=2))
    manifest = load_manifest(tmp_path / "out")
    for run_id, n in (("aa11", 150), ("bb22", 160)):
        folder = folder_of(tmp_path / "out", run_id)
        found = json.loads((folder / DATAPACKAGE).read_text())
        rows = {one["name"]: one["rows"] for one in found["resources"]}
        assert (found["walltime"]["run_id"], found["walltime"]["created_s"], rows["jobs"]) == (run_id, n, n)
        own = load_manifest(tmp_path / "out", folder.name).tables["jobs"]
        assert own.columns == table_entry(folder / "jobs.parquet", JOBS).columns
    assert manifest.run_id == "bb22"


def test_publishing_reads_each_staged_file_once_for_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, read = staged(tmp_path / "staged"), []
    monkeypatch.setattr("pipeline.storage.file_sha256", lambda path: (read.append(path), file_sha256(path))[1])
    publish(files, [], run_facts(), output_dir=tmp_path / "out", created_s=1, retention=Retention(newest=2))
    assert sorted(read) == sorted(files.values())
    manifest = load_manifest(tmp_path / "out")
    assert {name: entry.sha256 for name, entry in manifest.tables.items()} == {
        name: file_sha256(path) for name, path in files.items()
    }


def test_a_version_published_again_is_reused_with_its_datapackage_and_old_ones_go(tmp_path: Path) -> None:
    files = staged(tmp_path / "staged")
    for created_s in (1, 2):
        publish(files, [], run_facts(), output_dir=tmp_path / "out", created_s=created_s, retention=Retention(newest=2))
    (folder,) = (tmp_path / "out/versions").glob("[!.]*")
    assert folder == folder_of(tmp_path / "out", "aa11")
    assert json.loads((folder / DATAPACKAGE).read_text())["walltime"]["created_s"] == 1
    for n in (120, 130, 140):
        files = staged(tmp_path / "staged", jobs=jobs(n))
        publish(files, [], run_facts(f"r{n}"), output_dir=tmp_path / "out", created_s=n, retention=Retention(newest=2))
    kept = {folder_of(tmp_path / "out", run_id) for run_id in ("r130", "r140")}
    assert set((tmp_path / "out/versions").glob("[!.]*")) == kept


def test_nulls_are_counted_in_files_without_statistics_and_under_names_like_patterns(tmp_path: Path) -> None:
    columns = (Column("n", pa.int64(), ""), text('s"; x', ""), Column("l", pa.list_(pa.int64()), ""))
    kind = TableKind("t", columns, (), "")
    folder = tmp_path / "a[1]*?"
    folder.mkdir()
    table = pa.table({"n": [1, None, 3], 's"; x': ["a", None, None], "l": pa.array([[1], None, []])})
    pq.write_table(table, folder / "t.parquet", row_group_size=2, write_statistics=False)
    found = table_entry(folder / "t.parquet", kind)
    assert (found.rows, [one.nulls for one in found.columns]) == (3, [1, 2, 1])
    pq.write_table(table, folder / "t.parquet", row_group_size=2)
    assert table_entry(folder / "t.parquet", kind).columns == found.columns
