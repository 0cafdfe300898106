"""Time left of running jobs, beside the estimate and the limit less the time that has passed: a line a log.

python -m benchmarks.time_left [--jobs N] [--pairs N] LOG ...

Each question is of a random running job at a random instant after the first third of the jobs, so that a job is asked
about in proportion to its runtime; what is said rests on what was known then. Pinball: mean loss of the quantiles from
5 to 95%, s. Held: how many true times lie between the quantiles of 10 and 90%, asked when 10, 50 and 90% of the limit
have passed.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.backtest_table import line, short
from flows.services.limits import limit_log
from pipeline.arrays import Floats, Ints
from pipeline.estimate.history import History
from pipeline.estimate.score import at_share
from pipeline.estimate.state import walltime
from pipeline.schedule.time_left import UNCALIBRATED, Calibration, Outcomes, calibration, outcomes_of, time_left

SHARES = tuple(float(share) for share in np.round(np.arange(0.05, 0.96, 0.05), 2))
LIMIT_SHARES = (0.1, 0.5, 0.9)
HEADER = (
    "log", "questions", "time left (s)", "uncalibrated", "estimate - elapsed", "limit - elapsed",
    "held at 10/50/90% of the limit",
)  # fmt: skip


def pinball_s(left_s: Floats, said_s: Floats) -> float:
    """The mean loss over SHARES, s."""
    off_s, share = left_s[:, None] - said_s, np.array(SHARES)
    return float(np.maximum(share * off_s, (share - 1) * off_s).mean())


def said(
    past: History, quantiles_s: Floats, outcomes: Outcomes | None, jobs: Ints, elapsed_s: Floats,
    shares: tuple[float, ...] = SHARES,
) -> Floats:  # fmt: skip
    """(questions, shares) time left, s, each as of its instant; without outcomes uncalibrated."""
    found = np.empty((len(jobs), len(shares)))
    for row, (job, ran_s) in enumerate(zip(jobs, elapsed_s, strict=True)):
        known: Calibration = UNCALIBRATED
        if outcomes is not None:
            known = calibration(outcomes, past.start_s[job] + ran_s)
        one = slice(job, job + 1)
        found[row] = time_left(quantiles_s[one], elapsed_s[row : row + 1], past.requested_s[one], known, shares)
    return found


def row_of(path: Path, n_jobs: int, n_pairs: int) -> list[str]:
    """The cells of one log."""
    name, whole = limit_log(path)
    past = whole.take(np.arange(min(len(whole), n_jobs)))
    quantiles_s = walltime(past)
    outcomes = outcomes_of(quantiles_s, past.runtime_s, past.requested_s, past.end_s)
    can = past.has_run & (past.requested_s > 0) & np.isfinite(past.start_s) & ~np.isnan(quantiles_s).any(axis=1)
    asked = np.flatnonzero(can & (past.runtime_s > 1))
    asked, random = asked[asked >= len(past) // 3], np.random.default_rng(1)
    jobs = random.choice(asked, n_pairs, p=past.runtime_s[asked] / past.runtime_s[asked].sum())
    elapsed_s = random.uniform(0, 1, n_pairs) * past.runtime_s[jobs]
    left_s = past.runtime_s[jobs] - elapsed_s
    estimate_s = np.stack([at_share(quantiles_s[jobs], share) for share in SHARES], axis=1) - elapsed_s[:, None]
    limit_left_s = np.tile((past.requested_s[jobs] - elapsed_s)[:, None], len(SHARES))
    figures = [
        said(past, quantiles_s, outcomes, jobs, elapsed_s), said(past, quantiles_s, None, jobs, elapsed_s),
        np.maximum(estimate_s, 1.0), np.maximum(limit_left_s, 1.0),
    ]  # fmt: skip
    held = [_held(past, quantiles_s, outcomes, asked, share, n_pairs) for share in LIMIT_SHARES]
    pinballs = [f"{pinball_s(left_s, one_s):,.0f}" for one_s in figures]
    return [short(name), f"{n_pairs:,}", *pinballs, "/".join(held)]


def _held(past: History, quantiles_s: Floats, outcomes: Outcomes, asked: Ints, share: float, most: int) -> str:
    """Percent of the true times left within 10 to 90%, of jobs that ran for this share of their limits."""
    runs = asked[past.runtime_s[asked] > share * past.requested_s[asked]]
    jobs = np.sort(np.random.default_rng(2).permutation(runs)[:most])
    elapsed_s = share * past.requested_s[jobs]
    left_s = past.runtime_s[jobs] - elapsed_s
    found = said(past, quantiles_s, outcomes, jobs, elapsed_s, (0.1, 0.5, 0.9))
    return f"{100 * np.mean((left_s >= found[:, 0]) & (left_s <= found[:, 2])):.0f}"


def main() -> None:
    """Print the table of the logs named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000, help="first jobs of each log")
    parser.add_argument("--pairs", type=int, default=6_000, help="questions of each log")
    parser.add_argument("logs", type=Path, nargs="+")
    given = parser.parse_args()
    print(line(HEADER), line(["---"] * len(HEADER)), sep="\n", flush=True)
    for path in given.logs:
        print(line(row_of(path, given.jobs, given.pairs)), flush=True)


if __name__ == "__main__":
    main()
