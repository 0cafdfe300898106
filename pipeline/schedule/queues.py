"""A site's queue at an instant, from a history: the jobs that run and wait then, and no later event."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.history import History
from pipeline.estimate.score import QUANTILES

WINDOW_S = 30 * 86_400.0
"""Jobs that were submitted longer before the instant are taken to have left."""

UNKNOWN_REQUEST_S = 86_400.0

USUAL_RATIOS = (0.01, 0.15, 0.6, 0.9, 1.0, 1.0)
"""Runtime over request at QUANTILES, of jobs without an estimate: rounded from the first thirds of five logs."""

FULL_SHARE = 0.999
"""Without a stated size a machine has the processors that are not exceeded for this share of the time."""

SHARES = np.array([0.0, *QUANTILES, 1.0])
"""The shares of the runtimes of a ladder."""


@dataclass(frozen=True)
class Log:
    """The jobs of a history as a simulation takes them."""

    past: History
    quantiles_s: Floats
    """(jobs, 6): the runtimes estimated at the submit; NaN: no estimate."""
    pool: Ints
    """Per job the pool of nodes that it runs on; pools share no node."""
    capacity: Floats
    """Processors of each pool."""
    queue: Ints
    """Per job a number of its queue, -1: unknown."""
    is_told: bool = False
    """Whether the scheduler told the pools; else they are usual sizes."""

    @cached_property
    def limit_s(self) -> Floats:
        """The requests, UNKNOWN_REQUEST_S where there is none."""
        return np.where(self.past.requested_s > 0, self.past.requested_s, UNKNOWN_REQUEST_S)

    @cached_property
    def size(self) -> Floats:
        """Per job its processors, or more where its share of its pool's GPUs or memory is larger than theirs."""
        past, found = self.past, self.past.procs.copy()
        for held in (past.gpus, past.procs * past.requested_mem_kib):
            amount = np.nan_to_num(held)
            if amount.any():
                most = usual_capacity(past, self.pool, amount)[self.pool]
                # Of a pool whose past jobs held none of it the amount is unknown.
                share = np.divide(amount, most, out=np.zeros(len(past)), where=most > 0)
                found = np.maximum(found, share * self.capacity[self.pool])
        return found

    @cached_property
    def leave_s(self) -> Floats:
        """When each job left the queue, started or not."""
        return np.minimum(self.past.start_s, self.past.end_s)

    @cached_property
    def ladder(self) -> Floats:
        """(jobs, 8): ascending logarithms of runtimes, s, at SHARES; the last one is the limit or beyond it."""
        usual_s = np.outer(self.limit_s, USUAL_RATIOS)
        is_known = np.isfinite(self.quantiles_s.sum(axis=1, keepdims=True))
        known_s = np.where(is_known, self.quantiles_s, usual_s)
        last_s = np.maximum(known_s[:, -1], self.limit_s)
        steps = np.log(np.maximum(np.column_stack([np.ones(len(known_s)), known_s, last_s]), 1.0))
        return np.maximum.accumulate(steps, axis=1)


@dataclass(frozen=True)
class Queue:
    """The jobs in the system at an instant."""

    log: Log
    at_s: float
    runs: Ints
    """Places in the history of the jobs that run,"""
    waits: Ints
    """and of those that wait, in order of submit."""
    priority: Floats
    """Of the jobs that wait, as the scheduler reports it; NaN: unknown."""

    def of_pool(self, pool: int) -> "Queue":
        """The part of the queue on a pool."""
        runs, waits = (places[self.log.pool[places] == pool] for places in (self.runs, self.waits))
        return replace(self, runs=runs, waits=waits, priority=self.priority[self.log.pool[self.waits] == pool])

    @property
    def elapsed_s(self) -> Floats:
        """How long the running jobs have run."""
        return np.maximum(self.at_s - self.log.past.start_s[self.runs], 0.0)


def queue_at(log: Log, at_s: float, asked: int = -1) -> Queue:
    """The queue at an instant; a job that is asked about (-1: none) waits, although it may start at that very instant.

    Jobs after it in the history are not submitted yet.
    """
    past = log.past
    last = int(np.searchsorted(past.submit_s, at_s, side="right")) if asked < 0 else asked + 1
    first = int(np.searchsorted(past.submit_s, at_s - WINDOW_S))
    places = np.arange(min(first, last), last)
    is_here = (past.end_s[places] > at_s) & (past.procs[places] > 0)
    runs = is_here & (past.start_s[places] <= at_s) & (places != asked)
    waits = places[(is_here & ~runs) | (places == asked)]
    return Queue(log, at_s, places[runs], waits, np.full(len(waits), np.nan))


def usual_capacity(past: History, pool: Ints, amount: Floats | None = None) -> Floats:
    """Per pool the amount that the jobs did not exceed for FULL_SHARE of the time that they held any; 0: none did.

    `amount` is what each job holds; None: its processors.
    """
    held, has_run = past.procs if amount is None else amount, np.isfinite(past.start_s)
    return np.array([_capacity(past, held, (pool == one) & has_run) for one in range(pool.max(initial=0) + 1)])


def _capacity(past: History, amount: Floats, chosen: Bools) -> float:
    if not chosen.any():
        return 0.0
    begins_s, ends_s = past.start_s[chosen], np.minimum(past.end_s[chosen], past.submit_s[-1])
    change = np.concatenate([amount[chosen], -amount[chosen]])
    times_s = np.concatenate([begins_s, ends_s])
    order = np.argsort(times_s, kind="stable")
    held, lasts_s = np.cumsum(change[order])[:-1], np.diff(times_s[order])
    by_amount = np.argsort(held, kind="stable")
    reached = np.cumsum(lasts_s[by_amount])
    return float(held[by_amount][np.searchsorted(reached, FULL_SHARE * reached[-1])])
