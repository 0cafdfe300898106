"""The settings of a published State, read without pydantic where the State only answers queries (0.07 s to import).

Settings published by this version of the code were checked then; `checked_settings` checks those of other versions.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from pipeline.core.errors import InputError
from pipeline.core.text import printable

if TYPE_CHECKING:
    from pipeline.core.estimate_settings import ForecastSettings

AGAIN = "run again to learn it anew"


class _Held:
    """Read-only attributes from a mapping of names to values."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} is frozen")

    def model_copy(self, *, update: Mapping[str, Any]) -> "_Held":
        return _Held({**self._values, **update})


def held_settings(text: str) -> "ForecastSettings":
    """A read-only object with the attributes of the settings in a JSON text written by this version."""
    return cast("ForecastSettings", _Held(json.loads(text)))


def checked_settings(text: str, where: str) -> "ForecastSettings":
    """The settings of a JSON text; InputError where this version has others."""
    from pydantic import ValidationError  # noqa: PLC0415  (see above)

    from pipeline.core.estimate_settings import ForecastSettings  # noqa: PLC0415

    try:
        return ForecastSettings.model_validate_json(text)
    except ValidationError as error:
        found = printable(f"settings that do not fit ({error.errors()[0]['msg']})")
        raise InputError(where, found, "settings of this version", AGAIN) from None
