"""Reads `sacct --json`, in the forms Slurm has written since 21.08 (openapi/dbv0.0.37 to data_parser/v0.0.4x).

A job and its steps become records of the same named texts that a text dump has, and are typed as such. From v0.0.39 on
a number that may be unset is an object {"set", "infinite", "number"}, a state a list of words, a status too. Slurm up
to 22.05 writes return code 0 for every process that exited, whatever its code. There the code of a FAILED job is null
(DEADLINE and the like too), and its derived code where one of its steps FAILED.

The report counts records instead of lines, because a document may be a single line: an element of "jobs" is one, a step
in it another. `source_line` is the line the element starts in. An element that is no JSON, or no job, is set aside, and
the elements behind it are read; a document that ends in the middle is said to. Lines that sacct wrote to stderr before
the document are skipped, and said.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise, takewhile
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.arrays import texts
from pipeline.ingest.formats.sacct import notes as notes_on_records
from pipeline.ingest.formats.sacct import records
from pipeline.ingest.formats.sacct.columns import COLUMNS, Kind, first_line, is_message
from pipeline.ingest.raw_table import RawTable
from pipeline.ingest.reader import STEPS, Chunk, Layout, Reader, Remarks, RepeatedKeyError, unique_keys, unreadable_row
from pipeline.ingest.sources import Source, byte_blocks, head
from pipeline.ingest.values import decoded
from pipeline.settings import IngestSettings, SiteSettings

EXPECTS = 'sacct --json: an object with a list "jobs", each with job_id, state and time'
NOT_A_JOB, BAD_VALUE = "no_job_of_sacct", "value_of_wrong_kind"
NOT_JSON, CUT_OFF, TOO_LONG, REPEATED = "not_json", "cut_off", "too_long", "repeated_key"
"""Why an element has no value."""
REASONS = tuple(dict.fromkeys((NOT_JSON, REPEATED, CUT_OFF, TOO_LONG, NOT_A_JOB, BAD_VALUE, *records.REASONS)))
BLOCK_BYTES = 1 << 23
"""Read at a time; the elements that end in a block are a chunk."""

NO_VAL = 0xFFFFFFFE
"""From here up to 2^32, and from 2^64 - 2 on, a number is Slurm's mark for unset or infinite (slurm.h: NO_VAL)."""

_NO_VAL64 = 0xFFFFFFFFFFFFFFFE
_LATE_STATES = ("COMPLETING",)
"""State flags that say how an end is carried out, not what it is."""

_SLURMS_STEPS = ("batch", "extern", "interactive")
"""Steps that Slurm makes of the script, and around it."""

_CODED = {"FAILED", "DEADLINE", "BOOT_FAIL", "OUT_OF_MEMORY"}
"""States of jobs that Slurm gives another code than 0."""

_RELEASE = re.compile(rb'"release"\s*:\s*"([\w.-]{1,30})"')
_PATHS = (
    *(column.path for column in COLUMNS.values() if column.path), "job_id", "association.user", "array.job_id",
    "array.task_id", "het.job_id", "het.job_offset", "steps",
)  # fmt: skip
_LOSES_CODES = "exit_codes_lost"
_CUT = "cut_documents"

# ---------------- the elements of a document
# The elements of a JSON document's "jobs" array, one at a time, from bytes cut anywhere; a broken one harms no other.
#
# Elements are told apart by how they begin: `}, {"account":`, with the first key of the document's first element. That
# cannot stand inside a valid JSON string, where quotes are escaped, and no list inside a job of `sacct --json` holds
# objects with the job's first key. So a document never has to be in memory as a whole, and what follows an element that
# is no JSON is still read.

MAX_ELEMENT_BYTES = 1 << 26
"""A longer element is no accounting record; only its start is kept."""


