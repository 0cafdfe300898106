"""What the estimator loses where it learns only the newest jobs of a log: the error on the last third.

python benchmarks/learn_jobs.py LOG... [--config configs/swf.toml]

The estimator answers each job of the last third as of its submit. It has learnt all jobs before it, or only those that
come after a job that lies so many jobs before the last third. The error is the mean absolute error of the median over
the mean runtime, without jobs whose runtime is a lower bound.
"""

import argparse
from pathlib import Path

import numpy as np

from flows.services.files.os_errors import config_settings
from pipeline.estimate.history import History, history
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.state import walltime
from pipeline.ingest import ingest

ROOT = Path(__file__).parents[1]
NEWEST_JOBS = (None, 200_000, 100_000, 50_000, 20_000)


def error(log: History, first: int, scored: int) -> float:
    """The error from the job `scored` on, where the jobs from `first` on are learnt."""
    median_s = walltime(log.take(np.arange(first, len(log))))[scored - first :, QUANTILES.index(0.5)]
    runtime_s = log.runtime_s[scored:]
    is_known = np.isfinite(runtime_s) & ~log.is_lower_bound[scored:]
    return float(np.abs(median_s - runtime_s)[is_known].mean() / runtime_s[is_known].mean())


def main() -> None:
    """Print a row for each log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "swf.toml")
    asked = parser.parse_args()
    settings = config_settings(asked.config)
    print("| log | jobs | all | " + " | ".join(f"{n:,}" for n in NEWEST_JOBS[1:]) + " |")
    print("| --- |" + " ---: |" * (len(NEWEST_JOBS) + 1))
    for path in asked.logs:
        log = history(ingest([path], settings.site, settings.ingest)[0], settings.site.timezone)
        scored = len(log) * 2 // 3
        firsts = [0 if n is None else scored - n for n in NEWEST_JOBS]
        cells = [f"{error(log, first, scored):.3f}" if first >= 0 else "" for first in firsts]
        print(f"| {path.name.split('.')[0]} | {len(log):,} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
