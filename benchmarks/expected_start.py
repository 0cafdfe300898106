"""Waits from similar jobs (pipeline/estimate/waits.py) beside simpler answers: two lines a log and answer, as-of.

    .venv/bin/python -m benchmarks.expected_start [--jobs N] [--questions N] LOG ...

Submitted: random jobs at their submit. Pending: the newest waiting job at random instants. Both after the first third
of the jobs; jobs that never started are not asked about. Peers: the submitter's last wait; quantiles of the last 50
waits of the size class, of those that exceed the time waited so far; the queue simulated forward under EASY with
requested limits. Pinball: mean loss at 10, 50, 80 and 95%. Held: waits at most the 80 and the 95% quantile, and within
10 to 95%, %.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.backtest_table import line, short
from flows.services.limits import limit_log
from pipeline.arrays import Floats, Ints
from pipeline.estimate.history import History
from pipeline.estimate.waits import (
    LEVELS,
    UNKNOWN_REQUEST_S,
    WINDOW_S,
    Answers,
    calibrated,
    cases_of,
    questions,
    wait_quantiles,
)
from pipeline.schedule.engine import Policy, ReplayOptions, replay
from pipeline.schedule.workload import Workload

HEADER = ("log", "asked", "answer", "questions", "pinball (min)", "median error (min)", "held 80/95%", "in 10 to 95%")
N_WAITS = 50

Ask = tuple[Ints, Floats]


def capacity_of(past: History) -> float:
    """The most processors that were in use at once."""
    runs = np.flatnonzero(np.isfinite(past.start_s) & np.isfinite(past.end_s) & (past.procs > 0))
    times_s = np.concatenate([past.end_s[runs], past.start_s[runs]])
    change = np.concatenate([-past.procs[runs], past.procs[runs]])
    return float(np.cumsum(change[np.lexsort((change, times_s))]).max())


def submitted(past: History, most: int) -> Ask:
    """Jobs that started, at their submits."""
    can = np.flatnonzero(np.isfinite(past.start_s) & (past.procs > 0))
    can = can[can >= len(past) // 3]
    jobs = np.sort(np.random.default_rng(1).permutation(can)[:most])
    return jobs, past.submit_s[jobs]


def pending(past: History, most: int) -> Ask:
    """The newest job that waits, at random instants."""
    jobs, at_s = list[int](), list[float]()
    for when_s in np.sort(np.random.default_rng(2).uniform(*past.submit_s[[len(past) // 3, -1]], 20 * most)).tolist():
        last = int(np.searchsorted(past.submit_s, when_s))
        first = max(last - 2000, 0)
        waits = (past.start_s[first:last] > when_s) & (past.end_s[first:last] > when_s) & (past.procs[first:last] > 0)
        places = first + np.flatnonzero(waits)
        if len(places) and np.isfinite(past.start_s[places[-1]]):
            jobs.append(int(places[-1]))
            at_s.append(when_s)
    keep = np.sort(np.random.default_rng(3).permutation(len(jobs))[:most])
    return np.array(jobs)[keep], np.array(at_s)[keep]


def last_wait(past: History, job: int, at_s: float, _capacity: float) -> list[float]:
    """What the submitter's latest start had waited, less the time waited so far."""
    known = np.flatnonzero((past.codes["who"][:job] == past.codes["who"][job]) & (past.start_s[:job] <= at_s))
    waited_s = at_s - past.submit_s[job]
    newest = known[np.argmax(past.start_s[known])] if len(known) else -1
    wait_s = past.start_s[newest] - past.submit_s[newest] if len(known) else 0.0
    return [max(float(wait_s - waited_s), 0.0)] * len(LEVELS)


def recent_waits(past: History, job: int, at_s: float, _capacity: float) -> list[float]:
    """Quantiles of what is left of the last waits of the job's size class."""
    size = np.floor(np.log2(np.maximum(past.procs[:job], 1)))
    known = np.flatnonzero((size == np.floor(np.log2(past.procs[job]))) & (past.start_s[:job] <= at_s))
    wait_s = past.start_s[known] - past.submit_s[known]
    longer = wait_s >= at_s - past.submit_s[job]
    newest = known[longer][np.argsort(past.start_s[known[longer]], kind="stable")[-N_WAITS:]]
    left_s = past.start_s[newest] - past.submit_s[newest] - (at_s - past.submit_s[job])
    return np.quantile(left_s, LEVELS).tolist() if len(newest) else [0.0] * len(LEVELS)


