"""Questions that the log never asked: another number of processors (T1), another request (T2), and one known query.

    .venv/bin/python -m benchmarks.bench_unseen [LOG.swf.gz ...] [--jobs 40000] [--json]

Without a log the sample is asked. A group is (submitter, program, memory). T1: one size of every group with four is
hidden, all that is left is learnt, and the hidden size is asked at the end of the log: |log(q50 / median of the hidden
runs)|. T2: the last job of every group of five is asked again with four times its request: log(ratio of the answers) /
log 4, which is 0 where the group's runtimes do not follow its requests and 1 where they do. A group is tight where runs
of one size with requests at least 1.5 times apart differ by less than 15 %. The sample is asked by the query of the
documentation too: user 1, application 1, 1 processor, 1 GiB, 40 h, whose eight runs took 37 to 42 h.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.later_table import jobs_of
from pipeline.arrays import Floats, Ints
from pipeline.estimate.history import History, history
from pipeline.estimate.questions import questions_of
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.state import State, estimate, loaded_state
from pipeline.large_tables import rows_of
from pipeline.settings import RunSettings
from tools.plain_run import tables_of

SAMPLE = Path(__file__).resolve().parents[1] / "data_samples" / "riverbend.swf.gz"
MIDDLE = QUANTILES.index(0.5)
MORE = 4.0
QUERY = {"user": "1", "application": "1", "procs": 1, "requested_mem_kib": 2.0**20, "requested_s": 144_000.0}


def groups_of(past: History) -> Iterator[Ints]:
    """The places of each group's jobs that ran to an end, in order of submit."""
    ran = np.flatnonzero(past.has_run & (past.codes["who"] >= 0))
    columns = (past.codes["who"], past.codes["what"], np.nan_to_num(past.requested_mem_kib))
    _, group = np.unique(np.column_stack([column[ran] for column in columns]), axis=0, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    yield from (ran[own] for own in np.split(order, np.flatnonzero(np.diff(group.ravel()[order])) + 1))


class Log(NamedTuple):
    """Flagged JOBS, the settings they were cleaned by, and their history."""

    jobs: pa.Table
    settings: RunSettings
    past: History


def learnt(log: Log, kept: Ints) -> State:
    """The State of a part of a log at its end, as a run publishes it."""
    jobs = log.jobs.take(pa.array(log.past.row[kept]))
    table = rows_of(tables_of(log.settings, {"jobs_flagged": jobs}, "state")["state"])
    return loaded_state(table, "a part of a log")


def asked(log: Log, places: Ints, requested_s: Floats, kept: Ints) -> Floats:
    """(places, 6) quantiles, s, of these jobs at the end of what has been learnt."""
    past, state = log.past, learnt(log, kept)
    now_s = state.as_of_s
    order = np.argsort(places, kind="stable")
    questions = past.take(places[order]).as_submitted()
    questions = replace(questions, submit_s=np.full(len(places), now_s), requested_s=requested_s[order])
    found = np.empty((len(places), len(QUANTILES)))
    found[order] = estimate(state, questions)[:, : len(QUANTILES)]
    return found


def unseen_sizes(log: Log) -> Floats:
    """T1: per group with at least four sizes of two runs, the error of the answer at a hidden one (log)."""
    past, hidden, one_of = log.past, [], []
    for own in groups_of(past):
        sizes, counts = np.unique(past.procs[own], return_counts=True)
        sizes = sizes[counts >= 2]
        if len(sizes) >= 4:
            hidden.append(own[past.procs[own] == sizes[len(one_of) % len(sizes)]])
            one_of.append(hidden[-1][-1])
    if not hidden:
        return np.empty(0)
    kept = np.setdiff1d(np.arange(len(past)), np.concatenate(hidden))
    requested_s = np.array([np.median(past.requested_s[own]) for own in hidden])
    observed_s = np.array([np.median(past.runtime_s[own]) for own in hidden])
    found: Floats = asked(log, np.array(one_of), requested_s, kept)[:, MIDDLE]
    return np.abs(np.log(found / observed_s))


def is_tight(past: History, own: Ints) -> bool:
    """Whether runs of one size stay the same although their requests differ."""
    for size in np.unique(past.procs[own]):
        same = own[past.procs[own] == size]
        log_s, requested_s = np.log(past.runtime_s[same]), past.requested_s[same]
        if len(same) >= 3 and requested_s.max() >= 1.5 * requested_s.min() and log_s.std() < 0.15:
            return True
    return False


def changed_requests(log: Log) -> tuple[Floats, np.ndarray]:
    """T2: per group of five jobs with a request, the elasticity of the answer; and whether the group is tight."""
    past, whole = log.past, np.arange(len(log.past))
    groups = [own for own in groups_of(past) if len(own) >= 5 and past.requested_s[own[-1]] > 0]
    last = np.array([own[-1] for own in groups], np.int64)
    if not len(last):
        return np.empty(0), np.empty(0, np.bool_)
    now_s, more_s = (asked(log, last, ratio * past.requested_s[last], whole)[:, MIDDLE] for ratio in (1.0, MORE))
    return np.log(more_s / now_s) / np.log(MORE), np.array([is_tight(past, own) for own in groups])


def answer(log: Log) -> list[float]:
    """The quantiles of the known query over the median of its runs."""
    state = learnt(log, np.arange(len(log.past)))
    found = estimate(state, questions_of([QUERY], np.array([state.as_of_s]), "UTC"))[0]
    return [round(one / 3600, 2) for one in found.tolist()]


def figures(log: Path, n_jobs: int) -> dict[str, object]:
    """Every figure of one log."""
    settings, jobs = jobs_of(log)
    past = history(jobs)
    read = Log(jobs, settings, past.take(np.arange(min(len(past), n_jobs))))
    error = unseen_sizes(read)
    elasticity, tight = changed_requests(read)
    found: dict[str, object] = {
        "log": log.name.split(".")[0], "t1_groups": len(error), "t1_median_log_error": _median(error),
        "t1_share_over_2": float(np.mean(error > np.log(2))) if len(error) else None, "t2_groups": len(elasticity),
        "t2_median": _median(elasticity), "t2_tight_groups": int(tight.sum()),
        "t2_tight_median": _median(elasticity[tight]), "t2_other_median": _median(elasticity[~tight]),
    }  # fmt: skip
    return found | ({"query_h": answer(read)} if log.resolve() == SAMPLE else {})


def _median(values: Floats) -> float | None:
    return round(float(np.median(values)), 4) if len(values) else None


def main() -> int:
    """Print a line a log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", type=Path)
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for log in options.logs or [SAMPLE]:
        found = figures(log, options.jobs)
        told = json.dumps(found) if options.json else "  ".join(f"{name} {value}" for name, value in found.items())
        print(told, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
