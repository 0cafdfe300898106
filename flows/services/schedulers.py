"""The waiting and running jobs of Slurm and OpenPBS, and the program that changes limits in Slurm.

Slurm: `squeue --json`, and time limits by one `scontrol` that reads an `update` a line. The limit that the user asked
for stands in the AdminComment of the plug-in and of the guard. Source: man squeue, man scontrol, and the JSON of Slurm
22.05 to 24.11, which writes numbers as such or as objects with `set`, `infinite` and `number`.

OpenPBS: `qstat -f -F json`. Its server extends soft_walltime by itself, so nothing is changed here. Source: PBS
Professional 2024.1 Reference Guide, qstat(1B) and "Job Attributes".

A user's variables can make qstat's JSON invalid or misleading. OpenPBS 23.06 (pbs_json.c) neither escapes a key nor
every backslash, and writes a value that strtod accepts without quotes. So `qsub -v 'A":""}},"9.pbs":{"job_state":"Q'`
adds a job to the JSON, and a backslash in a variable makes all of it invalid. But each key stands on a line of its own,
with an indentation that says where it belongs, and no value has a newline. A variable's name might have one and add
lines, and describe a job that waits a second time. Other releases, with another layout, escape properly: their output
is read as JSON.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from flows.services.quantities import kibibytes
from pipeline.errors import InputError, printable
from pipeline.ingest.live import run
from pipeline.ingest.slurm_texts import asked_s_of, gpu_type, gpus_of, has_opted_out, set_s_of
from pipeline.limits.plan import Change, PendingJob, Reservation

PROGRAM_TIMEOUT_S = 60.0
"""Longest wait for the next output of a scheduler's program: they answer within seconds, or hang."""

Environment = Mapping[str, str]
_DO = "check that it works in a terminal"
_KIB_PER_MIB = 1024.0


