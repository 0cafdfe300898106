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

from pipeline.estimate.history import ATTRIBUTES, History
from pipeline.estimate.state import learn, loaded_state, state_table
from pipeline.storage import read_table, write_table
from pipeline.tables import STATE

MIB = 2**20


def made_history(n_jobs: int, seed: int, n_users: int = 1000) -> History:
    """Jobs of so many users (a few of them most jobs) and 200 applications over two years."""
    rng = np.random.default_rng(seed)
    submit_s = np.sort(rng.integers(0, 2 * 365 * 86_400, n_jobs)).astype(float)
    runtime_s = np.ceil(np.exp(rng.normal(7, 2, n_jobs)))
    start_s = submit_s + rng.exponential(3600, n_jobs).round()
    codes = {name: np.full(n_jobs, -1, np.int64) for name in (*ATTRIBUTES, "job_name", "array_id", "who", "what")}
    codes["user"] = codes["who"] = np.minimum(rng.zipf(1.3, n_jobs), n_users).astype(np.int64) - 1
    codes["application"] = codes["what"] = rng.integers(0, 200, n_jobs)
    names = {name: [str(code) for code in range(int(own.max(initial=-1)) + 1)] for name, own in codes.items()}
    return History(
        row=np.arange(n_jobs), submit_s=submit_s, start_s=start_s, end_s=start_s + runtime_s, runtime_s=runtime_s,
        requested_s=rng.choice([900.0, 3600.0, 14_400.0, 86_400.0], n_jobs),
        requested_mem_kib=np.full(n_jobs, np.nan), gpus=np.full(n_jobs, np.nan),
        procs=2.0 ** rng.integers(0, 9, n_jobs),
        local_s=submit_s.astype(np.int64), is_lower_bound=rng.random(n_jobs) < 0.05,
        is_learnt=np.ones(n_jobs, np.bool_), codes=codes, names=names,
    )  # fmt: skip


def measured(n_jobs: int, n_users: int) -> dict[str, float]:
    """Every figure of one size."""
    learn(made_history(2000, 2))
    history = made_history(n_jobs, 1, n_users)
    held_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.process_time()
    state = learn(history, float(history.submit_s[-1]))
    spent_s = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        path = write_table(Path(folder) / "state.parquet", state_table(state), STATE)
        size = path.stat().st_size
        start = time.perf_counter()
        loaded_state(read_table(path, STATE), "here")
        load_s = time.perf_counter() - start
    return {
        "jobs": n_jobs, "users": n_users, "jobs_per_cpu_s": n_jobs / spent_s, "history_mib": held_mib,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "state_mib": size / MIB,
        "load_s": load_s, "jobs_remembered": len(state.ids),
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
