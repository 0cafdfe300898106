"""Programs that play a scheduler's: each logs its arguments and does what a script of Python says."""

import json
import shlex
import stat
import sys
from pathlib import Path
from typing import Any

SACCT_FIELDS = (
    "Account AdminComment AllocCPUS AllocNodes AllocTRES AssocID AveCPU AveCPUFreq AveDiskRead AveDiskWrite "
    "AvePages AveRSS AveVMSize BlockID Cluster Comment Constraints ConsumedEnergy ConsumedEnergyRaw Container "
    "CPUTime CPUTimeRAW DBIndex DerivedExitCode Elapsed ElapsedRaw Eligible End ExitCode Extra FailedNode "
    "Flags GID Group JobID JobIDRaw JobName Layout Licenses MaxDiskRead MaxRSS MaxRSSNode MaxVMSize McsLabel "
    "MinCPU NCPUS NNodes NodeList NTasks Partition Planned PlannedCPU Priority QOS QOSRAW QOSREQ Reason "
    "ReqCPUFreq ReqCPUS ReqMem ReqNodes ReqTRES Reservation ReservationId Restarts SLUID Start State StdErr "
    "StdIn StdOut Submit SubmitLine Suspended SystemComment SystemCPU Timelimit TimelimitRaw TotalCPU "
    "TRESUsageInAve TRESUsageInMax TRESUsageOutTot UID User UserCPU WCKey WCKeyID WorkDir"
)
"""What `sacct --helpformat` of Slurm 24.11 lists, shortened; written down here, whatever Walltime asks for."""

_HEAD = """import json, os, sys, time
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
"""

_SACCT = """
if sys.argv[1:] == ["--helpformat"]:
    print({help!r})
    sys.exit(0)
if sys.argv[1:] == ["--version"]:
    print("slurm 24.11.0")
    sys.exit(0)
if os.path.exists({fails!r}):
    sys.exit("sacct: error: slurmdbd is not there")
option = lambda name: next(a for a in sys.argv if a.startswith(name + "=")).partition("=")[2]
fields, delimiter, since, until = option("--format").split(","), option("--delimiter"), option("--starttime"), option("--endtime")
out = sys.stdout.buffer
for field in fields:
    if field.lower() not in {help!r}.lower().split():
        sys.exit("sacct: error: Invalid field requested: " + json.dumps(field))
def row(values):
    out.write(delimiter.join(values.get(f, "") for f in fields).encode() + b"\\n")
row(dict((f, f) for f in fields))
for job in json.load(open({jobs!r})):
    if job.get("End", "9") >= since and job["Submit"] <= until:
        row(job)
"""  # noqa: E501


