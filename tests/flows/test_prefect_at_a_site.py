"""Prefect behind a site's proxy; with a server in a profile, and without one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROXIES = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "no_proxy": ""}


def ran(config: Path, home: Path, **more: str) -> tuple[int, str]:
    """Exit code and standard error of `walltime run` in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment = kept | {"PREFECT_HOME": str(home), "PYTHONPATH": str(ROOT)} | more
    command = [sys.executable, "-m", "flows.cli", "run", str(config), "--quiet"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)
    return done.returncode, done.stderr


@pytest.mark.usefixtures("prefect")
def test_a_proxy_of_the_site_does_not_stand_before_a_server_on_this_machine(config: Path, tmp_path: Path) -> None:
    from prefect.settings import PREFECT_API_URL

    address = str(PREFECT_API_URL.value())
    assert ran(config, tmp_path / "home", PREFECT_API_URL=address, **PROXIES) == (0, "")


def test_without_a_server_a_run_is_plain_and_starts_none(config: Path, tmp_path: Path) -> None:
    assert ran(config, tmp_path / "home") == (0, "")
    assert (tmp_path / "out" / "manifest.json").exists() and not (tmp_path / "home" / "prefect.db").exists()


def test_a_server_in_a_profile_is_one(config: Path, tmp_path: Path) -> None:
    """As `prefect config set` writes it; nothing answers there."""
    (tmp_path / "home").mkdir()
    profile = 'active = "site"\n[profiles.site]\nPREFECT_API_URL = "http://127.0.0.1:9/api"\n'
    (tmp_path / "home" / "profiles.toml").write_text(profile)
    code, error = ran(config, tmp_path / "home")
    assert code == 2 and "http://127.0.0.1:9/api" in error and "`walltime run --plain` does without it" in error
    assert len(error.strip().splitlines()) == 1


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
    from flows.prefect import set_prefect_defaults

    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        for spelt in (name, name.upper()):
            monkeypatch.setenv(spelt, "")
            monkeypatch.delenv(spelt)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    set_prefect_defaults()
    assert os.environ.get("NO_PROXY") == direct
