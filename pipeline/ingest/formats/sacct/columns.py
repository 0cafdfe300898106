"""Declares sacct's columns: what each tells, its names in text, what may stand in it, and where it is in the JSON.

Source: man sacct (Slurm 18.08 to 25.05), and of the paths the plugins openapi/dbv0.0.37 and 38 (Slurm 21.08 and 22.05)
and data_parser/v0.0.39 to 46 (23.02 to 26), whose tables of fields, PARSER_ARRAY(JOB), name each.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
"""A time as Slurm writes it, which is no name of a user, an account, a partition or a quality of service."""


class Kind(Enum):
    """What may stand in a column; wide ones may hold the delimiter, and FREE ones a line's end."""

    ID = r"\d+(?:_(?:\d+|\[[^\]|]*\]?))?(?:\+\d+)?(?:\.[\w+.-]+)?"
    TIME = r"|0|Unknown|None|N/A|None assigned|(?!\d{1,8}$)[\d:/T +.Z-]+(?: ?[AaPp][Mm])?(?: ?[A-Z]{3,5})?"
    DURATION = r"|-?[\d:.-]+|UNLIMITED|Partition_Limit|INVALID|Unknown"
    COUNT = r"|-?\d+(?:\.\d+)?[KMGTP]?|UNLIMITED|Partition_Limit|Unknown|N/A"
    MEMORY = r"|[\d.?]+[KMGTPE]?(?:i?B)?[nc]?|UNLIMITED|N/A"
    STATE = r"[A-Za-z_]+(?: by \d+)?\+?"
    EXIT = r"|\d+:\d+|-?\d+"
    NAME = rf"(?!{STAMP}$)[^\s]*"
    TRES = r"|\d+|[^\s=]+=[^\s]*|[\w/]+(?::[\w.]+)*(?:\(S:[\d,-]*\))?(?:,.*)?"
    HOSTS = r"|None assigned|[^\s]*"
    OTHER = r"[^\n]*"
    FREE = r"[\s\S]*"
    FOLDER = r"|/[\s\S]*"

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """Matches the bytes of every value of this kind."""
        return re.compile(self.value.encode())

    def fits(self, cell: bytes) -> bool:
        """Whether the bytes are a value of this kind."""
        return self.pattern.fullmatch(cell) is not None

    @property
    def is_wide(self) -> bool:
        """Whether a value may hold the delimiter."""
        return self in (Kind.FREE, Kind.FOLDER)

    @property
    def is_text(self) -> bool:
        """Whether values are anybody's text, which tells nothing about where a record's columns lie."""
        return self in (Kind.FREE, Kind.FOLDER, Kind.OTHER, Kind.NAME, Kind.HOSTS)


@dataclass(frozen=True, slots=True)
class Column:
    """What may stand in it; the names of the fields that tell it, the better one first; its path in a job of the JSON.

    path: empty where the JSON says it in several places, or nowhere.
    """

    kind: Kind
    names: tuple[str, ...]
    path: str = ""


def _column(kind: Kind, names: str, path: str = "") -> Column:
    return Column(kind, tuple(names.split()), path)


