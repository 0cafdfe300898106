"""Reads the look-up file as the plug-ins in Lua and for OpenPBS do: what is scored, and applied, is what they find."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import BinaryIO, NamedTuple
from urllib.parse import unquote

from pipeline.application_names import application_of
from pipeline.errors import InputError
from pipeline.export.lookup_file import (
    CHECK,
    ENTRY_BYTES,
    FORMAT,
    LIMIT_KIND,
    NAME_KIND,
    NO_STAMP,
    PRIME,
    QUANTILE_NAMES,
    key_columns,
    key_of,
    stamp_of,
)
from pipeline.tables import LimitStatus

OPTIONAL = ("memory_class_kib", "qos")
"""Columns of limits that a submit may leave open: a row then has none of them."""

LEAST_CHANGE_S = 60.0
"""A limit that would change by less is left alone: Slurm's limits are whole minutes."""

CUT_AT_REQUEST = 2
"""The first two quantiles, 10% and the median, are at most the request."""

Value = str | float | None


@dataclass(frozen=True, slots=True)
class Stamp:
    """What line 1 says of a file."""

    stamp: str
    """16 hex digits of a hash of all that follows line 1."""
    run: str
    site: str
    """The quoted name of the site."""
    newest_end_s: int
    """End of the latest job that the estimates know, s since 1970."""
    rows: int
    """Number of estimates,"""
    limits: int
    """and of limits."""
    names: int
    """Number of job names with their applications."""
    buckets: int
    multiplier: int
    directory: int
    """Offset of the directory, bytes."""
    bytes: int
    """Length of the file."""


@dataclass(frozen=True, slots=True)
class Found:
    """An answer: the row's template and jobs, and the quantiles of the runtime."""

    template: str
    n_jobs: int
    quantiles_s: tuple[float, ...]
    """At 10, 50, 80, 90, 95 and 99%."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A row of limits."""

    limit_s: float
    """0: the request stands."""
    most_jobs: int
    """Jobs of the submitter that this file may limit."""
    n_jobs: int
    """Own ended jobs behind the row."""
    chance_beyond: float
    status: LimitStatus


class Decided(NamedTuple):
    """What a file says of a submit."""

    limit_s: float | None
    """None: the request stands."""
    status: LimitStatus
    row: Limit | None
    """The row that was found."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """An open look-up file; `file` is read and sought, never written."""

    file: BinaryIO
    stamp: Stamp
    chain: Mapping[int, str]
    """Template of estimates by rank, in order of look-up."""
    limits: Mapping[int, str]
    """The same of limits."""

    def limit(self, job: Mapping[str, Value]) -> Limit | None:
        """As `limit_among` does."""
        return limit_among(self.limits, self.line_of, job)

    def limited_s(self, job: Mapping[str, Value], n_limited: Counter[Value], n_tasks: int = 1) -> float | None:
        """The limit of a submit, s; None where the request stands. Counts the submitter's limited jobs of this file.

        An array has `n_tasks`, which may all fail: the file has to allow them all.
        """
        return self.decide(job, n_limited, n_tasks).limit_s

    def decide(self, job: Mapping[str, Value], n_limited: Counter[Value], n_tasks: int = 1) -> Decided:
        """The same with the row and, where the request stands, why."""
        return decided(self.limit(job), job, n_limited, n_tasks)

    def find(self, job: Mapping[str, Value]) -> Found | None:
        """The answer of the first row that is present; None where none is.

        `job` has who, what, queue, requested_s and procs. Unknown (None) matches no row; without a request
        a job has requested_s 0.
        """
        for rank, template in self.chain.items():
            values = [job.get(name) for name in key_columns(template)]
            line = None if None in values else self.line_of(key_of(rank, [one for one in values if one is not None]))
            if line is not None:
                n_jobs, *numbers = line.split("\t")
                return Found(template, int(n_jobs), _quantiles_s(list(map(float, numbers)), job.get("requested_s")))
        return None

    def lists(self, job_name: str) -> bool:
        """Whether the file has the application of a job's name."""
        return self.line_of(key_of(NAME_KIND, (job_name,))) is not None

    def application(self, job_name: str) -> str | None:
        """The application of a job's name: what the file says, else what the built-in rules say."""
        known = self.line_of(key_of(NAME_KIND, (job_name,)))
        return application_of(job_name) if known is None else unquote(known, errors="surrogateescape")

    def what(self, job_name: str) -> str:
        """The value of `what` of a job with this name: its application, else `job_name` and the name."""
        return self.application(job_name) or f"job_name {job_name}"

    def line_of(self, key: str) -> str | None:
        """The text behind a key; None where the key is absent; InputError where its row is damaged."""
        multiplier = self.stamp.multiplier
        bucket = hash_of(key, multiplier) % self.stamp.buckets
        self.file.seek(self.stamp.directory + ENTRY_BYTES * bucket)
        start, end = map(int, self.file.read(2 * ENTRY_BYTES).split())
        self.file.seek(start)
        lines = self.file.read(end - start).decode("ascii", "replace").splitlines()
        found = next((line for line in lines if line.startswith(f"{key}\t")), None)
        if found is None:
            return None
        text, _, check = found.rpartition("\t")
        if check != str(hash_of(text, multiplier)):
            raise InputError("the look-up file", "a row with another checksum", "a whole file", "export it again")
        return text[len(key) + 1 :]


