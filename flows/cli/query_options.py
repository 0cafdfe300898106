"""Reads plain options of `walltime query` without typer, whose import takes a third of the answer's time.

Everything else (--help, an unknown option, a value that cannot be used) is left to typer, which explains it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def _procs(text: str) -> int | None:
    is_plain = text.isascii() and text.isdigit() and len(text) <= 15
    return int(text) or None if is_plain else None


def _folder(text: str) -> Path | None:
    return None if text.endswith(".toml") else Path(text)


TEXTS = (
    "user", "account", "user-group", "application", "job-name", "comment", "submit-line", "queue",
    "partition", "qos", "problem-size", "requested", "memory", "mem-per-cpu", "at", "as-of", "platform",
)  # fmt: skip
OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    **{f"--{name}": (name.replace("-", "_"), str) for name in TEXTS},
    "--from": ("published", _folder), "--procs": ("procs", _procs), "--batch": ("batch", Path), "--out": ("out", Path),
    "--key-file": ("key_file", Path),
}  # fmt: skip
"""Per option the argument of `answer_query` that it sets, and its parser, which returns None for text left to typer."""


def plain_question(words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments of `answer_query`, equal to those that typer would read; None where typer has to read them."""
    found: dict[str, Any] = {}
    left = iter(words)
    for word in left:
        option, is_joined, text = word.partition("=")
        value: Any
        if word == "--json":
            name, value = "json", True
        elif option in OPTIONS:
            name, parse = OPTIONS[option]
            text = text if is_joined else next(left, "")
            value = parse(text) if text and text.isprintable() and not text.startswith("-") else None
        else:
            return None
        if value is None or name in found:
            return None
        found[name] = value
    return found
