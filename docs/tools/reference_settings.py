"""The page on settings, from the classes that read a config."""

import json
import re
import types
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docs.tools.markdown_table import page, table
from pipeline.settings import RunSettings

HEAD = ("setting", "type", "unit", "default", "meaning")
UNITS = {"s": "s", "days": "days", "weeks": "weeks", "kib": "KiB", "hours": "h", "share": "share", "gib": "GiB"}
"""Units by the last part of a setting's name, where its meaning does not state one in brackets."""


NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def settings() -> str:
    """Every table of a config, with the type, unit, default and meaning of each setting."""
    intro = (
        "A config is a TOML file. Every setting has a default. `configs/all.toml` holds all of them with comments; "
        "`configs/swf.toml`, `configs/slurm.toml` and `configs/pbs.toml` are short starting points. An unknown key is "
        "an error. What is no setting is a constant beside the code that uses it."
    )
    return page("Settings", intro, *_section(RunSettings, ""))


def _section(section: type[BaseModel], path: str) -> Iterator[str]:
    fields = section.model_fields
    nested = {name: inner for name, one in fields.items() if (inner := _inner(one)) is not None}
    rows = [_row(name, one) for name, one in fields.items() if name not in nested]
    yield f"## [{path}]" if path else "## The top of the file"
    if path and section.__doc__:
        yield " ".join(section.__doc__.split())
    if rows:
        yield table(HEAD, rows)
    for name, one in fields.items():
        if (item := _item(one)) is not None:
            yield f"### [[{path}.{name}]]"
            yield " ".join((item.__doc__ or "").split())
            yield table(HEAD, [_row(*field) for field in item.model_fields.items()])
    for name, inner in nested.items():
        yield from _section(inner, f"{path}.{name}" if path else name)


def _inner(field: FieldInfo) -> type[BaseModel] | None:
    """The class of a setting that is a table of its own; None for values and lists of tables."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _item(field: FieldInfo) -> type[BaseModel] | None:
    """The class of the tables in a list of tables; None for other settings."""
    inner = [one for one in get_args(field.annotation) if isinstance(one, type) and issubclass(one, BaseModel)]
    return inner[0] if inner and get_origin(field.annotation) is tuple else None


def undescribed(section: type[BaseModel] = RunSettings, path: str = "") -> list[str]:
    """The settings of a config without a meaning, with the tables they stand in."""
    found: list[str] = []
    for name, one in section.model_fields.items():
        inner, place = _inner(one) or _item(one), f"{path}{name}"
        if inner is not None:
            found += undescribed(inner, f"{place}.")
        if _inner(one) is None and not one.description:
            found.append(place)
    return found


def _row(name: str, field: FieldInfo) -> tuple[str, str, str, str, str]:
    meaning = field.description or ""
    return f"`{name}`", _type(field.annotation), _unit(name, meaning), _default(field), meaning


def _type(kind: Any) -> str:
    inner = get_args(kind)
    if isinstance(kind, type) and not inner:
        is_choice = issubclass(kind, Enum)
        return " or ".join(json.dumps(one.value) for one in kind) if is_choice else NAMES.get(kind, kind.__name__)
    match get_origin(kind):
        case origin if origin is Literal:
            return " or ".join(json.dumps(one) for one in inner)
        case origin if origin in (Union, types.UnionType):
            return " or ".join(_type(one) for one in inner if one is not type(None))
        case origin if origin is Annotated:
            return _type(inner[0])
        case origin if origin is dict:
            return f"table of {_type(inner[-1])}"
        case _:
            return f"list of {_type(inner[0])}"


def _unit(name: str, meaning: str) -> str:
    stated = re.search(r"\(((?:log )?s|days|weeks|hours|KiB|h|min)\b[^)]*\)\.?$", meaning)
    return stated[1] if stated else UNITS.get(name.rsplit("_", 1)[-1], "")


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None or field.is_required():
        return "none" if not field.is_required() else "required"
    value = value.value if isinstance(value, Enum) else value
    return f"`{json.dumps(value, default=_plain)}`"


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else list(value)
