"""Jobs with known laws, and a mix in which only small jobs that the scheduler expects to be short start early."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pipeline.export.lookup_file import lookup_file
from pipeline.publish import load_manifest
from pipeline.tables import ESTIMATES
from tests.pbs.cluster import Cluster, seconds_of
from tests.unit.export.slurm_plugin import limited, limits_of

CHECKOUT = Path(__file__).resolve().parents[2]
LATE_S = 4
"""OpenPBS notices the end of a job this much later, and longer on a busy machine."""


@dataclass(frozen=True)
class Kind:
    """Jobs of one user: name, chunks, walltime and real runtime (s), and how many there are in the history."""

    user: str
    name: str
    select: str
    walltime_s: int
    runs_s: float
    n_history: int

    def submit(self, cluster: Cluster, number: int, *options: str) -> str:
        return cluster.submit(self.user, f"{self.name}_{number}", self.select, self.walltime_s, self.runs_s, *options)


BLOCKER = Kind("dave", "fft", "2:ncpus=8", 600, 25, 8)
WIDE = Kind("alice", "relax", "4:ncpus=8", 600, 6, 8)
MD = Kind("bob", "md", "1:ncpus=4", 900, 3, 16)
SMALL = (MD, Kind("carol", "post", "1:ncpus=2", 900, 2, 16))
KINDS = (BLOCKER, WIDE, *SMALL)


@dataclass(frozen=True)
class Ran:
    """A job of the mix: what it waited and ran, when it started, its end and its soft_walltime; times in s."""

    kind: Kind
    started_s: int
    waited_s: int
    runs_s: int
    exit_status: int
    soft_s: int | None


def look_up(tables: Path, newest_end_s: int, md_s: float = MD.runs_s) -> bytes:
    """The look-up with the laws as limits: a history of minutes has no night that could have tried a limit."""
    manifest = load_manifest(tables)
    facts = {"site": manifest.site, "run_id": manifest.run_id, "newest_end_s": newest_end_s, "gpus": 0, "most_jobs": 99}
    rows = [
        limited(kind.user, md_s if kind is MD else kind.runs_s, template="who+what+gpus", what=kind.name, **facts)
        for kind in KINDS
    ]
    return lookup_file(ESTIMATES.empty(), limits_of(*rows), {})


def walltime(cluster: Cluster, folder: Path, *words: str) -> str:
    """What a command of Walltime prints; it has to succeed."""
    environment = cluster.environment | {"PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-m", "flows.cli", *words]
    done = subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def mix(cluster: Cluster) -> list[Ran]:
    """A job that takes half of the machine, one that needs all of it, and small ones of two users."""
    kinds = [BLOCKER, WIDE, *SMALL * 3]
    ids = [kind.submit(cluster, 100 + n) for n, kind in enumerate(kinds)]
    ended = cluster.wait(ids, 180)
    return [ran_of(kind, ended[job_id]) for kind, job_id in zip(kinds, ids, strict=True)]


def ran_of(kind: Kind, record: dict[str, str]) -> Ran:
    submit_s, start_s, end_s = (int(record[name]) for name in ("ctime", "start", "end"))
    soft = record.get("Resource_List.soft_walltime")
    return Ran(
        kind, start_s, start_s - submit_s, end_s - start_s, int(record["Exit_status"]), soft and seconds_of(soft)
    )


def small(mixed: list[Ran]) -> list[Ran]:
    return [one for one in mixed if one.kind in SMALL]


def wide(mixed: list[Ran]) -> Ran:
    return next(one for one in mixed if one.kind is WIDE)


def soft_s_of(cluster: Cluster, job_id: str) -> int | None:
    soft = cluster.job(job_id)["Resource_List"].get("soft_walltime")
    return soft and seconds_of(soft)


def held_job(cluster: Cluster, *options: str, name: str = "md_3") -> str:
    """The id of a job of bob that is held back; empty where qsub refuses it."""
    done = cluster.tried("qsub", "-h", "-N", name, *options, "--", "/bin/true", user="bob")
    return done.stdout.strip()
