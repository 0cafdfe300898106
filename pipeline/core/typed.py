"""Frozen dataclasses from plain values, as JSON holds them: types are checked, undeclared keys are left out."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from pipeline.core.text import printable

T = TypeVar("T")


class Misfit(ValueError):  # noqa: N818  (the caller makes a sentence of it)
    """A value of another type, or a missing one; the text says where it stands, and what was expected."""


def typed(kind: type[T], plain: Mapping[str, Any], where: str = "") -> T:
    """A dataclass of the values by its field names, in depth; a list becomes a tuple. Misfit names the first that is
    missing or of another type.
    """
    hints, values = get_type_hints(kind), {}
    for field in fields(kind):  # type: ignore[arg-type]
        name = f"{where}.{field.name}" if where else field.name
        if field.name not in plain:
            raise Misfit(f"{name}: a value is missing")
        values[field.name] = _value(hints[field.name], plain[field.name], name)
    return kind(**values)


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        return typed(hint, value, where)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_value(arguments[0], one, f"{where}.{place}") for place, one in enumerate(value))
    if origin is dict and isinstance(value, Mapping):
        return {str(name): _value(arguments[1], one, f"{where}.{printable(str(name))}") for name, one in value.items()}
    if hint is Any or (origin is UnionType and type(value) in arguments) or type(value) is hint:
        return value
    if isinstance(hint, type) and origin is None and not isinstance(value, bool) and isinstance(value, hint):
        return value
    raise Misfit(f"{where}: {printable(repr(value), 60)} is no {_said(hint)}")


def _said(hint: Any) -> str:
    kinds = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    said = {str: "text", int: "whole number", type(None): "null", tuple: "list", dict: "object"}
    return " or ".join(said.get(get_origin(kind) or kind, "object") for kind in kinds)
