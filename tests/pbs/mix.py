"""Jobs with known laws, and a mix in which only small jobs that the scheduler expects to be short start early."""

import io
import math
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.export.lookup_file import QUANTILE_NAMES, lookup_file
from pipeline.export.lookup_reader import Lookup
from pipeline.publish import load_manifest
from pipeline.settings import QUANTILES, ExportSettings
from pipeline.storage import read_table
from pipeline.tables import ESTIMATES
from tests.pbs.cluster import Cluster, seconds_of

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

    @property
    def procs(self) -> int:
        n_chunks, _, each = self.select.partition(":ncpus=")
        return int(n_chunks) * int(each)

    def submit(self, cluster: Cluster, number: int, *options: str) -> str:
        return cluster.submit(self.user, f"{self.name}_{number}", self.select, self.walltime_s, self.runs_s, *options)


BLOCKER = Kind("dave", "fft", "2:ncpus=8", 600, 25, 8)
WIDE = Kind("alice", "relax", "4:ncpus=8", 600, 6, 8)
MD = Kind("bob", "md", "1:ncpus=4", 900, 3, 16)
LIMIT = ("-l", f"walltime={MD.walltime_s}")
SMALL = (MD, Kind("carol", "post", "1:ncpus=2", 900, 2, 16))
SWEEP_S = (2.0, 3.0, 4.0, 6.0, 8.0, 11.0, 15.0, 20.0) * 3
SWEEP = Kind("carol", "sweep", "1:ncpus=1", 600, 0.0, 1)
"""Its jobs run for SWEEP_S."""
KINDS = (BLOCKER, WIDE, *SMALL, *(replace(SWEEP, runs_s=one) for one in SWEEP_S))


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


def look_up(tables: Path, newest_end_s: int | None = None, times: float = 1.0) -> bytes:
    """The look-up of the published estimates; where given with another end of the newest job, or with longer times."""
    table = read_table(load_manifest(tables).path(ESTIMATES.name), ESTIMATES)
    changed = {f"{unit}_{name}": times for unit in ("runtime_s", "ratio") for name in QUANTILE_NAMES}
    for name, factor in changed.items():
        table = table.set_column(table.column_names.index(name), name, pc.multiply(table[name], factor))
    if newest_end_s is not None:
        ends_s = pa.array([newest_end_s] * table.num_rows, table.schema.field("newest_end_s").type)
        table = table.set_column(table.column_names.index("newest_end_s"), "newest_end_s", ends_s)
    return lookup_file(table, {})


def planned_s(look_up: bytes, who: str, what: str | None, walltime_s: int, procs: int, gpus: int = 0) -> int:
    """The soft_walltime by a look-up, of a job in the default queue."""
    lookup = Lookup(io.BytesIO(look_up))
    found = lookup.estimate({
        "who": who, "what": what, "queue": "workq", "requested_s": float(walltime_s), "procs": float(procs),
        "gpus": float(gpus), "gpu_type": lookup.gpu_type("workq") if gpus else "",
    })  # fmt: skip
    assert found is not None
    return math.ceil(found.quantiles_s[QUANTILES.index(ExportSettings().quantile)])


def md_planned_s(look_up: bytes) -> int:
    return planned_s(look_up, MD.user, MD.name, MD.walltime_s, MD.procs)


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
    """Ids of held jobs to leave alone: opted out, or without one walltime."""
    ids = [
        held_job(cluster, *LIMIT, user="erin"),
        held_job(cluster, *LIMIT, "-P", "own"),
        held_job(cluster, *LIMIT, "-v", "WALLTIME=off"),
        held_job(cluster, "-l", "min_walltime=10", "-l", "max_walltime=900"),
        held_job(cluster),
    ]
    assert all(ids)
    return ids
