"""OpenPBS's pending jobs by `qstat -f -F json`, and their soft_walltime changed by `qalter`.

The scheduler plans with soft_walltime; no job is killed for it, and walltime, which the user asked for, stays what it
is. Source: PBS Professional 2024.1 Reference Guide, qstat(1B), qalter(1B) and "Job Attributes".
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from flows.services.quantities import kibibytes
from flows.services.schedulers.pending_jobs import Change, PendingJob, Scheduler
from flows.services.schedulers.qstat_lines import jobs_of
from pipeline.core.apply_settings import ApplySettings
from pipeline.core.errors import InputError
from pipeline.core.text import printable
from pipeline.ingest.formats.sacct.live import run

_DO = "check that it works in a terminal (apply.qstat_command names it)"
_STATES = ("Q", "H", "W")
_ID = re.compile(r"\d+(\[\d*\])?(\.[A-Za-z0-9][A-Za-z0-9._-]*)?")


def pending_jobs(settings: ApplySettings, environment: Mapping[str, str]) -> list[PendingJob]:
    """The jobs of all users that wait or are held, arrays without a started task included.

    InputError where qstat fails or writes no JSON.
    """
    command = (settings.qstat_command, "-f", "-F", "json")
    said = run(command, {**environment, "LC_ALL": "C.UTF-8"}, settings.timeout_s, _DO).decode("utf-8", "replace")
    try:
        jobs = jobs_of(said)
        times = Counter(name for name, _ in jobs)
        return [_job(name, job, times[name]) for name, job in jobs if job.get("job_state") in _STATES]
    except (ValueError, TypeError, AttributeError):
        found = f"no list of jobs from -F json ('{printable(said[:60])}')"
        raise InputError(printable(settings.qstat_command), found, "JSON with Jobs", _DO) from None


def _job(name: str, job: Mapping[str, Any], times: int) -> PendingJob:
    asked: Mapping[str, Any] = job.get("Resource_List") or {}
    walltime_s, soft_s = _time_s(asked.get("walltime")), _time_s(asked.get("soft_walltime"))
    procs = int(asked["ncpus"]) if str(asked.get("ncpus", "")).isdecimal() else None
    memory_kib = _memory_kib(asked.get("mem"))
    values = {
        "user": _text(job.get("euser")) or (_text(job.get("Job_Owner")) or "").partition("@")[0] or None,
        "user_group": _text(job.get("egroup")), "account": _text(job.get("Account_Name")),
        "queue": _text(job.get("queue")), "job_name": _text(job.get("Job_Name")), "procs": procs or None,
        "requested_s": walltime_s, "requested_mem_kib": memory_kib / procs if memory_kib and procs else None,
    }  # fmt: skip
    fault = ("" if times == 1 else "it is described twice") if _ID.fullmatch(name) else "its id is none"
    return PendingJob(name, values, None, walltime_s, walltime_s if soft_s is None else soft_s, fault=fault)


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


def alter_command(change: Change, settings: ApplySettings) -> Sequence[str]:
    """qalter with a soft_walltime in whole seconds."""
    minutes, second = divmod(round(change.to_s), 60)
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{second:02}"
    return (settings.qalter_command, "-l", f"soft_walltime={clock}", change.job.job_id)


OPENPBS = Scheduler(
    name="pbs",
    what="soft_walltime",
    step_s=1.0,
    share_and_margin=lambda export: (export.soft_quantile, export.soft_margin_s),
    pending=pending_jobs,
    command=alter_command,
)
