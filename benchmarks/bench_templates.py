"""Jobs per CPU-second of one template over a generated log, as of every submit, one thread.

python -m benchmarks.bench_templates [--jobs 1000000] [--json]

Compiling, or loading what was compiled before, is timed apart; coding attributes is part of every figure. The floor is
200,000 jobs a CPU-second a template; the exit code is 1 below it.
"""

import argparse
import json
import os
import sys
import time

os.environ["NUMBA_NUM_THREADS"] = "1"
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402

from pipeline.estimate.history import ATTRIBUTES, History  # noqa: E402
from pipeline.estimate.templates.smith import SMITH_DEFAULT, Sight, Template, predict, smith  # noqa: E402

FLOOR_JOBS_PER_S = 200_000
TEMPLATES = {
    "mean_user": Template(attributes=("user",)),
    "mean_10_user_application_request": Template(attributes=("user", "application", "requested_s"), max_count=10),
    "last_2_user": Template(attributes=("user",), statistic="last"),
    "median_10_user": Template(attributes=("user",), statistic="median", max_count=10),
    "median_1000_all": Template(statistic="median", max_count=1000),
    "log_30_days_user_application": Template(attributes=("user", "application"), statistic="log", max_age_days=30),
    "mean_relative_user_hour_procs": Template(attributes=("user", "hour"), procs_range="log2", is_relative=True),
}


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


def measured(n_jobs: int) -> dict[str, float]:
    """Every figure of the benchmark by name."""
    start = time.process_time()
    predict(Sight(made_history(100, 2)), SMITH_DEFAULT[0])
    figures = {"n_jobs": float(n_jobs), "compile_or_load_s": time.process_time() - start}
    history = made_history(n_jobs, 1)
    for name, template in TEMPLATES.items():
        start = time.process_time()
        predict(Sight(history), template)
        figures[f"{name}_jobs_per_s"] = n_jobs / (time.process_time() - start)
    figures["slowest_jobs_per_s"] = min(figures[f"{name}_jobs_per_s"] for name in TEMPLATES)
    start = time.process_time()
    smith(history, SMITH_DEFAULT)
    figures["smith_default_jobs_per_s"] = n_jobs / (time.process_time() - start)
    return figures


def main() -> int:
    """Print the figures; 1 where the floor is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measured(options.jobs)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:48s} {value:14,.4g}" if value < 100 else f"{name:48s} {value:14,.0f}")
    return int(figures["slowest_jobs_per_s"] < FLOOR_JOBS_PER_S)


if __name__ == "__main__":
    sys.exit(main())
