"""Replaces the blend by the best single method for as long as the method's errors are clearly smaller.

The blend's gradient is bounded relative to the request, so that no job moves its weights far. Where requests are many
times the runtimes and few bursts decide, the blend can be worse than one of its methods for months. So the difference
of the two absolute errors is summed, in seconds, and decays with a half-life. The method's weight, from 0 to 1, is this
sum in standard errors (the root of the sum of squares), divided by a given number of standard errors.
"""

import math
from typing import NamedTuple

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.estimate.interpretable import entry_kernel, kernel
from pipeline.estimate.submits import Events, Jobs


class Advantage(NamedTuple):
    """Sums over ended jobs: blend error minus method error, s; its squares, s^2; and the latest end, s."""

    sum_s: Floats
    squares: Floats
    at_s: Floats


class Pair(NamedTuple):
    """Per job the estimates of the method and of the blend, s."""

    method_s: Floats
    blend_s: Floats


def no_advantage() -> Advantage:
    """The state before any error is known: the blend has all the weight."""
    return Advantage(np.zeros(1), np.zeros(1), np.full(1, np.nan))


@entry_kernel
def favour(
    past: Jobs, events: Events, answers: Pair, past_answers: Pair, held: Advantage, half_life_s: float, sure: float
) -> Floats:
    """(jobs,) the mean of the two estimates, s, by the method's weight at each submit; updates `held` with the ends.

    `sure`: standard errors by which the method must be ahead to have all the weight.
    """
    n, n_over = len(answers.blend_s), 0
    found = np.empty(n)
    for job in range(n + 1):
        while n_over < events.ended[job]:
            over = events.by_end[n_over]
            if past.is_learnt[over]:
                _learn(over, past, past_answers, held, half_life_s)
            n_over += 1
        if job < n:
            weight = _weight(held, sure)
            found[job] = weight * answers.method_s[job] + (1 - weight) * answers.blend_s[job]
    return found


@kernel
def _weight(held: Advantage, sure: float) -> float:
    if held.sum_s[0] <= 0:
        return 0.0
    weight: float = min(held.sum_s[0] / math.sqrt(held.squares[0]) / sure, 1.0)
    return weight


@kernel
def _learn(over: int, past: Jobs, answers: Pair, held: Advantage, half_life_s: float) -> None:
    """Update the sums; a job stopped below either estimate is left out, because its full runtime is unknown."""
    runtime_s, method_s, blend_s = past.runtime_s[over], answers.method_s[over], answers.blend_s[over]
    if past.is_lower_bound[over] and max(method_s, blend_s) > runtime_s:
        return
    if not np.isnan(held.at_s[0]):
        kept = 0.5 ** ((past.end_s[over] - held.at_s[0]) / half_life_s)
        held.sum_s[0] *= kept
        held.squares[0] *= kept
    held.at_s[0] = past.end_s[over]
    ahead_s = abs(blend_s - runtime_s) - abs(method_s - runtime_s)
    held.sum_s[0] += ahead_s
    held.squares[0] += ahead_s * ahead_s
