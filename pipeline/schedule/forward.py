"""A queue simulated forward: when its waiting jobs start under several orders, with runtimes drawn from estimates.

A site's policy is unknown, and no single order explains its starts. What each order says is a feature for start_cases,
and where the scheduler reports priorities, the first order is theirs. No job is submitted later in a simulation.
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.schedule.engine import replay_draws
from pipeline.schedule.queues import SHARES, Queue
from pipeline.schedule.workload import Workload

LEAST_DRAWS, MOST_DRAWS, DEEP_JOBS = 4, 12, 2_000
"""Draws of an order: all up to DEEP_JOBS, then fewer by the square of the jobs, as a draw's time grows."""

N_ORDERS = 6


class Starts(NamedTuple):
    """When the waiting jobs of a queue start, s from the instant."""

    draws_s: Floats
    """(orders, draws, jobs)"""
    limits_s: Floats
    """(jobs,): in the first order, where every job takes its limit."""


def orders_of(queue: Queue) -> list[Ints]:
    """The orders: as reported or submitted; shortest, smallest, largest, least work first; least used submitter first.

    Each one is a permutation of the waiting jobs, ties in order of submit.
    """
    past, waits = queue.log.past, queue.waits
    limit_s, procs, who = queue.log.limit_s[waits], past.procs[waits], past.codes["who"]
    held = np.zeros(who.max(initial=-1) + 2)
    np.add.at(held, who[queue.runs], past.procs[queue.runs])
    keys = (np.nan_to_num(-queue.priority), limit_s, procs, -procs, procs * limit_s, held[who[waits]])
    return [np.argsort(key, kind="stable") for key in keys]


def simulated(queue: Queue, n_draws: int | None = None, orders: int | None = None) -> Starts:
    """When the waiting jobs start, under the first orders of `orders_of`, and of all under the first one unreserved.

    The same queue gives the same draws.
    """
    n_jobs = len(queue.runs) + len(queue.waits)
    n = n_draws or int(np.clip(MOST_DRAWS * (DEEP_JOBS / max(n_jobs, 1)) ** 2, LEAST_DRAWS, MOST_DRAWS))
    draws_s = np.full((orders or N_ORDERS + 1, n, len(queue.waits)), np.inf)
    limits_s, pools = np.full(len(queue.waits), np.inf), queue.log.pool[queue.waits]
    for pool in np.unique(pools).tolist():
        own = queue.of_pool(pool)
        found = _of_pool(own, _drawn_s(own, n), float(queue.log.capacity[pool]), orders)
        draws_s[:, :, pools == pool], limits_s[pools == pool] = found
    return Starts(draws_s, limits_s)


def _of_pool(queue: Queue, runs_s: Ints, capacity: float, orders: int | None) -> tuple[Floats, Floats]:
    log, n_runs, permuted = queue.log, len(queue.runs), orders_of(queue)[:orders]
    left_s = np.maximum(log.limit_s[queue.runs] - queue.elapsed_s, 1.0)
    by_end = np.argsort(left_s, kind="stable")
    limit_s = np.ceil(np.concatenate([left_s, log.limit_s[queue.waits]])).astype(np.int64)
    procs = np.maximum(log.size[np.concatenate([queue.runs, queue.waits])], 1).astype(np.int64)
    size = int(max(capacity, procs[:n_runs].sum(), procs.max()))

    def starts(order: Ints, taken_s: Ints, planned_s: Ints) -> Floats:
        """(draws, waiting jobs)"""
        by = np.concatenate([by_end, n_runs + order])
        nobody, zeros = np.full(len(by), -1), np.zeros(len(by), np.int64)
        most_s = np.maximum(planned_s, taken_s.max(axis=0))[by]
        work = Workload(by, zeros, most_s, most_s, procs[by], nobody, size, {})
        found = np.empty((len(taken_s), len(order)))
        found[:, order] = replay_draws(work, taken_s[:, by], planned_s[by])[:, n_runs:]
        return found

    in_turn = [starts(order, runs_s, limit_s) for order in permuted]
    if orders is None:
        # Without a reservation whatever fits may start: all jobs seem to end before the head could start.
        planned_s = np.concatenate([limit_s[:n_runs], np.ones(len(queue.waits), np.int64)])
        in_turn.append(starts(permuted[0], runs_s, planned_s))
    return np.array(in_turn), starts(permuted[0], limit_s[None], limit_s)[0]


def _drawn_s(queue: Queue, n_draws: int) -> Ints:
    """(draws, jobs): time left of the running jobs, and runtimes of the waiting ones, in whole s."""
    places = np.concatenate([queue.runs, queue.waits])
    elapsed_s = np.concatenate([queue.elapsed_s, np.zeros(len(queue.waits))])
    ladder = queue.log.ladder[places]
    levels = np.tile((np.arange(n_draws) + 0.5) / n_draws, (len(places), 1))
    share = np.random.default_rng(int(queue.at_s)).permuted(levels, axis=1)
    before = interpolated(ladder, np.broadcast_to(SHARES, ladder.shape), np.log(np.maximum(elapsed_s, 1.0))[:, None])
    share = before + (1.0 - before) * share
    runtime_s = np.exp(interpolated(np.broadcast_to(SHARES, ladder.shape), ladder, share))
    found: Ints = np.ceil(np.maximum(runtime_s - elapsed_s[:, None], 1.0)).astype(np.int64).T
    return found


def interpolated(x: Floats, y: Floats, at: Floats) -> Floats:
    """(rows, values): each row of `at` interpolated in the same row of ascending `x` and `y`, constant outside."""
    place = np.clip((x[:, None, :] <= at[:, :, None]).sum(axis=2) - 1, 0, x.shape[1] - 2)
    rows = np.arange(len(x))[:, None]
    step = np.maximum(x[rows, place + 1] - x[rows, place], 1e-12)
    share = np.clip((at - x[rows, place]) / step, 0.0, 1.0)
    found: Floats = y[rows, place] + share * (y[rows, place + 1] - y[rows, place])
    return found
