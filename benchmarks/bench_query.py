"""Costs of a published State: its bytes, seconds to load it, and seconds of a whole `walltime query` process.

python -m benchmarks.bench_query [--log LOG] [--copies 1] [--json]

A log's copies follow one another in time, each with user and application names of its own. The exit code is 1 where a
process takes more than 0.4 CPU-seconds, a job in a warm process more than 2 ms, or a batch fewer than 5,000 jobs/s.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flows.services.job_answers import LoadedState, answers, state_of
from flows.services.published.published_folder import read_columns
from pipeline import code_version
from pipeline.estimate.stage import learn_state
from pipeline.estimate.state import loaded_state
from pipeline.ingest import ingest
from pipeline.publish import Retention, load_manifest, publish
from pipeline.publish.manifest import made_manifest
from pipeline.settings import RunSettings, SiteSettings
from pipeline.storage import write_table
from pipeline.tables import JOBS, STATE

MOST_S, MOST_WARM_S, LEAST_JOBS_PER_S = 0.4, 0.002, 5_000
SAMPLE = Path(__file__).resolve().parents[1] / "data_samples" / "riverbend.swf.gz"
ASKED = ("user", "user_group", "account", "application", "queue", "procs", "requested_s")


def copied(jobs: pa.Table, copies: int) -> pa.Table:
    """The log so many times, one after another, each time with other names."""
    span_s = pc.max(jobs["end_s"]).as_py() - pc.min(jobs["submit_s"]).as_py() + 1
    parts = []
    for copy in range(copies):
        columns = {name: jobs[name] for name in jobs.column_names}
        for name in ("submit_s", "eligible_s", "start_s", "end_s"):
            columns[name] = pc.add(columns[name], copy * span_s)
        for name in ("user", "application", "job_id"):
            columns[name] = pc.binary_join_element_wise(columns[name].cast(pa.string()), str(copy), "_")
        parts.append(pa.table(columns).cast(JOBS.schema(on_disk=True)))
    return JOBS.check(pa.concat_tables(parts).cast(JOBS.schema()))


def process_s(folder: Path, runs: int = 15) -> dict[str, float]:
    """Median seconds of one question's whole process."""
    call = [sys.executable, "-m", "flows.cli", "query", "--from", str(folder), "--user", "1", "--procs", "8", "--json"]
    # As installed, with its sources compiled once, which the first run does.
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    wall_s, cpu_s = [], []
    subprocess.run(call, stdout=subprocess.DEVNULL, check=True, env=environment)
    for _ in range(runs):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(call, stdout=subprocess.DEVNULL, check=True, env=environment)
        wall_s.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return {"process_wall_s": statistics.median(wall_s), "process_cpu_s": statistics.median(cpu_s)}


def load_s(path: Path) -> float:
    """Least seconds of three to have a State that answers."""

    def once() -> float:
        began = time.perf_counter()
        loaded_state(read_columns(path, STATE), str(path))
        return time.perf_counter() - began

    return min(once() for _ in range(3))


def warm(held: LoadedState, jobs: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds a job, one at a time with compiled kernels, and jobs a second in a batch; loading kernels left out."""
    answers(held, jobs[:1])
    began = time.perf_counter()
    answers(held, jobs)
    batch_s, taken_s = time.perf_counter() - began, []
    for job in jobs[:: max(len(jobs) // 300, 1)]:
        began = time.perf_counter()
        answers(held, [job])
        taken_s.append(time.perf_counter() - began)
    return {"warm_job_s": statistics.median(taken_s), "batch_jobs_per_s": len(jobs) / batch_s}


def main() -> int:
    """Learn, publish, ask; print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, default=SAMPLE)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    site, settings = SiteSettings(), RunSettings()
    jobs = copied(ingest([given.log], site, settings.ingest)[0], given.copies)
    began = time.perf_counter()
    table, report = learn_state(jobs, site)
    found: dict[str, float] = {"jobs": jobs.num_rows, "learn_s": time.perf_counter() - began}
    found |= {name: report.facts[name] for name in ("n_submitters", "n_kinds", "mae_over_mean", "coverage_q95")}
    with tempfile.TemporaryDirectory() as scratch:
        staged = {"state": write_table(Path(scratch) / "state.parquet", table, STATE)}
        plain = settings.model_dump(mode="json")
        run = {"run_id": "bench", "site": site.name, "settings": plain, "logs": (), "code": code_version()}
        publish(staged, made_manifest(staged, [], run, Path(scratch) / "out", 0), Retention(newest=2))
        path = load_manifest(Path(scratch) / "out").path("state")
        found |= {"state_bytes": path.stat().st_size, "load_s": load_s(path), **process_s(Path(scratch) / "out")}
        rows = jobs.slice(0, 20_000).select(ASKED).to_pylist()
        found |= warm(state_of(load_manifest(Path(scratch) / "out"), is_live=True), rows)
    print(json.dumps(found) if given.json else "\n".join(f"{name:<18} {value:,.4g}" for name, value in found.items()))
    is_slow = found["process_cpu_s"] > MOST_S or found["warm_job_s"] > MOST_WARM_S
    return int(is_slow or found["batch_jobs_per_s"] < LEAST_JOBS_PER_S)


if __name__ == "__main__":
    sys.exit(main())
