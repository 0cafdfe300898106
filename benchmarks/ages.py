"""Error and coverage of answers that are 0, 1 and 7 days old, beside a plain median of the same age; lines a log.

python -m benchmarks.ages LOG... [--jobs N]

Scored are the last two thirds of the jobs that ran, as in `walltime backtest`. Error: mean absolute error over the mean
runtime, and this over the error at 0 days. Held: runtimes in the 80% interval, and below the 95% quantile, in per cent.
The peer has quantiles of the last 200 jobs of the most specific key that has one, of the jobs that had ended by then.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.backtest_table import line, short
from benchmarks.later_table import jobs_of
from pipeline.arrays import DAY_S, Bools, Floats
from pipeline.estimate.baselines import EVERYBODY, OWN, QUANTILE, latest
from pipeline.estimate.history import History
from pipeline.estimate.score import N_QUANTILES, scores
from pipeline.estimate.state import AGES_S, learn
from pipeline.evaluate.backtest import TRAIN_SHARE, past_of

KEYS = (*OWN, *EVERYBODY, ())
HEADER = ("log", "jobs", "days", "error", "over live", "held 80/95", "peer's error", "its 80/95", "error over peer's")


def plain_median(log: History, age_s: float) -> Floats:
    """(jobs, 6) quantiles, s, of the last 200 jobs of the most specific key; an end is known `age_s` later."""
    found = latest(replace(log, end_s=log.end_s + age_s), log.runtime_s, KEYS, 200, QUANTILE)
    return np.fmin(found, np.where(log.requested_s > 0, log.requested_s, np.inf)[:, None])


def figures(log: History, quantiles_s: Floats, chosen: Bools) -> tuple[float, str]:
    """Error over the mean runtime; shares held, in per cent."""
    found = scores(log.runtime_s, quantiles_s, chosen)
    return found["mae_over_mean"], f"{100 * found['coverage_80']:.1f}/{100 * found['coverage_q95']:.1f}"


def lines(name: str, log: History) -> Iterator[str]:
    """A line for each age."""
    by_age: dict[float, list[Floats]] = {}
    learn(log, found=by_age)
    ran = np.flatnonzero(log.has_run)
    chosen, live = np.zeros(len(log), np.bool_), 0.0
    chosen[ran[int(len(ran) * TRAIN_SHARE) :]] = True
    for age_s in AGES_S:
        ours_s, peer_s = np.concatenate(by_age[age_s])[:, :N_QUANTILES], plain_median(log, age_s)
        both = chosen & ~np.isnan(ours_s[:, 1] + peer_s[:, 1])
        (ours, held), (peer, peers_held) = figures(log, ours_s, both), figures(log, peer_s, both)
        live = live or ours
        cells = [short(name), f"{both.sum():,}", f"{age_s / DAY_S:g}", f"{ours:.3f}", f"{ours / live:.2f}", held]
        yield line([*cells, f"{peer:.3f}", peers_held, f"{ours / peer:.2f}"])


def main() -> None:
    """Print the table of the logs named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--jobs", type=int, help="first jobs of each log")
    given = parser.parse_args()
    print(line(HEADER), line(["---"] * len(HEADER)), sep="\n", flush=True)
    for path in given.logs:
        settings, jobs = jobs_of(path)
        past = past_of(jobs, settings)
        for one in lines(path.name, past.take(np.arange(min(len(past), given.jobs or len(past))))):
            print(one, flush=True)


if __name__ == "__main__":
    main()
