"""Settings: what a wrong config says, and what a right one gives."""

from pathlib import Path

import pytest

from pipeline.core.errors import ConfigError
from pipeline.core.settings import RunSettings, load_settings, parse_settings


def test_defaults_are_a_valid_run() -> None:
    assert parse_settings({}, "x.toml") == RunSettings()


def test_an_unknown_key_names_itself_and_the_valid_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings({"group": {"templat": ["user"]}}, "site.toml")
    assert str(caught.value) == (
        "site.toml: found unknown key group.templat, "
        "expected one of compare_jobs, keep_margin, min_later_jobs, series_worth, template; did you mean template?"
    )


def test_an_unknown_section_lists_the_sections() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown key grupo, expected one of across, .*clean, .*group.*source; did you mean group"
    ):
        parse_settings({"grupo": {}}, "site.toml")


@pytest.mark.parametrize(
    ("plain", "named"),
    [
        ({"group": {"template": ["colour"]}}, "colour"),
        ({"group": {"template": []}}, "group.template"),
        ({"predict": {"reach": 0.5}}, "predict.reach"),
        ({"publish": {"keep_versions": "many"}}, "publish.keep_versions"),
        ({"fit": {"laws": ["gravity"]}}, "fit.laws"),
        ({"site": "here"}, "site"),
        ({"site": {"timezone": "Mars"}}, "site.timezone"),
        ({"clean": {"flags_off": ["nonsense"]}}, "clean.flags_off"),
        ({"export": {"quantile": 0.97}}, "export.quantile = 0.97"),
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
    with pytest.raises(ConfigError, match=r"site\.toml: found .*, expected ") as caught:
        load_settings(path)
    assert "\n" not in str(caught.value)
