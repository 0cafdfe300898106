"""Jobs with known laws, and a mix in which only small jobs that the scheduler expects to be short start early."""

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from pipeline.application_names import application_of
from pipeline.export.lookup_file import lookup_file
from pipeline.publish import Manifest, Retention, RunFacts, load_manifest
from pipeline.storage import write_table
from pipeline.tables import ESTIMATES, LIMITS
from tests.pbs.cluster import Cluster, seconds_of
from tests.publishing import publish
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
LIMIT = ("-l", f"walltime={MD.walltime_s}")
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


NAMES = ("007", "1e5", "null", "true", "NaN", "-1", "md+4", "0x1f")
"""Names that qsub takes and JSON may take for numbers. qsub refuses every name that a shell could read otherwise."""


def laws(manifest: Manifest, newest_end_s: int, md_s: float = MD.runs_s) -> pa.Table:
    """The laws as LIMITS, also for bob's odd names: a history of minutes has no night that tried a limit."""
    facts = {"site": manifest.site, "run_id": manifest.run_id, "newest_end_s": newest_end_s, "gpus": 0, "most_jobs": 99}
    names = {(MD.user, application_of(name) or f"job_name {name}"): md_s for name in NAMES}
    known = {(kind.user, kind.name): md_s if kind is MD else kind.runs_s for kind in KINDS}
    rows = [
        limited(user, runs_s, template="who+what+gpus", what=what, **facts)
        for (user, what), runs_s in (names | known).items()
    ]
    return limits_of(*rows)


def look_up(tables: Path, newest_end_s: int, md_s: float = MD.runs_s) -> bytes:
    """The look-up with the laws as limits."""
    return lookup_file(ESTIMATES.empty(), laws(load_manifest(tables), newest_end_s, md_s), {})


def publish_laws(tables: Path, folder: Path) -> None:
    """Publish the current version again, with the laws as its limits."""
    manifest, now_s = load_manifest(tables), int(time.time())
    staged = {name: Path(shutil.copy(manifest.path(name), folder / f"{name}.parquet")) for name in manifest.tables}
    staged["limits"] = write_table(folder / "laws.parquet", laws(manifest, now_s), LIMITS)
    facts = RunFacts("laws", manifest.site, dict(manifest.settings), [], manifest.code)
    publish(staged, [], facts, output_dir=tables, created_s=now_s, retention=Retention(newest=5))


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


def soft_s_of(cluster: Cluster, job_id: str) -> int | None:
    soft = cluster.job(job_id)["Resource_List"].get("soft_walltime")
    return soft and seconds_of(soft)


def held_job(cluster: Cluster, *options: str, name: str = "md_3", user: str = "bob") -> str:
    """The id of a job that is held back; empty where qsub refuses it."""
    done = cluster.tried("qsub", "-h", "-N", name, *options, "--", "/bin/true", user=user)
    return done.stdout.strip()


def left_alone(cluster: Cluster) -> list[str]:
    """Ids of held jobs to leave alone: of a new user or application, opted out, without one walltime."""
    ids = [
        held_job(cluster, *LIMIT, user="carol"),
        held_job(cluster, *LIMIT, name="never_ran"),
        held_job(cluster, *LIMIT, user="erin"),
        held_job(cluster, *LIMIT, "-P", "own"),
        held_job(cluster, *LIMIT, "-v", "WALLTIME=off"),
        held_job(cluster, "-l", "min_walltime=10", "-l", "max_walltime=900"),
        held_job(cluster),
    ]
    assert all(ids)
    return ids
