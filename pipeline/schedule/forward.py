"""A queue simulated forward: when its waiting jobs start under several orders, with runtimes drawn from estimates.

A site's policy is unknown, and no single order explains its starts. What each order says is a feature for start_cases,
and where the scheduler reports priorities, the first order is theirs. No job is submitted later in a simulation.
"""

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.schedule.engine import replay_draws
from pipeline.schedule.queues import Queue
from pipeline.schedule.time_left import runtime_at, share_below
from pipeline.schedule.workload import Workload

LEAST_DRAWS, MOST_DRAWS, DEEP_JOBS = 4, 12, 2_000
"""Draws of an order: all up to DEEP_JOBS, then fewer by the square of the jobs, as a draw's time grows."""

N_ORDERS = 6


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


def simulated(queue: Queue, n_draws: int | None = None, orders: int | None = None) -> tuple[Floats, Floats]:
    """(orders, draws, jobs): when the waiting jobs start, s from the instant; and (jobs,) if each takes its limit.

    Under the first orders of `orders_of`, and of all also under the first one unreserved; limits are under the first
    one. The same queue gives the same draws.
    """
    n_jobs = len(queue.runs) + len(queue.waits)
    n = n_draws or int(np.clip(MOST_DRAWS * (DEEP_JOBS / max(n_jobs, 1)) ** 2, LEAST_DRAWS, MOST_DRAWS))
    draws_s = np.full((orders or N_ORDERS + 1, n, len(queue.waits)), np.inf)
    limits_s, pools = np.full(len(queue.waits), np.inf), queue.log.pool[queue.waits]
    for pool in np.unique(pools).tolist():
        own = queue.of_pool(pool)
        found = _of_pool(own, _drawn_s(own, n), float(queue.log.capacity[pool]), orders)
        draws_s[:, :, pools == pool], limits_s[pools == pool] = found
    return draws_s, limits_s


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
    knots = queue.log.knots[places]
    levels = np.tile((np.arange(n_draws) + 0.5) / n_draws, (len(places), 1))
    share = np.random.default_rng(int(queue.at_s)).permuted(levels, axis=1)
    before = share_below(knots, elapsed_s[:, None])
    runtime_s = runtime_at(knots, before + (1.0 - before) * share)
    found: Ints = np.ceil(np.maximum(runtime_s - elapsed_s[:, None], 1.0)).astype(np.int64).T
    return found
