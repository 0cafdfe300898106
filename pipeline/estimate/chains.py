"""What the latest jobs took, along a chain of keys from the most to the least specific one."""

from collections.abc import Sequence

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel
from pipeline.estimate.history import History
from pipeline.estimate.past import Past, capped, joined, past_of, points, ranks
from pipeline.estimate.score import QUANTILES

MEAN, MAX, QUANTILE = range(3)


def chain_of(history: History) -> list[Ints]:
    """Codes of (user, application, request, procs), (user, application, request), (user, application), (user)."""
    user, application = history.codes["user"], history.codes["application"]
    by_application = joined(user, application)
    by_request = joined(by_application, ranks(history.requested_s))
    return [joined(by_request, ranks(history.procs)), by_request, by_application, user]


def latest(history: History, chain: Sequence[Ints], memory: int, statistic: int, least: int) -> Floats:
    """(jobs, 5) runtimes, s: from the first key with `least` ended jobs, over its last `memory` ones; else NaN.

    MEAN and MAX fill the median alone. Capped at the request. In quantiles a job that was stopped at its limit counts
    as longer than the request, because nothing says how long it would have run.
    """
    if not len(history):
        return np.empty((0, len(QUANTILES)))
    past = past_of(history)
    found = _latest(past, np.stack(chain), memory, statistic, least, np.array(QUANTILES))
    return capped(found if statistic == QUANTILE else points(found[:, 0]), past.requested_s)


@entry_kernel
def _latest(past: Past, chain: Ints, memory: int, statistic: int, least: int, shares: Floats) -> Floats:
    levels, n = chain.shape
    rings = [np.empty((chain[level].max() + 1, memory)) for level in range(levels)]
    counts = [np.zeros(chain[level].max() + 1, np.int64) for level in range(levels)]
    found = np.full((n, len(shares)), np.nan)
    known = 0
    for job in range(n):
        while known < past.ended[job]:
            over = past.by_end[known]
            value = past.runtime_s[over]
            if statistic == QUANTILE and past.is_lower_bound[over] and past.requested_s[over] > 0:
                value = np.inf
            for level in range(levels):
                key = chain[level, over]
                if key >= 0:
                    rings[level][key, counts[level][key] % memory] = value
                    counts[level][key] += 1
            known += 1
        for level in range(levels):
            key = chain[level, job]
            if key < 0 or counts[level][key] < least:
                continue
            held = rings[level][key, : min(memory, counts[level][key])]
            if statistic == MEAN:
                found[job, 0] = held.mean()
            elif statistic == MAX:
                found[job, 0] = held.max()
            else:
                ordered = np.sort(held)
                for k in range(len(shares)):
                    # One more job falls below the r-th of m known ones with chance r / (m + 1).
                    rank = int(np.ceil(shares[k] * (len(ordered) + 1)))
                    found[job, k] = ordered[min(max(rank, 1), len(ordered)) - 1]
            break
    return found
