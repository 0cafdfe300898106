"""Attempts of jobs in files that tell of ended jobs alone: LSF's lsb.acct (10.1) and Slurm's jobcomp/filetxt."""

from collections.abc import Sequence
from datetime import UTC, datetime

from tools.simulation.millrace import PROCS_PER_NODE, JobAttempt
from tools.simulation.sacct_text import CPU_SHARE, MEMORY_SHARE

_EXIT_STATUS = {"COMPLETED": 0, "FAILED": 256, "CANCELLED": 33_280}
"""As wait(2) gives it: exit code 1, and 130 of a job that its owner ended."""


def ended(attempts: Sequence[JobAttempt]) -> list[JobAttempt]:
    """The attempts that ended for good, in the order in which they did."""
    over = [one for one in attempts if one.end_s is not None and one.state != "REQUEUED"]
    return sorted(over, key=lambda one: (one.end_s, one.number))


def lsf_accounting(attempts: Sequence[JobAttempt]) -> str:
    """JOB_FINISH records, of which every second one has the hosts in the short form, and one of another event."""
    lines = [_finish(one, is_short=bool(place % 2)) for place, one in enumerate(ended(attempts))]
    return "".join(f"{line}\n" for line in [*lines, '"EVENT_ADRSV_FINISH" "10.1" 1704700000 1704600000 1 "root" "u#1"'])


def _finish(one: JobAttempt, *, is_short: bool) -> str:
    has_run, procs = one.start_s is not None, one.job.procs
    hosts = [f"n{place // PROCS_PER_NODE + 1}" for place in range(procs)] if has_run else []
    short = [f"{hosts.count(name)}*{name}" for name in dict.fromkeys(hosts)]
    cpu_s = CPU_SHARE * (one.runtime_s or 0) * procs
    fields: list[object] = [
        "JOB_FINISH", "10.1", one.end_s, one.number if one.array_first is None else one.array_first, 1000, 33_554_434,
        one.job.requested_procs, one.submit_s, 0, 0, one.start_s or 0, one.user, "batch", "", "", "", "login1", "/home",
        "", "out.txt", "", "1.2", 1, "n1", *_listed(short if is_short else hosts),
        64 if one.state == "COMPLETED" else 32, _Real(60.0), one.name, "./run.sh", _Real(cpu_s if has_run else -1),
        _Real(0.0 if has_run else -1), *([-1] * 17), "", one.group, _EXIT_STATUS[one.state], one.job.requested_procs,
        "", "", 0 if one.array_first is None else (one.array_index or 0) + 1,
        round(MEMORY_SHARE * one.job.requested_mem_kib) * procs, 0, "", "", "", "", 0, "",
        14 if one.state == "CANCELLED" else 0, "", -1, "", "", "", "", -1, "", "", 5136, "", one.start_s or 0, "", "",
        1, 1032, "0", *(_listed(["n1"]) if has_run else [0]), *((10, 0, 5, 1, 0) if has_run else ()),
        one.job.requested_s, 0, 2048, "select[type == any] ", "", -1, "", -1, 0, "", 0, 0, "", one.runtime_s or 0,
        "/home", 0, "", _Real(0.0), _Real(0.0), _Real(0.0), _Real(0.0), _Real(0.0), *_listed(hosts), -1, 0, 0, 0,
    ]  # fmt: skip
    return " ".join(_quoted(field) if isinstance(field, str) else str(field) for field in fields)


class _Real(float):
    def __str__(self) -> str:
        return f"{float(self):.6f}"


def _listed(names: Sequence[str]) -> list[object]:
    return [len(names), *names]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def jobcomp_file(attempts: Sequence[JobAttempt]) -> str:
    """A line for each job; Slurm does not escape what stands in a name. Times are UTC."""
    return "".join(f"{_completion(one)} \n" for one in ended(attempts))


def _completion(one: JobAttempt) -> str:
    has_run, procs = one.start_s is not None, one.job.requested_procs
    n_nodes = -(-procs // PROCS_PER_NODE)
    mem = f"{one.job.requested_mem_kib * procs}K"
    exit_code = {"COMPLETED": "0:0", "FAILED": "1:0", "CANCELLED": "0:15"}[one.state]
    pairs = {
        "JobId": one.number, "UserId": f"{one.user}(1001)", "GroupId": f"{one.group}(100)", "Name": one.name,
        "JobState": one.state, "Partition": "batch", "TimeLimit": one.job.requested_s // 60,
        "StartTime": _stamp(one.start_s), "EndTime": _stamp(one.end_s), "NodeList": "n1" if has_run else "(null)",
        "NodeCnt": n_nodes, "ProcCnt": one.job.procs if has_run else procs, "WorkDir": "/home/my runs",
        "ReservationName": "", "Tres": f"cpu={procs},mem={mem},node={n_nodes},billing={procs}", "Account": one.group,
        "QOS": "normal", "WcKey": "", "Cluster": "millrace", "SubmitTime": _stamp(one.submit_s),
        "EligibleTime": _stamp(one.submit_s),
    }  # fmt: skip
    if one.array_first is not None:
        pairs |= {"ArrayJobId": one.array_first, "ArrayTaskId": one.array_index}
    pairs |= {"DerivedExitCode": "0:0", "ExitCode": exit_code}
    return " ".join(f"{key}={value}" for key, value in pairs.items())


def _stamp(at_s: int | None) -> str:
    return "Unknown" if at_s is None else datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
