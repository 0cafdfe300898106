"""A store that somebody tampered with: its names and links lead nowhere outside; files have the modes of the umask."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.publish import Retention, load_manifest
from pipeline.publish.manifest import MANIFEST, OWN_MANIFEST, PIN, VERSIONS
from pipeline.publish.store import LOCK, locked
from pipeline.publish.versions import pin, promote, read_version, rollback, stored_versions
from pipeline.storage import write_text
from tests.publishing import publish
from tests.unit.publish.versions_of_tables import folder_of, run_facts, staged


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder to which two versions were published."""
    for run_id in ("aa11", "bb22"):
        put(tmp_path, run_id)
    return tmp_path / "out"


def put(tmp_path: Path, run_id: str) -> None:
    tables = staged(tmp_path / "staged")
    publish(tables, [], run_facts(run_id), output_dir=tmp_path / "out", created_s=1_700_000_000, retention=Retention(5))


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    plain = json.loads(path.read_text())
    change(plain)
    path.write_text(json.dumps(plain))


OUTSIDE = ("/etc/passwd", "../outside", "../../outside", "a/b", ".", "..", "", "a\0b", ".lock")


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_version_name_that_leaves_the_store_is_refused_in_a_sentence(out: Path, name: str) -> None:
    changed(out / MANIFEST, lambda plain: plain.update(folder=name))
    assert_refused(lambda: load_manifest(out))


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_earlier_version_that_leaves_the_store_is_refused(out: Path, name: str) -> None:
    changed(out / MANIFEST, lambda plain: plain["previous"][0].update(folder=name))
    assert_refused(lambda: load_manifest(out))


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret.parquet", "versions/../../secret.parquet", "manifest.json"])
def test_a_table_outside_its_version_is_refused(out: Path, path: str) -> None:
    secret = out.parent / "secret.parquet"
    secret.write_bytes(b"x")
    changed(out / MANIFEST, lambda plain: plain["tables"]["jobs"].update(path=path, bytes=1))
    assert_refused(lambda: load_manifest(out))


def test_a_table_whose_name_is_a_path_is_refused(out: Path) -> None:
    def rename(plain: dict[str, Any]) -> None:
        entry = plain["tables"].pop("jobs")
        plain["tables"]["../../x"] = entry | {"path": f"versions/{plain['folder']}/../../x.parquet"}

    changed(out / MANIFEST, rename)
    assert_refused(lambda: load_manifest(out))


def test_a_version_that_claims_to_be_another_is_refused(out: Path) -> None:
    one, other = folder_of(out, "aa11"), folder_of(out, "bb22")
    (one / OWN_MANIFEST).write_text((other / OWN_MANIFEST).read_text())
    assert_refused(lambda: load_manifest(out, one.name))


def test_a_table_that_is_a_link_out_of_the_store_is_refused(out: Path) -> None:
    table = load_manifest(out).path("jobs")
    table.rename(out.parent / "jobs.parquet")
    table.symlink_to(out.parent / "jobs.parquet")
    assert_refused(lambda: load_manifest(out))


def test_a_version_that_is_a_link_is_none(out: Path) -> None:
    folder, elsewhere = folder_of(out, "aa11"), out.parent / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    assert [one.folder for one in stored_versions(out)] == [folder_of(out, "bb22").name]
    for call in (lambda: pin(out, folder.name, 1), lambda: promote(out, folder.name, 1), lambda: rollback(out, 1)):
        assert_refused(call)
    assert not (elsewhere / PIN).exists()


def test_a_published_version_that_is_a_link_gets_no_file(out: Path, tmp_path: Path) -> None:
    folder, elsewhere = folder_of(out, "bb22"), out.parent / "elsewhere"
    elsewhere.mkdir()
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    folder.symlink_to(elsewhere)
    put(tmp_path, "cc33")
    assert load_manifest(out).run_id == "cc33" and list(elsewhere.iterdir()) == []


def test_versions_in_a_linked_folder_are_refused(out: Path, tmp_path: Path) -> None:
    (out / VERSIONS).rename(tmp_path / "elsewhere")
    (out / VERSIONS).symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").iterdir())
    for call in (lambda: load_manifest(out), lambda: put(tmp_path, "cc33"), lambda: rollback(out, 1)):
        assert_refused(call)
    assert sorted((tmp_path / "elsewhere").iterdir()) == before


def test_the_store_itself_may_be_a_link(out: Path, tmp_path: Path) -> None:
    (tmp_path / "tables").symlink_to(out)
    manifest = read_version(tmp_path / "tables")
    assert manifest.run_id == "bb22"


def test_a_linked_lock_file_is_not_opened(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / LOCK).symlink_to(victim)
    with pytest.raises(InputError, match=r"found a symbolic link, expected a file"), locked(tmp_path / "work"):
        pass
    assert victim.read_text() == "precious"


def test_a_draft_that_is_a_link_is_replaced(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".page.html.{os.getpid()}.draft").symlink_to(victim)
    write_text(tmp_path / "page.html", "new")
    assert (victim.read_text(), (tmp_path / "page.html").read_text()) == ("precious", "new")
    assert not (tmp_path / "page.html").is_symlink()


def test_the_umask_is_respected(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        put(tmp_path, "aa11")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "out").rglob("*")} == {0o640, 0o750}


def assert_refused(call: Callable[[], object]) -> None:
    """The call ends with one sentence without control characters."""
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).isprintable() and "expected" in str(caught.value)
