"""A second reader of each format, of a few lines, that judges what the real one makes of a damaged log.

It reads a record as simply as the format allows, and knows no dialect. Where a record is regular, each value of its job
must be the one that the record has in that place; elsewhere the record's text must at least say the value somewhere.
Columns that are derived from several fields are not judged.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import reduce
from itertools import pairwise
from operator import getitem
from typing import Any

Said = Mapping[str, Sequence[str]]
"""By column, the texts that a record has for it."""

INSTANTS, DURATIONS = ("submit_s", "start_s", "end_s"), ("runtime_s", "requested_s")
NUMBERS = ("procs", "requested_procs")
TEXTS = ("user", "account", "job_name", "job_id")
_PLACE = re.compile(r"\d+@")
"""What the id of a row begins with in a table without a column of ids."""

_RECORD_END = re.compile(r"\n(?![ \t]*[A-Za-z_.]+=)")
"""PBS wraps a record over lines, of which the later ones begin with a key."""

_TOKEN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:Z|[-+]\d\d:?\d\d)?|[^|;,\s=\"{}\[\]]+")
_SWF = {0: "job_id", 1: "submit_s", 3: "runtime_s", 4: "procs", 7: "requested_procs", 8: "requested_s", 11: "user"}
_PBS = {
    "user": "user", "jobname": "job_name", "ctime": "submit_s", "start": "start_s", "end": "end_s",
    "resources_used.walltime": "runtime_s", "Resource_List.walltime": "requested_s",
}  # fmt: skip
_SACCT = {
    "jobid": "job_id", "user": "user", "account": "account", "jobname": "job_name", "submit": "submit_s",
    "start": "start_s", "end": "end_s", "elapsed": "runtime_s", "elapsedraw": "runtime_s",
    "alloccpus": "procs", "ncpus": "procs", "timelimit": "requested_s", "timelimitraw": "requested_s",
}  # fmt: skip
_JSON = {
    "account": "account", "job_name": "name", "submit_s": "time.submission",
    "start_s": "time.start", "end_s": "time.end", "runtime_s": "time.elapsed",
}  # fmt: skip
_TABLE = {
    "job_id": "job_id", "user": "user", "account": "account", "submit_time": "submit_s", "timestamp": "submit_s",
    "start_time": "start_s", "end_time": "end_s", "run_time": "runtime_s", "duration": "runtime_s",
    "wallclock_req": "requested_s", "time_limit_s": "requested_s", "procs": "procs",
    "processors_req": "requested_procs", "name": "job_name",
}  # fmt: skip


def instants(text: str) -> Iterator[float]:
    """UTC seconds of a time, or of a number of seconds."""
    yield from numbers(text)
    with suppress(ValueError, OverflowError):
        at = datetime.fromisoformat(re.sub(r"(?<=-)(\d)(?=[- T]|$)|(?<=[ T])(\d)(?=:)", r"0\1\2", text))
        yield int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())


def durations(text: str) -> Iterator[float]:
    """Seconds of [days-][hours:]minutes:seconds, or of a number of seconds."""
    if found := re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(\.\d+)?", text):
        parts = [float(part) for part in found.groups()[1:4] if part is not None]
        total = 0.0
        for part in parts + [0.0] * (3 - len(parts)) * bool(found[1]):
            total = total * 60 + part
        yield total + float(found[5] or 0) + 86_400 * int(found[1] or 0)
    # A limit may be in minutes.
    yield from (one for number in numbers(text) for one in (number, 60 * number))


def numbers(text: str) -> Iterator[float]:
    """The number that a text is, and it rounded either way: a part of a processor is one."""
    if re.fullmatch(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", text):
        yield from (float(text), float(text) // 1, -(-float(text) // 1))
    elif found := re.fullmatch(r"(\d+(?:\.\d+)?)([KM])", text):
        yield float(found[1]) * 1024 ** " KM".index(found[2]) // 1


READ: Mapping[str, Callable[[str], Iterator[float]]] = (
    dict.fromkeys(INSTANTS, instants) | dict.fromkeys(DURATIONS, durations) | dict.fromkeys(NUMBERS, numbers)
)


def unsaid(job: Mapping[str, Any], said: Said, text: str, zeros: Sequence[float] = (0.0,)) -> list[str]:
    """The columns whose value neither the record's own field says nor, where it has no fields, its text.

    zeros: what instants may be counted from. A runtime may be the time from start to end, which are judged themselves.
    """
    found = []
    for name in (*READ, *TEXTS):
        value = job[name]
        if value is None or (said and name not in said) or _is_derived(name, job) or _PLACE.match(str(value)):
            continue
        value = value.replace("\\r", "\r") if isinstance(value, str) else value
        texts = said[name] if name in said else [*_TOKEN.findall(text), *_dates(text)]
        if name in TEXTS:
            is_said = value in said[name] if name in said else _holds(text, value)
            # A minus zero is zero.
            is_said = is_said or any(value == f"{one + 0.0:.0f}" for own in said.get(name, ()) for one in numbers(own))
        else:
            from_s = zeros if name in INSTANTS else (0.0,)
            is_said = any(abs(value - zero - one) < 1e-6 for own in texts for one in READ[name](own) for zero in from_s)
        if not is_said:
            found.append(f"{name} = {value!r}")
    return found


def _holds(text: str, value: str) -> bool:
    """Whether a text holds a value, as it is or as JSON or CSV writes it; an id may be made of several numbers."""
    forms = (value.replace("\r\n", "\n"), *(json.dumps(value, ensure_ascii=own)[1:-1] for own in (False, True)))
    bare = text.replace('"', "")
    return any(form in text or form.replace('"', "") in bare for form in forms) or (
        re.fullmatch(r"\d+[_+]\d+", value) is not None and all(one in text for one in re.split("[_+]", value))
    )


def _dates(text: str) -> list[str]:
    """The dates of PBS records, which stand for an instant that the record lacks."""
    return ["{2}-{0}-{1}T{3}".format(*found) for found in re.findall(r"(\d\d)/(\d\d)/(\d{4}) ([\d:]{8});", text)]


def _is_derived(name: str, job: Mapping[str, Any]) -> bool:
    """Whether a value is what the two others of start, end and runtime give."""
    start_s, end_s, runtime_s = (job[one] for one in ("start_s", "end_s", "runtime_s"))
    if name not in ("start_s", "end_s", "runtime_s") or None in (start_s, end_s, runtime_s):
        return False
    return bool(abs(end_s - start_s - runtime_s - (job["suspended_s"] or 0)) < 1)


def swf(text: str, _head: str) -> Said:
    """The fields of a line of numbers."""
    fields = text.split()
    said = {name: [fields[place]] for place, name in _SWF.items() if place < len(fields)}
    # Ids are floored.
    return {name: [*own, own[0].partition(".")[0]] for name, own in said.items()}


def pbs(text: str, _head: str) -> Said:
    """The values of the keys, of all records of a job; names with blanks are left to the text."""
    said: dict[str, list[str]] = {}
    for key, value in re.findall(r"(?:^|[\x00-\x20;])([A-Za-z_.]+)=([^\x00-\x20]*)", text):
        if key in _PBS and key != "jobname":
            said.setdefault(_PBS[key], []).extend((value, value.strip('"')))
    # An event that does not tell its instant happened when it was written.
    judged = [name for name in _PBS.values() if name != "job_name"]
    return {name: [*said.get(name, ()), *(_dates(text) if name in INSTANTS else ())] for name in judged}


def sacct(text: str, head: str) -> Said:
    """The cells of a line that has as many as the first line."""
    names, cells = head.rstrip("\r\n").lower().split("|"), text.rstrip("\r\n").split("|")
    return _by_name(names, cells, _SACCT) if len(names) == len(cells) else {}


def _by_name(names: Sequence[str], cells: Sequence[str], columns: Mapping[str, str]) -> Said:
    said: dict[str, list[str]] = {}
    for name, cell in zip(names, cells, strict=True):
        if name in columns:
            said.setdefault(columns[name], []).extend((cell, cell.strip(" \t\r")))
    return said


def sacct_json(text: str, _head: str) -> Said:
    """The values of an element that stands in one line; of a key that it lacks, none."""
    try:
        job = json.loads(text.strip().removesuffix(","))
    except (ValueError, RecursionError):
        return {}
    said: dict[str, list[str]] = {}
    for name, path in _JSON.items():
        with suppress(KeyError, TypeError):
            value = reduce(getitem, path.split("."), job)
            # Slurm writes some numbers as an object.
            said[name] = [str(value["number"] if isinstance(value, dict) and value.get("set") else value)]
    # An id of an array or a heterogeneous job is made of several numbers, and a user may stand in the association.
    return said


def table(text: str, head: str) -> Said:
    """The cells of a line of a CSV, in which nothing is quoted."""
    names, cells = head.rstrip("\r\n").split(","), text.rstrip("\r\n").split(",")
    return _by_name(names, cells, _TABLE) if len(names) == len(cells) and '"' not in head + text else {}


JUDGES: Mapping[str, Callable[[str, str], Said]] = {
    "swf": swf, "pbs": pbs, "sacct": sacct, "sacct_json": sacct_json, "table": table,
}  # fmt: skip


def unsaid_by(name: str, data: bytes, jobs: Sequence[Mapping[str, Any]], places: Sequence[int]) -> list[str]:
    """What no line of a log says of its jobs, a sentence each; places: the first line of each record."""
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    lines = text.split("\n")
    ends = dict(pairwise([*sorted(set(places)), len(lines) + 1]))
    zeros = [0.0, *(float(found) for found in re.findall(r"UnixStartTime\s*:\s*(-?\d{1,17})", text))]
    found = []
    if name == "table" and not lines[0].startswith(("job_id,user,", "timestamp,duration,num_gpus,gpu_time,cluster")):
        # Under a damaged header the columns hold what their names say, and their units are guessed.
        return []
    for job in jobs:
        line = job["source_line"]
        own = "\n".join(lines[line - 1 : ends.get(line, line + 1) - 1])
        wrong = unsaid(job, JUDGES[name](own, lines[0]), own, zeros)
        if wrong:
            # What a record does not tell comes from another one of the job.
            records = _RECORD_END.split(text) if name == "pbs" else lines
            others = [one for one in records if re.split("[_+]", job["job_id"])[0] in one]
            # An element of JSON may end in the line in which the next one begins.
            others += lines[line - 1 : ends.get(line, line + 1)] if name == "sacct_json" else []
            found_in = [JUDGES[name](one, lines[0]) for one in (own, *others)]
            columns = {column for one in found_in for column in one}
            said = {column: [text for one in found_in for text in one.get(column, ())] for column in columns}
            still = unsaid(job, said, "\n".join(others), zeros)
            wrong = [what for what in wrong if what in still]
        found += [f"line {line}: {what}" for what in wrong]
    return found
