"""A log of jobs on GPUs, as sacct and as PBS write it: laws over GPUs, whose processors follow them or stay."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tools.simulation.laws import Law, amdahl, downey_low, noisy

START_S = 1_704_096_000
"""2024-01-01 08:00 UTC."""
NOISE = 0.04
COUNTS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class GpuApplication:
    """Runs of one user: a law over GPUs, or over processors where `gpu_type` is None."""

    name: str
    user: str
    law: Law
    gpu_type: str | None
    procs_per_gpu: int | None
    """None: the runs have 16 processors on any number of GPUs."""


GPU_APPLICATIONS = (
    GpuApplication("train.sh", "ada", downey_low(40_000, 10, 0.5), "a100", 8),
    GpuApplication("train.sh", "ada", downey_low(90_000, 10, 0.5), "v100", 8),
    GpuApplication("train.sh", "ada", amdahl(100_000, 0.02), None, None),
    GpuApplication("infer.sh", "bob", amdahl(20_000, 0.1), "a100", None),
)
"""The same program of one user on two types of GPUs and without any; another whose processors stay the same."""


@dataclass(frozen=True, slots=True)
class GpuRun:
    """A run, with what it held; times in s since 1970."""

    job_id: int
    of: GpuApplication
    gpus: int
    procs: int
    submit_s: int
    runtime_s: int


def gpu_runs(n_jobs: int, seed: int) -> list[GpuRun]:
    """Runs of GPU_APPLICATIONS in order of submit, each about its law, lognormal with NOISE."""
    rng = np.random.default_rng(seed)
    clock_s, found = float(START_S), []
    for job in range(n_jobs):
        clock_s += float(rng.exponential(1_800.0)) + 1.0
        of = GPU_APPLICATIONS[int(rng.integers(len(GPU_APPLICATIONS)))]
        count = int(rng.choice(COUNTS))
        procs = count if of.gpu_type is None else count * of.procs_per_gpu if of.procs_per_gpu else 16
        runtime_s = int(noisy(of.law.runtime_s(count), NOISE, rng)) + 1
        found.append(GpuRun(job + 1, of, 0 if of.gpu_type is None else count, procs, int(clock_s), runtime_s))
    return found


HEADER = (
    "JobID|JobName|User|Partition|Submit|Start|End|ElapsedRaw|TimelimitRaw|State|ReqCPUS|AllocCPUS|NNodes|AllocTRES"
)


def gpu_sacct(runs: Sequence[GpuRun]) -> str:
    """The runs as a dump of sacct, whose AllocTRES counts GPUs as a total and by type."""
    lines = [HEADER]
    for run in runs:
        stamps = [str(np.datetime64(at, "s")) for at in (run.submit_s, run.submit_s, run.submit_s + run.runtime_s)]
        cards = f",gres/gpu={run.gpus},gres/gpu:{run.of.gpu_type}={run.gpus}" if run.gpus else ""
        tres = f"billing={run.procs},cpu={run.procs}{cards},mem=4G,node=1"
        cells = (run.job_id, run.of.name, run.of.user, "batch", *stamps, run.runtime_s, 2_880, "COMPLETED", run.procs,
                 run.procs, 1, tres)  # fmt: skip
        lines.append("|".join(str(cell) for cell in cells))
    return "\n".join(lines) + "\n"


def gpu_pbs(runs: Sequence[GpuRun]) -> str:
    """The runs as records of OpenPBS, which knows no type of GPUs: ended jobs alone, in order of end."""
    ended = sorted(runs, key=lambda run: run.submit_s + run.runtime_s)
    return "".join(_ended(run) for run in ended)


def _ended(run: GpuRun) -> str:
    end_s = run.submit_s + run.runtime_s
    stamp = np.datetime64(end_s, "s").item().strftime("%m/%d/%Y %H:%M:%S")
    cards = f":ngpus={run.gpus}" if run.gpus else ""
    times = " ".join(f"{name}={run.submit_s}" for name in ("ctime", "qtime", "etime", "start"))
    return (
        f"{stamp};E;{run.job_id}.host;user={run.of.user} group=g jobname={run.of.name} queue=batch {times} "
        f"exec_vnode=(n1:ncpus={run.procs}{cards}) Resource_List.select=1:ncpus={run.procs}{cards} "
        f"Resource_List.walltime=48:00:00 session=1 end={end_s} Exit_status=0 "
        f"resources_used.walltime={run.runtime_s // 3600:02d}:{run.runtime_s // 60 % 60:02d}:{run.runtime_s % 60:02d}\n"
    )
