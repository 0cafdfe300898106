"""Jobs that ran longer than the queue or the machine allows: their end, or their clock, is in doubt.

The site states the limits. Where it states none for a queue, the largest request ever made there stands for it, but
only in a queue that shows it ends jobs at what they asked for, and only for jobs that asked: one without a request may
have had no limit. So it does not see a job past its own request but within the queue's largest (its limit may have been
extended), nor any in a queue where overruns are usual.
"""

import numpy as np

from pipeline.clean.job_arrays import JobArrays
from pipeline.core.arrays import Bools, Floats
from pipeline.core.clean_settings import CleanSettings, MaximumSettings


def over_limit(arrays: JobArrays, settings: CleanSettings) -> Bools:
    """True for a job that ran longer than the longest limit that held for it, beyond the grace a kill takes."""
    limits = settings.maximum
    # Code -1, no queue, is the last of these.
    queue = arrays.queues[0]
    stated, shown = _stated(arrays, limits)[queue], _shown(arrays, limits)[queue]
    longest_s = np.where(np.isfinite(stated) | ~(arrays.requested_s > 0), stated, shown)
    over: Bools = arrays.runtime_s > _with_grace(longest_s, limits)
    return over


def _stated(arrays: JobArrays, limits: MaximumSettings) -> Floats:
    """Per queue code the limit the site states, infinite where it states none; the last stands for no queue."""
    machine_s = limits.runtime_s or np.inf
    stated_s = (limits.queue_runtime_s.get(name, np.inf) for name in arrays.queues[1])
    return np.array([*(min(queue_s, machine_s) for queue_s in stated_s), machine_s])


def _shown(arrays: JobArrays, limits: MaximumSettings) -> Floats:
    """Per queue code its largest request if it ends jobs at theirs, else infinite; the last stands for no queue."""
    n = len(arrays.queues[1]) + 1
    asked = (arrays.requested_s > 0) & (arrays.runtime_s > 0)
    queues, requested_s = arrays.queues[0][asked] % n, arrays.requested_s[asked]
    overran = arrays.runtime_s[asked] > _with_grace(requested_s, limits)
    jobs, overruns = np.bincount(queues, minlength=n), np.bincount(queues[overran], minlength=n)
    largest_s = np.zeros(n)
    np.maximum.at(largest_s, queues, requested_s)
    return np.where((jobs >= limits.min_jobs) & (overruns <= limits.overrun_share * jobs), largest_s, np.inf)


def _with_grace(limit_s: Floats, limits: MaximumSettings) -> Floats:
    allowed: Floats = limit_s + np.maximum(limits.grace_s, limits.grace_share * limit_s)
    return allowed
