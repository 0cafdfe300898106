"""Which SWF field holds what: numbers of fields as typed JOBS columns, and the comments.

-1 is null in every field. Any other negative number stays as it is (a runtime of -40 is the log's word, and for clean
to flag). Durations, memory and CPU time keep their fraction; instants, counts and ids are floored.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import DAY_S, LATEST_S, Ints, arrow
from pipeline.errors import ConfigError, printable
from pipeline.ingest.formats.swf.scan import MOST_FIELDS, Scanned
from pipeline.ingest.reader import categories

STANDARD: Mapping[str, int] = {
    "job_id": 1, "submit_s": 2, "wait_s": 3, "runtime_s": 4, "procs": 5, "cpu_s": 6, "used_mem_kib": 7,
    "requested_procs": 8, "requested_s": 9, "requested_mem_kib": 10, "status": 11, "user": 12, "user_group": 13,
    "application": 14, "queue": 15, "partition": 16, "preceding_job_id": 17, "think_s": 18,
}  # fmt: skip
"""Field numbers of the Standard Workload Format 2.2 (Chapin et al. 1999, and the Parallel Workloads Archive)."""

REALS = ("runtime_s", "cpu_s", "used_mem_kib", "requested_s", "requested_mem_kib", "think_s")
COUNTS = ("procs", "requested_procs", "nodes", "requested_nodes", "gpus")
PLAIN_CATEGORIES = ("user", "user_group", "account", "application", "qos")
NAMED_CATEGORIES = {"queue": "Queue", "partition": "Partition"}
_KNOWN = sorted({*STANDARD, *COUNTS, *PLAIN_CATEGORIES})


def field_numbers(moved: Mapping[str, object]) -> dict[str, int]:
    """Field number by name: the standard's, with a dialect's moves; ConfigError for an unknown name or number.

    A name moved to 0 is in no field. A field that a move has taken no longer holds what the standard says, unless that
    is moved there by name as well.
    """
    for name, number in moved.items():
        where = f"ingest.columns.{printable(name)}"
        if name not in _KNOWN:
            raise ConfigError(where, "an unknown name", f"one of {', '.join(_KNOWN)}", "correct or remove it")
        if not isinstance(number, int) or not 0 <= number <= MOST_FIELDS:
            expected = f"a field number from 1 to {MOST_FIELDS}, or 0 where no field holds it"
            raise ConfigError(where, f"field {printable(str(number))}", expected)
    numbers = {name: number for name, number in moved.items() if isinstance(number, int)}
    left = {name: n for name, n in STANDARD.items() if n not in numbers.values() and name not in numbers}
    return left | {name: number for name, number in numbers.items() if number}


@dataclass(frozen=True, slots=True)
class Fields:
    """Some rows of a scanned block, asked for by name. A name no field holds is null in every row."""

    scanned: Scanned
    rows: slice
    numbers: Mapping[str, int]

    def values(self, name: str) -> npt.NDArray[Any]:
        """The field as it was read; -1 is null."""
        number = self.numbers.get(name)
        return self.scanned.columns[number - 1][self.rows] if number else np.full(self.rows.stop - self.rows.start, -1)

    def whole(self, name: str) -> pa.Array:
        """int64, floored."""
        values = self.values(name)
        return arrow(floored(values), values == -1)

    def real(self, name: str) -> pa.Array:
        """float64, with the fraction."""
        values = self.values(name)
        return arrow(values.astype(np.float64) + 0.0, values == -1)

    def text(self, name: str) -> pa.Array:
        """The integer as text."""
        return self.whole(name).cast(pa.string())

    def category(self, name: str, names: Mapping[int, str] | None = None) -> pa.DictionaryArray:
        """Categories: the header's name where it has one, else the number."""
        known = names or {}
        return categories(self.whole(name), lambda number: known.get(number, str(number)))

    def instant(self, zero_s: int, *names: str) -> pa.Array:
        """int64, an instant and durations after it added up, floored, counted from `zero_s`; null where one is."""
        values = [self.values(name) for name in names]
        missing = np.logical_or.reduce([one == -1 for one in values])
        whole = np.add.reduce([floored(one) for one in values], dtype=np.int64) + np.int64(zero_s)
        fractions = [one - np.floor(one) for one in values if one.dtype != np.int64]
        if any(one.any() for one in fractions):
            whole = whole + np.floor(np.sum(fractions, axis=0)).astype(np.int64)
        return arrow(whole, missing)

    def submits(self) -> Ints:
        """Field 2 of the rows that have it, as it stands."""
        values = self.values("submit_s")
        return floored(values[values != -1])

    def n_floored(self) -> int:
        """How many values lost a fraction because their column holds whole numbers."""
        exact = {number for name, number in self.numbers.items() if name in REALS}
        names = [name for name, number in self.numbers.items() if number not in exact]
        columns = (self.values(name) for name in names)
        return sum(int(np.count_nonzero(one != np.floor(one))) for one in columns if one.dtype != np.int64)


def floored(values: npt.NDArray[Any]) -> Ints:
    """The values as int64, rounded down."""
    return values if values.dtype == np.int64 else np.floor(values).astype(np.int64)


# ---------------- the comments of a log
# The comments of an SWF log: `; Key: value` lines, keys that come again, lines that continue one.
#
# A line continues the one before it where it directly follows and starts no key of its own. A header holds from its
# line on: in logs joined end to end, a second UnixStartTime moves the jobs after it and not those before.

_LEAST_START_S = 100_000_000
"""1973, before any log: of an earlier start, submits that count from it are as large."""
_KEY = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*:(?!//)(.*)$", re.DOTALL)
_NAMED = re.compile(r"(-?\d+)\s+(\S.*)$", re.DOTALL)
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
    """What the comments have said so far: every key's values in order; `bad_start`: a start time that is none."""

    values: dict[str, list[str]] = field(default_factory=dict)
    start_s: int | None = None
    bad_start: str | None = None
    is_absolute: bool | None = None
    """Whether submits below this UnixStartTime count from 1970 all the same; None: no job below it has told yet."""
    names: dict[str, dict[int, str]] = field(default_factory=lambda: {"Queue": {}, "Partition": {}})
    _last: tuple[int, str] = (-1, "")

    def read(self, line: int, text: bytes) -> None:
        """Take in one comment line, with its `;`."""
        match = _key(text)
        if match is None:
            self._continue(line, _said(text).strip())
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
    n_times = Counter(named.values())
    return {number: f"{name} #{number}" if n_times[name] > 1 else name for number, name in named.items()}


def _key(text: bytes) -> re.Match[str] | None:
    return _KEY.match(_said(text))


def _said(text: bytes) -> str:
    return _decoded(text[: 4 * _MAX_VALUE]).strip().removeprefix(";")[:_MAX_VALUE]


def _decoded(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("latin-1")
