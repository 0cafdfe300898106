"""Cases of jobs that wait: what is known of a job at an instant, and what became of it.

A question is a case whose start is not known yet. A case knows its job, the queue at its instant, what the simulated
queue says, the site's usual start hours and recent waits; nothing that happens after the instant.
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.schedule.forward import simulated
from pipeline.schedule.queues import Log, Queue, queue_at, size_classes

SOON_S = 60.0
"""Added to durations before their logarithm: a wait of seconds is as good as none."""

FEATURES = (
    "sim_submit", "sim_shortest", "sim_smallest", "sim_largest", "sim_work", "sim_user", "sim_greedy", "sim_q10",
    "sim_q90", "sim_limits", "hours_q10", "hours_q50", "hours_q80", "hours_now", "procs", "request", "waited", "ahead",
    "short_of", "room_for_all", "room_for_one", "hour_sin", "hour_cos", "is_weekend", "recent_wait", "jobs_of_user",
    "queue",
)  # fmt: skip
SIMULATED = 10
"""The first so many features are of the simulation."""

WAYS = {"simulation": slice(None), "similar": slice(SIMULATED, None)}
"""By way to answer the features that it uses."""

GRID = np.array([*np.arange(1, 20) / 20, 0.975, 0.99])
"""The quantiles that are estimated of a case's wait, of which calibrated ones are made."""


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
    quantiles_s: Floats
    """(cases, WAYS, GRID): the estimated time left to wait, from what was known at the instant; NaN: none was made."""

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


def asked(queue: Queue, chosen: Ints) -> Cases:
    """The cases of the waiting jobs at these places of `queue.waits`, without an estimate yet."""
    past, jobs = queue.log.past, queue.waits[chosen]
    hours = queue.log.hours.expected(queue.at_s, queue.log.hours.of_job[queue.waits])
    of_hours = np.column_stack([logs(hours[:, :-1]), np.log(hours[:, -1] + 0.05)])
    features = np.column_stack([_simulated(queue), of_hours, _of_jobs(queue), _others(queue)])[chosen]
    at_s, unknown = np.full(len(jobs), queue.at_s), np.full((len(jobs), len(WAYS), len(GRID)), np.nan)
    return Cases(past.submit_s[jobs], at_s, features, past.start_s[jobs], queue.log.leave_s[jobs], unknown)


def _others(queue: Queue) -> Floats:
    """Hour and day on the site's clock, the median of recent waits of the size, the submitter's jobs, the queue."""
    past, jobs = queue.log.past, queue.waits
    clock_s = past.local_s[jobs] + (queue.at_s - past.submit_s[jobs])
    hour = 2 * np.pi * (clock_s % 86_400) / 86_400
    is_weekend = np.isin(clock_s // 86_400 % 7, (2, 3))
    sizes, of_size = np.unique(size_classes(past.procs[jobs]), return_inverse=True)
    recent_s = np.array([queue.log.recent_wait_s(size, queue.at_s) for size in sizes.tolist()])
    who = past.codes["who"]
    n_jobs = np.bincount(who[np.concatenate([queue.runs, jobs])] + 1, minlength=who.max(initial=-1) + 2)
    of_user = np.where(who[jobs] >= 0, n_jobs[who[jobs] + 1] - 1, 0)
    return np.column_stack([
        np.sin(hour), np.cos(hour), is_weekend, logs(recent_s[of_size]), np.log1p(of_user), queue.log.queue[jobs],
    ])  # fmt: skip


def _simulated(queue: Queue) -> Floats:
    """(waiting jobs, SIMULATED)"""
    draws_s, limits_s = simulated(queue)
    low_s, high_s = np.quantile(draws_s[0], (0.1, 0.9), axis=0)
    return logs(np.column_stack([np.median(draws_s, axis=1).T, low_s, high_s, limits_s]))


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
    found, random = list[Cases](), np.random.default_rng(1)
    for at_s in instants_s.tolist():
        queue = queue_at(log, at_s)
        n = len(queue.waits)
        if n:
            others = [int(random.integers(n - 1))] if n > 1 else []
            found.append(asked(queue, np.array([n - 1, *others])))
        nth = int(np.searchsorted(log.past.submit_s, at_s, side="right"))
        if nth < len(log.past) and log.past.procs[nth] > 0:
            queue = queue_at(log, float(log.past.submit_s[nth]), nth)
            found.append(asked(queue, np.array([len(queue.waits) - 1])))
    no, no_features, no_quantiles = (np.empty((0, *shape)) for shape in ((), (len(FEATURES),), (len(WAYS), len(GRID))))
    none = Cases(no, no, no_features, no, no, no_quantiles)
    whole = Cases(*(np.concatenate(columns) for columns in zip(none, *found, strict=True)))
    return whole.take(np.argsort(whole.at_s, kind="stable"))
