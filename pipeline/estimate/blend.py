"""A weighted mean of several methods, with weights learnt by exponentiated gradient descent on its past errors.

Kivinen & Warmuth (1997), for absolute errors. A method's log weight is the sum of a common and a per-user part. Both
decay to their initial values with a half-life.
"""

import math
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.estimate.submits import Events, Jobs
from pipeline.kernels import entry_kernel, kernel

STEEPEST = 1.0
"""Gradients are clipped to this, so that one large error moves a weight by at most one step."""


class Pace(NamedTuple):
    """Learning rates (log weight per error) and half-lives (s) of the common and the per-user weights."""

    step_all: float
    step_user: float
    half_life_all_s: float
    half_life_user_s: float


class Beliefs(NamedTuple):
    """Log weights of the methods, common and per submitter; the times of their last updates (s); open bursts."""

    all_log: Floats
    all_at_s: Floats
    who_log: Floats
    who_at_s: Floats
    last_burst: Ints
    n_burst: Ints


class Answers(NamedTuple):
    """Per job the methods' answers, what counts as a large error, and the mean: all s."""

    method_s: Floats
    scale_s: Floats
    center_s: Floats


def beliefs(first_log: Floats) -> Beliefs:
    """The initial weights: `first_log`, and only the blank submitter."""
    return Beliefs(
        first_log.copy(), np.full(1, np.nan), np.zeros((1, len(first_log))), np.zeros(1),
        np.full(1, -1, np.int64), np.zeros(1, np.int64),
    )  # fmt: skip


@entry_kernel
def blend(
    jobs: Jobs, past: Jobs, events: Events, answers: Answers, past_answers: Answers, first_log: Floats,
    held: Beliefs, pace: Pace,
) -> None:  # fmt: skip
    """Set `center_s` to the weighted mean of each submit's methods, which have no gaps; updates `held` with the ends.

    Where the submits are part of the earlier jobs, `past_answers` gets their means too.
    """
    n, n_methods = answers.method_s.shape
    weights, n_over = np.empty(n_methods), 0
    for job in range(n + 1):
        while n_over < events.ended[job]:
            over = events.by_end[n_over]
            if past.is_learnt[over]:
                gradient = _gradient(over, past, past_answers)
                _move(over, past, gradient, first_log, held, pace)
            n_over += 1
        if job == n:
            break
        who = jobs.who[job]
        weights[:] = held.all_log
        if who >= 0:
            weights += held.who_log[who]
        answers.center_s[job] = _mean(weights, answers.method_s[job])
        if events.first >= 0:
            past_answers.center_s[events.first + job] = answers.center_s[job]


@kernel
def _mean(log_weights: Floats, values: Floats) -> float:
    """The weighted mean, summed in a loop: the order in which numpy adds depends on its build."""
    top, total, weighted = log_weights.max(), 0.0, 0.0
    for k in range(len(values)):
        weight = math.exp(log_weights[k] - top)
        total += weight
        weighted += weight * values[k]
    return weighted / total


@kernel
def _gradient(over: int, past: Jobs, answers: Answers) -> Floats:
    """Gradient of the absolute error by the methods' weights; 0 where a job was stopped below the estimate."""
    center_s, method_s = answers.center_s[over], answers.method_s[over]
    is_unknown = past.is_lower_bound[over] and center_s > past.runtime_s[over]
    sign = 0.0 if is_unknown else (1.0 if center_s > past.runtime_s[over] else -1.0)
    gradient: Floats = sign * np.minimum(np.maximum((method_s - center_s) / answers.scale_s[over], -STEEPEST), STEEPEST)
    return gradient


@kernel
def _move(over: int, past: Jobs, gradient: Floats, first_log: Floats, held: Beliefs, pace: Pace) -> None:
    """Update the weights. The k-th job of a burst has a learning rate of 1 / sqrt(k) for its submitter's weights."""
    end_s, who = past.end_s[over], past.who[over]
    if not np.isnan(held.all_at_s[0]):
        kept = 0.5 ** ((end_s - held.all_at_s[0]) / pace.half_life_all_s)
        held.all_log[:] = first_log + kept * (held.all_log - first_log)
    held.all_at_s[0] = end_s
    held.all_log[:] = held.all_log - pace.step_all * gradient
    if who < 0:
        return
    held.n_burst[who] = held.n_burst[who] + 1 if past.burst[over] == held.last_burst[who] else 1
    held.last_burst[who] = past.burst[over]
    held.who_log[who] *= 0.5 ** ((end_s - held.who_at_s[who]) / pace.half_life_user_s)
    held.who_log[who] -= pace.step_user / np.sqrt(held.n_burst[who]) * gradient
    held.who_at_s[who] = end_s


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
