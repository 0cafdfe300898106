"""The jobs of a query: values from options or a CSV, names as ingest stores them, and answers as rows of a table.

Applications are named without numbers and suffixes, and persons are hashed where the tables hold hashed names.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flows.services.files.table_files import csv_rows
from flows.services.quantities import kibibytes, seconds
from pipeline.application_names import application_of
from pipeline.arrays import Value
from pipeline.errors import InputError, printable
from pipeline.estimate.state import State


def _text(text: str, _: str) -> str:
    return text


def _count(text: str, option: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:17]) <= 2**53:
        raise InputError(f"{option} {printable(text)}", "no whole number above 0", "a whole number, 1 or more")
    return int(text)


def _gpus(text: str, option: str) -> int:
    return 0 if text == "0" else _count(text, option)


def _positive(text: str, option: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise InputError(f"{option} {printable(text)}", "no number above 0", "a number above 0")
    return found


TEXTS = (
    "user", "user_group", "account", "application", "job_name", "comment", "submit_line", "queue", "partition", "qos",
    "problem_size", "array_id", "gpu_type",
)  # fmt: skip
JOB_FIELDS: dict[str, tuple[str, Callable[[str, str], Value]]] = {
    **{name: (name, _text) for name in TEXTS}, "procs": ("procs", _count), "requested_procs": ("procs", _count),
    "nodes": ("nodes", _count), "gpus": ("gpus", _gpus),
    "requested": ("requested_s", seconds), "requested_s": ("requested_s", _positive), "memory": ("memory", kibibytes),
    "mem_per_cpu": ("requested_mem_kib", kibibytes), "requested_mem_kib": ("requested_mem_kib", _positive),
    "at": ("at", _text), "submit_s": ("at", _positive),
}  # fmt: skip
"""By option or column name: the column of JOBS that it sets, and the parser of its text."""

IDS = ("job_id", "id", "jobid")
"""Columns that identify a job, in lower case; the first one in the file is used."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The jobs of a file with their ids: the texts of an id column, else row numbers from 1."""

    id_name: str
    ids: Sequence[str | int | None]
    jobs: list[dict[str, Value]]
    n_blank: int
    """Blank lines."""
    n_without_values: int
    """Jobs without any value except an id: each is answered as an unknown job."""


def read_batch(path: Path) -> Batch:
    """One job per row, as `job_of` makes it; InputError names the wrong line, or the unknown columns."""
    read = csv_rows(path, "a CSV of jobs")
    rows = [(line, row) for line, row in read if len(row) > 1 or any(row)]
    if not rows:
        raise InputError(printable(str(path)), "an empty file", "a line of column names, and a job a line")
    header, listed, where = rows[0][1], rows[1:], printable(str(path))
    names = [name.lower().lstrip("-").replace("-", "_") for name in header]
    if unknown := [name for name in names if name not in JOB_FIELDS and name not in IDS]:
        found = f"columns {', '.join(printable(name) for name in unknown)}"
        raise InputError(where, found, f"columns of {', '.join((*JOB_FIELDS, IDS[0]))}")
    if len({JOB_FIELDS[name][0] if name in JOB_FIELDS else name for name in names}) < len(names):
        raise InputError(where, "two columns with the same meaning", "one of them")
    jobs = []
    for line, row in listed:
        if len(row) != len(names):
            raise InputError(f"{where}, line {line}", f"{len(row)} values", f"{len(names)}, one a column")
        try:
            jobs.append(job_of({name: cell for name, cell in zip(names, row, strict=True) if name in JOB_FIELDS}))
        except InputError as error:
            found = f"{error.where}: {error.found}"
            raise InputError(f"{where}, line {line}", found, error.expected) from None
    place = next((names.index(name) for name in IDS if name in names), None)
    ids = range(1, len(jobs) + 1) if place is None else [row[place] or None for _, row in listed]
    id_name = "row" if place is None else header[place]
    return Batch(id_name, ids, jobs, len(read) - len(rows), sum(not any(job.values()) for job in jobs))


def job_of(texts: Mapping[str, str | None]) -> dict[str, Value]:
    """Values of JOBS columns from texts by name as in JOB_FIELDS; `at` is a text or s since 1970.

    InputError for a text that cannot be used. Memory of the whole job is divided by its processors, else by one.
    """
    found: dict[str, Value] = {}
    for option, text in texts.items():
        name, parse = JOB_FIELDS[option]
        found[name] = parse(text, f"--{option.replace('_', '-')}") if text else None
    memory_kib = found.pop("memory", None)
    if memory_kib is not None:
        found["requested_mem_kib"] = float(memory_kib) / float(found.get("procs") or 1)
    return found


