"""Slurm's pending jobs by `squeue --json`, and their time limits changed by `scontrol update`.

The limit that the user asked for stands in the AdminComment of our own changes (and of the plug-in's), so that a second
change starts from it and not from the limit that the first one has set. Source: man squeue, man scontrol, and the JSON
of Slurm 22.05 to 24.11, which writes numbers as such or as objects with `set`, `infinite` and `number`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from flows.services.pending_jobs import PROGRAM_TIMEOUT_S, Change, PendingJob, Scheduler
from pipeline.errors import InputError, printable
from pipeline.ingest.live import limit_comment, run

_DO = "check that it works in a terminal"
_OURS = re.compile(r"walltime mode=[a-z_]+ [^;]*\blimit_min=(\w+) asked_min=(\w+)[^;]*")
_TASKS = re.compile(r"[0-9][0-9,:-]*")
_KIB_PER_MIB = 1024.0


def pending_jobs(environment: Mapping[str, str]) -> list[PendingJob]:
    """The pending jobs of all users; InputError where squeue fails or writes no JSON."""
    # Filters of the caller's environment must not hide jobs, and no id may be shortened.
    known = {name: value for name, value in environment.items() if not name.startswith("SQUEUE_")}
    known |= {"SLURM_BITSTR_LEN": "0", "LC_ALL": "C.UTF-8"}
    said = run(("squeue", "--all", "--states=PENDING", "--json"), known, PROGRAM_TIMEOUT_S, _DO)
    try:
        jobs = json.loads(said.decode("utf-8", "replace"), strict=False)["jobs"]
        return [_job(job) for job in jobs if "PENDING" in _listed(job.get("job_state"))]
    except (ValueError, KeyError, TypeError, AttributeError):
        found = f"no list of jobs from --json ('{printable(said[:60].decode('utf-8', 'replace'))}')"
        raise InputError("squeue", found, "JSON with a list of jobs", _DO) from None


def _job(job: Mapping[str, Any]) -> PendingJob:
    job_id, fault = _id(job)
    limit_min, comment = _number(job.get("time_limit")), _text(job.get("admin_comment")) or ""
    asked_min = _asked_min(limit_min, comment)
    procs = _number(job.get("cpus"))
    values = {
        "user": _text(job.get("user_name")), "user_group": _text(job.get("group_name")),
        "account": _text(job.get("account")), "queue": _text(job.get("partition")), "qos": _text(job.get("qos")),
        "job_name": _text(job.get("name")), "procs": None if procs is None else int(procs) or None,
        "requested_s": None if asked_min is None else 60.0 * asked_min, "requested_mem_kib": _memory_kib(job, procs),
    }  # fmt: skip
    asked_s, planned_s = (None if minutes is None else 60.0 * minutes for minutes in (asked_min, limit_min))
    return PendingJob(job_id, values, _number(job.get("submit_time")), asked_s, planned_s, comment, fault)


def _id(job: Mapping[str, Any]) -> tuple[str, str]:
    """The id that scontrol takes, of pending tasks alone where the job is an array; and why there is none."""
    number = int(_number(job.get("job_id")) or 0)
    tasks = (_text(job.get("array_task_string")) or "").partition("%")[0]
    het = int(_number(job.get("het_job_id")) or 0)
    if tasks:
        name = f"{int(_number(job.get('array_job_id')) or number)}_[{tasks}]"
        return name, "" if _TASKS.fullmatch(tasks) else "its list of tasks is cut"
    if het:
        return f"{het}+{int(_number(job.get('het_job_offset')) or 0)}", ""
    return str(number), "" if number else "it has no number"


def _asked_min(limit_min: float | None, comment: str) -> float | None:
    """The limit asked for: that of our comment, unless somebody has changed the limit since."""
    found = _OURS.search(comment)
    if found and limit_min is not None and found[2].isdecimal():
        asked_min = float(found[2])
        ours = {asked_min, float(found[1]) if found[1].isdecimal() else asked_min}
        return asked_min if limit_min in ours else limit_min
    return limit_min


def _memory_kib(job: Mapping[str, Any], procs: float | None) -> float | None:
    per_cpu, per_node = _number(job.get("memory_per_cpu")), _number(job.get("memory_per_node"))
    if per_cpu:
        return per_cpu * _KIB_PER_MIB
    nodes = _number(job.get("node_count"))
    return per_node * _KIB_PER_MIB * (nodes or 1.0) / procs if per_node and procs else None


def _number(value: Any) -> float | None:
    """A number of the JSON; None where it is not set or infinite."""
    if isinstance(value, Mapping):
        is_known = value.get("set", True) and not value.get("infinite", False)
        return _number(value.get("number")) if is_known else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _listed(value: Any) -> Sequence[str]:
    return [value] if isinstance(value, str) else value or []


def update_command(change: Change) -> Sequence[str]:
    """scontrol with a limit in minutes, and the comment that keeps what the user asked for."""
    limit_min, asked_min = round(change.to_s / 60), round((change.job.asked_s or 0) / 60)
    ours = limit_comment("limit", f"apply run={change.run_id}", limit_min, asked_min)
    before = change.job.comment
    comment = (before[: m.start()] + ours + before[m.end() :]) if (m := _OURS.search(before)) else _added(before, ours)
    job = f"JobId={change.job.job_id}"
    return ("scontrol", "update", job, f"TimeLimit={limit_min}", f"AdminComment={comment}")


def _added(before: str, ours: str) -> str:
    return f"{before}; {ours}" if before else ours


SLURM = Scheduler(
    name="slurm",
    what="TimeLimit",
    step_s=60.0,
    share_and_margin=lambda export: (export.promise, export.margin_s),
    pending=pending_jobs,
    command=update_command,
)
