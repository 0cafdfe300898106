"""A copy of published versions elsewhere: what is sent, what is not sent again, and readers of the copy."""

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.services.published.published_folder import published_folder
from flows.services.run.running import mirror_failure
from pipeline.arrays import DAY_S
from pipeline.errors import ConfigError, InputError
from pipeline.publish import load_manifest, mirror, read_version
from pipeline.publish.mirror import mirror as copy_to
from pipeline.publish.mirror import store_of_copy
from pipeline.publish.versions import pin
from pipeline.settings import parse_settings
from tests.unit.publish.numbered_versions import NOON, Clock, numbers

MOTO = os.environ.get("WALLTIME_TEST_MOTO", "")
"""A Python that has moto[server]; without one a Python module moto of these tests is used."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(mirror, "PAUSES_S", (0.01, 0.01))


@pytest.fixture(params=["a path", "file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where copies go to: a folder, a URL of a folder, a prefix of a bucket on a server of this machine."""
    if request.param == "s3":
        return str(request.getfixturevalue("bucket"))
    (tmp_path / "elsewhere").mkdir()
    return f"{'file://' if request.param == 'file' else ''}{tmp_path / 'elsewhere'}"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of a local S3."""
    python = MOTO or (sys.executable if importlib.util.find_spec("moto") else "")
    if not python:
        pytest.skip(
            "NO S3 WAS TESTED: there is no package moto; WALLTIME_TEST_MOTO names a Python that has moto[server]"
        )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        ends = time.monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert server.poll() is None and time.monotonic() < ends
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    from pyarrow.fs import FileSystem

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    options = f"endpoint_override={s3_server}&scheme=http&region=us-east-1&allow_bucket_creation=true"
    name = f"site-{tmp_path.name.replace('_', '-').lower()}-{os.getpid()}"[:60]
    system, root = FileSystem.from_uri(f"s3://{name}?{options}")
    system.create_dir(root)
    return f"s3://{name}/walltime/tables?{options}"


def store_of(place: str) -> Path:
    """The folder that `--from` of this place means; a path of the command line has lost a slash of a URL."""
    return published_folder(Path(place))


def test_readers_of_a_copy_see_the_published_version_and_earlier_ones(clock: Clock, place: str) -> None:
    for number in (1.0, 2.0):
        clock.publish(number, NOON + int(number) * DAY_S)
        assert mirror_failure(clock.out, place) == ""
        assert numbers(store_of(place)) == {number}
    here, own = read_version(store_of(place)), read_version(clock.out)
    assert {name: one.sha256 for name, one in here.tables.items()} == {
        name: one.sha256 for name, one in own.tables.items()
    }
    assert (here.run_id, here.reports, here.previous) == (own.run_id, own.reports, own.previous)
    earlier = read_version(store_of(place), NOON + DAY_S)
    assert earlier.path("fits").exists() and earlier.run_id == "r1"


def test_a_table_is_fetched_when_it_is_read(clock: Clock, tmp_path: Path) -> None:
    clock.publish(1.0, NOON)
    copy_to(load_manifest(clock.out), str(tmp_path / "copy"))
    store = store_of_copy(f"file://{tmp_path / 'copy'}", {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    manifest = load_manifest(store)
    assert not list(store.glob("files/*"))
    manifest.path("fits")
    assert [path.stem for path in store.glob("files/*.parquet")] == [manifest.tables["fits"].sha256]
    (tmp_path / "copy" / manifest.tables["observations"].path).write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="damaged bytes"):
        manifest.path("observations")


def test_what_is_there_is_not_sent_again_and_what_was_cut_is(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.publish(1.0, NOON)
    copy, manifest = tmp_path / "copy", load_manifest(clock.out)
    copy_to(manifest, str(copy))
    before = {path: path.stat().st_ino for path in copy.glob("files/*")}
    cut = copy / "files" / f"{manifest.tables['fits'].sha256}.parquet"
    cut.write_bytes(b"PAR1")
    copy_to(manifest, str(copy))
    changed = {path for path in copy.glob("files/*") if path.stat().st_ino != before[path]}
    assert changed == {cut} and numbers(copy) == {1.0}


def test_a_copy_that_fails_is_a_sentence_and_the_manifest_there_stays(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    clock.publish(1.0, NOON)
    assert mirror_failure(clock.out, str(copy)) == ""
    clock.publish(2.0, NOON + 60)
    tries: list[int] = []

    def failing(*_: object) -> None:
        tries.append(1)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(mirror, "write_atomically", failing)
        said = mirror_failure(clock.out, str(copy))
    assert "was not copied to" in said and "Input/output error" in said and said.isprintable()
    assert len(tries) == 3 and numbers(copy) == {1.0}
    assert mirror_failure(clock.out, str(copy)) == "" and numbers(copy) == {2.0}
    for wrong in ("s3:/", "nowhere://x/y", "s3://"):
        assert "was not copied" in mirror_failure(clock.out, wrong)


def test_a_place_without_a_copy_is_one_sentence(tmp_path: Path) -> None:
    for place in (f"file://{tmp_path}/none", "nowhere://x/y"):
        with pytest.raises(InputError, match=r"expected a copy that publish\.mirror has made"):
            store_of(place)


def test_a_copy_is_read_and_not_changed(clock: Clock, tmp_path: Path) -> None:
    first = clock.publish(1.0, NOON)
    copy_to(load_manifest(clock.out), str(tmp_path / "copy"))
    store = store_of(f"file://{tmp_path / 'copy'}")
    with pytest.raises(InputError, match="expected the folder to which a run has published"):
        pin(store, first, NOON)


def test_a_table_of_a_copy_has_the_name_of_its_content(clock: Clock, tmp_path: Path) -> None:
    clock.publish(1.0, NOON)
    copy_to(load_manifest(clock.out), str(tmp_path / "copy"))
    path = tmp_path / "copy" / "manifest.json"
    for wrong in ("files/../../secret.parquet", "files/" + "0" * 64 + ".parquet"):
        text = path.read_text()
        path.write_text(text.replace(load_manifest(tmp_path / "copy").tables["fits"].path, wrong, 1))
        with pytest.raises(InputError, match="found table fits at"):
            load_manifest(tmp_path / "copy")
        path.write_text(text)


def test_credentials_do_not_stand_in_the_settings() -> None:
    with pytest.raises(ConfigError, match="mirror"):
        parse_settings({"publish": {"mirror": "s3://key:secret@bucket/prefix"}}, "site.toml")
