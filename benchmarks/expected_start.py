"""Expected starts beside their peers, from a log alone: lines for each log and kind of question.

python -m benchmarks.expected_start [--jobs N] [--questions N] [--procs N] LOG ...

At random instants the queue is rebuilt from the log: jobs submitted and not started, and running ones with what was
known of them. Asked are the next job that is submitted, at its submit, and of the pending jobs the newest and one
other. What is said rests on what was known at the instant. The first third of the questions is not scored. Figures:
mean pinball of the quantiles 10, 50, 80 and 95% and median absolute error, minutes; how many starts came by the 80 and
by the 95% quantile, %; and the same of the 80% quantile in the worst and the best week of at least 30 questions.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.backtest_table import line, short
from flows.services.limits import limit_log
from pipeline.arrays import Floats, Ints
from pipeline.estimate.state import walltime
from pipeline.schedule.forward import simulated
from pipeline.schedule.queues import Log, queue_at
from pipeline.schedule.start_cases import FEATURES, SOON_S, WAYS, Cases, cases_at, logs
from pipeline.schedule.starts import (
    LEVELS,
    MOST_CASES,
    answers,
    at_levels,
    log_of,
    pinball_s,
    queue_names,
    record_of,
)

HEADER = (
    "log", "asked", "answer", "questions", "pinball (min)", "median error (min)", "held 80/95%", "weeks' 80%",
)  # fmt: skip
N_WAITS, REFITS = 50, 12
QUEUE_FEATURES = slice(FEATURES.index("procs"), None)


def log_from(path: Path, n_jobs: int, procs: float | None) -> Log:
    """The first jobs of a log with their estimates as of their submits."""
    _, past = limit_log(path)
    past = past.take(np.arange(min(len(past), n_jobs)))
    log = log_of(past, walltime(past), None, queue_names(past))
    return log if procs is None else replace(log, capacity=np.array([procs]))


def said_by_us(record: Cases, first: int) -> Floats:
    """(cases, LEVELS) of the cases from the first one on, as of the instant of each."""
    asked = [record.take(slice(row, row + 1)) for row in range(first, len(record.at_s))]
    return np.concatenate([answers(record, 0.0, one, float(one.at_s[0]))[0] for one in asked])


def boosted(cases: Cases, first: int) -> Floats:
    """(cases, LEVELS) of gradient boosting on the features of the queue, refitted on the newest known cases."""
    found = np.full((len(cases.at_s), len(LEVELS)), np.nan)
    x = cases.features[:, QUEUE_FEATURES]
    edges = np.linspace(first, len(x), REFITS + 1).astype(np.int64)
    for start, stop in pairwise(edges.tolist()):
        known = slice(max(start - MOST_CASES, 0), start)
        wait_s, is_known = cases.take(known).left_s(float(cases.at_s[start]))
        for nth, level in enumerate(LEVELS):
            model = HistGradientBoostingRegressor(
                loss="quantile", quantile=level, max_iter=100, max_leaf_nodes=15, min_samples_leaf=20, random_state=1
            )
            model.fit(x[known][is_known], logs(wait_s[is_known]))
            found[start:stop, nth] = np.exp(model.predict(x[start:stop])) - SOON_S
    return np.maximum.accumulate(np.maximum(found, 0.0), axis=1)


def last_wait(log: Log, job: int, at_s: float) -> list[float]:
    """What the submitter's latest start had waited, less the time waited so far."""
    past, who = log.past, log.past.codes["who"]
    known = np.flatnonzero((who[:job] == who[job]) & (past.start_s[:job] <= at_s))
    if not len(known):
        return [0.0] * len(LEVELS)
    newest = known[np.argmax(past.start_s[known])]
    return [max(float(past.start_s[newest] - past.submit_s[newest] - (at_s - past.submit_s[job])), 0.0)] * len(LEVELS)


def recent_waits(log: Log, job: int, at_s: float) -> list[float]:
    """Quantiles of what is left of the last waits of the job's size class that were as long as the job's so far."""
    past, waited_s = log.past, at_s - log.past.submit_s[job]
    size = np.floor(np.log2(np.maximum(past.procs[:job], 1)))
    known = np.flatnonzero((size == np.floor(np.log2(past.procs[job]))) & (past.start_s[:job] <= at_s))
    known = known[past.start_s[known] - past.submit_s[known] >= waited_s]
    newest = known[np.argsort(past.start_s[known], kind="stable")[-N_WAITS:]]
    left_s = past.start_s[newest] - past.submit_s[newest] - waited_s
    return np.quantile(left_s, LEVELS).tolist() if len(newest) else [0.0] * len(LEVELS)


