"""Recommended requests against what the jobs of these kinds ran, on the later half of each log.

python -m benchmarks.advice_table LOG ...

Each job of a log's later half is compared with what was recommended for its kind at the midnight before its submit.
Columns: the share of the jobs that were told a request; of these the share that ran longer (stated: 3%); kinds with 100
such jobs or more, how many of them had over 8% longer, and the worst share; the jobs that would have requested at least
a quarter and 10 min less by it (`saves_enough`: only these are told), and the share of these that ran longer.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.backtest_table import line, short
from flows.services.logs import flagged_jobs, settings_and_logs
from pipeline.estimate.history import History
from pipeline.evaluate.backtest import past_of
from pipeline.limits.advice import advice_of, kinds_of, runs_longer
from pipeline.limits.soft import saves_enough

MANY_JOBS, MOST_LONGER = 100, 0.08
HEADER = (
    "log", "told, %", "ran longer, %", "kinds with 100 jobs", "above 8%", "worst, %", "could save",
    "of these longer, %", "s",
)  # fmt: skip


def row_of(name: str, past: History) -> list[Any]:
    """The cells of one log."""
    begun_s = time.process_time()
    told_s = advice_of(past, float(np.nanmax(np.where(np.isfinite(past.end_s), past.end_s, np.nan)))).told_s
    cpu_s = time.process_time() - begun_s
    half = np.flatnonzero(past.has_run & (np.arange(len(past)) >= len(past) // 2))
    told = half[~np.isnan(told_s[half])]
    longer = runs_longer(past, told, told_s[told])
    kind = np.unique(kinds_of(past)[told], return_inverse=True)[1]
    n_jobs = np.bincount(kind)
    shares = (np.bincount(kind, longer) / n_jobs)[n_jobs >= MANY_JOBS]
    could_save = saves_enough(told_s[told], past.requested_s[told])
    of_these = f"{100 * longer[could_save].mean():.1f}" if could_save.any() else ""
    worst = f"{100 * shares.max():.1f}" if len(shares) else ""
    return [short(name), f"{100 * len(told) / len(half):.0f}", f"{100 * longer.mean():.2f}", len(shares),
            int((shares > MOST_LONGER).sum()), worst, int(could_save.sum()), of_these,
            f"{cpu_s:.1f}"]  # fmt: skip


def main() -> None:
    """Print the table of the logs named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path, nargs="+")
    print(line(HEADER), line(["---"] * len(HEADER)), sep="\n", flush=True)
    for path in parser.parse_args().logs:
        name, settings, paths = settings_and_logs(path)
        print(line(row_of(name, past_of(flagged_jobs(paths, settings)[0], settings))), flush=True)


if __name__ == "__main__":
    main()
