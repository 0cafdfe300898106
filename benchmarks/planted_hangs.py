"""Share of planted hangs that the screen finds in real logs, and the final states of the long jobs it examines.

.venv/bin/python benchmarks/planted_hangs.py LOG.swf.gz ...    prints the table; --json for figures

One in fifty of the jobs that ran to their end, or whose end is unknown, takes 30 times as long, asks for twice that and
is cancelled. Found: their share that is flagged, in groups that can be judged (`hangs_above_s`) after the planting.
Outliers are the log's own jobs beyond that runtime: those that reached their request, and the others.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import CATEGORY
from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.records import reached_limit
from pipeline.clean.runtimes import hang, hangs_above_s, similar_jobs
from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings

COLUMNS = (
    "log", "planted", "in judged groups", "found", "outliers", "completed", "unknown", "at request",
    "completed at request", "unknown at request", "flagged",
)  # fmt: skip
FACTOR = 30
SHARE = 0.02


def planted(jobs: pa.Table, seed: int = 1) -> tuple[pa.Table, np.ndarray]:
    """The jobs with some of them made hangs, and which."""
    arrays = JobArrays(jobs, SiteSettings())
    able = arrays.is_typical & (arrays.runtime_s > 0)
    chosen = able & (np.random.default_rng(seed).random(jobs.num_rows) < SHARE)
    runtime_s = np.where(chosen, FACTOR * arrays.runtime_s, arrays.runtime_s)
    requested_s = np.where(chosen, 2 * runtime_s, arrays.requested_s)
    states = pa.array(np.where(chosen, "CANCELLED", jobs.column("state").cast(pa.string()).to_numpy()), pa.string())
    columns = {
        "runtime_s": pa.array(runtime_s, from_pandas=True),
        "requested_s": pa.array(requested_s, from_pandas=True),
        "state": states.dictionary_encode().cast(CATEGORY),
    }
    for name, values in columns.items():
        place, field = jobs.column_names.index(name), jobs.schema.field(name)
        jobs = jobs.set_column(place, field, values.cast(field.type))
    return jobs, chosen


def judged(arrays: JobArrays) -> tuple[np.ndarray, np.ndarray]:
    """Per job, whether its group is judged for hangs, and whether the job ran longer than a hang."""
    similar = similar_jobs(arrays)
    above_s = np.append(hangs_above_s(similar), np.nan)[similar.group]
    return ~np.isnan(above_s), arrays.runtime_s > above_s


def figures(log: Path) -> dict[str, Any]:
    """What the screen makes of one log, with hangs planted and as it is."""
    jobs, _, _ = ingest([log], SiteSettings(), IngestSettings())
    mixed, chosen = planted(jobs)
    arrays = JobArrays(mixed, SiteSettings())
    is_judged = chosen & judged(arrays)[0]
    own = JobArrays(jobs, SiteSettings())
    outliers, reached = judged(own)[1], reached_limit(own)
    return {
        "log": log.name.removesuffix(".swf.gz"),
        "planted": int(chosen.sum()),
        "in judged groups": int(is_judged.sum()),
        "found": float(hang(arrays)[is_judged].mean()) if is_judged.any() else None,
        **ends(own, outliers & ~reached, ""),
        **ends(own, outliers & reached, " at request"),
        "flagged": int(hang(own).sum()),
    }


def ends(arrays: JobArrays, chosen: np.ndarray, where: str) -> dict[str, int]:
    """How many of the jobs there are, how many completed, and of how many the end is unknown."""
    completed, unknown = arrays.state_is("COMPLETED"), arrays.codes("state")[0] < 0
    counts = (int(chosen.sum()), int((chosen & completed).sum()), int((chosen & unknown).sum()))
    names = (where.strip() or "outliers", f"completed{where}", f"unknown{where}")
    return dict(zip(names, counts, strict=True))


def main() -> None:
    """Plant hangs in every log and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = [figures(log) for log in given.logs]
    if given.json:
        print(json.dumps(rows))
        return
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for row in rows:
        shown = [_shown(row[name]) for name in COLUMNS]
        print(f"| {' | '.join(shown)} |")


def _shown(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value or "")


if __name__ == "__main__":
    main()