class Node(NamedTuple):
    """A node of a machine, in one of its partitions."""

    name: str
    partition: str
    procs: int
    is_up: bool
    """Whether jobs may start on it."""
    partition_limits: str = ""
    """The time limits of jobs in its partition, and its GPUs, where the scheduler says so beside its nodes."""
    tier: int = 0
    """Jobs in partitions of a higher tier come before all others, whatever their priorities."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """How the jobs and nodes of a scheduler are read."""

    ask: Sequence[str]
    """The program and its arguments that list jobs as JSON."""
    jobs_of: Callable[[str], list[PendingJob]]
    """The jobs in its output that wait or run; ValueError, KeyError, TypeError or AttributeError for other output."""
    ask_nodes: Sequence[str]
    """The same of nodes."""
    nodes_of: Callable[[str], list[Node]]

    def queued(self, environment: Environment) -> list[PendingJob]:
        """The jobs of all users that wait or run; InputError where the program fails or writes no list of jobs."""
        return self.jobs_in(_said(self.ask, environment), self.ask[0])

    def jobs_in(self, said: str, where: str) -> list[PendingJob]:
        """The jobs in an output; InputError, which names where it is from, for other output."""
        try:
            return self.jobs_of(said)
        except (ValueError, KeyError, TypeError, AttributeError):
            found = f"no list of jobs ('{printable(said[:60])}')"
            raise InputError(where, found, "JSON with a list of jobs", _DO) from None

    def nodes(self, environment: Environment) -> list[Node]:
        """The nodes; none where the scheduler's program fails or says something else: then a queue is simulated on the
        processors that past jobs held at most."""
        try:
            return self.nodes_of(_said(self.ask_nodes, environment))
        except (InputError, ValueError, KeyError, TypeError, AttributeError):
            return []


def _said(command: Sequence[str], environment: Environment) -> str:
    """What a scheduler's program prints; InputError where it fails.

    Filters of the caller's environment must not hide jobs, no id may be shortened, and times are in UTC.
    """
    known = {name: value for name, value in environment.items() if not name.startswith(("SQUEUE_", "SINFO_"))}
    pinned = {"SLURM_BITSTR_LEN": "0", "LC_ALL": "C.UTF-8", "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
    try:
        return run(command, known | pinned, PROGRAM_TIMEOUT_S, "").decode("utf-8", "replace")
    except InputError as error:
        do = f"see whether `{' '.join(command[:4])}` works in a terminal"
        raise InputError(command[0], f"no answer from the scheduler ({error.found})", "one", do) from None


_PLAIN = re.compile(r"[ !#-&(-\[\]-~]{0,2000}")
"""A comment that scontrol reads as it stands: printable, without quotes and backslashes."""
IDS_A_CALL = 200
_TASKS = re.compile(r"[0-9][0-9,:-]*")


def _slurm_jobs(said: str) -> list[PendingJob]:
    jobs = json.loads(said, strict=False)["jobs"]
    return [_slurm_job(job) for job in jobs if {"PENDING", "RUNNING", "SUSPENDED"} & set(_listed(job.get("job_state")))]


def _slurm_job(said: Mapping[str, Any]) -> PendingJob:
    job = {name: _plain(value) for name, value in said.items()}
    raw_id = job["job_id"] if isinstance(job.get("job_id"), int) else 0
    job_id, fault = _slurm_id(job, raw_id)
    limit_min, comment, procs = job.get("time_limit"), job.get("admin_comment") or "", job.get("cpus")
    planned_s = None if limit_min is None else 60.0 * limit_min
    asked_s, set_s = asked_s_of(comment), set_s_of(comment)
    # The limit asked for is that of our comment where the present limit is one that we set or raised.
    if asked_s is None or set_s is None or planned_s is None or not set_s <= planned_s <= asked_s:
        asked_s = planned_s
    resources = job.get("tres_req_str") or ""
    values = {
        "user": job.get("user_name"), "user_group": job.get("group_name"), "account": job.get("account"),
        "queue": job.get("partition"), "qos": job.get("qos"), "job_name": job.get("name"), "procs": procs or None,
        "requested_s": asked_s, "requested_mem_kib": _slurm_memory_kib(job, procs),
        "gpus": gpus_of(resources) or 0, "gpu_type": gpu_type(resources) or None,
    }  # fmt: skip
    waits, reason = "PENDING" in _listed(job.get("job_state")), job.get("state_reason") or ""
    return PendingJob(
        job_id, values, job.get("submit_time"), asked_s, planned_s, comment,
        n_tasks=_n_tasks(job_id.partition("[")[2].rstrip("]")),
        fault=fault or _slurm_fault(job, comment),
        start_s=None if waits else job.get("start_time") or math.nan,
        held=next((why for start, why in _SLURM_HELD.items() if waits and reason.startswith(start)), ""),
        priority=job.get("priority") or math.nan, nodes=_node_names(job.get("nodes") or ""),
        end_s=math.nan if waits else job.get("end_time") or math.nan,
        raw_id=raw_id,
    )  # fmt: skip


def _plain(value: Any) -> Any:
    """A value of Slurm's JSON; None for an empty text, and for a number that is not set or infinite."""
    if isinstance(value, Mapping):
        is_known = value.get("set", True) and not value.get("infinite", False)
        return value.get("number") if is_known else None
    return None if value == "" else value


_SLURM_HELD = {
    "JobHeld": "it is on hold", "Dependency": "it waits for another job", "BeginTime": "it is to start later",
    "Reservation": "it waits for a reservation", "QOS": "a limit of its QOS holds it",
    "Assoc": "a limit of its account holds it", "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition is down", "PartitionNodeLimit": "it asks for more than its partition allows",
    "PartitionTimeLimit": "it asks for more than its partition allows", "BadConstraints": "no node can run it",
}  # fmt: skip
"""By how the reason of a pending job begins, why its start is not expected (man squeue, "JOB REASON CODES")."""


def _node_names(listed: str) -> tuple[str, ...]:
    """The names in a list as "n[01-03,7],m2"."""
    found = list[str]()
    for name, inner in re.findall(r"([^,\[\]]+)(?:\[([^\]]*)\])?", listed):
        for part in inner.split(",") if inner else [""]:
            first, _, last = part.partition("-")
            numbers = range(int(first), int(last or first) + 1) if first.isdecimal() else []
            found += [f"{name}{number:0{len(first)}}" for number in numbers] or [name]
    return tuple(found)


