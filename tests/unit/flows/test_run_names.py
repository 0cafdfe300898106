"""What Prefect shows of runs: names by site and night, keys that two sites never share."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flows.prefect.session import artifact_key, nightly_run_name, site_tags
from flows.services.initialising import site_slug

NIGHT = datetime(2026, 11, 21, 23, 30, tzinfo=UTC)
SITES = ["riverbend", "River Bend", "river-bend", "river bend", "Ångström", "ång", "-", "x" * 90, "x" * 91, "a/b\n%"]


@pytest.mark.parametrize("site", SITES)
def test_a_key_is_what_prefect_accepts(site: str) -> None:
    assert re.fullmatch("walltime-[a-z0-9]+(-[a-z0-9]+)*-memory-state", artifact_key(site, "memory_state"))


def test_two_sites_share_no_key() -> None:
    assert site_slug("riverbend") == "riverbend" and site_slug("river-bend") == "river-bend"
    assert len({site_slug(site) for site in SITES}) == len(SITES)


def test_the_night_is_the_sites(tmp_path: Path) -> None:
    config = tmp_path / "my-site.toml"
    config.write_text("[site]\nname = 'oxbow'\ntimezone = 'Europe/Oslo'\n")
    assert nightly_run_name({"config": str(config)}, NIGHT) == "oxbow 2026-11-22 00:30"
    assert nightly_run_name({"config": str(config), "site": "other"}, NIGHT) == "other 2026-11-22 00:30"
    assert site_tags("oxbow") == ["walltime", "site:oxbow"]


@pytest.mark.parametrize("text", [None, "[site]\nnam = 'oxbow'\n", "\x00"])
def test_a_config_that_cannot_be_read_gives_its_own_name(tmp_path: Path, text: str | None) -> None:
    config = tmp_path / "my-site.toml"
    if text is not None:
        config.write_text(text)
    assert nightly_run_name({"config": str(config)}, NIGHT) == "my-site 2026-11-21 23:30"
    assert nightly_run_name({}, NIGHT) == " 2026-11-21 23:30"