def answer_rows(batch: Batch, found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Per job its id, its given values, its runtime quantiles (s), the numbers of jobs they rest on, and its memory."""
    fields = dict.fromkeys(name for name, _ in JOB_FIELDS.values())
    given = [name for name in fields if any(job.get(name) is not None for job in batch.jobs)]
    first = found[0] if found else {}
    wanted = ("answered_by", "runtime_s_q", "n_", "is_known", "used_mem_kib_q", "recommended_")
    answered = [name for name in first if name.startswith(wanted)]
    return [
        {batch.id_name: name} | {name: job.get(name) for name in given} | {name: one[name] for name in answered}
        for name, job, one in zip(batch.ids, batch.jobs, found, strict=True)
    ]


def describe_batch(batch: Batch) -> str:
    """The number of jobs in a file, and of its lines without values, in words."""
    counted = {"blank left out": batch.n_blank, "without any value, answered as an unknown job": batch.n_without_values}
    notes = [f"{count:,} {what}" for what, count in counted.items() if count]
    return f"{len(batch.jobs):,} jobs" + (f" (lines: {'; '.join(notes)})" if notes else "")


SYNONYMS = {"queue": "partition", "partition": "queue"}

Job = Mapping[str, Value]


def as_ingested(state: State, settings: Mapping[str, Any], key_file: Path | None) -> Callable[[Job], dict[str, Value]]:
    """A function from a job's values to those that JOBS would hold; `settings` are those of the run.

    A name that the State knows is not changed. InputError where names are hashed and the key is missing.
    """
    filled = set(state.site["columns"].split())
    hashed = _hasher(state, settings, key_file) if state.site["names"] else None
    by_rule = _rules(settings.get("ingest", {}).get("application_rules", ()))

    @cache
    def application(text: str, is_job_name: bool) -> str | None:
        known = state.names.texts["what"]
        if not is_job_name and text in known:
            return text
        made = (application_of(text), *(() if is_job_name else (text,)))
        found = [by_rule(text), *(one and (hashed("application", one) if hashed else one) for one in made)]
        names = [name for name in found if name]
        return next((name for name in names if is_job_name or name in known), names[0] if names else None)

    @cache
    def person(column: str, text: str) -> str:
        return text if hashed is None or _is_known(state, column, text) else hashed(column, text)

    def found(job: Job) -> dict[str, Value]:
        done = dict(job)
        given, name = job.get("application"), job.get("job_name")
        if given is not None or name is not None:
            done["application"] = application(str(given if given is not None else name), given is None)
        for column in ("user", "user_group", "account", "job_name"):
            if job.get(column) is not None:
                done[column] = person(column, str(job[column]))
        return done | {
            own: job[other]
            for own, other in SYNONYMS.items()
            if own in filled and other not in filled and job.get(own) is None and job.get(other) is not None
        }

    return found


def _is_known(state: State, column: str, text: str) -> bool:
    if column == "user_group" and text in state.names.texts["user_group"]:
        return True
    attribute = "what" if column == "job_name" else "who"
    return (text if column == "user" else f"{column} {text}") in state.names.texts[attribute]


def _hasher(state: State, settings: Mapping[str, Any], key_file: Path | None) -> Callable[[str, str], str]:
    """A function that hashes a text of a column; the key is read at first use. InputError without the tables' key."""

    @cache
    def hasher() -> Any:
        # These imports take 0.1 s, and are needed for hashed names only.
        from pipeline.ingest.privacy import ANONYMISED, hasher_of  # noqa: PLC0415
        from pipeline.settings import SiteSettings  # noqa: PLC0415

        path = key_file or settings.get("site", {}).get("key_file")
        if path is None:
            found = "a name, but the tables hold hashed names"
            raise InputError("the query", found, "their key", "give --key-file")
        own = hasher_of(SiteSettings(anonymise=True, key_file=str(path)))
        if own.mark[ANONYMISED] != state.site["names"]:
            raise InputError("--key-file", "another key", "the one with which the tables' names are hashed")
        return own

    return lambda column, text: str(hasher().of(column, text))


def _rules(plain: Sequence[Mapping[str, Any]]) -> Callable[[str], str | None]:
    """A function from a job's name to its application by the site's own rules; the first match wins."""
    if not plain:
        return lambda _: None
    import pyarrow as pa  # noqa: PLC0415  (the same)

    from pipeline.ingest.derive import rules_of  # noqa: PLC0415  (the same)
    from pipeline.settings import TextRule  # noqa: PLC0415

    rules = rules_of([TextRule.model_validate(rule) for rule in plain], "ingest.application_rules")

    def application(text: str) -> str | None:
        found = rules.column(pa.table({"job_name": [text]}))
        return None if found is None else found[0].as_py()

    return application
