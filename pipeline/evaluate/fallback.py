"""Fallback quantiles for jobs that a method does not answer, so that all methods are scored on the same jobs."""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel
from pipeline.estimate.history import History
from pipeline.estimate.score import QUANTILES


def fallback_quantiles(past: History) -> Floats:
    """(jobs, 6), s: the request from its median up, as a limit; else the log's running quantiles; NaN before any end.

    The lowest quantile is the log's own, never above the request.
    """
    running_s = running_quantiles(past)
    requested_s = np.where(past.requested_s > 0, past.requested_s, np.nan)[:, None]
    others = np.repeat(requested_s, len(QUANTILES) - 1, axis=1)
    with_request = np.concatenate([np.fmin(running_s[:, :1], requested_s), others], axis=1)
    return np.where(np.isnan(requested_s), running_s, with_request)


def running_quantiles(past: History) -> Floats:
    """(jobs, 6), s: quantiles (nearest rank) of the runtimes of all jobs that had ended by each submit; n log n."""
    order = np.argsort(past.runtime_s, kind="stable")
    rank = np.empty(len(past), np.int64)
    rank[order] = np.arange(len(past))
    sorted_s = past.runtime_s[order]
    return _running(rank, sorted_s, past.by_end, past.ended, np.array(QUANTILES))


@entry_kernel
def _running(rank: Ints, sorted_s: Floats, by_end: Ints, ended: Ints, shares: Floats) -> Floats:
    """A Fenwick tree counts the runtimes known so far by rank; a quantile is a descent in it."""
    n = len(rank)
    top = 1
    while 2 * top <= n:
        top *= 2
    tree = np.zeros(n + 1, np.int64)
    found = np.full((n, len(shares)), np.nan)
    known = 0
    for job in range(n):
        while known < ended[job]:
            place = rank[by_end[known]] + 1
            while place <= n:
                tree[place] += 1
                place += place & -place
            known += 1
        for k in range(len(shares)):
            if known == 0:
                continue
            wanted = max(1, int(np.ceil(shares[k] * known)))
            at = 0
            step = top
            while step > 0:
                if at + step <= n and tree[at + step] < wanted:
                    at += step
                    wanted -= tree[at]
                step //= 2
            found[job, k] = sorted_s[at]
    return found
