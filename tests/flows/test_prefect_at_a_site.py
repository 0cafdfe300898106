"""Prefect behind a site's proxy, and beside a database that another release of Prefect has made."""

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROXIES = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "no_proxy": ""}


def ran(config: Path, home: Path, **more: str) -> tuple[int, str, float]:
    """Exit code, standard error and seconds of `walltime run` in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment = kept | {"PREFECT_HOME": str(home), "PYTHONPATH": str(ROOT)} | more
    began = time.monotonic()
    command = [sys.executable, "-m", "flows.cli", "run", str(config), "--quiet"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)
    return done.returncode, done.stderr, time.monotonic() - began


def test_a_proxy_of_the_site_does_not_stand_before_prefects_own_server(config: Path, tmp_path: Path) -> None:
    code, error, _ = ran(config, tmp_path / "home", **PROXIES)
    assert (code, error) == (0, "")


@pytest.mark.parametrize(
    ("given", "direct"),
    [
        ({"HTTP_PROXY": "http://p:1"}, "127.0.0.1,localhost,::1"),
        ({"http_proxy": "http://p:1", "NO_PROXY": "x.org,127.0.0.1"}, "x.org,127.0.0.1,localhost,::1"),
        ({"NO_PROXY": "x.org"}, "x.org"),
        ({}, None),
    ],
)
def test_what_needs_no_proxy_is_kept(monkeypatch: pytest.MonkeyPatch, given: dict[str, str], direct: str) -> None:
    from flows.prefect.session import set_prefect_defaults

    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        for spelt in (name, name.upper()):
            monkeypatch.setenv(spelt, "")
            monkeypatch.delenv(spelt)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    set_prefect_defaults()
    assert os.environ.get("NO_PROXY") == direct


def of_revision(path: Path, revision: str) -> None:
    with sqlite3.connect(path) as database:
        database.execute("create table alembic_version (version_num varchar(32) not null)")
        database.execute("insert into alembic_version values (?)", (revision,))
    database.close()


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda path: of_revision(path, "ffff00001111"), "it has the revision ffff00001111), but perhaps of a newer"),
        (lambda path: of_revision(path, "5b0bd3b41a23"), "it lacks tables of its revision"),
        (lambda path: path.write_bytes(b"no database " * 100), "cannot be read (file is not a database)"),
    ],
)
def test_a_database_that_prefect_cannot_use_is_named_at_once(config: Path, tmp_path: Path, make, found: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    make(home / "prefect.db")
    code, error, took_s = ran(config, home)
    assert code == 2 and str(home / "prefect.db") in error and found in error
    assert "Set PREFECT_HOME to another folder" in error and "--plain` does without it" in error
    assert len(error.strip().splitlines()) == 1 and took_s < 100