COLUMNS: Mapping[str, Column] = {
    "id": _column(Kind.ID, "jobid job_id jobidraw job_id_raw"),
    "cluster": _column(Kind.NAME, "cluster", "cluster"),
    "job_name": _column(Kind.FREE, "jobname", "name"),
    "user": _column(Kind.NAME, "user uid", "user"),
    "user_group": _column(Kind.NAME, "group gid", "group"),
    "account": _column(Kind.NAME, "account", "account"),
    "queue": _column(Kind.NAME, "partition", "partition"),
    "qos": _column(Kind.NAME, "qos qosraw", "qos"),
    "submit_s": _column(Kind.TIME, "submit", "time.submission"),
    "eligible_s": _column(Kind.TIME, "eligible", "time.eligible"),
    "start_s": _column(Kind.TIME, "start", "time.start"),
    "end_s": _column(Kind.TIME, "end", "time.end"),
    "runtime_s": _column(Kind.DURATION, "elapsedraw elapsed", "time.elapsed"),
    "limit_min": _column(Kind.COUNT, "timelimitraw", "time.limit"),
    "requested_s": _column(Kind.DURATION, "timelimit"),
    "suspended_s": _column(Kind.DURATION, "suspended", "time.suspended"),
    "procs": _column(Kind.COUNT, "alloccpus ncpus"),
    "requested_procs": _column(Kind.COUNT, "reqcpus", "required.CPUs"),
    "nodes": _column(Kind.COUNT, "nnodes allocnodes"),
    "requested_nodes": _column(Kind.COUNT, "reqnodes"),
    "requested_mem": _column(Kind.MEMORY, "reqmem"),
    "typed_mem": _column(Kind.MEMORY, ""),
    "max_rss": _column(Kind.MEMORY, "maxrss"),
    "mean_rss": _column(Kind.MEMORY, "averss"),
    "n_tasks": _column(Kind.COUNT, "ntasks"),
    "total_cpu": _column(Kind.DURATION, "totalcpu"),
    "energy": _column(Kind.COUNT, "consumedenergyraw consumedenergy"),
    "state": _column(Kind.STATE, "state", "state.current"),
    "exit_code": _column(Kind.EXIT, "exitcode exit_code", "exit_code"),
    "derived_exit_code": _column(Kind.EXIT, "derivedexitcode derived_exit_code", "derived_exit_code"),
    "alloc_tres": _column(Kind.TRES, "alloctres tresalloc allocgres", "tres.allocated"),
    "req_tres": _column(Kind.TRES, "reqtres reqgres", "tres.requested"),
    "attempt_key": _column(Kind.COUNT, "dbindex db_index"),
    "work_dir": _column(Kind.FOLDER, "workdir work_dir workingdirectory", "working_directory"),
    "comment": _column(Kind.FREE, "comment", "comment.job"),
    "admin_comment": _column(Kind.FREE, "admincomment admin_comment", "comment.administrator"),
    "submit_line": _column(Kind.FREE, "submitline submit_line", "submit_line"),
}
"""What is read, by what it tells. typed_mem is memory as typed, where that is known beside the job's total."""

_UNREAD = {
    Kind.DURATION: "usercpu systemcpu cputime cputimeraw reserved planned resvcpu resvcpuraw plannedcpu plannedcpuraw "
    "mincpu avecpu",
    Kind.COUNT: "uid gid qosraw priority associd reservationid wckeyid maxpages avepages restarts",
    Kind.MEMORY: "maxvmsize avevmsize maxdiskread maxdiskwrite avediskread avediskwrite mem_req",
    Kind.NAME: "layout blockid mcslabel maxrssnode maxvmsizenode maxpagesnode mincpunode maxdiskreadnode "
    "maxdiskwritenode",
    Kind.TRES: "tresreqraw tresallocraw",
    Kind.HOSTS: "nodelist node_list",
    Kind.FREE: "systemcomment constraints extra container reason reservation wckey stdin stdout stderr licenses "
    "failednode",
}  # fmt: skip
_KINDS = {
    **{name: column.kind for column in COLUMNS.values() for name in column.names},
    **{name: kind for kind, names in _UNREAD.items() for name in names.split()},
}

XDMOD = (
    "JobID", "JobIDRaw", "Cluster", "Partition", "QOS", "Account", "Group", "GID", "User", "UID", "Submit", "Eligible",
    "Start", "End", "Elapsed", "ExitCode", "State", "NNodes", "NCPUS", "ReqCPUS", "ReqMem", "ReqTRES", "AllocTRES",
    "Timelimit", "NodeList", "JobName",
)  # fmt: skip
"""The columns of dumps made for Open XDMoD (its xdmod-slurm-helper), which have no header."""

STATES = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "CONFIGURING", "COMPLETING", "DEADLINE", "FAILED", "LAUNCH_FAILED",
    "NODE_FAIL", "OUT_OF_MEMORY", "PENDING", "POWER_UP_NODE", "PREEMPTED", "RECONFIG_FAIL", "REQUEUED", "REQUEUE_FED",
    "REQUEUE_HOLD", "RESIZING", "RESV_DEL_HOLD", "REVOKED", "RUNNING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT",
    "STOPPED", "SUSPENDED", "TIMEOUT", "UPDATE_DB",
)  # fmt: skip
"""man sacct, "Job state codes" and "Job state flags"."""

REASONS = {
    Kind.ID: "no_job_id", Kind.TIME: "not_a_time", Kind.DURATION: "not_a_duration", Kind.COUNT: "not_a_number",
    Kind.MEMORY: "not_a_memory_size", Kind.STATE: "no_state", Kind.EXIT: "not_an_exit_code",
}  # fmt: skip
"""Why a record with another value there is unreadable."""


def kind_of(name: str) -> Kind:
    """What may stand in the column of this name (small letters); OTHER where the name is not Slurm's."""
    return _KINDS.get(name, Kind.TRES if name.startswith("tresusage") else Kind.OTHER)