def perfect(log: Log, job: int, at_s: float) -> list[float]:
    """The start under EASY in order of submit where every runtime is known."""
    queue = queue_at(log, at_s, job if log.past.submit_s[job] == at_s else -1)
    is_asked = log.past.submit_s[queue.waits] == log.past.submit_s[job]
    is_own = is_asked & (log.past.procs[queue.waits] == log.past.procs[job])
    place = int(np.flatnonzero(is_own if is_own.any() else is_asked)[0])
    return [float(simulated(queue, 1, orders=1)[1][place])] * len(LEVELS)


def peers(log: Log, cases: Cases, jobs: Ints, first: int) -> Iterator[tuple[str, Floats]]:
    """What each peer says of the cases from the first one on."""
    ran_s = np.where(log.past.runtime_s > 0, log.past.runtime_s, log.limit_s)
    known = replace(log, past=replace(log.past, requested_s=np.maximum(ran_s, 1.0)))
    asked: dict[str, tuple[Callable[[Log, int, float], list[float]], Log]] = {
        "EASY, perfect runtimes": (perfect, known), "recent waits of the size": (recent_waits, log),
        "last wait of the submitter": (last_wait, log),
    }  # fmt: skip
    limits_s = np.exp(cases.features[first:, FEATURES.index("sim_limits")]) - SOON_S
    yield "EASY, limits (Slurm's way)", np.tile(limits_s[:, None], len(LEVELS))
    for name, (peer, own) in asked.items():
        rows = zip(jobs[first:].tolist(), cases.at_s[first:].tolist(), strict=True)
        yield name, np.array([peer(own, job, at_s) for job, at_s in rows])
    yield "boosted on queue features", boosted(cases, first)[first:]


def figures(said_s: Floats, cases: Cases) -> list[str]:
    """The cells of a line."""
    left_s = cases.start_s - cases.at_s
    pinball = pinball_s(said_s, left_s, np.array(LEVELS)).mean() / 60
    median = np.median(np.abs(left_s - said_s[:, 1])) / 60
    held = left_s[:, None] <= said_s[:, 2:]
    _, n_of = np.unique(cases.at_s // 604_800, return_inverse=True)
    counts = np.bincount(n_of)
    by_week = 100 * (np.bincount(n_of, held[:, 0]) / counts)[counts >= 30]
    weeks = f"{by_week.min():.0f}-{by_week.max():.0f}" if len(by_week) else ""
    percent = "/".join(f"{share:.0f}" for share in 100 * held.mean(axis=0))
    return [f"{len(left_s):,}", f"{pinball:.1f}", f"{median:.1f}", percent, weeks]


def lines_of(path: Path, n_jobs: int, n_questions: int, procs: float | None) -> Iterator[list[str]]:
    """The cells of one log."""
    log = log_from(path, n_jobs, procs)
    past = log.past
    instants_s = np.sort(np.random.default_rng(7).uniform(*past.submit_s[[len(past) // 20, -1]], n_questions // 2))
    cases = cases_at(log, instants_s)
    cases = record_of(cases, len(cases.at_s) // 6)
    first = len(cases.at_s) // 3
    scored = cases.take(slice(first, None))
    jobs = np.searchsorted(past.submit_s, cases.submit_s)
    said = {"walltime": said_by_us(cases, first)}
    for nth, name in enumerate(WAYS):
        said[f"{name} alone"] = at_levels(scored.quantiles_s[:, nth], np.array(LEVELS))
    said |= dict(peers(log, cases, _places(past.submit_s, past.procs, cases, jobs), first))
    is_new = scored.at_s == scored.submit_s
    # At an instant the newest pending job is the first of the two that are asked about.
    is_newest = ~is_new & (scored.at_s != np.append(np.nan, scored.at_s[:-1]))
    kinds = {"submitted": is_new, "newest pending": is_newest, "other pending": ~is_new & ~is_newest}
    for kind, chosen in kinds.items():
        rows = np.flatnonzero(chosen & np.isfinite(scored.start_s))
        for name, said_s in said.items():
            yield [short(path.name.partition(".")[0]), kind, name, *figures(said_s[rows], scored.take(rows))]


def _places(submit_s: Floats, procs: Floats, cases: Cases, first: Ints) -> Ints:
    """The job of each case: of several submitted at one second the one of its size that still waits."""
    found = first.copy()
    for row in range(len(first)):
        place = int(first[row])
        while submit_s[place] == cases.submit_s[row] and (
            np.log2(procs[place]) != cases.features[row, FEATURES.index("procs")]
        ):
            place += 1
        found[row] = place
    return found


def main() -> None:
    """Print the table of the logs named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000, help="first jobs of each log")
    parser.add_argument("--questions", type=int, default=6_000, help="instants times two")
    parser.add_argument("--procs", type=float, help="processors of the machine, instead of what was usually held")
    parser.add_argument("logs", type=Path, nargs="+")
    given = parser.parse_args()
    print(line(HEADER), line(["---"] * len(HEADER)), sep="\n", flush=True)
    for path in given.logs:
        for cells in lines_of(path, given.jobs, given.questions, given.procs):
            print(line(cells), flush=True)


if __name__ == "__main__":
    main()
