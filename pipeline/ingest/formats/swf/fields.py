"""Which SWF field holds what: numbers of fields as typed JOBS columns, the dialects of 21 fields, and the comments.

-1 is null in every field. Any other negative number stays as it is (a runtime of -40 is the log's word, and for clean
to flag). Durations, memory and CPU time keep their fraction; instants, counts and ids are floored.

The dialects are told by their header or by the shape of the three fields after the 18th. MetaCentrum (the logs that the
Alea simulator reads, such as wagap-2013): the machine of each processor in braces, the queue's name, and the node
specification that was asked for, as in `{12,12} q_1d 1:ppn=2:gpu=1`. Fields 6 and 7 are the same in every job there,
and field 10 is in bytes; they are left unknown. AleaNG (Frontier, and the logs of its workload generator, whose header
names the fields): GPUs of the job, the soft walltime, and a descriptor of required properties, as in
`8 3600 all:excl:2x4`, where 2x4 asks for two nodes. Field 6 repeats the runtime there, and is left unknown."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pipeline.arrays import CATEGORY, DAY_S, LATEST_S, Bools, Floats, Ints, arrow
from pipeline.errors import ConfigError, printable
from pipeline.ingest.formats.swf.scan import N_FIELDS, Scanned
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

    A field that a move has taken no longer holds what the standard says, unless that is moved there by name as well.
    """
    for name, number in moved.items():
        where = f"ingest.columns.{printable(name)}"
        if name not in _KNOWN:
            raise ConfigError(where, "an unknown name", f"one of {', '.join(_KNOWN)}", "correct or remove it")
        if not isinstance(number, int) or not 1 <= number <= N_FIELDS:
            raise ConfigError(where, f"field {printable(str(number))}", f"a field number from 1 to {N_FIELDS}")
    numbers = {name: number for name, number in moved.items() if isinstance(number, int)}
    left = {name: n for name, n in STANDARD.items() if n not in numbers.values() and name not in numbers}
    return left | numbers


@dataclass(frozen=True, slots=True)
class Fields:
    """Some rows of a scanned block, asked for by name. A name no field holds is null in every row."""

    scanned: Scanned
    rows: slice
    numbers: Mapping[str, int]

    def whole(self, name: str) -> pa.Array:
        """int64, floored."""
        return arrow(self._whole(name), self._missing(name))

    def real(self, name: str) -> pa.Array:
        """float64, with the fraction."""
        return arrow(self._real(name), self._missing(name))

    def text(self, name: str) -> pa.Array:
        """The integer as text."""
        return self.whole(name).cast(pa.string())

    def category(self, name: str, names: Mapping[int, str] | None = None) -> pa.DictionaryArray:
        """Categories: the header's name where it has one, else the number."""
        known = names or {}
        return categories(self.whole(name), lambda number: known.get(number, str(number)))

    def instant(self, zero_s: int, *names: str) -> pa.Array:
        """int64, an instant and durations after it added up, floored, counted from `zero_s`; null where one is."""
        missing = np.logical_or.reduce([self._missing(name) for name in names])
        total: Ints = np.add.reduce([self._whole(name) for name in names], dtype=np.int64) + np.int64(zero_s)
        fractions = [self._real(name) - self._whole(name) for name in names if self._has_fractions(name)]
        if fractions:
            total = total + np.floor(np.sum(fractions, axis=0)).astype(np.int64)
        return arrow(total, missing)

    def submits(self) -> Ints:
        """Field 2 of the rows that have it, as it stands."""
        return self._whole("submit_s")[~self._missing("submit_s")]

    def n_floored(self) -> int:
        """How many values lost a fraction because their column holds whole numbers."""
        exact = {number for name, number in self.numbers.items() if name in REALS}
        names = [name for name, number in self.numbers.items() if number not in exact and self._has_fractions(name)]
        return sum(int(np.count_nonzero(self.scanned.real[self.numbers[name] - 1][self.rows])) for name in names)

    def _whole(self, name: str) -> Ints:
        number = self.numbers.get(name)
        return self.scanned.whole[number - 1][self.rows] if number else np.full(self.rows.stop - self.rows.start, -1)

    def _real(self, name: str) -> Floats:
        values = self._whole(name).astype(np.float64)
        if not self._has_fractions(name):
            return values
        exact = self.scanned.real[self.numbers[name] - 1][self.rows]
        return np.where(exact != 0, exact, values)

    def _missing(self, name: str) -> Bools:
        missing: Bools = self._whole(name) == -1
        if self._has_fractions(name):
            # Between -1 and 0 a number floors to -1 as well.
            missing &= self.scanned.real[self.numbers[name] - 1][self.rows] == 0
        return missing

    def _has_fractions(self, name: str) -> bool:
        return name in self.numbers and bool(self.scanned.fractional[self.numbers[name] - 1])


N_EXTENDED, _PROCS = 21, 4
Extra = Sequence[bytes]
"""The 21 fields of a line."""

