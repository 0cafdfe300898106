"""Cases of jobs that wait: what is known of a job at an instant, and what became of it.

A question is a case whose start is not known yet. A case knows its job, the queue at its instant, what the simulated
queue says, the site's usual start hours and recent waits; nothing that happens after the instant.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from pipeline.arrays import HOUR_S, Bools, Floats, Ints
from pipeline.schedule.forward import simulated
from pipeline.schedule.queues import Log, Queue, queue_at

SOON_S = 60.0
"""Added to durations before their logarithm: a wait of seconds is as good as none."""

RECENT = 10
"""Latest known starts of jobs of a size."""

FEATURES = (
    "sim_submit", "sim_shortest", "sim_smallest", "sim_largest", "sim_work", "sim_user", "sim_greedy", "sim_q10",
    "sim_q90", "sim_limits", "hours_q10", "hours_q50", "hours_q80", "hours_now", "procs", "request", "waited", "ahead",
    "short_of", "room_for_all", "room_for_one", "hour_sin", "hour_cos", "is_weekend", "recent_wait", "jobs_of_user",
    "queue",
)  # fmt: skip
SIMULATED = 10
"""The first so many features are of the simulation."""


class Cases(NamedTuple):
    """Jobs that wait at instants, in order of instant."""

    submit_s: Floats
    """By which the cases of one job are known."""
    at_s: Floats
    features: Floats
    """(cases, FEATURES)"""
    start_s: Floats
    """Infinite where the job did not start."""
    leave_s: Floats
    """When the job left the queue, started or not; infinite where it has not."""

    def take(self, places: Ints | slice) -> "Cases":
        """The cases at these places."""
        return Cases(*(column[places] for column in self))

    def left_s(self, known_s: float) -> tuple[Floats, Bools]:
        """What is known by an instant of the waits from the cases' instants on, and whether that is the whole wait."""
        until_s = np.minimum(self.leave_s, known_s)
        return until_s - self.at_s, self.start_s <= until_s

    def has_left(self, known_s: float) -> Bools:
        """Whether it is known by an instant that the job left the queue unstarted."""
        return (self.leave_s <= known_s) & (self.start_s > self.leave_s)


def logs(duration_s: Floats) -> Floats:
    """Logarithms of durations, s."""
    return np.log(np.maximum(duration_s, 0.0) + SOON_S)


