"""The jobs of a replay that are scored."""

from enum import StrEnum

import numpy as np

from pipeline.core.arrays import Bools, Floats
from pipeline.evaluate.replay.engine import Schedule
from pipeline.evaluate.replay.workload import Workload


class Score(StrEnum):
    """Which jobs count."""

    NATURAL = "natural"
    """All but the first 1% of submissions, which meet an empty machine."""
    AVEBSLD = "avebsld"
    """As pyss and predictsim print it: without the first 1% in order of end, the jobs that ask for 1 s on 1 processor,
    and all that end after the last submit."""


def scored(work: Workload, done: Schedule, score: Score) -> Bools:
    """(jobs,): whether each job counts."""
    if score is Score.NATURAL:
        chosen: Bools = np.arange(len(work)) >= len(work) // 100
        return chosen
    # The 1% is of the jobs without the tiny ones met so far: so pyss counts them.
    by_end = done.by_end
    is_tiny = (work.request_s[by_end] == 1) & (work.procs[by_end] == 1)
    size = len(work) - np.cumsum(is_tiny)
    is_warm = (size < 100) | (np.arange(1, len(work) + 1) > size // 100)
    in_time = done.end_s[by_end] <= work.submit_s.max(initial=0)
    chosen = np.zeros(len(work), bool)
    chosen[by_end] = ~is_tiny & is_warm & in_time
    return chosen


def bounded_slowdown(work: Workload, done: Schedule, bound_s: float = 10.0) -> Floats:
    """(jobs,): response over runtime, runtimes under `bound_s` counted as that; at least 1."""
    slowdown: Floats = np.maximum(1.0, (done.end_s - work.submit_s) / np.maximum(work.run_s, bound_s))
    return slowdown
