"""PBS records as typed columns: which key fills which column, which of two ways to say a thing counts, and what a
record's date, type and status mean."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Ints, arrow
from pipeline.ingest import values
from pipeline.ingest.formats.pbs.damage import Said, damage_of, rare_damage
from pipeline.ingest.formats.pbs.scan import (
    DATE_BYTES,
    KINDS,
    LOOSE,
    REASONS,
    REPEATED,
    Scanned,
    chunks,
    hosts,
    texts_of,
    value_spans,
)  # fmt: skip
from pipeline.ingest.reader import Remarks, categories, constant, real, whole
from pipeline.ingest.values import JOB, NODE, PROCESSOR, Typed, first_known, positive, requested_memory
from pipeline.tables import JOBS

_FIRST_S, _LAST_S = 662_688_000, 1 << 33
"""PBS was first written in 1991: an instant before it has lost digits."""


def _instant_s(words: pa.Array) -> Typed:
    """Epoch seconds; 0 is PBS's word for not yet."""
    found = values.integers(words)
    is_outside = (found.values < _FIRST_S) | (found.values >= _LAST_S)
    invalid = found.invalid | (~found.missing & is_outside & (found.values != 0))
    return Typed(found.values, found.missing | invalid | (found.values <= 0), invalid)


def _duration_s(words: pa.Array) -> Typed:
    found = values.durations(words)
    is_negative = ~found.missing & (found.values < 0)
    return Typed(found.values, found.missing | is_negative, found.invalid | is_negative)


def _size_kib(words: pa.Array) -> Typed:
    """KiB; only Slurm says what memory is per in its size."""
    found = values.memory(words)
    return Typed(found.values, found.missing | (found.per != JOB), found.invalid | (found.per != JOB))


def _category(words: pa.Array) -> pa.DictionaryArray:
    return categories(words, str)


@dataclass(frozen=True, slots=True)
class Key:
    """read: makes typed values of its texts; column: of JOBS that takes them as they are, where no other key counts."""

    read: Callable[[pa.Array], Any] | None = None
    column: str | None = None


KEYS: Mapping[str, Key] = {
    "user": Key(_category, "user"),
    "group": Key(_category, "user_group"),
    "queue": Key(_category, "queue"),
    "jobname": Key(lambda words: words, "job_name"),
    "ctime": Key(_instant_s, "submit_s"),
    "etime": Key(_instant_s, "eligible_s"),
    "start": Key(_instant_s, "start_s"),
    "end": Key(_instant_s, "end_s"),
    "Exit_status": Key(values.integers, "exit_code"),
    "Resource_List.walltime": Key(_duration_s, "requested_s"),
    "Resource_List.soft_walltime": Key(_duration_s, "limit_set_s"),
    "resources_used.walltime": Key(_duration_s, "runtime_s"),
    "exec_host": Key(hosts),
    "exec_vnode": Key(partial(chunks, is_vnode=True)),
    "exec_gpus": Key(hosts),
    "resource_assigned.ncpus": Key(values.integers),
    "Resource_List.ncpus": Key(values.integers),
    "Resource_List.nodect": Key(values.integers),
    "Resource_List.procs": Key(values.integers),
    "Resource_List.ngpus": Key(values.integers),
    "Resource_List.nodes": Key(chunks),
    "Resource_List.select": Key(chunks),
    "Resource_List.mem": Key(_size_kib),
    "Resource_List.pmem": Key(_size_kib),
    "Resource_List.vmem": Key(_size_kib),
    "Resource_List.pvmem": Key(_size_kib),
    "resources_used.mem": Key(_size_kib),
    "resources_used.cput": Key(_duration_s),
    **dict.fromkeys(("account", "project", "run_count"), Key()),
    # not read, but met often, or after a text that may hold blanks
    **dict.fromkeys(
        (
            "qtime", "owner", "session", "array_indices", "depend", "eligible_time", "Resource_List.place",
            "Resource_List.neednodes", "Resource_List.mpiprocs", "resource_assigned.mem", "resources_used.cpupercent",
            "resources_used.ncpus", "resources_used.vmem",
        ),
        Key(),
    ),
}  # fmt: skip

