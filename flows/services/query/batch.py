"""Jobs to ask for from a CSV file, and their answers as rows of a table."""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.services.files.os_errors import read_text
from flows.services.quantities import kibibytes, seconds
from pipeline.core.errors import InputError
from pipeline.core.matching import Value
from pipeline.core.text import printable


def _text(said: str, _: str) -> str:
    return said


def _procs(said: str, option: str) -> int:
    if not said.isascii() or not said.isdigit() or not 1 <= int(said[:17]) <= 2**53:
        raise InputError(f"{option} {printable(said)}", "no number of processors", "a whole number, 1 or more")
    return int(said)


def _positive(said: str, option: str) -> float:
    try:
        found = float(said)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise InputError(f"{option} {printable(said)}", "no number above 0", "one")
    return found


TEXTS = ("user", "user_group", "account", "application", "job_name", "queue", "partition", "qos", "problem_size")
READ: dict[str, tuple[str, Callable[[str, str], Value]]] = {
    **{name: (name, _text) for name in TEXTS}, "procs": ("procs", _procs), "requested_procs": ("procs", _procs),
    "requested": ("requested_s", seconds), "requested_s": ("requested_s", _positive), "memory": ("memory", kibibytes),
    "mem_per_cpu": ("requested_mem_kib", kibibytes), "requested_mem_kib": ("requested_mem_kib", _positive),
    "at": ("at", _text), "submit_s": ("at", _positive),
}  # fmt: skip
"""What a job is told by, as options or as columns of JOBS: which value it is, and how its text is read."""

IDS = ("job_id", "id", "jobid")
"""Columns that name a job, in lower case; the first of these that a file has."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Jobs of a file, and what names each of them there: a column's texts, else row numbers from 1."""

    id_name: str
    ids: Sequence[str | int | None]
    jobs: list[dict[str, Value]]
    n_blank: int
    """Lines with nothing on them."""
    n_untold: int
    """Jobs of which the file tells nothing but perhaps a name: they are answered as an unknown one."""


def read_jobs(path: Path) -> Batch:
    """A job a row, as `job_of` makes it; InputError names the line, or the columns that nobody knows."""
    text = read_text(path, "a CSV of jobs, in UTF-8")
    reader = csv.reader(io.StringIO(text))
    try:
        read = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise _wrong(path, reader.line_num, f"text that is no CSV ({error})", "one job a line") from None
    rows = [(line, row) for line, row in read if len(row) > 1 or any(cell.strip() for cell in row)]
    if not rows:
        raise InputError(printable(str(path)), "an empty file", "a line of column names, and a job a line")
    header, listed = rows[0][1], rows[1:]
    names = _named(path, header)
    place = next((names.index(name) for name in IDS if name in names), None)
    jobs = [_read(path, line, names, row) for line, row in listed]
    ids = range(1, len(jobs) + 1) if place is None else [row[place].strip() or None for _, row in listed]
    id_name = "row" if place is None else header[place].strip()
    return Batch(id_name, ids, jobs, len(read) - len(rows), sum(not any(job.values()) for job in jobs))


def job_of(said: Mapping[str, str | None]) -> dict[str, Value]:
    """Values of JOBS columns from texts, named as in READ; `at` is a text or s since 1970.

    InputError for a text that cannot be used. Memory of the whole job is divided by its processors, else by one.
    """
    found: dict[str, Value] = {}
    for option, text in said.items():
        name, read = READ[option]
        found[name] = read(text, f"--{option.replace('_', '-')}") if text else None
    memory_kib = found.pop("memory", None)
    if memory_kib is not None:
        found["requested_mem_kib"] = float(memory_kib) / float(found.get("procs") or 1)
    return found


def rows_of(batch: Batch, found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Per job its name, what was given of it, its quantiles, s, and how many jobs these rest on."""
    told = dict.fromkeys(name for name, _ in READ.values())
    given = [name for name in told if any(job.get(name) is not None for job in batch.jobs)]
    answered = [name for name in found[0] if name.startswith(("runtime_s_q", "n_", "is_known"))] if found else []
    return [
        {batch.id_name: name} | {name: job.get(name) for name in given} | {name: one[name] for name in answered}
        for name, job, one in zip(batch.ids, batch.jobs, found, strict=True)
    ]


def account_of(batch: Batch) -> str:
    """How many jobs a file holds, and what is odd about some, in words."""
    counted = {"blank left out": batch.n_blank, "without any value, answered as an unknown job": batch.n_untold}
    odd = [f"{count:,} {what}" for what, count in counted.items() if count]
    return f"{len(batch.jobs):,} jobs" + (f" (lines: {'; '.join(odd)})" if odd else "")


def _named(path: Path, header: Sequence[str]) -> list[str]:
    names = [name.strip().lower().lstrip("-").replace("-", "_") for name in header]
    unknown = [name for name in names if name not in READ and name not in IDS]
    if unknown:
        found = f"columns {', '.join(printable(name) for name in unknown)}"
        raise InputError(printable(str(path)), found, f"columns of {', '.join((*READ, IDS[0]))}")
    if len({READ[name][0] if name in READ else name for name in names}) < len(names):
        raise InputError(printable(str(path)), "two columns that tell the same", "one of them")
    return names


def _read(path: Path, line: int, names: Sequence[str], row: Sequence[str]) -> dict[str, Value]:
    if len(row) != len(names):
        raise _wrong(path, line, f"{len(row)} values", f"{len(names)}, one a column")
    try:
        return job_of({name: cell.strip() for name, cell in zip(names, row, strict=True) if name in READ})
    except InputError as error:
        raise _wrong(path, line, f"{error.where}: {error.found}", error.expected) from None


def _wrong(path: Path, line: int, found: str, expected: str) -> InputError:
    return InputError(f"{printable(str(path))}, line {line}", found, expected)
