"""The median of several methods, weighted by their recent errors.

A method's weight is an inverse power of its mean absolute error, of the submitter's jobs with some of everybody's, so
that one whose errors have been far above the best's no longer counts.
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats
from pipeline.estimate.submits import Events, Jobs
from pipeline.kernels import entry_kernel, kernel, sort_in_place

KEPT_OF_ALL, KEPT_OF_WHO = 0.9995, 0.97
"""What a new error leaves of the sums."""

OTHERS_JOBS = 50.0
"""Weight of everybody's errors beside a submitter's, in jobs."""


class Errors(NamedTuple):
    """Decayed sums of each method's absolute errors, s: of all jobs, and per submitter with their number."""

    of_all: Floats
    of_who: Floats
    n_of_who: Floats


def no_errors(n_methods: int) -> Errors:
    """Nothing known: only the blank submitter."""
    return Errors(np.zeros(n_methods), np.zeros((1, n_methods)), np.zeros(1))


@entry_kernel
def blended(
    jobs: Jobs, past: Jobs, events: Events, method_s: Floats, past_method_s: Floats, held: Errors, power: float
) -> Floats:  # fmt: skip
    """(jobs,) the median of each submit's methods, s, by errors to the minus `power`; updates `held` with the ends.

    `method_s` and `past_method_s`: (jobs, methods) answers without gaps, of the submits and of the earlier jobs.
    """
    n, n_methods = method_s.shape
    found, weight, n_over = np.empty(n), np.empty(n_methods), 0
    for job in range(n + 1):
        while n_over < events.ended[job]:
            over = events.by_end[n_over]
            if past.is_learnt[over]:
                _learn(past.who[over], past.runtime_s[over], past.is_lower_bound[over], past_method_s[over], held)
            n_over += 1
        if job < n:
            _weigh(jobs.who[job], held, power, weight)
            found[job] = weighted_median(method_s[job], weight)
    return found


@kernel
def _learn(who: int, runtime_s: float, is_stopped: bool, method_s: Floats, held: Errors) -> None:
    """Update the sums; a job stopped below an answer is left out, because its full runtime is unknown."""
    for one_s in method_s:
        if is_stopped and one_s > runtime_s:
            return
    for method in range(len(method_s)):
        error_s = abs(method_s[method] - runtime_s)
        held.of_all[method] = KEPT_OF_ALL * held.of_all[method] + error_s
        if who >= 0:
            held.of_who[who, method] = KEPT_OF_WHO * held.of_who[who, method] + error_s
    if who >= 0:
        held.n_of_who[who] = KEPT_OF_WHO * held.n_of_who[who] + 1


@kernel
def _weigh(who: int, held: Errors, power: float, weight: Floats) -> None:
    """Set the weights; errors count as multiples of the methods' mean: nobody's long jobs outweigh a submitter."""
    all_s = own_s = 0.0
    n_methods, n_own = len(weight), held.n_of_who[who] if who >= 0 else 0.0
    for method in range(n_methods):
        all_s += held.of_all[method] / n_methods
        own_s += held.of_who[who, method] / n_methods
    for method in range(n_methods):
        error = OTHERS_JOBS * held.of_all[method] / all_s if all_s > 0 else OTHERS_JOBS
        error += n_own * held.of_who[who, method] / own_s if n_own > 0 and own_s > 0 else 0.0
        weight[method] = max(error, 1e-9) ** -power


@kernel
def weighted_median(values: Floats, weight: Floats) -> float:
    """The least value up to which there is half of the weight."""
    total = below = 0.0
    for one in weight:
        total += one
    ordered, own = values.copy(), weight.copy()
    sort_in_place(ordered, own)
    for place in range(len(ordered)):
        below += own[place]
        if below >= 0.5 * total * (1 - 1e-12):
            return float(ordered[place])
    return float(ordered[-1])
