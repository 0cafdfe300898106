"""A site's queue at an instant, from a history: the jobs that run and wait then, and no later event."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pipeline.arrays import HOUR_S, Bools, Floats, Ints
from pipeline.estimate.history import History
from pipeline.schedule.time_left import knots_of

WINDOW_S = 30 * 86_400.0
"""Jobs that were submitted longer before the instant are taken to have left."""

UNKNOWN_REQUEST_S = 86_400.0

USUAL_RATIOS = (0.01, 0.15, 0.6, 0.9, 1.0, 1.0)
"""Runtime over request at the quantiles of estimates, of jobs that have none: rounded from the first thirds of five
logs."""

FULL_SHARE = 0.999
"""Without a stated size a machine has the processors that are not exceeded for this share of the time."""


RECENT = 10
"""Latest known starts of jobs of a size."""


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
    def exceeds_pool(self) -> Bools:
        """Per job whether it asks for more processors than its pool has."""
        return self.past.procs > self.capacity[self.pool]

    @cached_property
    def leave_s(self) -> Floats:
        """When each job left the queue, started or not."""
        return np.minimum(self.past.start_s, self.past.end_s)

    @cached_property
    def knots(self) -> Floats:
        """(jobs, 8): the knots of each job's curve, at SHARES of time_left; the last one is the limit or beyond it."""
        usual_s = np.outer(self.limit_s, USUAL_RATIOS)
        is_known = np.isfinite(self.quantiles_s.sum(axis=1, keepdims=True))
        known_s = np.where(is_known, self.quantiles_s, usual_s)
        return knots_of(known_s, np.maximum(known_s[:, -1], self.limit_s))

    @cached_property
    def hours(self) -> "StartHours":
        """The hours at which the site usually starts jobs."""
        return StartHours(self)

    @cached_property
    def _started(self) -> dict[int, tuple[Floats, Floats]]:
        """By class of size the starts, ascending, and the waits of the jobs."""
        past = self.past
        places = np.flatnonzero(np.isfinite(past.start_s))
        places = places[np.argsort(past.start_s[places], kind="stable")]
        size = size_classes(past.procs[places])
        waits_s = past.start_s - past.submit_s
        return {one: (past.start_s[own], waits_s[own]) for one in set(size.tolist()) for own in [places[size == one]]}

    def recent_wait_s(self, size: int, at_s: float) -> float:
        """The median wait of the latest jobs of a class of size that had started before an instant; 0 without any."""
        starts_s, waits_s = self._started.get(size, (np.empty(0), np.empty(0)))
        last = int(np.searchsorted(starts_s, at_s))
        return float(np.median(waits_s[max(last - RECENT, 0) : last])) if last else 0.0


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


def size_classes(procs: Floats) -> Ints:
    """The class of each size, twice as large as the one before."""
    return np.floor(np.log2(np.maximum(procs, 1.0))).astype(np.int64)


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


def with_another(queue: Queue, place: int) -> Queue:
    """The queue with a job of the history that is submitted at its instant, after all others."""
    return replace(queue, waits=np.append(queue.waits, place), priority=np.append(queue.priority, np.nan))


def queue_now(log: Log, at_s: float, told: Ints, priority: Floats) -> Queue:
    """The queue of the jobs that a scheduler tells (places, in order of submit), with priorities by job of the log."""
    has_started = np.isfinite(log.past.start_s[told])
    runs, waits = told[has_started], told[~has_started]
    return Queue(log, at_s, runs, waits, priority[waits])


def usual_capacity(past: History, pool: Ints, amount: Floats | None = None) -> Floats:
    """Per pool the amount that the jobs did not exceed for FULL_SHARE of the time that they held any; 0: none did.

    `amount` is what each job holds; None: its processors.
    """
    amount, found = past.procs if amount is None else amount, np.zeros(pool.max(initial=0) + 1)
    for one in np.unique(pool[np.isfinite(past.start_s)]).tolist():
        chosen = (pool == one) & np.isfinite(past.start_s)
        change = np.concatenate([amount[chosen], -amount[chosen]])
        times_s = np.concatenate([past.start_s[chosen], np.minimum(past.end_s[chosen], past.submit_s[-1])])
        order = np.argsort(times_s, kind="stable")
        held, lasts_s = np.cumsum(change[order])[:-1], np.diff(times_s[order])
        by_amount = np.argsort(held, kind="stable")
        reached = np.cumsum(lasts_s[by_amount])
        found[one] = held[by_amount][np.searchsorted(reached, FULL_SHARE * reached[-1])]
    return found