_DECIDED = (
    "job_id", "array_id", "account", "procs", "nodes", "gpus", "requested_procs", "requested_nodes",
    "requested_mem_kib", "requested_memory", "used_mem_kib", "cpu_s", "source_file", "source_line",
)  # fmt: skip
"""Columns of JOBS that several keys have a say in, or none."""

PARTS = pa.schema(
    [
        pa.field("kind", pa.int8()),
        pa.field("record_s", pa.int64()),
        pa.field("state_code", pa.int8()),
        *(JOBS.schema().field(name) for name in (*(key.column for key in KEYS.values() if key.column), *_DECIDED)),
    ]
)
"""One record a row. kind: its type, an index into scan.KINDS; record_s: when it was written, by its own date;
state_code: an index into STATES."""

DEFAULT_PROJECT = "_pbs_project_default"
_NEEDED = ("ctime", "start", "end", "Exit_status")
"""A record in which one of these is no number is unreadable; any other odd value is unknown."""

_UNCOUNTED = (*_NEEDED, "exec_vnode", "exec_gpus")
_PBS_ONLY = ("exec_vnode", "project", "run_count", "Resource_List.select")
_SUBJOB = r"^(\d+)\[\d+\]"


def typed(
    scanned: Scanned, signs: Ints, label: str, first_line: int, timezone: str, *, takes_last: bool
) -> tuple[pa.Table, Ints, Remarks]:
    """A block's records as PARTS, those that cannot be read as in `Scanned.bad`, and remarks: values left unknown, and
    records whose date is not their instant. ConfigError for a zone that is not known.

    signs: the signs of damage in the file up to here, as `rare_damage` counts them. takes_last: whether a last record
    whose line has no end is read.
    """
    # 1. What the records say, by key: an Arrow array of texts, or Typed numbers.
    found, broken = value_spans(scanned, list(KEYS))
    spans = dict(zip(KEYS, found, strict=True))
    has = {name: high > low for name, (low, high) in spans.items()}
    said = {name: key.read(texts_of(scanned.data, *spans[name])) for name, key in KEYS.items() if key.read}
    # 2. Which of them are whole.
    written = values.instants(_iso_dates(scanned), timezone)
    reason = damage_of(scanned, said, spans, _NEEDED, takes_last=takes_last)
    reason[written.invalid] = REASONS.index("bad_date") + 1
    for code, name in ((REPEATED, "repeated_key"), (LOOSE, "word_without_key")):
        reason[(broken == code) & (reason == 0)] = REASONS.index(name) + 1
    reason[rare_damage(scanned, said, spans, reason == 0, signs)] = REASONS.index("cut_short") + 1
    is_bad = reason > 0
    # 3. Their columns, and what is said of them.
    dates_s, remarks = record_dates(written, scanned.kind, said, ~is_bad)
    odd = (value.invalid for name, value in said.items() if isinstance(value, Typed) and name not in _UNCOUNTED)
    remarks["odd_values"] += sum(map(int, map(np.count_nonzero, odd)))
    is_torque = ~np.logical_or.reduce([has[name] for name in _PBS_ONLY])
    job_id = scanned.job_id
    # Where there is no account the project is charged, unless it is PBS's default.
    charged = texts_of(scanned.data, *np.where(has["account"], spans["account"], spans["project"]))
    plain = {key.column: said[name] for name, key in KEYS.items() if key.column}
    columns = {
        "kind": arrow(scanned.kind.astype(np.int8)),
        "record_s": arrow(dates_s),
        "state_code": arrow(state_codes(scanned.kind, said, is_torque)),
        "source_file": constant(label, len(scanned.line)),
        "source_line": arrow(scanned.line + first_line),
        "job_id": job_id,
        "array_id": _array_ids(job_id),
        "account": categories(charged, lambda name: None if name == DEFAULT_PROJECT else name),
        **{name: value.arrow() if isinstance(value, Typed) else value for name, value in plain.items()},
        **_sizes(said, has["exec_host"] | has["exec_vnode"]),
    }
    parts = pa.table([columns[name] for name in PARTS.names], schema=PARTS)
    bad = np.column_stack([scanned.line, scanned.start, scanned.end, reason])[is_bad]
    return parts.filter(arrow(~is_bad)) if is_bad.any() else parts, bad, remarks