def _slurm_nodes(said: str) -> list[Node]:
    """Of lines NAME|PARTITION|STATE|PROCESSORS|DEFAULT|MOST|GRES|TIER; a mark behind the state says that a node does
    not answer, or the like. A node whose power is saved starts jobs, too.
    """
    up, found = {"idle", "mixed", "allocated", "completing", "planned", "blocked", "powering_up", "powered_down"}, []
    for name, partition, state, procs, default, most, gres, tier in (line.split("|") for line in said.splitlines()):
        limits = f"default limit {default}, at most {most}{'' if gres == '(null)' else f', {gres}'}"
        found.append(Node(name, partition, int(procs), state.rstrip("~#%@^!-+") in up, limits, int(tier)))
    return found


def _slurm_fault(job: Mapping[str, Any], comment: str) -> str:
    """Why a job is to keep its request; empty where it may be planned shorter."""
    reasons = {
        "its user wants no limit of ours": has_opted_out(job.get("comment") or ""),
        # Slurm itself may shorten a job with --time-min, whose user has chosen how far.
        "it has a --time-min": job.get("time_minimum"),
        "it has a --deadline": job.get("deadline"),
        "it has a --signal": asks_signal(job.get("submit_line") or ""),
        "it is interactive": not job.get("batch_flag", True),
        "it belongs to a reservation": job.get("resv_name"),
        "it is a part of a heterogeneous job": job.get("het_job_id"),
        "it was requeued": job.get("restart_cnt"),
        "it was preempted": job.get("preempt_time"),
        "its AdminComment has quotes or other unusual characters": not _PLAIN.fullmatch(comment),
    }
    return next((reason for reason, is_so in reasons.items() if is_so), "")


def asks_signal(submit_line: str) -> bool:
    """Whether a submit line asks for a signal before the limit; sbatch takes `--sig` for `--signal`."""
    return re.search(r"(^|\s)--sig", submit_line) is not None


def _slurm_id(job: Mapping[str, Any], number: int) -> tuple[str, str]:
    """The id that scontrol takes, of pending tasks alone where the job is an array; and why there is none."""
    array, task = int(job.get("array_job_id") or 0), job.get("array_task_id")
    tasks = (job.get("array_task_string") or "").partition("%")[0]
    if array and isinstance(task, int) and not tasks:
        # A task that runs: the number of one of them is that of the whole array.
        return f"{array}_{task}", ""
    if tasks:
        return f"{array or number}_[{tasks}]", "" if _TASKS.fullmatch(tasks) else "its list of tasks is cut"
    return str(number), "" if number else "it has no number"


def _n_tasks(listed: str) -> int:
    """The number of tasks in a list as "1,3-9:2"; 1 without a list."""
    total = 0
    for first, last, step in re.findall(r"(\d+)(?:-(\d+))?(?::(\d+))?", listed):
        total += (int(last or first) - int(first)) // max(int(step or 1), 1) + 1
    return max(total, 1)


def _slurm_memory_kib(job: Mapping[str, Any], procs: float | None) -> float | None:
    if per_cpu := job.get("memory_per_cpu"):
        return float(per_cpu * _KIB_PER_MIB)
    per_node = job.get("memory_per_node")
    return per_node * _KIB_PER_MIB * (job.get("node_count") or 1.0) / procs if per_node and procs else None


def _listed(value: Any) -> Sequence[str]:
    return [value] if isinstance(value, str) else value or []


def change_limits(changes: Sequence[Change], environment: Environment) -> str:
    """Change limits; what scontrol complained of, which may be of one job alone.

    Limits alone are changed by one scontrol that reads an update a line: milliseconds a job. It keeps quotes of its
    lines as a part of a comment, so comments are given as arguments, one scontrol for all jobs with the same change.
    """
    said, alike = "", dict[tuple[int, str], list[str]]()
    plain = [one for one in changes if one.comment is None]
    lines = "".join(f"update JobId={one.job.job_id} TimeLimit={_minutes(one)}\n" for one in plain)
    for one in changes:
        if one.comment is not None:
            alike.setdefault((_minutes(one), one.comment), []).append(one.job.job_id)
    calls: list[tuple[Sequence[str], str]] = [(("scontrol",), lines)] if plain else []
    for (minutes, comment), ids in alike.items():
        for first in range(0, len(ids), IDS_A_CALL):
            listed = f"JobId={','.join(ids[first : first + IDS_A_CALL])}"
            calls.append((("scontrol", "update", listed, f"TimeLimit={minutes}", f"AdminComment={comment}"), ""))
    for command, given in calls:
        try:
            run(command, environment, PROGRAM_TIMEOUT_S, _DO, given)
        except InputError as error:
            said = said or printable(f"{error.where}: {error.found}", 400)
    return said


