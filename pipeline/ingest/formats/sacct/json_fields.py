"""One job of `sacct --json` as the values JOBS holds, in every form Slurm has written since 21.08.

Source: the plugins openapi/dbv0.0.37 and 38 (Slurm 21.08 and 22.05) and data_parser/v0.0.39 to 46 (23.02 to 26), whose
tables of fields, PARSER_ARRAY(JOB) and (STEP), name each path. From v0.0.39 on a number that may be unset is an object
{"set", "infinite", "number"}, a state a list of words, a status too.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.ingest.reader import JOB, NODE, PROCESSOR, memory_text

NO_VAL = 0xFFFFFFFE
"""From here up to 2^32, and from 2^64 - 2 on, a number is Slurm's mark for unset or infinite (slurm.h: NO_VAL)."""

_NO_VAL64 = 0xFFFFFFFFFFFFFFFE
_MIB_KIB = 1024.0
_LATE_STATES = ("COMPLETING",)
"""State flags that say how an end is carried out, not what it is."""

_SLURMS_STEPS = ("batch", "extern", "interactive")
"""Steps that Slurm makes of the script, and around it."""

Json = Mapping[str, Any]


class BadValueError(ValueError):
    """A field that holds another kind of value than any form of `sacct --json` gives it."""


def number(value: object) -> float | int | None:
    """A plain or wrapped number; None where unset, infinite or a mark for either. BadValueError for anything else."""
    if isinstance(value, dict):
        if value.get("infinite") or value.get("set") is False:
            return None
        value = value.get("number")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise BadValueError(f"{value!r} is no number")
    is_mark = NO_VAL <= value <= NO_VAL + 1 or value >= _NO_VAL64 or value < 0
    return None if is_mark else value


def whole(value: object) -> int | None:
    """A number as an integer."""
    found = number(value)
    if found is not None and not abs(found) < 2**62:
        raise BadValueError(f"{found!r} is out of bounds")
    return None if found is None else int(found)


def instant_s(value: object) -> int | None:
    """UTC epoch seconds; None where 0, Slurm's word for not yet."""
    return whole(value) or None


def id_text(value: object) -> str | None:
    """An id as text; None where 0, which stands for none."""
    number = whole(value)
    return str(number) if number else None


def text(value: object) -> str | None:
    """A text; None where it is empty, and bytes that were no UTF-8 as escapes. BadValueError for what is no text."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise BadValueError(f"{value!r} is no text")
    if value.isascii():
        return value
    try:
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return value.encode("utf-8", "backslashreplace").decode("utf-8")


def part(job: Json, *path: str) -> Any:
    """What stands at a path of keys; None where a key is missing. BadValueError where an object was expected."""
    found: Any = job
    for key in path:
        if found is None:
            return None
        if not isinstance(found, dict):
            raise BadValueError(f"{key} in no object")
        found = found.get(key)
    return found


def objects(value: object) -> Sequence[Json]:
    """A list of objects; none where it is missing."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BadValueError("no list of objects")
    return value


def state_word(value: object) -> str | None:
    """The state as sacct's text names it: the flag, where one stands beside the base state (REQUEUED, say)."""
    words = [value] if isinstance(value, str) else value
    if words is None or words == []:
        return None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise BadValueError("a state that is no word")
    telling = [word for word in words if word not in _LATE_STATES]
    return text((telling or words)[-1])


def job_id(job: Json) -> str:
    """The id as JobID has it: 12, 12_3 (an array's task), 12_[4-9%2] (tasks not split off yet), 12+1 (a het part)."""
    plain = whole(job.get("job_id"))
    if not plain:
        raise BadValueError("no job id")
    array, task = whole(part(job, "array", "job_id")), whole(part(job, "array", "task_id"))
    het, offset = whole(part(job, "het", "job_id")), whole(part(job, "het", "job_offset"))
    if array and task is not None:
        return f"{array}_{task}"
    if array and (tasks := text(part(job, "array", "task"))):
        return f"{array}_[{tasks}]"
    if het and offset is not None:
        return f"{het}+{offset}"
    return str(plain)


def exit_code(value: object) -> int | None:
    """An exit code object as one number, 128 + signal where a signal ended the process; None where it has not ended."""
    code, signal = whole(part(_object(value), "return_code")), _signal(part(_object(value), "signal"))
    return 128 + signal if signal else code


def _object(value: object) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadValueError("an exit code that is no object")
    return value


