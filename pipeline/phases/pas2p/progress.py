"""When each rank passes each boundary between occurrences; a phase's time is the ranks' mean progress through it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.phases.pas2p.events import Events
from pipeline.phases.pas2p.logical_trace import LogicalTrace

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Per boundary and rank, the last call before it (-1: none) and its time, s from the start of the run."""

    call: Ints
    time_s: Floats


def boundaries(events: Events, trace: LogicalTrace, ends_s: Floats, cuts: Ints, runtime_s: float) -> Boundaries:
    """The boundaries at these ticks; `ends_s` are the events' ends from the start of the run.

    At the first one all ranks are at 0, at the last one at the run's end: the differences add up to the runtime.
    """
    n_ranks = len(events.starts) - 1
    call = np.full((len(cuts), n_ranks), -1, np.int64)
    time_s = np.zeros((len(cuts), n_ranks))
    tick = np.repeat(np.arange(trace.n_ticks), np.diff(trace.starts))
    rank = events.rank[trace.event]
    by_rank = np.argsort(rank, kind="stable")
    edges = np.searchsorted(rank[by_rank], np.arange(n_ranks + 1))
    for one in range(n_ranks):
        mine = by_rank[edges[one] : edges[one + 1]]
        passed = np.searchsorted(tick[mine], cuts)
        event = trace.event[mine]
        # Logical order may differ from program order where a setting asks for it.
        call[:, one] = np.r_[-1, np.maximum.accumulate(events.call[event])][passed]
        time_s[:, one] = np.r_[0.0, np.maximum.accumulate(ends_s[event])][passed]
    time_s[-1] = runtime_s
    return Boundaries(call, time_s)
