"""Escapes untrusted text before it reaches a terminal, a log line or a page, and suggests a name for a mistyped one."""

import unicodedata
from collections.abc import Iterable

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "'", "|", "%")
"""First characters with which spreadsheets begin a formula or a command, and the one that marks a text."""

_ESCAPED_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(text: str, limit: int = 200) -> str:
    """The text with control, format and bidi characters written as escapes, cut at `limit` characters."""
    cut = text[:limit]
    shown = "".join(_escape(c) if unicodedata.category(c) in _ESCAPED_CATEGORIES else c for c in cut)
    return shown + "…" if len(text) > limit else shown


def spreadsheet_text(text: str) -> str:
    """The text for a cell of a CSV file: one of FORMULA_STARTS in front gets an apostrophe, which marks a text.

    Removing one leading apostrophe gives the text again.
    """
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA_STARTS) else text


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The most similar known name; None where none is similar."""
    import difflib  # noqa: PLC0415  (only a mistyped name needs it)

    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """The question whether the most similar known name was meant; `otherwise` where none is similar."""
    near = nearest_name(name, known)
    return f"did you mean {printable(near)}?" if near is not None else otherwise


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
