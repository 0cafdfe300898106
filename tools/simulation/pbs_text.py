"""Attempts of jobs as an accounting file of OpenPBS: Q, S, R, E and D records, arrays as a whole too; times are UTC."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from tools.simulation.millrace import PROCS_PER_NODE, JobAttempt
from tools.simulation.sacct_text import CPU_SHARE, MEMORY_SHARE

SERVER = "millrace"
EXIT_STATUS = {"COMPLETED": 0, "FAILED": 1, "CANCELLED": 271, "REQUEUED": -11}

_Record = tuple[int, int, str]
"""When it was written, its place among those of one second, and its text."""


def pbs_accounting(attempts: Sequence[JobAttempt]) -> str:
    """The records in the order in which the server wrote them; PBS does not escape what stands in a name."""
    records = [record for one in attempts for record in _records(one)]
    for first in sorted({one.array_first for one in attempts if one.array_first is not None}):
        tasks = [one for one in attempts if one.array_first == first]
        facts = _asked(tasks[0]) | {"array_indices": f"0-{len(tasks) - 1}"}
        records.append((tasks[0].submit_s, -1, f"Q;{first}[].{SERVER};{_text(facts)}"))
    return "".join(f"{_stamp(at_s)};{text}\n" for at_s, _, text in sorted(records))


def pbs_id(one: JobAttempt) -> str:
    """The job's id, as qstat takes it."""
    return f"{one.number if one.array_first is None else f'{one.array_first}[{one.array_index}]'}.{SERVER}"


def _records(one: JobAttempt) -> Iterator[_Record]:
    asked, job_id = _asked(one), pbs_id(one)
    if one.restart == 0 and one.array_first is None:
        yield one.submit_s, 0, f"Q;{job_id};{_text(asked)}"
    if one.state == "CANCELLED":
        assert one.end_s is not None
        yield one.end_s, 2, f"D;{job_id};requestor={one.user}@{SERVER}"
    if one.start_s is None:
        return
    placed = asked | {"start": one.start_s, "exec_host": _hosts(one)}
    yield one.start_s, 1, f"S;{job_id};{_text(placed)}"
    if one.end_s is not None:
        kind = "R" if one.state == "REQUEUED" else "E"
        yield one.end_s, 3, f"{kind};{job_id};{_text(placed | _used(one))}"


def _asked(one: JobAttempt) -> dict[str, object]:
    """What a record says about a job from its submission on."""
    procs, queued_s = one.job.requested_procs, one.submit_s if one.queued_s is None else one.queued_s
    return {
        "user": one.user,
        "group": one.group,
        "account": f'"{one.group}"',
        "jobname": one.name,
        "queue": "batch",
        "ctime": one.submit_s,
        "qtime": queued_s,
        "etime": queued_s,
        "Resource_List.mem": f"{one.job.requested_mem_kib * procs}kb",
        "Resource_List.ncpus": procs,
        "Resource_List.nodect": -(-procs // PROCS_PER_NODE),
        "Resource_List.walltime": _clock(one.job.requested_s),
    }


def _used(one: JobAttempt) -> dict[str, object]:
    """What a record says about a job that has ended."""
    runtime_s, procs = one.runtime_s or 0, one.job.procs
    return {
        "session": 20_000 + one.number,
        "end": one.end_s,
        "Exit_status": EXIT_STATUS[one.state],
        "resources_used.cput": _clock(round(CPU_SHARE * runtime_s * procs)),
        "resources_used.mem": f"{round(MEMORY_SHARE * one.job.requested_mem_kib) * procs}kb",
        "resources_used.ncpus": procs,
        "resources_used.walltime": _clock(runtime_s),
        "run_count": one.restart + 1,
    }


def _hosts(one: JobAttempt) -> str:
    full, rest = divmod(one.job.procs, PROCS_PER_NODE)
    parts = [PROCS_PER_NODE] * full + ([rest] if rest else [])
    return "+".join(f"n{k}/0*{procs}" for k, procs in enumerate(parts, start=1))


def _text(facts: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in facts.items())


def _clock(seconds: int) -> str:
    return f"{seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _stamp(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%m/%d/%Y %H:%M:%S")