class Program:
    """A program in a folder, and what it was called with."""

    def __init__(self, folder: Path, name: str, body: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path, script, self._log = folder / name, folder / f"{name}.py", folder / f"{name}.log"
        script.write_text(_HEAD.format(log=str(self._log)) + body)
        # A first line naming Python itself would end at a space in the checkout's path.
        self.path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I {shlex.quote(str(script))} "$@"\n')
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    @property
    def calls(self) -> list[list[str]]:
        """The arguments of each call so far."""
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []


class Sacct(Program):
    """A sacct that knows some jobs, and gives those of the window asked for; times are UTC."""

    def __init__(self, folder: Path, jobs: list[dict[str, Any]]) -> None:
        self._jobs, self._fails = folder / "jobs.json", folder / "sacct_fails"
        body = _SACCT.format(help=SACCT_FIELDS, fails=str(self._fails), jobs=str(self._jobs))
        super().__init__(folder, "sacct", body)
        self.knows(jobs)

    def knows(self, jobs: list[dict[str, Any]]) -> None:
        """From now on these jobs are in the accounting."""
        draft = self._jobs.with_suffix(".draft")
        draft.write_text(json.dumps(jobs))
        draft.replace(self._jobs)

    def fails(self, does: bool) -> None:
        """Whether it exits with an error."""
        self._fails.touch() if does else self._fails.unlink(missing_ok=True)

    @property
    def windows(self) -> list[tuple[str, str]]:
        """Start and end of each reading."""
        read = [dict(a.split("=", 1) for a in call if "=" in a) for call in self.calls if call != ["--helpformat"]]
        return [(call["--starttime"], call["--endtime"]) for call in read]


def job(number: int, day: int = 1, state: str = "COMPLETED", **changes: str) -> dict[str, str]:
    """A job of half an hour of a few users, in January 2026, as sacct writes it; times in UTC."""
    hour = f"2026-01-{day:02}T{number % 20:02}"
    ended = {"End": f"{hour}:31:00", "Elapsed": "00:30:00", "ElapsedRaw": "1800"} if state != "RUNNING" else {}
    return {
        "JobID": str(number), "JobIDRaw": str(number), "User": ("ada", "bob", "eve")[number % 3], "Account": "phys",
        "Partition": "long", "JobName": "solver.sh", "State": state, "ExitCode": "0:0", "Submit": f"{hour}:00:00",
        "Start": f"{hour}:01:00", "Timelimit": "02:00:00", "TimelimitRaw": "120", "AllocCPUS": "4", "ReqCPUS": "4",
        "NNodes": "1", **ended, **changes,
    }  # fmt: skip


_SCONTROL = r"""
import re
if sys.argv[1:2] == ["show"]:
    print(open({shown!r}.format(sys.argv[2])).read())
    sys.exit(0)
lines = sys.stdin.read().splitlines()
if sys.argv[1:2] == ["update"]:
    ids, limit, comment = [word.partition("=")[2] for word in sys.argv[2:]]
    ids = re.split(r",(?![^[]*\])", ids)
    lines = ['update JobId=%s %s AdminComment="%s"' % (one, sys.argv[3], comment) for one in ids]
with open({lines!r}, "a") as log:
    log.writelines(line + "\n" for line in lines)
known = json.load(open({said!r}))
refused = []
for line in lines:
    form = r'update JobId=(\S+) TimeLimit=(\d+)(?: AdminComment="([^"]*)")?'
    number, limit, comment = re.fullmatch(form, line).groups()
    if number in {refuses!r}:
        refused.append("slurm_update error: Access denied \x1b[31m for job " + number)
        continue
    for job in known["jobs"]:
        tasks = (job.get("array_task_string") or "").partition("%")[0]
        task, array = job.get("array_task_id"), str(job["array_job_id"])
        own = array + "_" + str(task) if task is not None else str(job["job_id"])
        own = array + "_[" + tasks + "]" if tasks else own
        if number == own:
            if job.get("end_time"):
                job["end_time"] += 60 * (int(limit) - job["time_limit"])
            job["time_limit"] = int(limit)
            job["admin_comment"] = job["admin_comment"] if comment is None else comment
json.dump(known, open({said!r}, "w"))
if refused:
    sys.exit("\n".join(refused))
"""


class Scontrol(Program):
    """A scontrol that reads updates, a line each, and changes the jobs that a fake squeue says; and shows files."""

    def __init__(self, folder: Path, refuses: tuple[str, ...] = ()) -> None:
        self._lines, shown = folder / "scontrol.lines", str(folder / "{}.shown")
        self._folder = folder
        self.shows("OverTimeLimit           = 0 min")
        (folder / "reservation.shown").write_text("No reservations in the system\n")
        said = str(folder / "squeue.said")
        super().__init__(
            folder, "scontrol", _SCONTROL.format(lines=str(self._lines), said=said, refuses=refuses, shown=shown)
        )

    def shows(self, line: str) -> None:
        """From now on the configuration is this line and the path of slurm.conf."""
        conf = f"SLURM_CONF              = {self._folder}/slurm.conf"
        (self._folder / "config.shown").write_text(f"{line}\n{conf}\n")

    @property
    def updates(self) -> list[list[str]]:
        """The words of each update so far, without `update`."""
        return [shlex.split(line)[1:] for line in self._lines.read_text().splitlines()] if self._lines.exists() else []