def _sizes(said: Said, is_placed: Bools) -> dict[str, pa.Array]:
    """Counts and memory; what is per job in the log is shared out over its processors."""
    number = {key: value.floats() for key, value in said.items() if isinstance(value, Typed)}
    on_hosts, on_vnodes, select, by_nodes = (
        said[key] for key in ("exec_host", "exec_vnode", "Resource_List.select", "Resource_List.nodes")
    )
    procs = first_known(number["exec_vnode"], number["exec_host"], number["resource_assigned.ncpus"])
    requested = first_known(*(number[f"Resource_List.{name}"] for name in ("select", "nodes", "procs", "ncpus")))
    asked = first_known(number["Resource_List.ngpus"], select.gpus, by_nodes.gpus)
    counts = {
        "procs": procs,
        "nodes": first_known(on_hosts.nodes, on_vnodes.nodes),
        "gpus": first_known(on_vnodes.gpus, positive(number["exec_gpus"]), np.where(is_placed, asked, np.nan)),
        "requested_procs": requested,
        "requested_nodes": first_known(number["Resource_List.nodect"], select.nodes, by_nodes.nodes),
    }
    given, shares = positive(first_known(procs, requested)), positive(requested)
    # Memory is of the job, or of a process. OpenPBS adds up that of a selection's chunks; divided by their number it
    # is what was typed for each.
    asked_kib = np.stack([number[f"Resource_List.{name}"] for name in ("mem", "pmem", "vmem", "pvmem")])
    first = np.argmax(~np.isnan(asked_kib), axis=0)
    first_kib, is_selected = np.take_along_axis(asked_kib, first[None], 0)[0], select.nodes > 0
    per = np.where(first % 2 == 1, PROCESSOR, np.where(is_selected, NODE, JOB)).astype(np.int8)
    mem, pmem, vmem, pvmem = asked_kib
    amounts = {
        "requested_mem_kib": first_known(mem / shares, pmem, vmem / shares, pvmem),
        "used_mem_kib": number["resources_used.mem"] / given,
        "cpu_s": number["resources_used.cput"] / given,
    }
    return {
        **{name: whole(value) for name, value in counts.items()},
        **{name: real(value) for name, value in amounts.items()},
        "requested_memory": requested_memory(np.where(per == NODE, first_kib / select.nodes, first_kib), per),
    }


def _iso_dates(scanned: Scanned) -> pa.Array:
    """The date that each record begins with, MM/DD/YYYY HH:MM:SS, as YYYY-MM-DDTHH:MM:SS."""
    places = np.array([6, 7, 8, 9, 2, 0, 1, 5, 3, 4, *range(10, DATE_BYTES)])
    made = scanned.head[:, places]
    made[:, [4, 7]], made[:, 10] = ord("-"), ord("T")
    offsets = arrow(np.arange(len(made) + 1, dtype=np.int32) * DATE_BYTES)
    return pa.StringArray.from_buffers(len(made), offsets.buffers()[1], pa.py_buffer(made.tobytes()))


def _array_ids(job_id: pa.StringArray) -> pa.Array:
    """The id of the array of `170[3].server`, which is `170[].server`; null for a job that is in none."""
    if not pc.any(pc.match_substring(job_id, "[")).as_py():
        return pa.nulls(len(job_id), PARTS.field("array_id").type)
    array = pc.replace_substring_regex(job_id, _SUBJOB, r"\1[]")
    is_in_one = pc.match_substring_regex(job_id, _SUBJOB)
    return pc.if_else(is_in_one, array, pa.scalar(None, pa.string())).dictionary_encode()


# ---------------- a record as a whole: when it was written, what its type and status mean

_S, _R, _E = (KINDS.index(letter) for letter in "SRE")
OFF_S = 900.0
"""A record is written when its event happens, give or take the time that a job's epilogue takes."""


