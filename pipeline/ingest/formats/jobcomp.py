"""Reads the file of Slurm's plug-in jobcomp/filetxt: a line `JobId=... UserId=name(uid) ...` for each job that ended.

Source: jobcomp_filetxt.c of Slurm 18.08 to 25.05. Values are not quoted, so that a line in which a key comes twice is
set aside: a text of a user's holds it, or two records ran together. Times are local (`site.timezone`), limits minutes.
"""

import re
from collections.abc import Mapping

from pipeline.ingest.raw_table import TRES, Column, reader_of_lines
from pipeline.ingest.values import decoded

COLUMNS = (
    Column("job_id", "JobId"),
    Column("array_id", "ArrayJobId"),
    Column("cluster", "Cluster"),
    Column("user", "UserId"),
    Column("user_group", "GroupId"),
    Column("account", "Account"),
    Column("queue", "Partition"),
    Column("qos", "QOS"),
    Column("job_name", "Name"),
    Column("work_dir", "WorkDir"),
    Column("submit_s", "SubmitTime"),
    Column("eligible_s", "EligibleTime"),
    Column("start_s", "StartTime"),
    Column("end_s", "EndTime"),
    Column("requested_s", "TimeLimit", factor=60.0),
    Column("procs", "ProcCnt"),
    Column("nodes", "NodeCnt"),
    Column("gpus", "Tres", unit=TRES),
    Column("requested_mem_kib", "Memory"),
    Column("exit_code", "ExitCode"),
    Column("derived_exit_code", "DerivedExitCode"),
    Column("state", "JobState"),
)
_OTHERS = ("NodeList", "ReservationName", "Gres", "WcKey", "ArrayTaskId", "HetJobId", "HetJobOffset")
_PAIR = re.compile(rf"(?:^| )({'|'.join((*(column.name for column in COLUMNS), *_OTHERS))})=")


def _record(line: bytes) -> Mapping[str, str | None]:
    """A record's values by key; ValueError where it is cut, or holds a key twice."""
    before, *said = _PAIR.split(decoded(line).strip())
    found = dict(zip(said[::2], said[1::2], strict=True))
    if before or 2 * len(found) < len(said) or not {"JobId", "StartTime", "EndTime", "SubmitTime"} <= found.keys():
        raise ValueError
    for key in ("UserId", "GroupId"):
        name, _, number = found[key].removesuffix(")").rpartition("(")
        found[key] = number if name == "(null)" else name
    if "ArrayJobId" in found:
        found["JobId"] = f"{found['ArrayJobId']}_{found['ArrayTaskId']}"
    if "HetJobId" in found:
        found["JobId"] = f"{found['HetJobId']}+{found['HetJobOffset']}"
    memory = re.search("(?:^|,)mem=([^,]*)", found.get("Tres", ""))
    known = {key: value for key, value in found.items() if value != "unknown"}
    return known | {"Memory": memory[1]} if memory else known


JOBCOMP = reader_of_lines(
    "jobcomp", "Slurm's jobcomp/filetxt: lines of JobId=... UserId=name(uid) ...", COLUMNS, _record,
    r"^JobId=\d+ UserId=",
)  # fmt: skip
