"""simulate_log: applications in, a whole log with its truth out."""

import gzip
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tools.simulation.plant import AFTER, BEFORE, cut_at_end
from tools.simulation.planted_records import PLANTED_RECORDS
from tools.simulation.scheduler import scheduled
from tools.simulation.swf_text import Line, header, record, with_textual_traps
from tools.simulation.workload import DAY_S, Application, Job, random_applications, submitted_jobs

UNIX_START_S = 1_704_672_000  # Monday 2024-01-08 00:00 UTC


@dataclass(frozen=True, slots=True)
class SimulatedLog:
    """A log as lines, with what made it."""

    lines: tuple[Line, ...]
    applications: tuple[Application, ...]
    max_procs: int
    days: int
    newline: str = "\n"

    @property
    def text(self) -> str:
        """The whole log, line ends as in the file."""
        return "".join(line.text + self.newline for line in self.lines)

    @property
    def data(self) -> bytes:
        """The log as a file holds it: Latin-1, because a textual trap needs a byte that is not UTF-8."""
        return self.text.encode("latin-1")

    @property
    def jobs(self) -> list[Job]:
        """The records that can be read, in the order of the log."""
        return [line.job for line in self.lines if line.what == "record" and line.job]

    def planted(self) -> dict[str, list[int]]:
        """Job numbers by planted kind, in the order of PLANTED_RECORDS; a number stands once for each record."""
        found = {kind: [job.job_id for job in self.jobs if job.planted == kind] for kind in PLANTED_RECORDS}
        return {kind: numbers for kind, numbers in found.items() if numbers}

    def flags(self) -> dict[str, int]:
        """How many records each flag should set aside."""
        expected = Counter(PLANTED_RECORDS[job.planted].expected_flag for job in self.jobs if job.planted)
        return {str(flag): n for flag, n in sorted(expected.items(), key=str) if flag}

    def line_counts(self) -> dict[str, int]:
        """Lines by what they are; header lines are comments too."""
        found = Counter("comment" if line.what == "header" else line.what for line in self.lines)
        return {"lines": len(self.lines)} | {what: found[what] for what in ("record", "comment", "blank", "unreadable")}


def simulate_log(
    rng: np.random.Generator,
    *,
    applications: Sequence[Application] | None = None,
    n_applications: int = 8,
    n_jobs: int = 800,
    days: int = 28,
    max_procs: int = 256,
    anomalies: Mapping[str, int] | None = None,
    computer: str = "Simulated cluster",
    textual_traps: bool = False,
) -> SimulatedLog:
    """A whole log. `anomalies` says how many of each kind in BEFORE and AFTER to plant; none by default.

    Jobs running when the `days` are over are unfinished in any case.
    """
    chosen = tuple(applications or random_applications(n_applications, max_procs, rng))
    counts = dict(anomalies or {})
    strange = sorted(counts.keys() - BEFORE.keys() - AFTER.keys())
    if strange:
        raise ValueError(f"{strange}: not among {sorted(BEFORE.keys() | AFTER.keys())}")
    jobs = submitted_jobs(chosen, n_jobs, days, rng)
    for kind in [k for k in BEFORE if k in counts]:
        jobs = BEFORE[kind](jobs, rng, counts[kind], days)
    jobs = _recorded(cut_at_end(scheduled(jobs, max_procs), days * DAY_S), rng)
    for kind in [k for k in AFTER if k in counts]:
        jobs = AFTER[kind](jobs, rng, counts[kind], days)
    return swf_of(jobs, chosen, max_procs=max_procs, days=days, computer=computer, traps=textual_traps)


def write_swf(
    path: Path, jobs: Sequence[Job], *, max_procs: int, days: int, computer: str = "Simulated cluster"
) -> Path:
    """Jobs of a test's own making as a log with a header; gzip if the name ends in .gz. Returns the path."""
    data = swf_of(jobs, (), max_procs=max_procs, days=days, computer=computer).data
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


def _recorded(jobs: Sequence[Job], rng: np.random.Generator) -> list[Job]:
    """Numbers from 1, and what accounting measures: CPU time and memory used."""
    return [
        replace(
            job, job_id=number,
            cpu_s=-1 if job.runtime_s < 0 else round(job.runtime_s * rng.uniform(0.92, 0.995)),
            used_mem_kib=-1 if job.runtime_s < 0 else round(job.requested_mem_kib * rng.uniform(0.4, 0.8) / 256) * 256,
        )
        for number, job in enumerate(jobs, start=1)
    ]  # fmt: skip


def swf_of(
    jobs: Sequence[Job],
    applications: tuple[Application, ...],
    *,
    max_procs: int,
    days: int,
    computer: str,
    traps: bool = False,
) -> SimulatedLog:
    """Jobs as the lines of an SWF log, with a header."""
    notes = ["jobs come from known laws, anomalies are planted;", "the truth stands beside this file, in .truth.json"]
    if traps:
        notes.append("a comment in Latin-1: d\xe9j\xe0 vu")
    top = header(
        computer=computer, max_procs=max_procs, unix_start_s=UNIX_START_S, end_s=days * DAY_S,
        n_jobs=len({job.job_id for job in jobs}), n_records=len(jobs), notes=notes,
    )  # fmt: skip
    body = [record(job) for job in jobs]
    lines = [*top, *(with_textual_traps(body) if traps else body)]
    return SimulatedLog(tuple(lines), applications, max_procs, days, "\r\n" if traps else "\n")