def record_dates(written: values.Instants, kind: Ints, said: Said, good: Bools) -> tuple[Ints, Remarks]:
    """UTC seconds of each record's date; how many doubtful ones stand for an instant that the record lacks, how many
    records have an instant, and how many of those another date.

    A date that came twice is the reading within OFF_S of the record's own instant. The rerun of a job without
    an end is the reading that is the walltime used after its start.
    """
    ends = np.isin(kind, [_E, _R])
    start, end, created, used = (said[key] for key in ("start", "end", "ctime", "resources_used.walltime"))
    event_s = np.select([ends, kind == _S], [end.values, start.values], created.values)
    lacks = np.select([ends, kind == _S], [end.missing, start.missing], created.missing)
    by_walltime = lacks & ends & ~start.missing
    base_s, has_none = np.where(by_walltime, start.values, event_s), lacks & ~by_walltime
    # An instant of the record is no local time, and never came twice.
    base = replace(written, values=base_s, missing=has_none, repeat_s=np.zeros_like(event_s))
    used_s = np.where(used.missing, np.nan, used.values)
    _, dates_s, is_settled = values.settled(base, written, np.where(by_walltime, used_s, 0.0), OFF_S)
    is_doubtful = good & lacks & (written.repeat_s > 0)
    is_dated = good & ~(end.missing & start.missing) & np.isin(kind, [_S, _E])
    is_off = np.abs(dates_s - np.where(end.missing, start.values, end.values)) >= OFF_S
    masks = {
        "settled_times": is_doubtful & is_settled,
        "ambiguous_times": is_doubtful & ~is_settled,
        "dated": is_dated,
        "dated_off": is_dated & is_off,
    }
    return dates_s, Remarks({name: int(np.count_nonzero(mask)) for name, mask in masks.items()})


STATES = (
    "CANCELLED", "COMPLETED", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PENDING", "REQUEUED", "RUNNING", "SUSPENDED",
    "TIMEOUT",
)  # fmt: skip
CODE = {name: np.int8(place) for place, name in enumerate(STATES)}
UNKNOWN = np.int8(-1)
_OF_KIND = {
    "Q": "PENDING", "S": "RUNNING", "R": "REQUEUED", "D": "CANCELLED", "A": "CANCELLED", "z": "SUSPENDED",
}  # fmt: skip
_BOTH_STATES = {-4: "NODE_FAIL", -5: "NODE_FAIL", -6: "NODE_FAIL"}
_PBS_STATES = {-29: "TIMEOUT", -26: "OUT_OF_MEMORY", -27: "OUT_OF_MEMORY", -20: "NODE_FAIL"}
_TORQUE_STATES = {-11: "TIMEOUT", -10: "OUT_OF_MEMORY"}
"""By exit status, of both systems, of PBS and of TORQUE; 0 is COMPLETED, any other one FAILED. -29: at its walltime."""
_OVERLIMIT = -10


def state_codes(kind: Ints, said: Said, is_torque: Bools) -> npt.NDArray[np.int8]:
    """Index into STATES of each record's state, -1 where an E record has no exit status.

    TORQUE's status for a broken limit is that of time where more walltime was used than asked for.
    """
    status, used, asked = (said[key] for key in ("Exit_status", "resources_used.walltime", "Resource_List.walltime"))
    state = np.array([CODE[_OF_KIND[letter]] if letter in _OF_KIND else UNKNOWN for letter in KINDS])[kind]
    ended = (kind == _E) & ~status.missing
    state[ended] = np.where(status.values[ended] == 0, CODE["COMPLETED"], CODE["FAILED"])
    for known, where in ((_BOTH_STATES, ended), (_PBS_STATES, ended & ~is_torque), (_TORQUE_STATES, ended & is_torque)):
        for number, name in known.items():
            state[where & (status.values == number)] = CODE[name]
    is_over = ~used.missing & ~asked.missing & (used.values > asked.values)
    state[ended & is_torque & (status.values == _OVERLIMIT) & is_over] = CODE["TIMEOUT"]
    return state