ARRAY = re.compile(rb'"jobs"\s*:\s*\[')
_FIRST_KEY = re.compile(rb'"jobs"\s*:\s*\[\s*\{\s*("(?:[^"\\]|\\.)*"\s*):')
_OVERLAP_BYTES = 1 << 16
_RAW_BYTES = 2000
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=unique_keys)


class Element(NamedTuple):
    """One element: its first line (from 1), byte (from 0) and bytes; its value, or the reason it has none.

    is_open: whether the document ends within it, or behind it without the end of its list.
    """

    line: int
    offset: int
    raw: bytes
    value: Any = None
    reason: str = ""
    is_open: bool = False


def elements(blocks: Iterable[bytes]) -> Iterator[tuple[int, list[Element]]]:
    """The size of each block, and the elements of "jobs" arrays that end in it, of a document or several."""
    data, line, offset, is_inside = b"", 1, 0, False
    begins: re.Pattern[bytes] | None = None
    for block, behind in pairwise(chain(blocks, [b""])):
        # What is kept of the blocks before starts with an element where `is_inside`.
        data += block
        if begins is None and (first := _FIRST_KEY.search(data)):
            begins = re.compile(rb'(?:\}\s*,\s*|"jobs"\s*:\s*\[\s*)(?=\{\s*' + re.escape(first[1]) + b")")
        starts = [0] * is_inside + [match.end() for match in begins.finditer(data)] if begins else []
        is_inside, kept, counted = bool(starts), starts[-1] if starts else max(0, len(data) - _OVERLAP_BYTES), 0
        found = list[Element]()
        for start, stop in pairwise(starts if behind else [*starts, len(data)]):
            line, counted = line + data.count(b"\n", counted, start), start
            found += _parsed(data[start:stop], line, offset + start, is_last=stop == len(data) and not behind)
        line += data.count(b"\n", counted, kept)
        offset, data = offset + kept, data[kept:]
        if len(data) > MAX_ELEMENT_BYTES:
            found.append(Element(line, offset, data[:_RAW_BYTES], reason=TOO_LONG))
            is_inside = False
        yield len(block), found


def _parsed(data: bytes, line: int, offset: int, *, is_last: bool) -> Iterator[Element]:
    """The element that the bytes start with, and what stands behind it without the comma that it needs."""
    text, element = data.decode("utf-8", "surrogateescape"), Element(line, offset, data[:_RAW_BYTES])
    try:
        value, stop = _DECODER.raw_decode(text)
    except RepeatedKeyError:
        yield element._replace(reason=REPEATED)
    except (ValueError, RecursionError):
        is_cut = is_last and not text.rstrip().endswith("}")
        yield element._replace(reason=CUT_OFF if is_cut else NOT_JSON, is_open=is_cut)
    else:
        behind = text[stop:].lstrip(" \t\r\n,")
        yield element._replace(value=value, is_open=is_last and not behind)
        if behind and not behind.startswith("]"):
            passed, raw = text[: -len(behind)], encoded(behind)[:_RAW_BYTES]
            yield Element(line + passed.count("\n"), offset + len(encoded(passed)), raw, reason=NOT_JSON)


def encoded(text: str) -> bytes:
    """UTF-8; bytes of the document that were none come back as they were."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


# ---------------- a job and its steps as records of a text dump

Json = Mapping[str, Any]
Cells = dict[str, str]
"""The texts of one record, by what they tell (COLUMNS); empty where it is unknown."""


def number(value: Any) -> float | int | None:
    """A plain or wrapped number; None where unset, infinite or a mark for either. ValueError for anything else."""
    if isinstance(value, dict):
        value = None if value.get("infinite") or value.get("set") is False else value.get("number")
    if value is None:
        return None
    if type(value) not in (int, float) or math.isnan(value):
        raise ValueError(BAD_VALUE)
    is_mark = NO_VAL <= value <= NO_VAL + 1 or value >= _NO_VAL64 or value < 0
    return None if is_mark else value


def part(job: Json, path: str) -> Any:
    """What stands at a path of keys; None where a key is missing. AttributeError where an object was expected."""
    found: Any = job
    for key in path.split("."):
        found = None if found is None else found.get(key)
    return found


def state_word(value: Any) -> str:
    """The state as sacct's text names it: the flag, where one stands beside the base state (REQUEUED, say)."""
    words = [value] if isinstance(value, str) else value or []
    if not isinstance(words, list):
        raise TypeError(BAD_VALUE)
    telling: list[str] = [word for word in words if word not in _LATE_STATES] or words or [""]
    return telling[-1]


