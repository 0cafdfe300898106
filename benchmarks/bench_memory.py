"""Peak memory and CPU time of `walltime ingest` on logs of different length: the memory must not grow with the log.

python benchmarks/bench_memory.py [--rows 1000000 10000000] [--formats swf sacct pbs] [--json]

Each log is made from a fixed seed and read by the command itself in a process of its own, once. Memory is the largest
resident set of that process (the kernel's ru_maxrss, imports included), CPU time user + system.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from bench_pbs import made_log as made_pbs
from bench_sacct import made_dump as made_sacct

LIMIT_MIB = 700
_CHUNK_ROWS = 100_000


def made_swf(path: Path, n_rows: int, seed: int = 7) -> Path:
    """A plain SWF log, the same for the same seed, written some rows at a time: it may be longer than memory."""
    rng = np.random.default_rng(seed)
    submit = 0
    with path.open("w") as log:
        log.write("; Version: 2.2\n; UnixStartTime: 956700003\n; MaxProcs: 512\n")
        for first in range(1, n_rows + 1, _CHUNK_ROWS):
            n = min(_CHUNK_ROWS, n_rows - first + 1)
            submits = submit + np.cumsum(rng.integers(0, 70, n))
            submit = int(submits[-1])
            wait, runtime, user = rng.integers(0, 90_000, n), rng.integers(1, 86_400, n), rng.integers(1, 400, n)
            procs, queue = 2 ** rng.integers(0, 9, n), rng.integers(1, 6, n)
            columns = (submits, wait, runtime, procs, user, queue)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            log.writelines(
                f"{i:8d} {s:9d} {w:6d} {r:6d} {p:4d} {0.7 * r:8.2f} -1 {p:4d} {3600 * (1 + r // 3600):6d} -1 1 {u:3d}"
                f" -1 -1 {q:2d} -1 -1 -1\n"
                for i, (s, w, r, p, u, q) in enumerate(rows, first)
            )
    return path


MAKERS: dict[str, Callable[[Path, int], Path]] = {"swf": made_swf, "sacct": made_sacct, "pbs": made_pbs}


def measure(log: Path, out: Path) -> dict[str, float | int]:
    """What one `walltime ingest` of a log costs."""
    command = [sys.executable, "-m", "flows.cli", "ingest", str(log), "--out", str(out), "--json"]
    printed = out.with_suffix(".json")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    actions = [(os.POSIX_SPAWN_OPEN, 1, str(printed), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
    pid = os.posix_spawn(sys.executable, command, environment, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"a measured process failed with status {os.waitstatus_to_exitcode(status)}")
    report = json.loads(printed.read_text())["report"]
    cpu_s = usage.ru_utime + usage.ru_stime
    return {
        "lines": report["seen"]["rows"],
        "jobs": report["kept"]["rows"],
        "log_mib": log.stat().st_size >> 20,
        "cpu_s": round(cpu_s, 2),
        "lines_per_cpu_s": round(report["seen"]["rows"] / cpu_s),
        "peak_mib": usage.ru_maxrss // 1024,
    }


def main() -> None:
    """Measure every format at every length, and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--formats", nargs="+", choices=MAKERS, default=list(MAKERS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as name:
        for form in options.formats:
            for n_rows in options.rows:
                log = MAKERS[form](Path(name) / f"made.{form}", n_rows)
                found.append({"format": form} | measure(log, Path(name) / "jobs.parquet"))
                log.unlink()
    if options.json:
        print(json.dumps({"limit_mib": LIMIT_MIB, "measured": found}))
        return
    print(*(f"{column:>15}" for column in found[0]))
    for row in found:
        print(*(f"{value:>15}" for value in row.values()))


if __name__ == "__main__":
    main()