def _minutes(change: Change) -> int:
    return round(change.to_s / 60)


def limits_s(environment: Environment) -> dict[str, float]:
    """The limits (s) of the jobs that wait or run, by their ids; infinite where there is none.

    A tenth of the time that squeue takes to say all of a job. InputError where it fails.
    """
    found = dict[str, float]()
    said = _said(("squeue", "--all", "--noheader", "--format=%A %i %l"), environment)
    # A part of a heterogeneous job is changed by its number, tasks of an array by their list.
    for number, job_id, limit in re.findall(r"(?m)^(\d+) (\S+) +(\S+) *$", said):
        limit_s = _time_s(limit)
        found[number] = found[re.sub(r"%\d+", "", job_id)] = math.inf if limit_s is None else limit_s
    return found


class Controller(NamedTuple):
    """What slurmctld says of itself."""

    clock_s: float
    """Its time, s since 1970; NaN where it does not say so. By this clock jobs end."""
    over_time_limit_s: float
    """For how long jobs may run on past their limits, s."""
    conf: str
    """The path of slurm.conf; empty where it is not said."""
    cluster: str
    """The name of the cluster; empty likewise."""


def controller(environment: Environment) -> Controller:
    """What `scontrol show config` says; InputError where it fails, as while slurmctld is away."""
    said = _said(("scontrol", "show", "config"), environment)
    values = dict(re.findall(r"(?m)^(\w+) *= *(\S+)", said))
    clock = re.search(r"(?m)^Configuration data as of ([0-9T:-]{19})$", said)
    over = values.get("OverTimeLimit", "")
    over_s = 60.0 * float(over) if over.isdecimal() else math.inf if over == "UNLIMITED" else 0.0
    clock_s = _utc_s(clock[1]) if clock else math.nan
    return Controller(clock_s, over_s, values.get("SLURM_CONF", ""), values.get("ClusterName", ""))


def reservations(environment: Environment) -> list[Reservation]:
    """The reservations of Slurm, present and to come; InputError where scontrol fails."""
    said = _said(("scontrol", "show", "reservation", "--oneliner"), environment)
    rows = re.findall(r"(?m)^ReservationName=.*? StartTime=(\S+) EndTime=(\S+) .*?\bNodes=(\S+)", said)
    return [Reservation(_utc_s(start), _utc_s(end), frozenset(_node_names(nodes))) for start, end, nodes in rows]


