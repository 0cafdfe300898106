"""What Prefect shows of runs: names by site and night, keys that two sites never share."""

import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from flows.prefect import nightly as module
from flows.services.initialising import site_slug

NIGHT = datetime(2026, 11, 21, 23, 30, tzinfo=UTC)
SITES = ["riverbend", "River Bend", "river-bend", "river bend", "Ångström", "ång", "-", "x" * 90, "x" * 91, "a/b\n%"]


@pytest.mark.parametrize("site", SITES)
def test_a_key_is_what_prefect_accepts(site: str) -> None:
    assert re.fullmatch("walltime-[a-z0-9]+(-[a-z0-9]+)*-night-summary", f"walltime-{site_slug(site)}-night-summary")


def night_name(monkeypatch: pytest.MonkeyPatch, parameters: dict[str, str]) -> str:
    monkeypatch.setattr(module, "flow_run", SimpleNamespace(parameters=parameters, scheduled_start_time=NIGHT))
    return module.night_name()


def test_two_sites_share_no_key() -> None:
    assert site_slug("riverbend") == "riverbend" and site_slug("river-bend") == "river-bend"
    assert len({site_slug(site) for site in SITES}) == len(SITES)


def test_the_night_is_the_sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "my-site.toml"
    config.write_text("[site]\nname = 'oxbow'\ntimezone = 'Europe/Oslo'\n")
    assert night_name(monkeypatch, {"config": str(config)}) == "oxbow 2026-11-22 00:30"
    assert night_name(monkeypatch, {"config": str(config), "site": "other"}) == "other 2026-11-22 00:30"
    assert module.site_tags("oxbow") == ["walltime", "site:oxbow"]


@pytest.mark.parametrize("text", [None, "[site]\nnam = 'oxbow'\n", "\x00"])
def test_a_config_that_cannot_be_read_gives_its_own_name(
    tmp_path: Path, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "my-site.toml"
    if text is not None:
        config.write_text(text)
    assert night_name(monkeypatch, {"config": str(config)}) == "my-site 2026-11-21 23:30"
    assert night_name(monkeypatch, {}) == " 2026-11-21 23:30"
