"""Lists the columns of an accounting dump: their names, what may stand in them, and which ones identify a layout.

Source: man sacct (Slurm 18.08 to 25.05), section "Job accounting fields"; names of exports by hand as met in the wild.
"""

import re
from collections.abc import Mapping
from enum import Enum

SOURCES: Mapping[str, tuple[str, ...]] = {
    "id": ("jobid", "job_id", "jobidraw", "job_id_raw"),
    "job_name": ("jobname", "job_name", "name"),
    "user": ("user", "user_name", "username", "user_id", "uid"),
    "user_group": ("group", "user_group", "group_name", "gid"),
    "account": ("account", "account_name", "project"),
    "queue": ("partition", "queue"),
    "qos": ("qos", "qosraw"),
    "submit_s": ("submit", "submit_time", "submittime", "time_submit"),
    "eligible_s": ("eligible", "eligible_time", "eligibletime", "time_eligible"),
    "start_s": ("start", "start_time", "starttime", "time_start"),
    "end_s": ("end", "end_time", "endtime", "time_end"),
    "runtime_s": ("elapsedraw", "elapsed", "run_time", "runtime", "walltime", "wallclock_used"),
    "limit_min": ("timelimitraw",),
    "requested_s": ("timelimit", "time_limit", "wallclock_req", "walltime_req"),
    "suspended_s": ("suspended",),
    "procs": ("alloccpus", "ncpus", "processors_used", "processors", "alloc_cpus"),
    "requested_procs": ("reqcpus", "req_cpus", "processors_req", "cpus_req"),
    "nodes": ("nnodes", "allocnodes", "nodes_used", "alloc_nodes"),
    "requested_nodes": ("reqnodes", "nodes_req", "req_nodes"),
    "requested_mem": ("reqmem",),
    "max_rss": ("maxrss",),
    "total_cpu": ("totalcpu",),
    "energy": ("consumedenergyraw", "consumedenergy"),
    "state": ("state", "job_state"),
    "exit_code": ("exitcode", "exit_code"),
    "derived_exit_code": ("derivedexitcode", "derived_exit_code"),
    "alloc_tres": ("alloctres", "tresalloc", "allocgres"),
    "req_tres": ("reqtres", "reqgres", "gpus_req"),
    "attempt_key": ("dbindex", "db_index"),
    "work_dir": ("workdir", "work_dir", "workingdirectory"),
    "comment": ("comment",),
    "admin_comment": ("admincomment", "admin_comment"),
    "submit_line": ("submitline", "submit_line"),
}
"""Which field tells what, the better one first."""


class Kind(Enum):
    """What may stand in a column; wide ones may hold the delimiter, and FREE ones a line's end."""

    ID = r"\d+(?:_(?:\d+|\[[^\]|]*\]?))?(?:\+\d+)?(?:\.[\w+.-]+)?"
    TIME = r"|Unknown|None|N/A|None assigned|[\d:/T +.Z-]+(?: ?[AaPp][Mm])?(?: ?[A-Z]{3,5})?"
    DURATION = r"|-?[\d:.-]+|UNLIMITED|Partition_Limit|INVALID|Unknown"
    COUNT = r"|-?\d+(?:\.\d+)?[KMGTP]?|Unknown|N/A"
    MEMORY = r"|[\d.?]+[KMGTPE]?(?:i?B)?[nc]?|UNLIMITED|N/A"
    STATE = r"[A-Za-z_]+(?: by \d+)?\+?"
    EXIT = r"|\d+:\d+|-?\d+"
    NAME = r"[^\s]*"
    TRES = r"|\d+|[^\s=]+=[^\s]*|[\w/]+(?::[\w.]+)*(?:\(S:[\d,-]*\))?(?:,.*)?"
    HOSTS = r"|None assigned|[^\s]*"
    OTHER = r"[^\n]*"
    FREE = r"[\s\S]*"
    FOLDER = r"|/[\s\S]*"

    @property
    def is_wide(self) -> bool:
        """Whether a value may hold the delimiter."""
        return self in (Kind.FREE, Kind.FOLDER)

    @property
    def is_text(self) -> bool:
        """Whether values are anybody's text, which tells nothing about where a record's columns lie."""
        return self in (Kind.FREE, Kind.FOLDER, Kind.OTHER, Kind.NAME, Kind.HOSTS)


_NAMES = {
    Kind.ID: "jobid jobidraw job_id job_id_raw",
    Kind.TIME: "submit eligible start end submit_time eligible_time start_time end_time submittime eligibletime "
    "starttime endtime time_submit time_eligible time_start time_end",
    Kind.DURATION: "elapsed elapsedraw timelimit timelimitraw suspended totalcpu usercpu systemcpu cputime cputimeraw "
    "reserved planned resvcpu resvcpuraw plannedcpu plannedcpuraw mincpu avecpu run_time runtime walltime "
    "wallclock_req wallclock_used time_limit walltime_req",
    Kind.COUNT: "alloccpus ncpus reqcpus nnodes allocnodes reqnodes ntasks uid gid priority associd dbindex db_index "
    "qosraw reservationid wckeyid consumedenergyraw consumedenergy maxpages avepages processors_used processors_req "
    "processors nodes_used nodes_req cpus_req req_cpus alloc_cpus alloc_nodes req_nodes restarts",
    Kind.MEMORY: "reqmem maxrss averss maxvmsize avevmsize maxdiskread maxdiskwrite avediskread avediskwrite mem_req",
    Kind.STATE: "state job_state",
    Kind.EXIT: "exitcode derivedexitcode exit_code derived_exit_code",
    Kind.NAME: "user group account partition qos cluster user_name group_name account_name layout blockid mcslabel "
    "maxrssnode maxvmsizenode maxpagesnode mincpunode maxdiskreadnode maxdiskwritenode",
    Kind.TRES: "alloctres reqtres reqgres allocgres tresalloc tresreqraw tresallocraw tresusageintot tresusageinmax "
    "tresusageinave tresusageinmin tresusageouttot tresusageoutmax tresusageoutave tresusageoutmin gpus_req "
    "tresusageinmaxnode tresusageinmaxtask tresusageinminnode tresusageinmintask tresusageoutmaxnode "
    "tresusageoutmaxtask tresusageoutminnode tresusageoutmintask",
    Kind.HOSTS: "nodelist node_list",
    Kind.FREE: "jobname job_name name comment admincomment admin_comment systemcomment submitline submit_line "
    "constraints extra container reason reservation wckey stdin stdout stderr licenses failednode",
    Kind.FOLDER: "workdir work_dir workingdirectory",
}  # fmt: skip
KINDS: Mapping[str, Kind] = {name: kind for kind, names in _NAMES.items() for name in names.split()}

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

_BY = re.compile(r" by \S+$")


def kind_of(name: str) -> Kind:
    """What may stand in the column of this name (small letters)."""
    return KINDS.get(name, Kind.TRES if name.startswith("tresusage") else Kind.OTHER)


def state_name(text: str) -> str:
    """A state as one word: without who cancelled, a cut one (`OUT_OF_ME+`) written out where only one fits."""
    word = _BY.sub("", text.strip())
    if not word.endswith("+"):
        return word
    stem = word.rstrip("+")
    fitting = [state for state in STATES if state.startswith(stem)]
    return fitting[0] if len(fitting) == 1 else stem