Values = Mapping[str, int | str | None]
_MACHINES = re.compile(rb"\{\d+(?:,\d+)*\}")
_WHOLE_NUMBER = re.compile(rb"\d{1,9}")
_NUMBER = re.compile(rb"-?\d{1,18}(?:\.\d*)?")
_NODES = re.compile(rb"(\d{1,6})x\d{1,6}")
_GPUS = re.compile(rb"n?gpus?=(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Dialect:
    """name: as notes call it. columns: of JOBS, made from the extra fields. left_out: standard fields that hold no
    such value. without_column: extra fields that JOBS has no column for. values: those of a line's extra fields; None
    where they are not of this dialect.
    """

    name: str
    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    without_column: str
    values: Callable[[Extra], Values | None]


def _metacentrum(extra: Extra) -> Values | None:
    machines, queue, asked = extra[N_FIELDS:]
    if not _MACHINES.fullmatch(machines) or _NUMBER.fullmatch(queue):
        return None
    chunks = [chunk.split(b":") for chunk in asked.split(b"+")]
    counts = [int(chunk[0]) if _WHOLE_NUMBER.fullmatch(chunk[0]) else 1 for chunk in chunks]
    gpus = [sum(int(found[1]) for part in chunk if (found := _GPUS.fullmatch(part))) for chunk in chunks]
    n_gpus = sum(n * each for n, each in zip(counts, gpus, strict=True))
    placed = machines[1:-1].split(b",")
    return {
        "nodes": len({*placed}) if extra[_PROCS] == b"%d" % len(placed) else None,
        "queue": queue.decode("utf-8", "backslashreplace"),
        "requested_nodes": sum(counts),
        "gpus": n_gpus or None,
    }


def _aleang(extra: Extra) -> Values | None:
    gpus, soft_walltime, properties = extra[N_FIELDS:]
    if not (_WHOLE_NUMBER.fullmatch(gpus) or gpus == b"-1") or not _NUMBER.fullmatch(soft_walltime):
        return None
    nodes = [int(found[1]) for part in properties.split(b":") if (found := _NODES.fullmatch(part))]
    return {"gpus": int(gpus) if gpus != b"-1" else None, "requested_nodes": nodes[0] if len(nodes) == 1 else None}


METACENTRUM = Dialect(
    "MetaCentrum", ("nodes", "queue", "requested_nodes", "gpus"), ("cpu_s", "used_mem_kib", "requested_mem_kib"),
    "the properties in field 21", _metacentrum,
)  # fmt: skip
ALEANG = Dialect(
    "AleaNG", ("gpus", "requested_nodes"), ("cpu_s",), "the soft walltime in field 20, the properties in field 21",
    _aleang,
)  # fmt: skip
DIALECTS = (METACENTRUM, ALEANG)
_DECLARED = {19: "used_GPUs", 20: "soft_walltime", 21: "required_properties"}


def dialect_of(names: Mapping[int, str], extra: Extra | None) -> Dialect | None:
    """The dialect a header's field names (by number, from 1) or a first line's extra fields tell; None: neither."""
    if extra is None:
        return None
    if all(names.get(number) == name for number, name in _DECLARED.items()):
        return ALEANG
    is_text = _NUMBER.fullmatch(extra[-1]) is None
    return next((dialect for dialect in DIALECTS if is_text and dialect.values(extra) is not None), None)


def extra_fields(data: bytes, lines: Collection[int]) -> list[Extra | None]:
    """The fields of these lines of a block, counted from 0; None where a line has not 21 fields."""
    texts = data.split(b"\n")
    fields = (texts[line].split(None, N_EXTENDED) for line in lines)
    return [found if len(found) == N_EXTENDED else None for found in fields]


def dialect_columns(dialect: Dialect, extras: Sequence[Extra | None]) -> tuple[dict[str, pa.Array], int]:
    """Columns of JOBS made from the lines' extra fields, null where a line has none; how many lines had them."""
    values = [dialect.values(extra) if extra is not None else None for extra in extras]
    columns = {name: [value[name] if value else None for value in values] for name in dialect.columns}
    kinds = {name: CATEGORY if name == "queue" else pa.int64() for name in columns}
    made = {
        name: pa.array(column, pa.string()).dictionary_encode() if kinds[name] == CATEGORY else _whole(column)
        for name, column in columns.items()
    }
    return made, sum(value is not None for value in values)


def _whole(values: Sequence[int | str | None]) -> pa.Array:
    return arrow(np.array([value or 0 for value in values], np.int64), np.array([value is None for value in values]))


# ---------------- the comments of a log
# The comments of an SWF log: `; Key: value` lines, keys that come again, lines that continue one.
#
# A line continues the one before it where it directly follows and starts no key of its own. A header holds from its
# line on: in logs joined end to end, a second UnixStartTime moves the jobs after it and not those before.

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
