"""Reads a TOML config. Each fault is one sentence; an unknown key lists the valid ones, a removed one where it went."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from pipeline.errors import ConfigError, did_you_mean, printable
from pipeline.settings import RunSettings

REMOVED = Path(__file__).with_name("removed_settings.tsv")
"""Keys and sections of earlier releases, with where they went."""


def load_settings(path: Path) -> RunSettings:
    """The settings of a TOML file; ConfigError names file, key, what was found and what is valid."""
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(str(path), "no such file", "a TOML config", "give the path of one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"a file that cannot be read ({error})", "a TOML config in UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(str(path), f"a TOML error ({error}){_line_of(path, str(error))}", "valid TOML") from None
    return parse_settings(plain, str(path))


def _line_of(path: Path, error: str) -> str:
    """The line that an error names: of a day that is not in the calendar tomllib says only that a table is open."""
    number = re.search(r"at line (\d+)", error)
    lines = path.read_text(encoding="utf-8").split("\n")
    return f" in '{printable(lines[int(number[1]) - 1].strip(), 120)}'" if number else ""


def parse_settings(plain: dict[str, Any], where: str) -> RunSettings:
    """Settings from plain dictionaries; the first fault becomes a ConfigError."""
    try:
        return RunSettings.model_validate(plain)
    except ValidationError as error:
        raise _explained(error, where) from None


def _explained(error: ValidationError, where: str) -> ConfigError:
    fault = error.errors()[0]
    path = [str(part) for part in fault["loc"]]
    key = printable(".".join(path))
    if fault["type"] != "extra_forbidden":
        found = f"{key} = {printable(repr(fault['input']))}"
        problem = fault["msg"].removeprefix("Value error, ").replace("valid tuple", "list")
        return ConfigError(where, found, f"a valid value ({problem})")
    # The setting of an earlier release, or its section.
    went = dict(line.split("\t") for line in REMOVED.read_text(encoding="utf-8").splitlines())
    for name in (".".join(path[:length]) for length in range(len(path), 0, -1)):
        if name in went:
            return ConfigError(where, f"{key}, which is no setting any more", "a config without it", went[name])
    valid = sorted(_section_at(path[:-1]).model_fields)
    hint = did_you_mean(path[-1], valid, "remove it or correct it")
    return ConfigError(where, f"unknown key {key}", f"one of {', '.join(valid)}", hint)


def _section_at(path: list[str]) -> type[BaseModel]:
    """The settings class at a key; a number in the path is an index into a list of settings tables."""
    section: type[BaseModel] = RunSettings
    for name in path:
        section = section if name.isdigit() else next(_sections(section.model_fields[name].annotation))
    return section


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """The settings classes in an annotation, nested ones included."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _sections(inner)
