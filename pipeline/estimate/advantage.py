"""The blend, or the best single method in its place for as long as that has clearly erred less.

The blend's weights descend a gradient that is bounded by the request, so that no job moves them far. Where requests are
many times the runtimes, and few bursts decide, it can lose to one of its own methods for months. So the difference of
the two errors is summed, in seconds, and forgotten with a half-life; the weight of the method is this sum over its
standard error (the root of the sum of squares), as a share of a given number of standard errors, from 0 to 1.
"""

import math
from typing import NamedTuple

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.estimate.interpretable import entry_kernel, kernel
from pipeline.estimate.submits import Events, Jobs


class Advantage(NamedTuple):
    """Of all jobs that ended: how much less the method erred than the blend, s; its squares, s^2; the latest end, s."""

    sum_s: Floats
    squares: Floats
    at_s: Floats


class Pair(NamedTuple):
    """Per job what the method and the blend answered, s."""

    method_s: Floats
    blend_s: Floats


def no_advantage() -> Advantage:
    """No error is known: the blend answers."""
    return Advantage(np.zeros(1), np.zeros(1), np.full(1, np.nan))


@entry_kernel
def favour(
    past: Jobs, events: Events, answers: Pair, past_answers: Pair, held: Advantage, half_life_s: float, sure: float
) -> Floats:
    """(jobs,) the mean of the two answers, s, by the method's weight at each submit; `held` changes with the ends.

    `sure`: standard errors by which the method must be ahead to answer alone.
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
    """A job stopped below either answer does not say which of the two was nearer."""
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