def exit_code(value: Any) -> str:
    """An exit code object as `code:signal`; empty where the process has not ended."""
    code, signal = _whole(part({"": value}, ".return_code")), part({"": value}, ".signal")
    if isinstance(signal, dict):
        signal = signal.get("id") if signal.get("id") is not None else signal.get("signal_id")
    signal = _whole(signal)
    return f"{code or 0}:{signal or 0}" if signal or code is not None else ""


def job_id(job: Json) -> str:
    """The id as JobID has it: 12, 12_3 (an array's task), 12_[4-9%2] (tasks not split off yet), 12+1 (a het part)."""
    plain, tasks = _whole(job.get("job_id")), part(job, "array.task")
    if not plain:
        raise ValueError(BAD_VALUE)
    array, task = _whole(part(job, "array.job_id")), _whole(part(job, "array.task_id"))
    het, offset = _whole(part(job, "het.job_id")), _whole(part(job, "het.job_offset"))
    if array and task is not None:
        return f"{array}_{task}"
    if array and tasks:
        return f"{array}_[{tasks}]"
    return f"{het}+{offset}" if het and offset is not None else str(plain)


def _whole(value: Any) -> int | None:
    found = number(value)
    return None if found is None else int(found)


def _said(value: float | int | None) -> str:
    return "" if value is None else str(value)


def _tres(value: Any) -> dict[str, int]:
    """Counts by type, or by type/name: cpu, mem (MiB in a job, bytes in a step's use), node, gres/gpu."""
    found: dict[str, int] = {}
    for item in value or ():
        kind, name, count = item.get("type"), item.get("name"), _whole(item.get("count"))
        if kind and count is not None:
            found[f"{kind}/{name}" if name else kind] = count
    return found


_TEXT_OF: Mapping[Kind, Callable[[Any], str]] = {
    Kind.TIME: lambda value: _said(_whole(value) or None),
    Kind.DURATION: lambda value: _said(number(value)),
    Kind.COUNT: lambda value: _said(_whole(value)),
    Kind.STATE: state_word,
    Kind.EXIT: exit_code,
    Kind.TRES: lambda value: ",".join(f"{name}={count}" for name, count in _tres(value).items()),
}
"""How a value of the JSON that is no text is written as the text of a column."""


def _flattened(element: Element, remarks: Remarks) -> list[Cells]:
    """A job and its steps as records of a text dump; their place is the number by which the steps are the job's.

    ValueError, TypeError or AttributeError where a field has another kind of value than any form of `sacct --json`.
    """
    job = element.value
    steps = job.get("steps") or ()
    values = {what: (own.kind, part(job, own.path)) for what, own in COLUMNS.items() if own.path}
    cells = {what: _TEXT_OF[kind](value) if kind in _TEXT_OF else value or "" for what, (kind, value) in values.items()}
    cells |= {"id": job_id(job), "attempt_key": str(element.offset)} | _sizes(job, steps)
    cells["user"] = cells["user"] or part(job, "association.user") or ""
    found = [cells, *(_step(step, cells, place) for place, step in enumerate(steps))]
    if not all(isinstance(text, str) for own in found for text in own.values()):
        raise TypeError(BAD_VALUE)
    if isinstance(part(job, "exit_code.status"), str):
        remarks[_LOSES_CODES] += _without_lost_codes(found)
    return found


