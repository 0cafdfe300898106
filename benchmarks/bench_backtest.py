"""Jobs a CPU-second of every method, each estimate as of the job's submit, beside a plain-Python loop; one thread.

python -m benchmarks.bench_backtest [--jobs 200000] [--log LOG.swf.gz] [--json]

Without --log the jobs are made from a fixed seed. Compiling, or loading what was compiled before, is timed apart. The
peer does what a script would: a heap of running jobs, a dictionary of users, the mean of a user's last two runtimes; it
must give the very estimates of `last_two`. Floors: 200,000 jobs a CPU-second for a method that looks up latest jobs,
20,000 for `walltime`. The exit code is 1 where one is missed.
"""

import argparse
import heapq
import json
import os
import sys
import time
from pathlib import Path

os.environ["NUMBA_NUM_THREADS"] = "1"
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402

from benchmarks.bench_learn import made_history  # noqa: E402
from pipeline.clean import clean  # noqa: E402
from pipeline.estimate.history import History  # noqa: E402
from pipeline.evaluate.backtest import past_of  # noqa: E402
from pipeline.evaluate.methods import ESTIMATORS  # noqa: E402
from pipeline.ingest import ingest  # noqa: E402
from pipeline.settings import RunSettings  # noqa: E402

SIMPLE = ("last_two", "last_two_chain", "recent_median", "recent_50", "everybody")
SIMPLE_FLOOR, WHOLE_FLOOR = 200_000, 20_000


def read(log: Path) -> History:
    """The jobs of a log that ran."""
    settings = RunSettings()
    jobs, *_ = ingest([log], settings.site, settings.ingest)
    flagged, *_ = clean(jobs, settings.clean, settings.site)
    return past_of(flagged, settings)


def plain_last_two(past: History) -> list[float]:
    """`last_two` as a loop in Python over plain values, s; NaN where there is neither a past nor a request."""
    users, runtimes, ends = past.codes["who"].tolist(), past.runtime_s.tolist(), past.end_s.tolist()
    latest: dict[int, tuple[float, float]] = {}
    running: list[tuple[float, int]] = []
    estimates_s = []
    for job, (submit_s, request_s) in enumerate(zip(past.submit_s.tolist(), past.requested_s.tolist(), strict=True)):
        while running and running[0][0] <= submit_s:
            over = heapq.heappop(running)[1]
            latest[users[over]] = (latest.get(users[over], (np.nan, np.nan))[1], runtimes[over])
        mean_s = sum(latest.get(users[job], (np.nan, np.nan))) / 2
        estimates_s.append(request_s if np.isnan(mean_s) else min(mean_s, request_s) if request_s > 0 else mean_s)
        if runtimes[job] == runtimes[job]:  # a job cancelled in the queue has none
            heapq.heappush(running, (ends[job], job))
    return estimates_s


def measured(past: History) -> dict[str, float]:
    """Every figure by name; compiled code is run once before it is timed."""
    figures = {"n_jobs": float(len(past))}
    start = time.process_time()
    for method in ESTIMATORS.values():
        method(made_history(600, 2))
    figures["compile_or_load_s"] = time.process_time() - start
    for name, method in ESTIMATORS.items():
        start = time.process_time()
        method(past)
        figures[f"{name}_jobs_per_s"] = len(past) / (time.process_time() - start)
    start = time.process_time()
    estimates_s = plain_last_two(past)
    figures["plain_python_last_two_jobs_per_s"] = len(past) / (time.process_time() - start)
    same = np.isclose(estimates_s, ESTIMATORS["last_two"](past)[:, 1], equal_nan=True)
    figures["plain_python_agrees"] = float(same.mean())
    return figures


def is_met(figures: dict[str, float]) -> bool:
    """Whether every floor holds."""
    simple = [f"{name}_jobs_per_s" for name in SIMPLE]
    return (
        all(figures[name] >= SIMPLE_FLOOR for name in simple)
        and figures["walltime_jobs_per_s"] >= WHOLE_FLOOR
        and figures["plain_python_agrees"] == 1.0
    )


def main() -> int:
    """Print the figures; 1 where a floor is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    past = read(options.log) if options.log else made_history(options.jobs, 1)
    figures = measured(past)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:40s} {value:14,.4g}" if value < 100 else f"{name:40s} {value:14,.0f}")
    return int(not is_met(figures))


if __name__ == "__main__":
    sys.exit(main())
