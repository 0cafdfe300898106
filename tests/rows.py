"""Small tables for tests: JOBS and OBSERVATIONS from a few plain values, with defaults for everything not named."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.laws import LAWS
from pipeline.tables import JOBS, OBSERVATIONS

PLAIN: dict[str, Any] = {
    "site": "here",
    "restart": 0,
    "user": "ada",
    "application": "solver",
    "submit_s": 1_000,
    "start_s": 1_060,
    "end_s": 1_160,
    "procs": 4,
    "runtime_s": 100.0,
    "state": "COMPLETED",
    "source_file": "log",
}


def jobs_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """JOBS with one row a dictionary; job_id and source_line count from 1 unless given."""
    full = [PLAIN | {"job_id": str(place), "source_line": place} | dict(row) for place, row in enumerate(rows, 1)]
    names = {name for row in full for name in row}
    return JOBS.build(**{name: [row.get(name) for row in full] for name in sorted(names)})


def flags(jobs: pa.Table) -> list[str | None]:
    """The flag of every job."""
    return jobs.column("flag").to_pylist()


def observations_of(
    series: Mapping[str, Mapping[int, float]], n_jobs: int = 1, log_sd: float | None = None
) -> pa.Table:
    """OBSERVATIONS from {group: {procs: median runtime}}, every size with the same jobs and spread."""
    points = [(group, procs, runtime_s) for group, curve in series.items() for procs, runtime_s in curve.items()]
    groups, procs, runtimes_s = zip(*points, strict=True) if points else ((), (), ())
    same = {"n_jobs": n_jobs, "first_start_s": 0, "last_end_s": 1, "log_sd": log_sd}
    shares = {"q10": -1.2816, "q90": 1.2816}
    return OBSERVATIONS.build(
        group_id=list(groups),
        procs=list(procs),
        runtime_s_median=list(runtimes_s),
        **{f"runtime_s_{name}": [t * np.exp(z * (log_sd or 0.0)) for t in runtimes_s] for name, z in shares.items()},
        **{name: [value] * len(points) for name, value in same.items()},
    )


def curve(law: str, sizes: Sequence[int], **parameters: float) -> dict[int, float]:
    """{procs: runtime} of a law without noise."""
    given = {name: np.float64(value) for name, value in parameters.items()}
    return {n: float(LAWS[law].runtime_s(given, float(n))) for n in sizes}