def forward(past: History, job: int, at_s: float, capacity: float) -> list[float]:
    """The start under EASY in order of submit where every job takes its limit and none is submitted later."""
    last = max(job + 1, int(np.searchsorted(past.submit_s, at_s)))
    first = min(job, int(np.searchsorted(past.submit_s, at_s - WINDOW_S)))
    places = np.arange(first, last)
    here = (past.end_s[places] > at_s) & (past.procs[places] > 0)
    is_asked = places == job
    runs = places[here & (past.start_s[places] <= at_s) & ~is_asked]
    waits = places[(here & (past.start_s[places] > at_s)) | is_asked]
    limit_s = np.where(past.requested_s > 0, past.requested_s, UNKNOWN_REQUEST_S)
    left_s = np.concatenate([np.maximum(past.start_s[runs] + limit_s[runs] - at_s, 1), limit_s[waits]])
    procs = np.concatenate([past.procs[runs], past.procs[waits]]).astype(np.int64)
    ran_s, zeros = np.ceil(left_s).astype(np.int64), np.zeros(len(procs), np.int64)
    most = max(int(capacity), int(past.procs[runs].sum()), int(procs.max()))
    work = Workload(np.arange(len(procs)), zeros, ran_s, ran_s, procs, zeros, most, {})
    start_s = replay(work, ReplayOptions(policy=Policy.EASY)).start_s
    return [float(start_s[len(runs) + int(np.flatnonzero(waits == job)[0])])] * len(LEVELS)


PEERS: dict[str, Callable[[History, int, float, float], list[float]]] = {
    "last wait of the submitter": last_wait, "recent waits of the size": recent_waits, "EASY with limits": forward,
}  # fmt: skip


def figures(said_s: Floats, left_s: Floats) -> list[str]:
    """Pinball, median absolute error and what held."""
    is_said = ~np.isnan(said_s[:, 0])
    off_s, level = left_s[is_said, None] - said_s[is_said], np.array(LEVELS)
    pinball_s = np.maximum(level * off_s, (level - 1) * off_s).mean()
    held = [100 * np.mean(off_s[:, place] <= 0) for place in (2, 3)]
    inside = 100 * np.mean((off_s[:, 0] >= 0) & (off_s[:, 3] <= 0))
    median = np.median(np.abs(off_s[:, 1])) / 60
    held_percent = "/".join(f"{percent:.0f}" for percent in held)
    return [f"{is_said.sum():,}", f"{pinball_s / 60:.1f}", f"{median:.1f}", held_percent, f"{inside:.0f}"]


def rows_of(path: Path, n_jobs: int, n_questions: int) -> list[list[str]]:
    """The cells of one log."""
    log = limit_log(path)
    past = log.past.take(np.arange(min(len(log.past), n_jobs)))
    capacity = capacity_of(past)
    known = cases_of(past, capacity)
    rows = list[list[str]]()
    for kind, (jobs, at_s) in {
        "submitted": submitted(past, n_questions),
        "pending": pending(past, n_questions),
    }.items():
        asked = questions(past, jobs, at_s, capacity)
        left_s, alone_s = asked.start_s - at_s, wait_quantiles(known, asked)
        said = {
            "similar jobs, calibrated": calibrated(Answers(at_s, alone_s, asked.start_s, asked.leave_s)),
            "similar jobs alone": alone_s,
        }
        for name, peer in PEERS.items():
            said[name] = np.array([peer(past, job, when_s, capacity) for job, when_s in zip(jobs, at_s, strict=True)])
        rows += [[short(log.name), kind, name, *figures(said_s, left_s)] for name, said_s in said.items()]
    return rows


def main() -> None:
    """Print the table of the logs named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000, help="first jobs of each log")
    parser.add_argument("--questions", type=int, default=1_500, help="of each kind")
    parser.add_argument("logs", type=Path, nargs="+")
    given = parser.parse_args()
    print(line(HEADER), line(["---"] * len(HEADER)), sep="\n", flush=True)
    for path in given.logs:
        for cells in rows_of(path, given.jobs, given.questions):
            print(line(cells), flush=True)


if __name__ == "__main__":
    main()
