"""Small tables for tests: JOBS from a few dictionaries, with plain defaults for everything not named."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipeline.core.tables import JOBS

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
