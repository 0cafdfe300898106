"""Nearest neighbours (Li, Chen, Li & Wolters 2005; Minh & Wolters 2010) among the user's latest ended jobs."""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.history import History
from pipeline.estimate.past import Past, capped, past_of, points

REMEMBERED = 64
"""Latest ended jobs of a user that may be neighbours."""


def neighbours(history: History, settings: ForecastSettings) -> Floats:
    """Mean runtime of the user's nearest jobs plus a share of their deviation, s, at most the request; else NaN.

    Distance (heterogeneous, Wilson & Martinez 1997): 1 for another application, group or queue, and for requests or
    processors that differ e-fold; equal ones in order of recency.
    """
    past, codes = past_of(history), history.codes
    kinds = np.stack([codes["application"], codes["user_group"], codes["queue"]])
    found = _nearest(past, kinds, settings.neighbours, settings.deviation_share)
    return points(capped(found, past.requested_s))


@entry_kernel
def _nearest(past: Past, kinds: Ints, wanted: int, deviation_share: float) -> Floats:
    n = len(past.submit_s)
    n_users = past.user.max() + 1 if n else 0
    ring, taken = np.empty((n_users, REMEMBERED), np.int64), np.zeros(n_users, np.int64)
    apart, value_s, found, n_over = np.empty(REMEMBERED), np.empty(REMEMBERED), np.full(n, np.nan), 0
    for job in range(n):
        while n_over < past.ended[job]:
            user = past.user[past.by_end[n_over]]
            if user >= 0:
                ring[user, taken[user] % REMEMBERED] = past.by_end[n_over]
                taken[user] += 1
            n_over += 1
        user = past.user[job]
        if user < 0 or taken[user] == 0:
            continue
        held = min(taken[user], REMEMBERED)
        for back in range(held):
            other = ring[user, (taken[user] - 1 - back) % REMEMBERED]
            # A thousandth a job back: recency decides between equals.
            apart[back] = 1e-3 * back + abs(np.log(past.procs[job] / past.procs[other]))
            if past.requested_s[job] > 0 and past.requested_s[other] > 0:
                apart[back] += abs(np.log(past.requested_s[job] / past.requested_s[other]))
            for kind in range(len(kinds)):
                apart[back] += kinds[kind, job] != kinds[kind, other]
            value_s[back] = past.runtime_s[other]
        nearest = value_s[np.argsort(apart[:held])[: min(wanted, held)]]
        found[job] = nearest.mean() + deviation_share * nearest.std()
    return found
