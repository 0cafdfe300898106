"""The settings of a published State where it only answers: as they stand, without pydantic, which takes 0.07 s to load.

They were checked when this very code published them; those of other code are checked by `settings_of`.
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
    """Values by name, as attributes; as frozen as the settings they stand for."""

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
    """What stands for the settings of a JSON text that this code has written."""
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
