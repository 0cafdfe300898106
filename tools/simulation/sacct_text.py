"""Attempts of jobs as `sacct -a -P -D` of Slurm 20.11 prints them, with steps, arrays and requeued jobs, in UTC."""

from collections.abc import Sequence
from datetime import UTC, datetime

from tools.simulation.millrace import PROCS_PER_NODE, JobAttempt

COLUMNS = (
    "JobIDRaw", "JobID", "User", "Group", "Account", "Partition", "QOS", "Submit", "Eligible", "Start",
    "End", "ElapsedRaw", "TimelimitRaw", "ReqCPUS", "AllocCPUS", "NNodes", "ReqMem", "MaxRSS", "TotalCPU", "State",
    "ExitCode", "DBIndex", "JobName",
)  # fmt: skip
EXIT_CODES = {"FAILED": "1:0", "CANCELLED": "0:15"}
CPU_SHARE = 0.96
MEMORY_SHARE = 0.6


def sacct_dump(attempts: Sequence[JobAttempt], now_s: int) -> str:
    """The dump as of `now_s`, with a header; sacct writes names as they are, so that a | in a name stands there too."""
    lines = ["|".join(COLUMNS)]
    for place, one in enumerate(attempts):
        rows = [_job(one, place, now_s), *_steps(one, place, now_s)]
        lines += ["|".join(row.get(name, "") for name in COLUMNS) for row in rows]
    return "\n".join(lines) + "\n"


def _job(one: JobAttempt, place: int, now_s: int) -> dict[str, str]:
    job, has_started = one.job, one.start_s is not None
    queued_s = one.submit_s if one.queued_s is None else one.queued_s
    by_user = one.state == "CANCELLED"
    return _common(one, place, now_s) | {
        "JobIDRaw": str(one.number),
        "JobID": _shown_id(one),
        "JobName": one.name,
        "User": one.user,
        "Group": one.group,
        "Account": one.group,
        "Partition": "batch",
        "QOS": "normal",
        "Submit": _time(queued_s),
        "Eligible": _time(queued_s),
        "TimelimitRaw": str(job.requested_s // 60),
        "ReqCPUS": str(job.requested_procs),
        "AllocCPUS": str(job.procs if has_started else 0),
        "NNodes": str(-(-job.procs // PROCS_PER_NODE)),
        "ReqMem": f"{job.requested_mem_kib // 1024}Mc",
        "State": f"CANCELLED by {1000 + job.user}" if by_user else one.state,
        "ExitCode": EXIT_CODES.get(one.state, "0:0"),
    }


def _common(one: JobAttempt, place: int, now_s: int) -> dict[str, str]:
    """What a job's line and its steps' lines share."""
    elapsed_s = 0 if one.start_s is None else (one.end_s or now_s) - one.start_s
    return {
        "Start": "Unknown" if one.start_s is None else _time(one.start_s),
        "End": "Unknown" if one.end_s is None else _time(one.end_s),
        "ElapsedRaw": str(elapsed_s),
        "TotalCPU": _duration(round(CPU_SHARE * elapsed_s * one.job.procs)),
        "DBIndex": str(5_001 + place),
    }


def _steps(one: JobAttempt, place: int, now_s: int) -> list[dict[str, str]]:
    """The batch and extern steps, and for a parallel job the step of its srun."""
    if one.start_s is None:
        return []
    procs_by_step = {"batch": min(one.job.procs, PROCS_PER_NODE), "extern": one.job.procs}
    if one.job.procs > 1:
        procs_by_step["0"] = one.job.procs
    state = {"RUNNING": "RUNNING", "COMPLETED": "COMPLETED", "FAILED": "FAILED"}.get(one.state, "CANCELLED")
    rss_kib = round(MEMORY_SHARE * one.job.requested_mem_kib)
    return [
        _common(one, place, now_s)
        | {
            "JobIDRaw": f"{one.number}.{step}",
            "JobID": f"{_shown_id(one)}.{step}",
            "JobName": one.name.split(".")[0].split("-")[0] if step == "0" and one.name.isascii() else step,
            "Account": one.group,
            "Submit": _time(one.start_s),
            "Eligible": _time(one.start_s),
            "AllocCPUS": str(procs),
            "NNodes": str(-(-procs // PROCS_PER_NODE)),
            "MaxRSS": "" if one.end_s is None or step == "extern" else f"{rss_kib}K",
            "State": "COMPLETED" if step == "extern" and one.end_s is not None else state,
            "ExitCode": EXIT_CODES.get(state, "0:0"),
        }
        for step, procs in procs_by_step.items()
    ]


def _shown_id(one: JobAttempt) -> str:
    return str(one.number) if one.array_first is None else f"{one.array_first}_{one.array_index}"


def _time(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _duration(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3_600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock
