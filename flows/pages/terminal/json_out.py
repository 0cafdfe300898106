"""Prints JSON on stdout; kept apart from `render` because importing rich is slow."""

import json
import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from flows.pages.terminal.activity import end_activity_line


def print_json(value: Any) -> None:
    """Print one JSON document on stdout; NaN and infinity become null, because JSON has neither."""
    end_activity_line()
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


def print_json_lines(values: Iterable[Any]) -> None:
    """Print JSON documents, one per line."""
    end_activity_line()
    sys.stdout.writelines(json.dumps(_plain(value)) + "\n" for value in values)
    sys.stdout.flush()
