"""The comments of an SWF log: `; Key: value` lines, keys that come again, lines that continue one.

A line continues the one before it where it directly follows and starts no key of its own. A header holds from its
line on: in logs joined end to end, a second UnixStartTime moves the jobs after it and not those before.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from pipeline.arrays import DAY_S, LATEST_S, Ints
from pipeline.errors import printable

_LEAST_START_S = 100_000_000
"""1973, before any log: of an earlier start, submits that count from it are as large."""
_KEY = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*:(?!//)(.*)$", re.DOTALL)
_NAMED = re.compile(r"(-?\d+)\s+(\S.*)$", re.DOTALL)
_FIELD = re.compile(r"\s*(\d{1,2}):\s+([A-Za-z]\w*)")
_INTEGER = re.compile(r"-?\d{1,17}(?!\d)")
_MAX_VALUE = 1_000
SHOWN = {
    "Computer": "computer",
    "Installation": "installation",
    "MaxProcs": "max_procs",
    "MaxNodes": "max_nodes",
    "TimeZoneString": "time_zone",
    "Acknowledge": "acknowledge",
}
"""Header keys worth a place in the report, and their names there."""


@dataclass(slots=True)
class Header:
    """What the comments have said so far: every key's values in order; `bad_start`: a start time that is none.

    field_names: names by number, counted from 1, from a list that counts from 0, as in `; 18: used_GPUs`.
    """

    values: dict[str, list[str]] = field(default_factory=dict)
    start_s: int | None = None
    bad_start: str | None = None
    is_absolute: bool | None = None
    """Whether submits below this UnixStartTime count from 1970 all the same; None: no job below it has told yet."""
    names: dict[str, dict[int, str]] = field(default_factory=lambda: {"Queue": {}, "Partition": {}})
    field_names: dict[int, str] = field(default_factory=dict)
    _last: tuple[int, str] = (-1, "")

    def read(self, line: int, text: bytes) -> None:
        """Take in one comment line, with its `;`."""
        match = _key(text)
        if match is None:
            self._continue(line, _said(text).strip())
            if named := _FIELD.match(_said(text)):
                self.field_names[int(named[1]) + 1] = named[2]
            return
        key, value = match[1], match[2].strip()
        self.values.setdefault(key, []).append(value)
        self._last = (line, key)
        self._apply(key, value)

    def changes(self, text: bytes) -> bool:
        """Whether reading this comment line will change how the jobs after it are read."""
        match = _key(text)
        return match is not None and (match[1] == "UnixStartTime" or match[1] in self.names)

    def _continue(self, line: int, said: str) -> None:
        before, key = self._last
        if said and before == line - 1:
            self.values[key][-1] = f"{self.values[key][-1]} {said}"[:_MAX_VALUE]
            self._last = (line, key)

    def _apply(self, key: str, value: str) -> None:
        if key == "UnixStartTime":
            number = _INTEGER.match(value)
            self.start_s, self.is_absolute = (int(number[0]) if number else None), None
            self.bad_start = None if number else value
        elif key in self.names and (match := _NAMED.match(value)):
            self.names[key][int(match[1])] = match[2]

    def zero_s(self, submits: Ints) -> int:
        """What these submits count from, where the first ones below a header decide for all: its start, or 1970.

        Some converters write seconds since 1970 below the header. No log reaches as far from its start as that is from
        1970, so most submits lie beyond the start then.
        """
        if self.is_absolute is None and len(submits):
            middle_s = float(np.median(submits))
            self.is_absolute = _LEAST_START_S <= (self.start_s or 0) <= middle_s + DAY_S and middle_s < LATEST_S
        return 0 if self.is_absolute else self.start_s or 0

    def shown(self) -> dict[str, str]:
        """The header values a report shows, first value of each key."""
        return {name: printable(self.values[key][0]) for key, name in SHOWN.items() if self.values.get(key, [""])[0]}


def short_names(said: dict[int, str]) -> dict[int, str]:
    """Name by number from `3 normal (18 hours)` lines: without the bracketed remark.

    A name that two numbers share takes its number too; a name that is itself a number is no name.
    """
    cut = {number: " ".join(text.split(" (")[0].split()) for number, text in said.items()}
    named = {number: name for number, name in cut.items() if name and not name.lstrip("-").isdigit()}
    shared = _repeated(named.values())
    return {number: f"{name} #{number}" if name in shared else name for number, name in named.items()}


def _repeated(names: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    return {name for name in names if name in seen or seen.add(name)}  # type: ignore[func-returns-value]


def _key(text: bytes) -> re.Match[str] | None:
    return _KEY.match(_said(text))


def _said(text: bytes) -> str:
    return _decoded(text[: 4 * _MAX_VALUE]).strip().removeprefix(";")[:_MAX_VALUE]


def _decoded(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("latin-1")