DAYS, N_CLASSES, LEAST_REQUEST_S = 56, 10, 900.0
"""Days that count; classes of requests, each twice as long as the one before, the first one under twice 900 s."""

PRIOR_STARTS = 2.0
"""Starts at the class's mean rate that are added to each hour, so that few starts say little."""

AHEAD_H = 14 * 24
HOUR_LEVELS = (0.1, 0.5, 0.8)


class StartHours:
    """Starts per waiting hour of a log by class of request and hour, on working days and weekends.

    Some sites start long jobs at some hours only. A class's rates over the coming hours say when the next start is
    likely; each question knows the days before its own.
    """

    def __init__(self, log: Log) -> None:
        past = log.past
        self._zone_s = float(past.local_s[0] - past.submit_s[0])
        self._first_day = int((past.submit_s[0] + self._zone_s) // 86_400)
        n_days = int((past.submit_s[-1] + self._zone_s) // 86_400) - self._first_day + 1
        day = np.arange(n_days) + self._first_day
        self.is_weekend: Bools = (day % 7 == 2) | (day % 7 == 3)
        classes = np.clip(np.floor(np.log2(log.limit_s / LEAST_REQUEST_S)), 0, N_CLASSES - 1)
        self.of_job: Ints = classes.astype(np.int64)
        is_started = np.isfinite(past.start_s)
        self._starts = self._by_hour(past.start_s[is_started], self.of_job[is_started], n_days, steps=False)
        until_s = np.minimum(log.leave_s, past.submit_s[-1])
        joined, left = (self._by_hour(one, self.of_job, n_days, steps=True) for one in (past.submit_s, until_s))
        self._waits = joined - left

    def _by_hour(self, at_s: Floats, of_class: Ints, n_days: int, *, steps: bool) -> Floats:
        """(classes, days, 24) events in each hour; or with `steps` the hours that have passed since the events."""
        hour = (at_s + self._zone_s) / HOUR_S - 24 * self._first_day
        is_inside = (hour >= 0) & (hour < 24 * n_days)
        hour, of_class = hour[is_inside], of_class[is_inside]
        found = np.zeros((N_CLASSES, 24 * n_days + 1))
        place = hour.astype(np.int64)
        if not steps:
            np.add.at(found, (of_class, place), 1.0)
        else:
            np.add.at(found, (of_class, place), 1.0 - (hour - place))
            np.add.at(found, (of_class, place + 1), hour - place)
            found = np.cumsum(found, axis=1)
        return found[:, :-1].reshape(N_CLASSES, n_days, 24)

    def _rates(self, at_s: float) -> Floats:
        """(2, classes, 24): starts per waiting hour on working days and weekends, over the days before an instant's."""
        today = int((at_s + self._zone_s) // 86_400) - self._first_day
        days = slice(max(today - DAYS, 0), max(today, 0))
        free = self.is_weekend[days]
        found = []
        for kind in (~free, free):
            starts, waits = (counts[:, days][:, kind].sum(axis=1) for counts in (self._starts, self._waits))
            overall = (starts.sum() + 1.0) / (waits.sum() + 1.0)
            mean = (starts.sum(axis=1) + 5.0) / (waits.sum(axis=1) + 5.0 / overall)
            found.append((starts + PRIOR_STARTS * mean[:, None]) / (waits + PRIOR_STARTS))
        return np.array(found)

    def expected(self, at_s: float, of_class: Ints) -> Floats:
        """(jobs, levels + 1): waits from an instant, s, at HOUR_LEVELS, and the rate in its hour over the mean one."""
        hour, rates = (at_s + self._zone_s) / HOUR_S, self._rates(at_s)
        hours = int(hour) + np.arange(AHEAD_H)
        is_weekend = np.isin(hours // 24 % 7, (2, 3)).astype(np.int64)
        lasts = np.where(np.arange(AHEAD_H) == 0, int(hour) + 1 - hour, 1.0)
        rate = rates[is_weekend, :, hours % 24].T
        reached = np.cumsum(rate * lasts, axis=1)
        ends_s = np.cumsum(lasts) * HOUR_S
        sought = -np.log1p(-np.array(HOUR_LEVELS))
        waits_s = np.array([np.interp(sought, [0.0, *own], [0.0, *ends_s]) for own in reached])
        return np.column_stack([waits_s, rate[:, 0] / rates.mean()])[of_class]
