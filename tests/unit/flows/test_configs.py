"""The configs that ship: all.toml shows every setting with its default, sample.toml finds its log."""

import re
import tomllib
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from flows.services.files.os_errors import config_settings
from flows.services.logs import find_logs
from pipeline.errors import ConfigError, InputError
from pipeline.schema import Flag
from pipeline.settings import RunSettings, parse_settings

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
ALL = CONFIGS / "all.toml"
MOST_SETTINGS = 60
SCREEN_LINES = 45


def test_all_toml_holds_the_defaults_and_nothing_else() -> None:
    assert config_settings(ALL) == RunSettings()


def test_a_site_can_set_at_most_sixty_settings() -> None:
    assert len(list(sections("", RunSettings))) <= MOST_SETTINGS


def test_each_section_of_all_toml_is_one_screen() -> None:
    parts = re.split(r"(?m)^\[[\w.]+\]$", ALL.read_text())
    assert max(part.count("\n") for part in parts) <= SCREEN_LINES


def sections(name: str, of: type[BaseModel]) -> Iterator[tuple[str, str, bool]]:
    """Each setting below a section: the header it stands under, its name, and whether it is a list of tables."""
    for setting, field in of.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from sections(f"{name}.{setting}".lstrip("."), inner)
        else:
            tables = [one for one in typing.get_args(inner) if isinstance(one, type) and issubclass(one, BaseModel)]
            yield name, setting, bool(tables)


def test_every_setting_occurs_in_all_toml_under_its_section() -> None:
    parts = re.split(r"(?m)^\[([\w.]+)\]$", ALL.read_text())
    texts = {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))
    for section, setting, is_tables in sections("", RunSettings):
        found = re.search(rf"(?m)^(# )?{setting} = ", texts[section])
        as_tables = is_tables and f"# [[{section}.{setting}]]" in ALL.read_text()
        assert found or as_tables, f"{section}.{setting} is not in all.toml"


def test_every_flag_is_named_in_all_toml() -> None:
    assert all(str(flag) in ALL.read_text() for flag in Flag)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.name)
def test_every_config_is_valid(path: Path) -> None:
    config_settings(path)
    assert tomllib.loads(path.read_text())


def test_sample_toml_finds_its_log() -> None:
    assert find_logs(config_settings(CONFIGS / "sample.toml").logs, CONFIGS)


def test_logs_are_relative_to_the_config_even_where_its_folder_looks_like_a_glob(tmp_path: Path) -> None:
    folder = tmp_path / "runs [2024]"
    folder.mkdir()
    for name in ("b.swf", "a.swf", "c.txt"):
        (folder / name).write_text("; a log\n")
    assert [path.name for path in find_logs(["*.swf", "a.swf"], folder)] == ["a.swf", "b.swf"]
    with pytest.raises(InputError, match="no such file"):
        find_logs(["*.none"], folder)


def test_what_is_commented_out_in_all_toml_can_be_used() -> None:
    """The rules of a site, uncommented, are settings."""
    text = ALL.read_text()
    rules = text[text.index("# [[clean.keep]]") : text.index("[group]")]
    settings = parse_settings(tomllib.loads(rules.replace("# ", "").replace("#\n", "\n")), "all.toml")
    assert settings.clean.keep and settings.clean.drop


def test_an_unknown_key_in_a_list_of_rules_is_told_like_any_other() -> None:
    with pytest.raises(ConfigError, match=r"clean\.keep\.0\.burts.*did you mean burst\?"):
        parse_settings({"clean": {"keep": [{"burts": "x", "reason": "x"}]}}, "my.toml")


def test_a_toml_error_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text("logs = ['x']\n[export]\nopt_in = [ 2026-13-40 ]\n")
    with pytest.raises(ConfigError, match=r"\(at line 3, column \d+\)\), expected valid TOML"):
        config_settings(path)