def _step(step: Json, job: Cells, place: int) -> Cells:
    is_slurms = str(part(step, "step.id")).endswith(_SLURMS_STEPS)
    return {
        **{name: job[name] for name in ("cluster", "attempt_key")},
        "id": f"{job['id']}.{place}",
        "max_rss": _said(_tres(part(step, "tres.requested.max")).get("mem")),
        "mean_rss": _said(_tres(part(step, "tres.requested.average")).get("mem")),
        "n_tasks": _said(number(part(step, "tasks.count"))),
        "energy": _said(number(part(step, "statistics.energy.consumed"))),
        "exit_code": "" if is_slurms else exit_code(step.get("exit_code")),
        "state": "" if is_slurms else state_word(step.get("state")),
    }


def _without_lost_codes(found: Sequence[Cells]) -> bool:
    """Whether a job or a step of it has lost its exit code; the code is then taken out."""
    job, steps = found[0], found[1:]
    told = {job["derived_exit_code"], *(step["exit_code"] for step in steps)}
    is_lost = job["state"] in _CODED and job["exit_code"] == "0:0"
    is_derived_lost = any(step["state"] == "FAILED" for step in steps) and told - {""} == {"0:0"}
    if is_lost:
        job["exit_code"] = ""
    if is_derived_lost:
        job["derived_exit_code"] = ""
        for step in steps:
            step["exit_code"] = ""
    return is_lost or is_derived_lost


def _sizes(job: Json, steps: Sequence[Json]) -> Cells:
    """Processors, nodes, energy, memory asked for and processor time."""
    allocated, requested = _tres(part(job, "tres.allocated")), _tres(part(job, "tres.requested"))
    asked = _whole(part(job, "required.CPUs")) or requested.get("cpu")
    totals = [part(step, "time.total") or {} for step in steps]
    seconds, micros = (sum(_whole(part(own, unit)) or 0 for own in totals) for unit in ("seconds", "microseconds"))
    # As sacct's AllocCPUS and NNodes say it: of a job that never started, what it asked for.
    sizes = {
        "procs": allocated.get("cpu", asked),
        "nodes": allocated.get("node", requested.get("node")),
        "requested_procs": asked,
        "requested_nodes": requested.get("node"),
        "energy": allocated.get("energy"),
    }
    # Cut to the millisecond, as in sacct's TotalCPU.
    cpu = f"{seconds + micros // 1_000_000}.{micros // 1000 % 1000:03d}"
    return {name: _said(size) for name, size in sizes.items()} | _memory(job, requested, asked) | {"total_cpu": cpu}


def _memory(job: Json, requested: Mapping[str, int], procs: int | None) -> Cells:
    """Memory asked for, and as typed: required.memory_per_cpu or _per_node, else told from the job's total.

    Slurm up to 22.05 writes the amount typed in required.memory, and no submit line: it is per processor where it makes
    the total times the processors, per node where times the nodes, and unknown where both hold or neither.
    """
    total, nodes = requested.get("mem"), requested.get("node")
    per_cpu, per_node, typed = (number(part(job, f"required.memory{of}")) for of in ("_per_cpu", "_per_node", ""))
    by_fields = f"{per_cpu}Mc" if per_cpu else f"{per_node}Mn" if per_node else ""
    fits = [mark for mark, n in (("c", procs), ("n", nodes)) if typed and n and typed * n == total]
    by_total = f"{total}M" if job.get("submit_line") else f"{typed}M{fits[0]}" if len(fits) == 1 else ""
    if total is not None:
        asked = f"{total}M"
    elif per_cpu is not None:
        asked = f"{per_cpu}Mc"
    else:
        asked = "" if per_node is None else f"{per_node * (nodes or 1)}M"
    return {"requested_mem": asked, "typed_mem": by_fields or (by_total if total is not None else "")}


