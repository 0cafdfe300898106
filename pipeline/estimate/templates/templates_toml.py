"""A set of templates as a TOML file that a person reads and edits; comments state the result of the search."""

import tomllib
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from pipeline.errors import ConfigError, printable
from pipeline.estimate.templates.search import Found
from pipeline.estimate.templates.smith import KEYS, Template
from pipeline.settings import Section
from pipeline.storage import write_text


class _File(Section):
    template: tuple[Template, ...] = Field(min_length=1)


def templates_text(found: Found, log: str) -> str:
    """The file's text; `log` is what was searched, as text from outside."""
    head = (
        f"# Templates of {printable(log)}: {found.method} search, seed {found.seed}.",
        f"# Mean absolute error on the training period ({found.n_jobs} jobs, up to {found.until_s:.0f} s since 1970):"
        f" {found.error_s:.1f} s.",
        "# To try them: templates_file of EstimateRules (pipeline/estimate/estimate_rules.py) names this file;",
        "# the method smith of a backtest then runs them.",
        "# A job's estimate is that of the template with the narrowest interval, the first of equal ones.",
        f"# attributes: any of {', '.join(KEYS)}.",
    )
    return "\n".join([*head, *(_table(template) for template in found.templates)]) + "\n"


def _table(template: Template) -> str:
    lines = [f"{name} = {_toml(value)}" for name, value in template.model_dump(exclude_none=True).items()]
    return "\n".join(["", f"# {template}", "[[template]]", *lines])


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def write_templates(path: Path, found: Found, log: str) -> Path:
    """Write the file, whole or not at all; returns the path."""
    return write_text(path, templates_text(found, log))


def read_templates(path: Path) -> tuple[Template, ...]:
    """The templates of a file; ConfigError names the file, what was found and what is valid."""
    where = printable(str(path))
    try:
        return _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).template
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(where, f"a file that cannot be read ({printable(str(error))})", "TOML in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(where, f"a TOML error ({printable(str(error))})", "valid TOML") from None
    except ValidationError as error:
        raise _explained(error.errors()[0], where) from None


def _explained(fault: Any, where: str) -> ConfigError:
    key = printable(".".join(str(part) for part in fault["loc"]))
    if fault["type"] == "extra_forbidden":
        return ConfigError(where, f"unknown key {key}", f"one of {', '.join(sorted(Template.model_fields))}")
    return ConfigError(
        where, f"{key} = {printable(repr(fault['input']))}", f"a value that fits ({printable(fault['msg'], 500)})"
    )
