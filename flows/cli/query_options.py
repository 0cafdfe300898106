"""The options of `walltime query` where they are plain, read without typer, which takes a third of the answer's time.

Whatever is not plain (--help, an unknown option, a value that cannot be used) is left to typer, which explains it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def _procs(text: str) -> int | None:
    is_plain = text.isascii() and text.isdigit() and len(text) <= 15
    return int(text) or None if is_plain else None


TEXTS = (
    "user", "account", "user-group", "application", "job-name", "queue", "partition", "qos", "problem-size",
    "requested", "memory", "mem-per-cpu", "at",
)  # fmt: skip
READ: dict[str, tuple[str, Callable[[str], Any]]] = {
    **{f"--{name}": (name.replace("-", "_"), str) for name in TEXTS},
    "--from": ("published", Path), "--procs": ("procs", _procs), "--batch": ("batch", Path), "--out": ("out", Path),
    "--key-file": ("key_file", Path),
}  # fmt: skip
"""Per option the argument of `ask` that it sets, and how its text is read; None: not plainly."""


def asked(words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments of `ask`, as typer reads them; None where typer has to."""
    found: dict[str, Any] = {}
    left = iter(words)
    for word in left:
        option, is_joined, text = word.partition("=")
        if word == "--json":
            name, value = "json", True
        elif option in READ:
            name, read = READ[option]
            text = text if is_joined else next(left, "")
            value = read(text) if text and text.isprintable() and not text.startswith("-") else None
        else:
            return None
        if value is None or name in found:
            return None
        found[name] = value
    return found
