"""Reads `sacct --json`, in the forms Slurm has written since 21.08 (openapi/dbv0.0.37 to data_parser/v0.0.4x).

The values are those the text reader gives for the same records, as far as the JSON holds them: Slurm up to 22.05 writes
return code 0 for every process that exited, whatever its code. There the code of a FAILED job is null (DEADLINE and the
like too), and its derived code where one of its steps FAILED.

The report counts records instead of lines, because a document may be a single line: an element of "jobs" is one, a step
in it another. `source_line` is the line the element starts in. An element that is no JSON, or no job, is set aside, and
the elements behind it are read; a document that ends in the middle is said to.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import arrow
from pipeline.ingest.formats.sacct import json_fields as fields
from pipeline.ingest.formats.sacct.json_elements import ARRAY, CUT_OFF, NOT_JSON, TOO_LONG, Element, Progress, elements
from pipeline.ingest.formats.sacct.layout import STATES
from pipeline.ingest.formats.sacct.notes import notes as dialect_notes
from pipeline.ingest.live import asked_s_of
from pipeline.ingest.reader import (
    RAW,
    Chunk,
    Layout,
    Reader,
    Remarks,
    Trial,
    as_whole,
    constant,
    jobs_table,
    unreadable_row,
    unreadable_table,
)
from pipeline.ingest.sources import Source, byte_blocks
from pipeline.schema import as_array
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.tables import JOBS

EXPECTS = 'sacct --json: an object with a list "jobs", each with job_id, state and time'
NOT_A_JOB, BAD_VALUE = "no_job_of_sacct", "value_of_wrong_kind"
REASONS = (NOT_JSON, CUT_OFF, TOO_LONG, NOT_A_JOB, BAD_VALUE)
CHUNK_JOBS = 20_000
BLOCK_BYTES = 1 << 23

_RELEASE = re.compile(rb'"release"\s*:\s*"([\w.-]{1,30})"')
_DECLARED: Mapping[str, tuple[str, Callable[[object], object]]] = {
    "user": ("user", fields.text), "user_group": ("group", fields.text), "account": ("account", fields.text),
    "queue": ("partition", fields.text), "qos": ("qos", fields.text), "job_name": ("name", fields.text),
    "comment": ("comment.job", fields.text), "submit_line": ("submit_line", fields.text),
    "work_dir": ("working_directory", fields.text), "submit_s": ("time.submission", fields.instant_s),
    "eligible_s": ("time.eligible", fields.instant_s), "start_s": ("time.start", fields.instant_s),
    "end_s": ("time.end", fields.instant_s), "runtime_s": ("time.elapsed", fields.number),
    "suspended_s": ("time.suspended", fields.number), "array_id": ("array.job_id", fields.id_text),
    "het_id": ("het.job_id", fields.id_text),
}  # fmt: skip
"""Column, where its value stands in a job, and what reads it; the columns made of several values are read below."""

_OTHERS = (
    "job_id", "association.user", "time.limit", "state.current", "exit_code",
    "derived_exit_code", "required.CPUs", "tres.allocated", "tres.requested", "array.task_id", "het.job_offset",
    "steps",
)  # fmt: skip
_PATHS = (*(path for path, _ in _DECLARED.values()), *_OTHERS)
_CODED = {"FAILED", "DEADLINE", "BOOT_FAIL", "OUT_OF_MEMORY"}
"""States of jobs that Slurm gives another code than 0."""

_LOSES_CODES = "exit_codes_lost"
_CUT = "cut_documents"


def looks_right(head: bytes) -> bool:
    """Whether a source's first bytes are an object with a list of jobs, or Slurm's heading of one."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return start.startswith(b"{") and (ARRAY.search(start) is not None or b'"meta"' in start)


def read(source: Source, site: SiteSettings, settings: IngestSettings) -> Iterator[Chunk]:
    """A document's chunks, CHUNK_JOBS jobs each; InputError where the source holds no job of sacct, or is damaged."""
    progress, batch, n_bytes = Progress(), _Batch(source, site), 0
    trial = Trial(source, settings.strict, EXPECTS)
    for element in elements(byte_blocks(source, BLOCK_BYTES), progress):
        batch.add(element)
        if len(batch.rows) >= CHUNK_JOBS or (settings.strict and batch.unreadable):
            trial.judge(batch.unreadable, len(batch.rows), 0)
            yield batch.chunk(progress.n_bytes - n_bytes)
            n_bytes, batch = progress.n_bytes, _Batch(source, site)
    if progress.n_bytes:
        trial.judge(batch.unreadable, len(batch.rows), 0)
    trial.end()
    batch.remarks["files"] += 1
    batch.remarks[_CUT] += progress.is_cut
    yield batch.chunk(progress.n_bytes - n_bytes)


@dataclass(slots=True)
class _Batch:
    """Jobs, steps and unreadable elements on their way into a chunk."""

    source: Source
    site: SiteSettings
    rows: list[dict[str, Any]] = field(default_factory=list)
    unreadable: list[dict[str, Any]] = field(default_factory=list)
    n_steps: int = 0
    remarks: Remarks = field(default_factory=Remarks)

    def add(self, element: Element) -> None:
        """Take in one element, which may be unreadable."""
        try:
            row, n_steps = _row(element, self.remarks)
        except fields.BadValueError:
            self._set_aside(element, BAD_VALUE if _is_job(element.value) else NOT_A_JOB)
        except _UnparsedError:
            self._set_aside(element, element.reason or NOT_JSON)
        else:
            self.rows.append(row)
            self.n_steps += n_steps

    def _set_aside(self, element: Element, reason: str) -> None:
        self.unreadable.append(unreadable_row(self.source, element.line, element.offset, reason, element.raw))

    def chunk(self, n_bytes: int) -> Chunk:
        """What has been taken in, as tables."""
        n_records = len(self.rows) + self.n_steps + len(self.unreadable)
        jobs = _table(self.rows, self.source, self.site)
        lines = {"step": self.n_steps}
        return Chunk(jobs, unreadable_table(self.unreadable), lines, n_records, n_bytes, self.remarks)


class _UnparsedError(ValueError):
    """An element that is no JSON."""


def _is_job(value: object) -> bool:
    return isinstance(value, dict) and {"job_id", "state", "time"} <= value.keys()


def _row(element: Element, remarks: Remarks) -> tuple[dict[str, Any], int]:
    """An element's JOBS values by column, and how many steps are folded into it."""
    if element.reason:
        raise _UnparsedError
    job = element.value
    if not isinstance(job, dict) or not _is_job(job):
        raise fields.BadValueError
    steps = fields.objects(job.get("steps"))
    row = _named_and_timed(job) | _sized(job, steps) | _ended(job, steps, remarks)
    return row | {"source_line": element.line}, len(steps)


def _named_and_timed(job: fields.Json) -> dict[str, Any]:
    row = {column: typer(fields.part(job, *path.split("."))) for column, (path, typer) in _DECLARED.items()}
    limit_min = fields.number(fields.part(job, "time", "limit"))
    asked_s = asked_s_of(fields.text(fields.part(job, "comment", "administrator")) or "")
    return row | {
        "job_id": fields.job_id(job),
        "user": row["user"] or fields.text(fields.part(job, "association", "user")),
        "requested_s": asked_s or (None if limit_min is None else limit_min * 60.0),
    }


def _sized(job: fields.Json, steps: Any) -> dict[str, Any]:
    allocated = fields.tres(fields.part(job, "tres", "allocated"))
    requested = fields.tres(fields.part(job, "tres", "requested"))
    requested_procs = fields.whole(fields.part(job, "required", "CPUs")) or requested.get("cpu")
    # As sacct's AllocCPUS and NNodes say it: of a job that never started, what it asked for.
    procs, nodes = allocated.get("cpu", requested_procs), allocated.get("node", requested.get("node"))
    return {
        "procs": procs,
        "nodes": nodes,
        "gpus": fields.gpus(allocated, requested),
        "requested_procs": requested_procs,
        "requested_nodes": requested.get("node"),
        "requested_mem_kib": fields.requested_mem_kib(job, requested, requested_procs),
        "requested_memory": fields.requested_memory(job, requested, requested_procs),
        "max_rss_kib": fields.max_rss_kib(steps),
        "cpu_s": fields.cpu_s(steps) / procs if procs else None,
        "energy_j": fields.energy_j(allocated, steps),
    }


def _ended(job: fields.Json, steps: Any, remarks: Remarks) -> dict[str, Any]:
    state = fields.state_word(fields.part(job, "state", "current"))
    code, derived = fields.exit_code(job.get("exit_code")), _highest_code(job, steps)
    if _loses_codes(job.get("exit_code")):
        step_states = [fields.state_word(step.get("state")) for step in fields.own_steps(steps)]
        is_lost, is_derived_lost = state in _CODED and code == 0, "FAILED" in step_states and derived == 0
        code, derived = None if is_lost else code, None if is_derived_lost else derived
        remarks[_LOSES_CODES] += is_lost or is_derived_lost
    if state and state not in STATES:
        remarks[f"state {state}"] += 1
    return {"state": state, "exit_code": code, "derived_exit_code": derived}


def _highest_code(job: fields.Json, steps: Any) -> int | None:
    """The highest exit code the job itself tells of and its own steps do; None where none is told."""
    told = [job.get("derived_exit_code"), *(step.get("exit_code") for step in fields.own_steps(steps))]
    return max((code for code in map(fields.exit_code, told) if code is not None), default=None)


def _loses_codes(exit_code: object) -> bool:
    """Whether this is the form of Slurm up to 22.05, which writes return code 0 whatever it was."""
    return isinstance(exit_code, dict) and isinstance(exit_code.get("status"), str)


def _table(rows: list[dict[str, Any]], source: Source, site: SiteSettings) -> pa.Table:
    if not rows:
        return jobs_table(0)
    types = {column.name: column.type for column in JOBS.columns} | {raw.name: raw.type for raw in RAW}
    values = {name: as_array([row[name] for row in rows], types[name]) for name in rows[0]}
    return jobs_table(
        len(rows),
        **values,
        site=constant(site.name, len(rows)),
        restart=arrow(np.zeros(len(rows), np.int64)),
        source_file=constant(source.label, len(rows)),
    )


def notes(remarks: Remarks, settings: IngestSettings) -> list[str]:
    """What a reader should know of the documents, beside what it should of any dump of sacct."""
    said = dialect_notes(remarks, settings)
    if cut := remarks[_CUT]:
        said.append(f"{cut} of {remarks['files']} documents end in the middle: export them again for what is missing")
    if lost := remarks[_LOSES_CODES]:
        said.append(f"{lost} jobs have no exit code: Slurm up to 22.05 writes 0 in its JSON; a text dump has them")
    return said


def layout(head: bytes, _site: SiteSettings, _settings: IngestSettings) -> Layout:
    """What the document's first job holds of what is read, and which Slurm wrote it, if its heading stands before."""
    first = next((e.value for e in elements(iter([head]), Progress()) if isinstance(e.value, dict)), {})
    present = [path for path in _PATHS if _has(first, path)]
    said = [f"Slurm {found[1].decode()}" for found in (_RELEASE.search(head),) if found]
    return Layout(tuple(present), tuple(path for path in _PATHS if path not in present), (), tuple(said))


def _has(job: fields.Json, path: str) -> bool:
    try:
        return fields.part(job, *path.split(".")) is not None
    except fields.BadValueError:
        return False


SACCT_JSON = Reader(
    "sacct_json",
    EXPECTS,
    REASONS,
    ("submit_s",),
    looks_right,
    read,
    as_whole,
    notes,
    layout=layout,
)
