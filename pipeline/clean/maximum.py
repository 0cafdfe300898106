"""Finds jobs that ran longer than their queue or the machine allows: their end time is doubtful.

The site states the limits. Where it states none for a queue, the largest request in that queue serves as its limit,
provided the queue enforces requests and the job has one. Not detected: a job beyond its own request but within the
largest one of its queue (its limit may have been extended), and any job in a queue where overruns are common.
"""

import numpy as np

from pipeline.clean.job_arrays import JobArrays
from pipeline.core.arrays import Bools, Floats
from pipeline.core.clean_settings import CleanSettings, MaximumSettings


def over_limit(arrays: JobArrays, settings: CleanSettings) -> Bools:
    """True for a job that ran longer than its longest applicable limit plus the grace."""
    limits = settings.maximum
    # The last element is for jobs without a queue (code -1).
    queue = arrays.queues[0]
    stated, observed = _stated(arrays, limits)[queue], _observed(arrays, limits)[queue]
    longest_s = np.where(np.isfinite(stated) | ~(arrays.requested_s > 0), stated, observed)
    over: Bools = arrays.runtime_s > _with_grace(longest_s, limits)
    return over


def _stated(arrays: JobArrays, limits: MaximumSettings) -> Floats:
    """Per queue code the stated limit, infinite where there is none; the last element is for jobs without a queue."""
    machine_s = limits.runtime_s or np.inf
    stated_s = (limits.queue_runtime_s.get(name, np.inf) for name in arrays.queues[1])
    return np.array([*(min(queue_s, machine_s) for queue_s in stated_s), machine_s])


def _observed(arrays: JobArrays, limits: MaximumSettings) -> Floats:
    """Per queue code its largest request if it enforces requests, else infinite; the last element is for no queue."""
    n = len(arrays.queues[1]) + 1
    has_request = (arrays.requested_s > 0) & (arrays.runtime_s > 0)
    queues, requested_s = arrays.queues[0][has_request] % n, arrays.requested_s[has_request]
    overran = arrays.runtime_s[has_request] > _with_grace(requested_s, limits)
    jobs, overruns = np.bincount(queues, minlength=n), np.bincount(queues[overran], minlength=n)
    largest_s = np.zeros(n)
    np.maximum.at(largest_s, queues, requested_s)
    return np.where((jobs >= limits.min_jobs) & (overruns <= limits.overrun_share * jobs), largest_s, np.inf)


def _with_grace(limit_s: Floats, limits: MaximumSettings) -> Floats:
    allowed: Floats = limit_s + np.maximum(limits.grace_s, limits.grace_share * limit_s)
    return allowed
