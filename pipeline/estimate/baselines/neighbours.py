"""Nearest neighbours (Li, Chen, Li & Wolters 2005; Minh & Wolters 2010) among the submitter's latest ended jobs."""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.baselines.whole_log import codes_by, points, whole_log
from pipeline.estimate.history import History
from pipeline.estimate.submits import Events, Jobs, capped

REMEMBERED = 64
"""Latest ended jobs of a submitter that may be neighbours."""


def neighbours(history: History, settings: ForecastSettings) -> Floats:
    """Mean runtime of the submitter's nearest jobs plus a share of their deviation, s, at most the request; else NaN.

    Distance (heterogeneous, Wilson & Martinez 1997): 1 for another application, group or queue, and for requests or
    processors that differ e-fold; equal ones in order of recency.
    """
    log = whole_log(history, settings)
    found = _nearest(log.jobs, log.events, codes_by(log.jobs), log.n_who, settings.neighbours, settings.deviation_share)
    return points(capped(found, log.jobs.requested_s))


@entry_kernel
def _nearest(past: Jobs, events: Events, kinds: Ints, n_who: int, wanted: int, deviation_share: float) -> Floats:
    n = len(past.submit_s)
    ring, taken = np.empty((n_who, REMEMBERED), np.int64), np.zeros(n_who, np.int64)
    apart, value_s, found, n_over = np.empty(REMEMBERED), np.empty(REMEMBERED), np.full(n, np.nan), 0
    for job in range(n):
        while n_over < events.ended[job]:
            who = past.who[events.by_end[n_over]]
            if who >= 0 and past.is_learnt[events.by_end[n_over]]:
                ring[who, taken[who] % REMEMBERED] = events.by_end[n_over]
                taken[who] += 1
            n_over += 1
        who = past.who[job]
        if who < 0 or taken[who] == 0:
            continue
        held = min(taken[who], REMEMBERED)
        for back in range(held):
            other = ring[who, (taken[who] - 1 - back) % REMEMBERED]
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