def _utc_s(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def signalling(raw_ids: Sequence[int], environment: Environment) -> dict[int, bool]:
    """Of the jobs that sacct knows whether their submit lines ask for a signal; squeue has no such line before 23.11.

    A submit line may hold anything, also what looks like a row: then the job that it names keeps its request.
    """
    command = ("sacct", "--allusers", "--allocations", "--noheader", "--parsable2", "--format=JobIDRaw,SubmitLine")
    said = _said((*command, f"--jobs={','.join(map(str, raw_ids))}"), environment)
    rows = [line.partition("|") for line in said.splitlines()]
    found = dict[int, bool]()
    for one, _, line in rows:
        if one.isdecimal() and one.isascii():
            found[int(one)] = found.get(int(one), False) or asks_signal(line)
    return found


_FIELD = re.compile(r'(?m)^( {8}| {12}| {16})"(.*?)":(.*?),?$')
"""A key of qstat's JSON: the id of a job, an attribute of it, or what stands inside an attribute."""
_STATES = ("Q", "H", "W", "R", "S")


def _pbs_jobs(said: str) -> list[PendingJob]:
    """The jobs that wait, are held or run, arrays without a started task included; ValueError for other output.

    Attributes are found by the indentation of each line, numbers as texts.
    """
    of_jobs = said.partition('\n    "Jobs":{\n')[2].partition('\n    "')[0]
    jobs, job, inner = dict[str, dict[str, Any]](), dict[str, Any](), dict[str, Any]()
    for indent, key, value in _FIELD.findall(of_jobs):
        if len(indent) == 8:
            job = jobs[key] = {}
        elif value == "{":
            inner = job[key] = {}
        else:
            (job if len(indent) == 12 else inner)[key] = _unquoted(value)
    if not of_jobs:
        whole = json.loads(said, parse_int=str, parse_float=str, parse_constant=str)
        if not isinstance(whole, dict) or "pbs_version" not in whole:
            raise ValueError("no output of qstat")
        jobs = whole.get("Jobs", {})
    return [_pbs_job(name, one) for name, one in jobs.items() if one.get("job_state") in _STATES]


def _unquoted(value: str) -> str:
    """The value without its quotes and escapes; as it stands where these are wrong."""
    if len(value) < 2 or value[0] != '"' or value[-1] != '"':
        return value
    try:
        return str(json.loads(value, strict=False))
    except ValueError:
        return value[1:-1]


def _pbs_job(name: str, said: Mapping[str, Any]) -> PendingJob:
    job: Mapping[str, Any] = {key: value or None for key, value in said.items()}
    asked: Mapping[str, Any] = job.get("Resource_List") or {}
    walltime_s, soft_s = _time_s(asked.get("walltime")), _time_s(asked.get("soft_walltime"))
    procs, gpus = (int(asked[one]) if str(asked.get(one, "")).isdecimal() else 0 for one in ("ncpus", "ngpus"))
    memory_kib, project = 0.0, job.get("project")
    with suppress(InputError):
        memory_kib = kibibytes(str(asked.get("mem")), "mem")
    values = {
        "user": job.get("euser") or (job.get("Job_Owner") or "").partition("@")[0] or None,
        "user_group": job.get("egroup"),
        # The account charged, else the project, as in JOBS.
        "account": job.get("Account_Name") or (None if project == "_pbs_project_default" else project),
        "queue": job.get("queue"), "job_name": job.get("Job_Name"), "procs": procs or None, "gpus": gpus,
        "requested_s": walltime_s, "requested_mem_kib": memory_kib / procs or None if procs else None,
    }  # fmt: skip
    state = str(job.get("job_state"))
    # The job that others wait for has `before:` and their ids.
    others = [one for one in (job.get("depend") or "").split(",") if one and not one.startswith("before")]
    return PendingJob(
        name, values, _instant_s(job.get("qtime")), walltime_s, walltime_s if soft_s is None else soft_s,
        n_tasks=_n_tasks(job.get("array_indices_remaining") or ""),
        start_s=None if state in _PBS_HELD else _instant_s(job.get("stime")) or math.nan,
        held="it waits for another job" if state == "H" and others else _PBS_HELD.get(state, ""),
        nodes=tuple(re.findall(r"\(([^:)]+)", job.get("exec_vnode") or "")),
    )  # fmt: skip


_PBS_HELD = {"Q": "", "H": "it is on hold", "W": "it is to start later"}
"""By state of a pending job why its start is not expected."""


def _instant_s(value: Any) -> float | None:
    """Seconds since 1970 of "Tue Nov 24 14:00:00 2026" in UTC."""
    try:
        return datetime.strptime(str(value), "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _pbs_nodes(said: str) -> list[Node]:
    found, down = list[Node](), {"down", "offline", "state-unknown", "unresolvable"}
    for name, node in json.loads(said)["nodes"].items():
        is_up = not down & set(re.split(r"[, ]+", str(node.get("state"))))
        found.append(Node(name, str(node.get("queue", "")), int(node["resources_available"].get("ncpus", 0)), is_up))
    return found


_TIME = re.compile(r"(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+)", re.ASCII)


def _time_s(value: Any) -> float | None:
    """Seconds of [D-]HH:MM:SS, MM:SS or a number; None of other texts, as UNLIMITED."""
    known = _TIME.fullmatch(str(value))
    if known is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in known.groups())
    return 86_400.0 * days + 3600 * hours + 60 * minutes + seconds


SINFO = ("sinfo", "--all", "--Node", "--noheader", "--format=%N|%R|%T|%c|%L|%l|%G|%p")
SLURM = Scheduler(("squeue", "--all", "--json"), _slurm_jobs, SINFO, _slurm_nodes)
OPENPBS = Scheduler(("qstat", "-f", "-F", "json"), _pbs_jobs, ("pbsnodes", "-a", "-F", "json"), _pbs_nodes)
SCHEDULERS = {"slurm": SLURM, "pbs": OPENPBS}
"""Every scheduler by its name in the settings."""
