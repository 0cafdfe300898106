"""OpenPBS's pending jobs by `qstat -f -F json`, and their soft_walltime changed by `qalter`.

The scheduler plans with soft_walltime; no job is killed for it, and walltime, which the user asked for, stays what it
is. Source: PBS Professional 2024.1 Reference Guide, qstat(1B), qalter(1B) and "Job Attributes".

A user's variables can make qstat's JSON invalid or misleading. OpenPBS 23.06 (pbs_json.c) neither escapes a key nor
every backslash, and writes a value that strtod accepts without quotes. So `qsub -v 'A":""}},"9.pbs":{"job_state":"Q'`
adds a job to the JSON, and a backslash in a variable makes all of it invalid. But each key stands on a line of its own,
with an indentation that says where it belongs, and no value has a newline. A variable's name might have one and add
lines, so that a job described twice is to be left alone. Other releases, with another layout, escape properly: their
output is read as JSON.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flows.services.pending_jobs import PROGRAM_TIMEOUT_S, Change, PendingJob, Scheduler
from flows.services.quantities import kibibytes
from pipeline.errors import InputError, printable
from pipeline.export.openpbs import SOFT_RULES
from pipeline.ingest.live import run

_STEP = 4
_JOBS = '    "Jobs":{'
_LINE = re.compile(r'( *)"(.*?)":(.*?),?')
_AS_TEXT: dict[str, Any] = {"parse_int": str, "parse_float": str, "parse_constant": str}

Job = dict[str, Any]
_DO = "check that it works in a terminal"
_STATES = ("Q", "H", "W")
_NO_PROJECT = "_pbs_project_default"
_ID = re.compile(r"\d+(\[\d*\])?(\.[A-Za-z0-9][A-Za-z0-9._-]*)?")


def jobs_of(said: str) -> list[tuple[str, Job]]:
    """Job ids with attributes, numbers as texts, of nested ones Resource_List alone; ValueError for other output."""
    lines = said.split("\n")
    if _JOBS in lines:
        return list(_read(lines[lines.index(_JOBS) + 1 :]))
    whole = json.loads(said, **_AS_TEXT)
    if not isinstance(whole, dict) or "pbs_version" not in whole:
        raise ValueError("no output of qstat")
    jobs = whole.get("Jobs", {})
    if not isinstance(jobs, dict) or not all(isinstance(job, dict) for job in jobs.values()):
        raise ValueError("no jobs")
    return list(jobs.items())


def _read(lines: list[str]) -> Iterator[tuple[str, Job]]:
    job: Job = {}
    inner = ""
    for line in lines:
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        depth, key, value = len(found[1]) // _STEP, found[2], found[3]
        if depth == 1:
            return
        if depth == 2:
            job = {}
            yield key, job
        elif depth == 3:
            inner = key if value == "{" else ""
            job[key] = {} if inner else _unquoted(value)
        elif depth == 4 and inner == "Resource_List":
            job[inner][key] = _unquoted(value)


def _unquoted(value: str) -> str:
    """The value without its quotes and escapes; as it stands where these are wrong."""
    if len(value) < 2 or value[0] != '"' or value[-1] != '"':
        return value
    try:
        return str(json.loads(value, strict=False))
    except ValueError:
        return value[1:-1]


def pending_jobs(environment: Mapping[str, str]) -> list[PendingJob]:
    """The jobs of all users that wait or are held, arrays without a started task included.

    InputError where qstat fails or writes no JSON.
    """
    command = ("qstat", "-f", "-F", "json")
    said = run(command, {**environment, "LC_ALL": "C.UTF-8"}, PROGRAM_TIMEOUT_S, _DO).decode("utf-8", "replace")
    try:
        jobs = jobs_of(said)
        times = Counter(name for name, _ in jobs)
        return [_job(name, job, times[name]) for name, job in jobs if job.get("job_state") in _STATES]
    except (ValueError, TypeError, AttributeError):
        found = f"no list of jobs from -F json ('{printable(said[:60])}')"
        raise InputError("qstat", found, "JSON with Jobs", _DO) from None


def _job(name: str, job: Mapping[str, Any], times: int) -> PendingJob:
    asked: Mapping[str, Any] = job.get("Resource_List") or {}
    walltime_s, soft_s = _time_s(asked.get("walltime")), _time_s(asked.get("soft_walltime"))
    procs = int(asked["ncpus"]) if str(asked.get("ncpus", "")).isdecimal() else None
    memory_kib = _memory_kib(asked.get("mem"))
    values = {
        "user": _text(job.get("euser")) or (_text(job.get("Job_Owner")) or "").partition("@")[0] or None,
        "user_group": _text(job.get("egroup")), "account": _account(job),
        "queue": _text(job.get("queue")), "job_name": _text(job.get("Job_Name")), "procs": procs or None,
        "requested_s": walltime_s, "requested_mem_kib": memory_kib / procs if memory_kib and procs else None,
    }  # fmt: skip
    return PendingJob(
        name, values, None, walltime_s, walltime_s if soft_s is None else soft_s, fault=_fault(name, asked, times)
    )


def _account(job: Mapping[str, Any]) -> str | None:
    """The account charged, else the project, as in JOBS."""
    project = _text(job.get("project"))
    return _text(job.get("Account_Name")) or (None if project == _NO_PROJECT else project)


def _fault(name: str, asked: Mapping[str, Any], times: int) -> str:
    if not _ID.fullmatch(name):
        return "its id is none"
    if times > 1:
        return "it is described twice"
    # OpenPBS refuses a soft_walltime for such a job.
    return "a range of walltimes" if "min_walltime" in asked or "max_walltime" in asked else ""


def _time_s(value: Any) -> float | None:
    """Seconds of HH:MM:SS, MM:SS or a number."""
    parts = str(value).split(":")
    if not all(part.isdecimal() and part.isascii() for part in parts) or len(parts) > 3:
        return None
    found = 0.0
    for part in parts:
        found = 60.0 * found + int(part)
    return found


def _memory_kib(value: Any) -> float | None:
    try:
        return kibibytes(str(value), "mem")
    except InputError:
        return None


def _text(value: Any) -> str | None:
    """A text; numbers too, because a name may be one."""
    return None if value is None or isinstance(value, Mapping | list | bool) else str(value) or None


def alter_command(change: Change) -> Sequence[str]:
    """qalter with a soft_walltime in whole seconds."""
    minutes, second = divmod(round(change.to_s), 60)
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{second:02}"
    return ("qalter", "-l", f"soft_walltime={clock}", change.job.job_id)


OPENPBS = Scheduler(
    name="pbs",
    what="soft_walltime",
    step_s=1.0,
    share_and_margin=lambda _: (SOFT_RULES.quantile, SOFT_RULES.margin_s),
    pending=pending_jobs,
    command=alter_command,
)
