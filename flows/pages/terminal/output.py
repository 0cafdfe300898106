"""What a command gives: plain values as JSON, or blocks. Rich, which is slow to import, is left to `render`."""

import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flows.pages.terminal.activity import end_activity_line
from flows.pages.terminal.blocks import Block


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command has found."""

    found: Any
    """Plain values, for --json."""
    blocks: Iterable[Block] = ()
    """What is printed without --json."""
    exit_code: int = 0
    is_lines: bool = False
    """Whether --json prints one document for each value found."""


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """Print what a command has found."""
    if not as_json:
        from flows.pages.terminal.render import print_blocks  # noqa: PLC0415  (rich is slow to import)

        print_blocks(answer.blocks)
    elif answer.is_lines:
        print_json_lines(answer.found)
    else:
        print_json(answer.found)


def print_json(value: Any) -> None:
    """Print one JSON document on stdout; NaN and infinity become null, because JSON has neither."""
    _write([json.dumps(_plain(value), indent=1)])


def print_json_lines(values: Iterable[Any]) -> None:
    """Print JSON documents, one per line."""
    _write(json.dumps(_plain(value)) for value in values)


def _write(lines: Iterable[str]) -> None:
    end_activity_line()
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    """Tables as their rows, reports as their fields; what JSON does not know as text."""
    for to_plain in ("as_dict", "to_pylist"):
        if hasattr(value, to_plain):
            return _plain(getattr(value, to_plain)())
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
