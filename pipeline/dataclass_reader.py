"""The one reader of declared dataclasses from parsed JSON: it checks types and ignores undeclared keys."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from pipeline.errors import printable

T = TypeVar("T")


class FieldError(ValueError):
    """A field whose value is missing or has the wrong type; the text names the field and the expected type."""


def read_dataclass(kind: type[T], plain: Mapping[str, Any], where: str = "") -> T:
    """The dataclass `kind`, filled from the values by field name, recursively; a list becomes a tuple.

    A missing field takes its default. Raises FieldError for the first one without a default, or of the wrong type.
    """
    hints, values = get_type_hints(kind), {}
    for field in fields(kind):  # type: ignore[arg-type]
        name = f"{where}.{field.name}" if where else field.name
        if field.name not in plain:
            if field.default is not MISSING or field.default_factory is not MISSING:
                continue
            raise FieldError(f"{name}: a value is missing")
        values[field.name] = _value(hints[field.name], plain[field.name], name)
    return kind(**values)


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        return read_dataclass(hint, value, where)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_value(arguments[0], one, f"{where}.{place}") for place, one in enumerate(value))
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return {str(name): _value(arguments[1], one, f"{where}.{printable(str(name))}") for name, one in value.items()}
    if hint is Any or (origin is UnionType and type(value) in arguments) or type(value) is hint:
        return value
    if hint is float and type(value) is int:
        return float(value)
    if isinstance(hint, type) and origin is None and not isinstance(value, bool) and isinstance(value, hint):
        return value
    raise FieldError(f"{where}: {printable(repr(value), 60)} is not of type {_type_name(hint)}")


def _type_name(hint: Any) -> str:
    types = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    names = {str: "text", int: "whole number", type(None): "null", tuple: "list", dict: "object"}
    return " or ".join(names.get(get_origin(one) or one, "object") for one in types)