class Questions:
    """A log's questions at instants."""

    def __init__(self, log: Log) -> None:
        self._log, self._hours = log, StartHours(log)

    @cached_property
    def _started(self) -> dict[int, tuple[Floats, Floats]]:
        """By class of size the starts, ascending, and the waits of the jobs."""
        past = self._log.past
        places = np.flatnonzero(np.isfinite(past.start_s))
        places = places[np.argsort(past.start_s[places], kind="stable")]
        size = _size(past.procs[places])
        waits_s = past.start_s - past.submit_s
        return {one: (past.start_s[own], waits_s[own]) for one in set(size.tolist()) for own in [places[size == one]]}

    def asked(self, queue: Queue, chosen: Ints) -> Cases:
        """The cases of the waiting jobs at these places of `queue.waits`."""
        past, jobs = self._log.past, queue.waits[chosen]
        features = np.column_stack([_simulated(queue), self._of_hours(queue), _of_jobs(queue), self._others(queue)])
        at_s = np.full(len(jobs), queue.at_s)
        return Cases(past.submit_s[jobs], at_s, features[chosen], past.start_s[jobs], self._log.leave_s[jobs])

    def _of_hours(self, queue: Queue) -> Floats:
        found = self._hours.expected(self._hours.rates(queue.at_s), queue.at_s, self._hours.of_job[queue.waits])
        return np.column_stack([logs(found[:, :-1]), np.log(found[:, -1] + 0.05)])

    def _others(self, queue: Queue) -> Floats:
        """Hour and day on the site's clock, the median of recent waits of the size, the submitter's jobs, the queue."""
        past, jobs, at_s = self._log.past, queue.waits, queue.at_s
        clock_s = past.local_s[jobs] + (at_s - past.submit_s[jobs])
        hour = 2 * np.pi * (clock_s % 86_400) / 86_400
        is_weekend = np.isin(clock_s // 86_400 % 7, (2, 3))
        sizes, of_size = np.unique(_size(past.procs[jobs]), return_inverse=True)
        recent_s = np.array([self._recent_s(size, at_s) for size in sizes.tolist()])
        who = past.codes["who"]
        n_jobs = np.bincount(who[np.concatenate([queue.runs, jobs])] + 1, minlength=who.max(initial=-1) + 2)
        of_user = np.where(who[jobs] >= 0, n_jobs[who[jobs] + 1] - 1, 0)
        return np.column_stack([
            np.sin(hour), np.cos(hour), is_weekend, logs(recent_s[of_size]), np.log1p(of_user),
            self._log.queue[jobs],
        ])  # fmt: skip

    def _recent_s(self, size: int, at_s: float) -> float:
        starts_s, waits_s = self._started.get(size, (np.empty(0), np.empty(0)))
        last = int(np.searchsorted(starts_s, at_s))
        return float(np.median(waits_s[max(last - RECENT, 0) : last])) if last else 0.0


def _size(procs: Floats) -> Ints:
    return np.floor(np.log2(np.maximum(procs, 1.0))).astype(np.int64)


def _simulated(queue: Queue) -> Floats:
    """(waiting jobs, SIMULATED)"""
    starts = simulated(queue)
    low_s, high_s = np.quantile(starts.draws_s[0], (0.1, 0.9), axis=0)
    medians_s = np.median(starts.draws_s, axis=1)
    return logs(np.column_stack([medians_s.T, low_s, high_s, starts.limits_s]))


def _of_jobs(queue: Queue) -> Floats:
    """Size, request, time waited; and of each job's pool the requested work ahead of the job per processor, how many
    processors are short, and how long the limits of running jobs say until there is room, with and without those ahead.
    """
    log, waits = queue.log, queue.waits
    procs, limit_s = log.size[waits], log.limit_s[waits]
    found = np.empty((len(waits), 7))
    waited_s = queue.at_s - log.past.submit_s[waits]
    found[:, :3] = np.column_stack([np.log2(log.past.procs[waits]), np.log(limit_s), logs(waited_s)])
    for pool in np.unique(log.pool[waits]).tolist():
        rows, own, size = log.pool[waits] == pool, queue.of_pool(pool), float(log.capacity[pool])
        held, left_s = log.size[own.runs], np.maximum(log.limit_s[own.runs] - own.elapsed_s, 0.0)
        by_end, free = np.argsort(left_s, kind="stable"), size - held.sum()
        room, ends_s = free + np.cumsum(held[by_end]), np.append(left_s[by_end], left_s.max(initial=0.0))
        needed, work_s = np.cumsum(procs[rows]), np.cumsum(procs[rows] * limit_s[rows])
        until_s = [
            np.where(least <= free, 0.0, ends_s[np.searchsorted(room, least)]) for least in (needed, procs[rows])
        ]
        found[rows, 3:] = np.column_stack([
            logs((work_s - procs[rows] * limit_s[rows]) / size), np.clip((needed - free) / size, -1, 3),
            *(logs(one) for one in until_s),
        ])  # fmt: skip
    return found


def cases_at(log: Log, instants_s: Floats) -> Cases:
    """At each instant the newest waiting job and one other, and the next job that is submitted, at its submit."""
    questions, found = Questions(log), list[Cases]()
    random = np.random.default_rng(1)
    for at_s in instants_s.tolist():
        queue = queue_at(log, at_s)
        n = len(queue.waits)
        if n:
            others = [int(random.integers(n - 1))] if n > 1 else []
            found.append(questions.asked(queue, np.array([n - 1, *others])))
        nth = int(np.searchsorted(log.past.submit_s, at_s, side="right"))
        if nth < len(log.past) and log.past.procs[nth] > 0:
            queue = queue_at(log, float(log.past.submit_s[nth]), nth)
            found.append(questions.asked(queue, np.array([len(queue.waits) - 1])))
    none = Cases(np.empty(0), np.empty(0), np.empty((0, len(FEATURES))), np.empty(0), np.empty(0))
    whole = Cases(*(np.concatenate(columns) for columns in zip(none, *found, strict=True)))
    return whole.take(np.argsort(whole.at_s, kind="stable"))


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
        self.of_job = classes(log.limit_s)
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

    def rates(self, at_s: float) -> Floats:
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

    def expected(self, rates: Floats, at_s: float, of_class: Ints) -> Floats:
        """(jobs, levels + 1): waits from an instant, s, at HOUR_LEVELS, and the rate in its hour over the mean one."""
        hour = (at_s + self._zone_s) / HOUR_S
        hours = int(hour) + np.arange(AHEAD_H)
        is_weekend = np.isin(hours // 24 % 7, (2, 3)).astype(np.int64)
        lasts = np.where(np.arange(AHEAD_H) == 0, int(hour) + 1 - hour, 1.0)
        rate = rates[is_weekend, :, hours % 24].T
        reached = np.cumsum(rate * lasts, axis=1)
        ends_s = np.cumsum(lasts) * HOUR_S
        sought = -np.log1p(-np.array(HOUR_LEVELS))
        waits_s = np.array([np.interp(sought, [0.0, *own], [0.0, *ends_s]) for own in reached])
        return np.column_stack([waits_s, rate[:, 0] / rates.mean()])[of_class]


def classes(limit_s: Floats) -> Ints:
    """The class of each request."""
    return np.clip(np.floor(np.log2(limit_s / LEAST_REQUEST_S)), 0, N_CLASSES - 1).astype(np.int64)
