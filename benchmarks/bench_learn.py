"""Learning a State: jobs per CPU-second, peak memory, the State's bytes and seconds to load it.

    .venv/bin/python -m benchmarks.bench_learn --jobs 100000 --jobs 1000000 --users 200 --users 2000 [--json]

Each size is learnt in a process of its own, from jobs of its own making (Zipf's law over users, log-normal runtimes).
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.bench_templates import made_history
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.state_table import loaded_state, state_table
from pipeline.estimate.walltime import learn
from pipeline.storage import read_table, write_table
from pipeline.tables import STATE

MIB = 2**20


def measured(n_jobs: int, n_users: int) -> dict[str, float]:
    """Every figure of one size."""
    settings = EstimateRules()
    learn(made_history(2000, 2), settings, np.inf)
    history = made_history(n_jobs, 1, n_users)
    held_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.process_time()
    state = learn(history, settings, float(history.submit_s[-1]))
    spent_s = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        path = write_table(Path(folder) / "state.parquet", state_table(state, settings), STATE)
        size = path.stat().st_size
        start = time.perf_counter()
        loaded_state(read_table(path, STATE), "here", goes_on=False)
        load_s = time.perf_counter() - start
    return {
        "jobs": n_jobs, "users": n_users, "jobs_per_cpu_s": n_jobs / spent_s, "history_mib": held_mib,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "state_mib": size / MIB,
        "load_s": load_s, "jobs_remembered": len(state.ids), "chain_keys": len(state.chain.keys),
    }  # fmt: skip


def main() -> None:
    """Print a line a size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, action="append")
    parser.add_argument("--users", type=int, action="append")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.jobs[0], options.users[0])))
        return
    found = []
    for jobs in options.jobs or [100_000, 1_000_000]:
        for users in options.users or [200, 2000]:
            sizes = ["--jobs", str(jobs), "--users", str(users)]
            command = [sys.executable, "-m", "benchmarks.bench_learn", "--one", *sizes]
            found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            if not options.json:
                print("  ".join(f"{name} {value:,.4g}" for name, value in found[-1].items()), flush=True)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