def looks_right(head: bytes) -> bool:
    """Whether a source's first bytes are an object with a list of jobs, or Slurm's heading of one."""
    return first_line(head).lstrip().startswith(b"{") and (ARRAY.search(head) is not None or b'"meta"' in head)


def read(source: Source, site: SiteSettings, settings: IngestSettings) -> Iterator[Chunk]:
    """A document's chunks, one a block; InputError where the source holds no job of sacct, or is damaged."""
    context, start = records.Context(source, site, settings, is_text=False), head(source)
    before = takewhile(lambda line: not line.lstrip().startswith(b"{"), start.split(b"\n"))
    remarks = Remarks({"files": 1, "messages": sum(map(is_message, before))})
    if (array := ARRAY.search(start)) and not start[array.end() :].strip():
        remarks[_CUT] += 1
    for n_bytes, found in elements(byte_blocks(source, BLOCK_BYTES)):
        yield _chunk(found, n_bytes, context, remarks)
        remarks = Remarks()


def _chunk(found: Sequence[Element], n_bytes: int, context: records.Context, remarks: Remarks) -> Chunk:
    """Records typed as those of a text dump are, and the elements that could not be read."""
    # What the records tell, and the element of each.
    cells, owners, unreadable = list[Cells](), list[Element](), list[dict[str, Any]]()
    for element in found:
        is_job = isinstance(element.value, dict) and {"job_id", "state", "time"} <= element.value.keys()
        reason = element.reason or ("" if is_job else NOT_A_JOB)
        try:
            own = _flattened(element, remarks) if is_job else []
        except (ValueError, TypeError, AttributeError):
            own, reason = [], BAD_VALUE
        if reason:
            unreadable.append(unreadable_row(context.source, element.line, element.offset, reason, element.raw))
        cells += own
        owners += [element] * len(own)
        remarks[_CUT] += element.is_open
    # Bytes that are no UTF-8 are written as escapes.
    rows = {
        what: texts([decoded(encoded(text)) if (text := own.get(what)) else None for own in cells]) for what in COLUMNS
    }
    line, offset = np.array([own[:2] for own in owners], np.int64).reshape(-1, 2).T
    lines = {"comment": n} if (n := remarks["messages"]) else {}
    n_records = len(cells) + len(unreadable) + sum(lines.values())
    raw = RawTable(pa.table(rows), line, offset, n_records, n_bytes, unreadable, lines)
    return records.chunk_of(raw, lambda row: owners[row].raw, context, remarks)


def notes(remarks: Remarks, settings: IngestSettings) -> list[str]:
    """What a reader should know of the documents, beside what it should of any dump of sacct."""
    said = notes_on_records(remarks, settings)
    if cut := remarks[_CUT]:
        said.append(f"{cut} of {remarks['files']} documents end in the middle: export them again for what is missing")
    if lost := remarks[_LOSES_CODES]:
        said.append(f"{lost} jobs have no exit code: Slurm up to 22.05 writes 0 in its JSON; a text dump has them")
    return said


def layout(source: Source, _site: SiteSettings, _settings: IngestSettings) -> Layout:
    """The known fields of the document's first job, and Slurm's version where the document names it before that job."""
    start = head(source)
    found = (element.value for _, own in elements([start]) for element in own)
    first = next((value for value in found if isinstance(value, dict)), {})
    present = [path for path in _PATHS if _has(first, path)]
    said = [f"Slurm {found[1].decode()}" for found in _RELEASE.finditer(start)][:1]
    return Layout(tuple(present), tuple(path for path in _PATHS if path not in present), (), tuple(said))


def _has(job: Json, path: str) -> bool:
    try:
        return part(job, path) is not None
    except AttributeError:
        return False


SACCT_JSON = Reader(
    "sacct_json", EXPECTS, REASONS, ("submit_s",), looks_right, read, notes, parts=STEPS, fold=records.fold,
    layout=layout,
)  # fmt: skip
