"""Kills what runs of a Slurm, of a server or of `walltime serve`, at once and for certain, as where a machine stops."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def kill_all(pids: Iterable[int]) -> int:
    """Send SIGKILL to processes; how many of them there were."""
    n_killed = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            n_killed += 1
    return n_killed


def daemons_of(work: Path) -> list[int]:
    """The daemons that were started under a Slurm's folder, by their files of process id and start time."""
    pids = []
    for file in (work / "run").glob("*.up"):
        pid, _, born = file.read_text().strip().partition(" ")
        if born and born_at(int(pid)) == born:
            pids.append(int(pid))
    return pids


def born_at(pid: int) -> str:
    """The start time of a process in ticks; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]
    except (OSError, IndexError):
        return ""


def jobs_of(work: Path) -> list[int]:
    """The slurmstepd processes of a Slurm's jobs, and the jobs' own processes."""
    pids = []
    for folder in process_folders():
        with suppress(OSError):
            if (folder / "comm").read_text().strip() != "slurmstepd":
                continue
            files = [str(link.readlink()) for link in (folder / "fd").iterdir()]
            if any(name.startswith((f"{work}/log/", f"{work}/spool/")) for name in files):
                pids += tree_of(int(folder.name))
    return pids


def tree_of(pid: int) -> list[int]:
    """A process and all that descend from it."""
    children: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return [pid, *(found for child in children for found in tree_of(child))]


def process_folders() -> list[Path]:
    return [folder for folder in Path("/proc").iterdir() if folder.name.isdigit()]


def resident_mib(pid: int) -> float:
    """The resident memory of a process; 0 where it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0
