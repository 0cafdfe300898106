"""CPU time of a whole process that turns an SWF log into a checked Parquet table, beside one that only parses it.

python benchmarks/bench_swf.py [LOG] [--repeats N] [--json]

The other process is bare `pandas.read_csv(LOG, sep=r"\\s+", comment=";", header=None)`: imports and parsing, no types,
no checks, no writing. Both run in turn, so that a loaded machine burdens both; the figure is the median of the pairwise
ratios of user + system time. Without LOG, a log of 250,000 jobs is made from a fixed seed.
"""

import argparse
import gzip
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

OURS = """
import sys
from pathlib import Path
from pipeline.core.settings import IngestSettings, SiteSettings
from pipeline.core.store import write_table
from pipeline.core.tables import JOBS
from pipeline.ingest import ingest
jobs, unreadable, report = ingest([Path(sys.argv[1])], SiteSettings(name="bench"), IngestSettings())
write_table(Path(sys.argv[2]), jobs, JOBS)
"""
BARE = r"""
import sys
import pandas
pandas.read_csv(sys.argv[1], sep=r"\s+", comment=";", header=None)
"""
MADE_JOBS = 250_000


def made_log(path: Path, n_jobs: int = MADE_JOBS, seed: int = 7) -> Path:
    """A gzipped SWF log in the archive's aligned layout, the same for the same seed."""
    rng = np.random.default_rng(seed)
    submit = np.cumsum(rng.integers(0, 700, n_jobs))
    wait, runtime = rng.integers(0, 90_000, n_jobs), rng.integers(1, 86_400, n_jobs)
    procs = 2 ** rng.integers(0, 9, n_jobs)
    cpu = runtime * rng.uniform(0.5, 1.0, n_jobs)
    asked = 3_600 * rng.integers(1, 25, n_jobs)
    status, user = rng.choice([1, 0, 5], n_jobs, p=[0.8, 0.1, 0.1]), rng.integers(1, 400, n_jobs)
    queue = rng.integers(1, 6, n_jobs)
    rows = zip(submit, wait, runtime, procs, cpu, asked, status, user, queue, strict=True)
    names = "".join(f"; Queue: {number} q{number}\n" for number in range(1, 6))
    with gzip.open(path, "wt", compresslevel=6) as log:
        log.write(f"; Version: 2.2\n; UnixStartTime: 956700003\n; MaxProcs: 512\n{names}")
        log.writelines(
            f"{i:6d} {s:8d} {w:6d} {r:6d} {p:4d} {c:8.2f}    -1 {p:4d} {a:6d}    -1 {st:2d} {u:3d}"
            f"  -1  -1 {q:2d} -1 -1 -1\n"
            for i, (s, w, r, p, c, a, st, u, q) in enumerate(rows, 1)
        )
    return path


def cpu_s(code: str, *arguments: str) -> float:
    """User + system time of one Python process, its children included."""
    command = [sys.executable, "-c", code, *arguments]
    pid = os.posix_spawn(sys.executable, command, {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])})
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"a measured process failed with status {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime


def measure(log: Path, repeats: int, folder: Path) -> dict[str, float | str | int]:
    """Both processes in turn, once unmeasured to fill caches, then `repeats` times."""
    target = str(folder / "jobs.parquet")
    pairs = [(cpu_s(OURS, str(log), target), cpu_s(BARE, str(log))) for _ in range(repeats + 1)][1:]
    ours, bare = zip(*pairs, strict=True)
    return {
        "log": log.name,
        "repeats": repeats,
        "ingest_cpu_s_min": round(min(ours), 3),
        "ingest_cpu_s_median": round(statistics.median(ours), 3),
        "pandas_cpu_s_min": round(min(bare), 3),
        "pandas_cpu_s_median": round(statistics.median(bare), 3),
        "ratio_of_minima": round(min(ours) / min(bare), 3),
        "ratio_median": round(statistics.median(one / other for one, other in pairs), 3),
    }


def main() -> None:
    """Measure, and print a line a figure, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", nargs="?", type=Path)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = options.log.resolve() if options.log else made_log(folder / "made.swf.gz")
        figures = measure(log, options.repeats, folder)
    print(json.dumps(figures) if options.json else "\n".join(f"{key:22} {value}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
