"""Errors for users, one sentence each: place, what was found and expected, what to do; hostile text is escaped."""

from __future__ import annotations

import copyreg
import unicodedata
from collections.abc import Iterable
from typing import Any


class WalltimeError(Exception):
    """Base class of expected failures; the command line prints one line and exits with `exit_code`."""

    exit_code = 2
    reason = "input"
    """Why a run failed, in the record of the run."""

    def __reduce__(self) -> tuple[Any, ...]:
        """The error as it is, in another process: the default calls the class with the sentence alone."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class InputError(WalltimeError):
    """A log, CSV or table that cannot be read: where, what was found, what was expected, what to do."""

    def __init__(self, where: str, found: str, expected: str, do: str = "") -> None:
        self.where, self.found, self.expected, self.do = where, found, expected, do
        sentence = f"{where}: found {found}, expected {expected}{'; ' + do if do else ''}"
        super().__init__(sentence if sentence.endswith("?") else f"{sentence}.")


class ConfigError(InputError):
    """A setting that cannot be used."""

    reason = "config"


class TableError(WalltimeError):
    """A table that does not match its declaration: a fault of this program or of a file it read."""

    def __init__(self, table: str, found: str, expected: str) -> None:
        super().__init__(f"table {table}: found {found}, expected {expected}.")


class ConservationError(WalltimeError):
    """Rows or processor-seconds of a stage do not add up: a fault of this program."""


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

    Control, format and bidi characters are escaped as on a terminal. Without these, removing one leading apostrophe
    gives the text again.
    """
    shown = printable(text, len(text))
    return f"'{shown}" if text.lstrip(" ").startswith(FORMULA_STARTS) else shown


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