def limit_among(
    limits: Mapping[int, str], line_of: Callable[[str], str | None], job: Mapping[str, Value]
) -> Limit | None:
    """The first row of limits that is present; None where none is.

    `limits` are templates by rank, `line_of` gives the text behind a key. `job` has who, what, queue, requested_s,
    procs, gpus, memory_class_kib and qos; None is unknown.
    """
    told = [name for name in OPTIONAL if any(name in key_columns(one) for one in limits.values())]
    given = {name for name in told if job[name] is not None}
    for rank, template in limits.items():
        columns = key_columns(template)
        values = [job[name] for name in columns]
        if given != {name for name in told if name in columns} or None in values:
            continue
        line = line_of(key_of(f"{LIMIT_KIND}{rank}", [one for one in values if one is not None]))
        if line is not None:
            limit_s, most, n_jobs, chance, status = line.split("\t")
            return Limit(float(limit_s), int(most), int(n_jobs), float(chance), LimitStatus(status))
    return None


def decided(row: Limit | None, job: Mapping[str, Value], n_limited: Counter[Value], n_tasks: int = 1) -> Decided:
    """What a row means for a submit; counts the submitter's limited jobs."""
    if row is None:
        return Decided(None, LimitStatus.FEW_JOBS, None)
    if not 0 < row.limit_s <= float(job["requested_s"] or 0.0) - LEAST_CHANGE_S:
        return Decided(None, row.status, row)
    if n_limited[job["who"]] + n_tasks > row.most_jobs:
        return Decided(None, LimitStatus.NO_CREDIT, row)
    n_limited[job["who"]] += n_tasks
    return Decided(row.limit_s, LimitStatus.LIMITED, row)


def is_whole(content: bytes) -> bool:
    """Whether the bytes of a look-up file are those that its stamp was made of."""
    line, _, rest = content.partition(b"\n")
    first = line.decode("ascii", "replace").rpartition(CHECK)[0]
    stamp = first.partition("stamp=")[2][: len(NO_STAMP)]
    return first.startswith(FORMAT) and stamp == stamp_of(first.replace(stamp, NO_STAMP, 1), rest)


def open_lookup(file: BinaryIO, where: str = "the look-up file") -> Lookup:
    """The look-up in a file of bytes; InputError where it is no look-up file of this format, was cut or is damaged."""
    first = file.readline().decode("ascii", "replace").rstrip("\n")
    if not first.startswith(f"{FORMAT} "):
        raise InputError(where, "another first line", f"a line that begins with {FORMAT}", "export it again")
    first, _, check = first.rpartition(CHECK)
    stamp = _stamp(dict(word.partition("=")[::2] for word in first[len(FORMAT) :].split()), where)
    chain, limits, columns = (file.readline().decode("ascii", "replace") for _ in range(3))
    if check != f"{hash_of(f'{first}{chr(10)}{chain}{limits}{columns}', stamp.multiplier):010d}":
        raise InputError(where, "first lines with another checksum", "a whole file", "export it again")
    length = file.seek(0, 2)
    if length != stamp.bytes:
        raise InputError(where, f"{length} bytes", f"{stamp.bytes} as its first line says", "copy it again")
    return Lookup(file, stamp, _templates(chain), _templates(limits))


def _templates(line: str) -> dict[int, str]:
    return {int(rank): template for rank, template in (one.split(":", 1) for one in line.split()[1:])}


def _stamp(facts: Mapping[str, str], where: str) -> Stamp:
    try:
        return Stamp(**{f.name: f.type(facts[f.name]) for f in fields(Stamp)})  # type: ignore[operator]
    except (KeyError, ValueError) as error:
        raise InputError(where, f"a first line without {error}", "all facts of the file", "export it again") from None


def _quantiles_s(numbers: list[float], requested: Value) -> tuple[float, ...]:
    """Of a row's numbers the ratios times the request where both are known, else the seconds."""
    n, request_s = len(QUANTILE_NAMES), float(requested or 0.0)
    found = [ratio * request_s for ratio in numbers[n:]] if len(numbers) > n and request_s > 0 else numbers[:n]
    cut = [min(one, request_s) if request_s > 0 else one for one in found[:CUT_AT_REQUEST]]
    return (*cut, *found[CUT_AT_REQUEST:])


def hash_of(key: str, multiplier: int) -> int:
    """The hash of a key, in [0, PRIME)."""
    found = 0
    for byte in key.encode("ascii", "replace"):
        found = (found * multiplier + byte) % PRIME
    return found
