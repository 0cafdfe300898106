"""CPU time of whole processes that turn an SWF log into a checked Parquet table, beside one that only parses it.

python benchmarks/bench_swf.py [LOG] [--repeats N] [--json]

The other process is bare `pandas.read_csv(LOG, sep=r"\\s+", comment=";", header=None)`: imports and parsing, no types,
no checks, no writing. Ours are the library's `ingest` in a script of a few lines, and the command `walltime ingest`,
which reads its options and prints its report as well. All run in turn, so that a loaded machine burdens all; the figure
is the median of the pairwise ratios of user + system time. Without LOG, one of 250,000 jobs is made from a fixed seed.
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

LIBRARY = """
import sys
from pathlib import Path
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.ingest import OnDisk, ingest
log, out = map(Path, sys.argv[1:])
ingest([log], SiteSettings(name="bench"), IngestSettings(), to=OnDisk(out, out.with_suffix(".unreadable")))
"""
COMMAND = """
import sys
from flows.cli import main
sys.argv = ["walltime", "ingest", sys.argv[1], "--out", sys.argv[2]]
main()
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
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with Path(os.devnull).open("wb") as nowhere:
        said = [(os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1)]
        pid = os.posix_spawn(sys.executable, command, environment, file_actions=said)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"a measured process failed with status {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime


def measure(log: Path, repeats: int, folder: Path) -> dict[str, float | str | int]:
    """All processes in turn, once unmeasured to fill caches, then `repeats` times."""
    out = str(folder / "jobs.parquet")
    runs = {
        "library": (LIBRARY, str(log), out),
        "command": (COMMAND, str(log), out),
        "pandas": (BARE, str(log)),
    }
    rounds = [{name: cpu_s(*run) for name, run in runs.items()} for _ in range(repeats + 1)][1:]
    figures: dict[str, float | str | int] = {"log": log.name, "repeats": repeats}
    for name in runs:
        figures[f"{name}_cpu_s_min"] = round(min(one[name] for one in rounds), 3)
        figures[f"{name}_cpu_s_median"] = round(statistics.median(one[name] for one in rounds), 3)
    for name in ("library", "command"):
        least = min(one[name] for one in rounds) / min(one["pandas"] for one in rounds)
        figures[f"{name}_ratio_of_minima"] = round(least, 3)
        figures[f"{name}_ratio_median"] = round(statistics.median(one[name] / one["pandas"] for one in rounds), 3)
    return figures


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
    print(json.dumps(figures) if options.json else "\n".join(f"{key:24} {value}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
