"""Settings: what a wrong config says, and what a right one gives."""

import re
from pathlib import Path
from typing import Any

import pytest

from flows.services.files.os_errors import config_settings
from pipeline.errors import ConfigError, InputError
from pipeline.settings import REMOVED, RunSettings, parse_settings

REPOSITORY = Path(__file__).parents[3]


def test_defaults_are_a_valid_run() -> None:
    assert parse_settings({}, "x.toml") == RunSettings()


def test_an_unknown_key_names_itself_and_the_valid_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings({"site": {"timezon": "UTC"}}, "site.toml")
    assert str(caught.value) == (
        "site.toml: found unknown key site.timezon, expected one of anonymise, key_file, max_procs, name, "
        "price_per_proc_hour, procs_per_node, timezone; did you mean timezone?"
    )


def test_an_unknown_section_lists_the_sections() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown key grupo, expected one of checks, clean, .*group.*source; did you mean group"
    ):
        parse_settings({"grupo": {}}, "site.toml")


@pytest.mark.parametrize(
    ("plain", "named"),
    [
        ({"group": {"template": ["colour"]}}, "colour"),
        ({"group": {"template": []}}, "group.template"),
        ({"scaling": {"counts": [0]}}, "scaling.counts"),
        ({"publish": {"keep_versions": "many"}}, "publish.keep_versions"),
        ({"scaling": {"laws": ["gravity"]}}, "scaling.laws"),
        ({"site": "here"}, "site"),
        ({"site": {"timezone": "Mars"}}, "site.timezone"),
        ({"clean": {"flags_off": ["nonsense"]}}, "clean.flags_off"),
        ({"export": {"max_age_days": 0}}, "export.max_age_days = 0"),
        ({"export": {"mode": "kill"}}, "export.mode"),
    ],
)
def test_a_value_that_does_not_fit_names_its_key(plain: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        parse_settings(plain, "site.toml")


def test_a_hostile_key_is_escaped() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings({"\x1b[31mred": 1}, "site.toml")
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("content", [b"logs = [", b"\xff\xfe\x00bad", None])
def test_a_file_that_is_no_config_is_one_sentence(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "site.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"site\.toml.*: found .*, expected ") as caught:
        config_settings(path)
    assert "\n" not in str(caught.value)


REMOVED_KEYS = [line.split("\t") for line in REMOVED.read_text().splitlines()]


@pytest.mark.parametrize(("key", "went"), REMOVED_KEYS, ids=[key for key, _ in REMOVED_KEYS])
def test_a_removed_setting_is_one_sentence_with_where_it_went(key: str, went: str) -> None:
    plain: Any = 1
    for name in reversed(key.split(".")):
        plain = {name: plain}
    with pytest.raises(ConfigError, match=re.escape(went)) as caught:
        parse_settings(plain, "site.toml")
    assert str(caught.value).startswith(f"site.toml: found {key}, which is no setting any more")
    paths = re.findall(r"(?:pipeline|flows)/[\w/]+\.py", went)
    text = "".join((REPOSITORY / path).read_text() for path in paths)
    assert not paths or all(name in text for name in re.findall(r"\b[A-Z][A-Z_]{3,}\b|\b[A-Z]\w+Rules\b", went))


def test_a_key_of_a_removed_section_names_the_section() -> None:
    with pytest.raises(ConfigError, match=r"found clean\.flurry, .*BurstRules in pipeline/clean/flurries\.py"):
        parse_settings({"clean": {"flurry": {"remove_weeks": 2}}}, "site.toml")
