"""Speed and memory of all screens together on a generated table.

.venv/bin/python benchmarks/bench_clean.py [--jobs 5000000] [--repeats 3] [--json]

The peer is one pandas group-by over the same jobs (a median runtime per user, size and application): what a site's own
script would do at the least to ask one of the questions that the screens ask.
"""

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.arrays import CATEGORY
from pipeline.clean import clean
from pipeline.settings import CleanSettings, SiteSettings
from pipeline.storage import read_table, write_table
from pipeline.tables import JOBS

SITE = SiteSettings(max_procs=4096, timezone="Europe/Stockholm")


def synthetic(n: int, seed: int = 1) -> pa.Table:
    """`n` jobs over four years: 2,000 users with rates of their own, 3,000 applications, and one burst."""
    rng = np.random.default_rng(seed)
    user = np.minimum(rng.zipf(1.3, n) - 1, 1_999)
    submit_s = np.sort(1_577_836_800 + rng.integers(0, 4 * 365 * 86_400, n))
    runtime_s = np.exp(rng.normal(7.0, 2.0, n)).round() + 1
    start_s = submit_s + rng.integers(1, 36_000, n)
    burst = slice(n // 2, n // 2 + n // 100)
    user[burst], runtime_s[burst] = 7, 30.0
    submit_s[burst] = submit_s[burst.start]
    start_s[burst] = submit_s[burst] + 60
    application = (user * 3 + rng.integers(0, 3, n)) % 3_000
    procs = 2 ** rng.integers(0, 10, n)
    return JOBS.build(
        site=_category(np.zeros(n, np.int64), "big"),
        job_id=np.arange(n).astype(str).tolist(),
        restart=np.zeros(n, np.int64),
        user=_category(user, "u"),
        application=_category(application, "app"),
        queue=_category(procs % 3, "q"),
        submit_s=submit_s,
        start_s=start_s,
        end_s=start_s + runtime_s.astype(np.int64),
        procs=procs,
        runtime_s=runtime_s,
        requested_s=np.ceil(runtime_s / 3600) * 7200,
        state=_category((rng.random(n) < 0.05).astype(np.int64), "STATE"),
        source_file=_category(np.zeros(n, np.int64), "log"),
        source_line=np.arange(1, n + 1),
    )


def read_again(path: Path, n: int) -> pa.Table:
    """The synthetic jobs written by another process and read back: its memory is not this one's."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(write_synthetic, path, n).result()
    return read_table(path, JOBS)


def write_synthetic(path: Path, n: int) -> None:
    """The synthetic jobs as Parquet."""
    write_table(path, synthetic(n), JOBS)


def _category(codes: np.ndarray, prefix: str) -> pa.Array:
    names = [f"{prefix}{k}" for k in range(int(codes.max()) + 1)]
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names)).cast(CATEGORY)


def cpu_s(call: Callable[[], object]) -> float:
    """CPU seconds of this process, all threads, for one call."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def main() -> None:
    """Time the screens and the peer in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    clean(synthetic(10_000), CleanSettings(), SITE)
    with tempfile.TemporaryDirectory() as folder:
        jobs = read_again(Path(folder) / "jobs.parquet", chosen.jobs)
    table_mib = jobs.nbytes / 2**20
    screens = [cpu_s(partial(clean, jobs, CleanSettings(), SITE)) for _ in range(chosen.repeats)]
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    frame = jobs.select(["user", "procs", "application", "runtime_s"]).to_pandas()
    keys = ["user", "procs", "application"]
    peer = [cpu_s(frame.groupby(keys, observed=True)["runtime_s"].median) for _ in range(chosen.repeats)]
    figures = {
        "jobs": chosen.jobs,
        "jobs_per_cpu_s": chosen.jobs / float(np.median(screens)),
        "over_pandas_median": float(np.median(screens) / np.median(peer)),
        "table_mib": table_mib,
        "peak_mib": peak_mib,
    }
    print(
        json.dumps(figures) if chosen.json else "\n".join(f"{name:>20} {value:,.2f}" for name, value in figures.items())
    )


if __name__ == "__main__":
    main()
