"""Errors for users: one sentence each, with the place, what was found, what was expected, and what to do."""

from __future__ import annotations

from typing import Any


class WalltimeError(Exception):
    """Base class of expected failures; the command line prints one line and exits with `exit_code`."""

    exit_code = 2

    def __reduce__(self) -> tuple[Any, ...]:
        """The error as it is, in another process: the default calls the class with the sentence alone."""
        return _copied, (type(self), self.args, self.__dict__)


def _copied(kind: type[WalltimeError], args: tuple[Any, ...], values: dict[str, Any]) -> WalltimeError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(values)
    return error


class InputError(WalltimeError):
    """A log, CSV or table that cannot be read: where, what was found, what was expected, what to do."""

    def __init__(self, where: str, found: str, expected: str, do: str = "") -> None:
        self.where, self.found, self.expected, self.do = where, found, expected, do
        sentence = f"{where}: found {found}, expected {expected}{'; ' + do if do else ''}"
        super().__init__(sentence if sentence.endswith("?") else f"{sentence}.")


class ConfigError(InputError):
    """A setting that cannot be used."""


class TableError(WalltimeError):
    """A table that does not match its declaration: a fault of this program or of a file it read."""

    def __init__(self, table: str, found: str, expected: str) -> None:
        super().__init__(f"table {table}: found {found}, expected {expected}.")


class ConservationError(WalltimeError):
    """Rows or processor-seconds of a stage do not add up: a fault of this program."""
