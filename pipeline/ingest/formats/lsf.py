"""Reads LSF's accounting file, lsb.acct: JOB_FINISH records of the versions 7 to 10.1.

Source: lsb.acct(5) of IBM Spectrum LSF 10.1, and records of clusters. A record is a line of fields between blanks,
texts in double quotes, in which a quote is written twice. Versions have added fields at the end and moved none. In the
records of clusters runLimit stands before options3, which the page says otherwise; and each host of hostRusage may have
a sixth field.

LSF tells memory and processor time of a job, which are shared out over its processors; a project stands for an account.
"""

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from pipeline.ingest.raw_table import WAIT, Column, reader_of_lines
from pipeline.ingest.values import decoded

COLUMNS = (
    Column("job_id", "jobId"),
    Column("array_id", "arrayId"),
    Column("user", "userName"),
    Column("account", "projectName"),
    Column("application", "app"),
    Column("queue", "queue"),
    Column("job_name", "jobName"),
    Column("comment", "jobDescription"),
    Column("submit_line", "command"),
    Column("work_dir", "cwd"),
    Column("submit_s", "submitTime"),
    Column("eligible_s", "beginTime"),
    Column("start_s", "startTime"),
    Column("end_s", "eventTime"),
    Column("runtime_s", "runTime"),
    Column("requested_s", "runLimit"),
    Column("requested_procs", "numProcessors"),
    Column("procs", "procs"),
    Column("nodes", "nodes"),
    Column("cpu_s", "cpuTime"),
    Column("used_mem_kib", "maxRMem"),
    Column("exit_code", "exitStatus", unit=WAIT),
    Column("state", "state"),
)

_HEAD = (
    "version eventTime jobId userId options numProcessors submitTime beginTime termTime startTime userName queue "
    "resReq dependCond preExecCmd fromHost cwd inFile outFile errFile jobFile"
)
"""Then come the number of hosts asked for and their names, and the same of those it ran on, one for each slot, or as in
16*host01."""

_BODY = (
    "jStatus hostFactor jobName command ru_utime ru_stime ru_maxrss ru_ixrss ru_ismrss ru_idrss ru_isrss ru_minflt "
    "ru_majflt ru_nswap ru_inblock ru_oublock ru_ioch ru_msgsnd ru_msgrcv ru_nsignals ru_nvcsw ru_nivcsw ru_exutime "
    "mailUser projectName exitStatus maxNumProcessors loginShell timeEvent idx maxRMem maxRSwap inFileSpool "
    "commandSpool rsvId sla exceptMask additionalInfo exitInfo warningAction warningTimePeriod chargedSAAP "
    "licenseProject app postExecCmd runtimeEstimation jobGroupName requeueEvalues options2 resizeNotifyCmd "
    "lastResizeTime rsvId2 jobDescription"
)
_TAIL = (
    "runLimit options3 avgMem effectiveResReq srcCluster srcJobId dstCluster dstJobId forwardTime flow_id "
    "acJobWaitTime totalProvisionTime outdir runTime"
)
"""From version 9.1 on, after the pairs of submitExt and the hosts of hostRusage."""

_LIMITS = re.compile(r"-?\d+ -?\d+ -?\d+ (?!-?\d+ )")
"""How it begins: three numbers, and a text."""

_EVENT = re.compile("[A-Z][A-Z0-9_]{0,39}")
"""A type of events, as in JOB_RESIZE: reports name those that are not read."""

_DONE = "64"
_STATES = {
    "1": "PREEMPTED", "5": "TIMEOUT", "6": "DEADLINE", "8": "CANCELLED", "9": "CANCELLED", "14": "CANCELLED",
    "15": "CANCELLED", "16": "OUT_OF_MEMORY",
}  # fmt: skip
"""By exitInfo (lsbatch.h, TERM_PREEMPT to TERM_MEMLIMIT) of a job that is not done; with another it is FAILED."""


def _record(line: bytes) -> Mapping[str, str | None] | str:
    """A record's fields by name; another event's type; ValueError where it is cut, or holds two."""
    try:
        (cells,) = csv.reader([decoded(line).strip()], delimiter=" ", skipinitialspace=True, strict=True)
    except csv.Error as error:
        raise ValueError from error
    if cells[0] != "JOB_FINISH" and _EVENT.fullmatch(cells[0]):
        return f"other_{cells[0]}"
    if cells.count("JOB_FINISH") != 1 or cells[0] != "JOB_FINISH":
        raise ValueError
    at = 1

    def taken(names: Sequence[str]) -> dict[str, str]:
        nonlocal at
        at += len(names)
        return dict(zip(names, cells[at - len(names) : at], strict=True))

    def listed(n_each: int = 1) -> list[str]:
        nonlocal at
        begin, at = at + 1, at + 1 + n_each * int(cells[at])
        if not begin <= at <= len(cells):
            raise ValueError
        return cells[begin:at]

    found = taken(_HEAD.split())
    listed()
    slots = Counter[str]()
    for slot in listed():
        n, _, host = slot.rpartition("*")
        slots[host] += int(n or 1)
    found |= taken(_BODY.split())
    if float(found["version"]) >= 9.1:
        listed(2)
        n_hosts, begin = int(cells[at]), at + 1
        if n_hosts < 0:
            raise ValueError
        at = begin + n_hosts * next((n for n in (6, 5) if _LIMITS.match(" ".join(cells[begin + n * n_hosts :]))), 6)
        found |= taken(_TAIL.split())
    return _completed(found, slots)


def _completed(found: dict[str, str], slots: Mapping[str, int]) -> dict[str, str | None]:
    """The record with what several of its fields tell: its id in an array, its size, processor time and state."""
    has_run, is_done = int(found["startTime"]) > 0, found["jStatus"] == _DONE
    cpu_s = [float(found[name]) for name in ("ru_utime", "ru_stime")]
    is_element = found["idx"] != "0"
    return found | {
        # A job without a name has its command's.
        "jobName": found["jobName"] or found["command"],
        "arrayId": found["jobId"] if is_element else None,
        "jobId": f"{found['jobId']}[{found['idx']}]" if is_element else found["jobId"],
        "procs": str(sum(slots.values())) if slots else None,
        "nodes": str(len(slots)) if slots else None,
        "cpuTime": str(sum(cpu_s)) if min(cpu_s) >= 0 else None,
        "runTime": found.get("runTime") if has_run else None,
        "maxRMem": found["maxRMem"] if has_run else None,
        "state": "COMPLETED" if is_done else _STATES.get(found["exitInfo"], "FAILED"),
    }


LSF = reader_of_lines(
    "lsf", 'LSF\'s lsb.acct: lines of "JOB_FINISH" "VERSION" ...', COLUMNS, _record, r'^"JOB_FINISH" "\d'
)  # fmt: skip
