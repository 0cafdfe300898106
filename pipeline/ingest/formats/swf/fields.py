"""Which SWF field holds what: numbers of fields as typed JOBS columns, and fields that a log has beside the standard's.

-1 is null in every field. Any other negative number stays as it is (a runtime of -40 is the log's word, and for clean
to flag). Durations, memory and CPU time keep their fraction; instants, counts and ids are floored.

What logs have after the 18th field, and in the place of a standard one, only `ingest.columns` tells, or a header that
names its fields, as `; 18: used_GPUs` of AleaNG does (Frontier; the names count from 0): `queue = 20` is MetaCentrum's
(wagap-2013), whose fields 6, 7 and 10 hold something else, which `cpu_s = 0` and so on leave unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, Ints, arrow
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
HEADER_NAMES = {"used_GPUs": "gpus"}
"""What a header calls a field, and its name here."""

_MOST_FIELDS = 99
_KNOWN = sorted({*STANDARD, *COUNTS, *PLAIN_CATEGORIES})


def field_numbers(moved: Mapping[str, object]) -> dict[str, int]:
    """Field number by name: the standard's, with a dialect's moves; ConfigError for an unknown name or number.

    A field that a move has taken no longer holds what the standard says, unless that is moved there by name as well. A
    name moved to 0 is in no field.
    """
    for name, number in moved.items():
        where = f"ingest.columns.{printable(name)}"
        if name not in _KNOWN:
            raise ConfigError(where, "an unknown name", f"one of {', '.join(_KNOWN)}", "correct or remove it")
        most = _MOST_FIELDS if name in (*COUNTS, *PLAIN_CATEGORIES, *NAMED_CATEGORIES) else N_FIELDS
        if not isinstance(number, int) or not 0 <= number <= most:
            expected = f"a field number from 1 to {most}, or 0 for none"
            raise ConfigError(where, f"field {printable(str(number))}", expected)
    numbers = {name: number for name, number in moved.items() if isinstance(number, int)}
    left = {name: n for name, n in STANDARD.items() if n not in numbers.values() and name not in numbers}
    return {name: number for name, number in (left | numbers).items() if number}


@dataclass(frozen=True, slots=True)
class Fields:
    """Some rows of a scanned block, asked for by name. A name no field holds is null in every row."""

    scanned: Scanned
    rows: slice
    numbers: Mapping[str, int]

    def whole(self, name: str) -> pa.Array:
        """int64, floored."""
        return self._null(pa.int64()) if name not in self.numbers else arrow(self._whole(name), self._missing(name))

    def real(self, name: str) -> pa.Array:
        """float64, with the fraction."""
        return self._null(pa.float64()) if name not in self.numbers else arrow(self._real(name), self._missing(name))

    def text(self, name: str) -> pa.Array:
        """The integer as text."""
        whole = self.whole(name)
        return self._null(pa.string()) if whole.null_count == len(whole) else whole.cast(pa.string())

    def category(self, name: str, names: Mapping[int, str] | None = None) -> pa.DictionaryArray:
        """Categories: the header's name where it has one, else the number."""
        known = names or {}
        return categories(self.whole(name), lambda number: known.get(number, str(number)))

    def instant(self, zero_s: int, *names: str) -> pa.Array:
        """int64, an instant and durations after it added up, floored, counted from `zero_s`; null where one is."""
        if any(name not in self.numbers for name in names):
            return self._null(pa.int64())
        missing = np.logical_or.reduce([self._missing(name) for name in names])
        total: Ints = np.add.reduce([self._whole(name) for name in names], dtype=np.int64) + np.int64(zero_s)
        fractions = [self._real(name) - self._whole(name) for name in names if self._has_fractions(name)]
        if fractions:
            total = total + np.floor(np.sum(fractions, axis=0)).astype(np.int64)
        return arrow(total, missing)

    def submits(self) -> Ints:
        """Field 2 of the rows that have it, as it stands."""
        return self._whole("submit_s")[~self._missing("submit_s")] if "submit_s" in self.numbers else np.empty(0, int)

    def n_floored(self) -> int:
        """How many values lost a fraction because their column holds whole numbers."""
        exact = {number for name, number in self.numbers.items() if name in REALS}
        names = [name for name, number in self.numbers.items() if number not in exact and self._has_fractions(name)]
        return sum(int(np.count_nonzero(self.scanned.real[self.numbers[name] - 1][self.rows])) for name in names)

    def _whole(self, name: str) -> Ints:
        return self.scanned.whole[self.numbers[name] - 1][self.rows]

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
        return bool(self.scanned.fractional[self.numbers[name] - 1])

    def _null(self, kind: pa.DataType) -> pa.Array:
        return pa.nulls(len(self.scanned.line[self.rows]), kind)


def beyond(data: bytes, lines: Ints, numbers: Mapping[str, int]) -> dict[str, pa.Array]:
    """Columns that stand after the 18th field, of these lines of a block (from 0); null where a line has none."""
    placed = {name: number for name, number in numbers.items() if number > N_FIELDS}
    texts = data.split(b"\n") if placed else []
    fields = [texts[line].split() for line in lines] if placed else []
    found = {}
    for name, number in placed.items():
        words = pa.array(
            [own[number - 1].decode("utf-8", "backslashreplace") if len(own) >= number else None for own in fields],
            pa.string(),
        )
        if name in COUNTS:
            is_count = pc.match_substring_regex(words, r"^\d{1,9}$")
            found[name] = pc.if_else(is_count, words, pa.scalar(None, pa.string())).cast(pa.int64())
        else:
            found[name] = categories(words, lambda word: None if word == "-1" else word)
    return found