def _signal(value: object) -> int:
    found = part({"signal": value}, "signal", "id")
    if found is None:
        found = part({"signal": value}, "signal", "signal_id")
    return whole(found) or 0


def tres(value: object) -> dict[str, int]:
    """Counts by type, or by type/name: cpu, mem (MiB in a job, bytes in a step's use), node, gres/gpu."""
    found: dict[str, int] = {}
    for item in objects(value):
        kind, name, count = text(item.get("type")), text(item.get("name")), whole(item.get("count"))
        if kind and count is not None:
            found[f"{kind}/{name}" if name else kind] = count
    return found


def gpus(allocated: Mapping[str, int], requested: Mapping[str, int]) -> int | None:
    """GPUs allocated, or asked for where nothing was: gres/gpu, else the sum of its kinds; None: nothing is told."""
    counts = allocated or requested
    kinds = [count for name, count in counts.items() if name.startswith("gres/gpu:")]
    return counts.get("gres/gpu", sum(kinds)) if counts else None


def requested_mem_kib(job: Json, requested: Mapping[str, int], procs: int | None) -> float | None:
    """Memory asked for, KiB per processor, from the job's TRES, else from required.memory_per_cpu or _per_node."""
    if not procs:
        return None
    if "mem" in requested:
        return requested["mem"] * _MIB_KIB / procs
    if (per_cpu := number(part(job, "required", "memory_per_cpu"))) is not None:
        return per_cpu * _MIB_KIB
    per_node = number(part(job, "required", "memory_per_node"))
    return None if per_node is None else per_node * _MIB_KIB * requested.get("node", 1) / procs


def requested_memory(job: Json, requested: Mapping[str, int], procs: int | None) -> str | None:
    """Memory as typed: required.memory_per_cpu or _per_node, else told from the job's total; None where nothing tells.

    Slurm up to 22.05 writes the amount typed in required.memory, and no submit line: it is per processor where it makes
    the total times the processors, per node where times the nodes, and unknown where both hold or neither.
    """
    for key, per in (("memory_per_cpu", PROCESSOR), ("memory_per_node", NODE)):
        if mib := number(part(job, "required", key)):
            return memory_text(mib * _MIB_KIB, per)
    total, nodes, line = requested.get("mem"), requested.get("node"), text(job.get("submit_line"))
    if total is None:
        return None
    if line is not None:
        return _by_submit_line(total, nodes, procs, line)
    mib = number(part(job, "required", "memory"))
    fits = [per for per, n in ((PROCESSOR, procs), (NODE, nodes)) if mib and n and mib * n == total]
    return memory_text(mib * _MIB_KIB, fits[0]) if mib and len(fits) == 1 else None


def _by_submit_line(total_mib: int, nodes: int | None, procs: int | None, line: str) -> str:
    """A job's total, as sacct's text dump is read."""
    if procs and "--mem-per-cpu" in line:
        return memory_text(total_mib * _MIB_KIB / procs, PROCESSOR)
    return memory_text(total_mib * _MIB_KIB / (nodes or 1), NODE if nodes else JOB)


def max_rss_kib(steps: Sequence[Json]) -> float | None:
    """Largest resident memory of any task of any step, KiB."""
    sizes = [tres(part(step, "tres", "requested", "max")).get("mem") for step in steps]
    known = [size / 1024 for size in sizes if size is not None]
    return max(known) if known else None


def energy_j(allocated: Mapping[str, int], steps: Sequence[Json]) -> float | None:
    """Joules as a text dump is read: the largest of the job's own and its steps'; None where none was measured."""
    said = [number(part(step, "statistics", "energy", "consumed")) for step in steps]
    measured = [value for value in (allocated.get("energy"), *said) if value]
    return float(max(measured)) if measured else None


def cpu_s(steps: Sequence[Json]) -> float:
    """Seconds of CPU time, user and system, of all steps, cut to the millisecond as in sacct's TotalCPU."""
    totals = [part(step, "time", "total") for step in steps]
    micros = sum((whole(part(t, "seconds")) or 0) * 1_000_000 + (whole(part(t, "microseconds")) or 0) for t in totals)
    return micros // 1000 / 1000


def own_steps(steps: Sequence[Json]) -> list[Json]:
    """The steps that count for the derived exit code: those a user has started in the job."""
    return [step for step in steps if not str(part(step, "step", "id")).endswith(_SLURMS_STEPS)]
