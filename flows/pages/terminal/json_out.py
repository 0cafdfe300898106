"""JSON on stdout, without what draws on a terminal."""

import json
import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any


def print_json(value: Any) -> None:
    """The one JSON document on stdout; not-a-number and infinity are null, since JSON has neither."""
    sys.stdout.write(json.dumps(_plain(value), indent=1) + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def print_lines(values: Iterable[Any]) -> None:
    """JSON documents, one a line."""
    sys.stdout.writelines(json.dumps(_plain(value)) + "\n" for value in values)
    sys.stdout.flush()
