"""One estimate of several: a mean whose weights descend the gradient of its own past errors (exponentiated gradient).

Kivinen & Warmuth (1997), for absolute errors: every method's log weight is everybody's plus the user's own, and both
fall back to where they began with a half-life, so that what was true long ago is forgotten.
"""

from typing import NamedTuple

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel
from pipeline.estimate.past import Past

STEEPEST = 1.0
"""A gradient counts at most this much: one method far off moves no weight by more than a step."""


class Pace(NamedTuple):
    """How fast weights move and are forgotten: log weight per error, half-lives in s."""

    step_all: float
    step_user: float
    half_life_all_s: float
    half_life_user_s: float


class Beliefs(NamedTuple):
    """Log weights of the methods, everybody's and each user's; when they were last moved; bursts under way."""

    all_log: Floats
    all_at_s: Floats
    user_log: Floats
    user_at_s: Floats
    last_burst: Ints
    n_burst: Ints


def beliefs(n_users: int, first_log: Floats) -> Beliefs:
    """Where everybody begins: at `first_log`."""
    return Beliefs(
        first_log.copy(), np.full(1, np.nan), np.zeros((n_users, len(first_log))), np.zeros(n_users),
        np.full(n_users, -1, np.int64), np.zeros(n_users, np.int64),
    )  # fmt: skip


@entry_kernel
def blended(
    past: Past, burst: Ints, told_s: Floats, scale_s: Floats, first_log: Floats, held: Beliefs, pace: Pace
) -> Floats:
    """(jobs,) weighted means, s, of (jobs, methods) estimates without gaps, as of every submit.

    `scale_s` is what counts as a large error of a job; `held` is changed.
    """
    n, n_methods = told_s.shape
    found, weights, n_over = np.empty(n), np.empty(n_methods), 0
    for job in range(n):
        while n_over < past.ended[job]:
            over = past.by_end[n_over]
            gradient = _gradient(over, past, told_s, scale_s, found)
            _move(over, past, burst, gradient, first_log, held, pace)
            n_over += 1
        user = past.user[job]
        weights[:] = held.all_log
        if user >= 0:
            weights += held.user_log[user]
        weights[:] = np.exp(weights - weights.max())
        found[job] = (weights * told_s[job]).sum() / weights.sum()
    return found


@kernel
def _gradient(over: int, past: Past, told_s: Floats, scale_s: Floats, found: Floats) -> Floats:
    """What more weight on each method would have done to the error; 0 where a job stopped below the estimate."""
    is_unknown = past.is_lower_bound[over] and found[over] > past.runtime_s[over]
    sign = 0.0 if is_unknown else (1.0 if found[over] > past.runtime_s[over] else -1.0)
    gradient: Floats = sign * np.minimum(np.maximum((told_s[over] - found[over]) / scale_s[over], -STEEPEST), STEEPEST)
    return gradient


@kernel
def _move(over: int, past: Past, burst: Ints, gradient: Floats, first_log: Floats, held: Beliefs, pace: Pace) -> None:
    """The k-th job of a burst moves its user's weights by 1 / sqrt(k): a burst is one event more than it is many."""
    end_s, user = past.end_s[over], past.user[over]
    if not np.isnan(held.all_at_s[0]):
        kept = 0.5 ** ((end_s - held.all_at_s[0]) / pace.half_life_all_s)
        held.all_log[:] = first_log + kept * (held.all_log - first_log)
    held.all_at_s[0] = end_s
    held.all_log[:] = held.all_log - pace.step_all * gradient
    if user < 0:
        return
    held.n_burst[user] = held.n_burst[user] + 1 if burst[over] == held.last_burst[user] else 1
    held.last_burst[user] = burst[over]
    held.user_log[user] *= 0.5 ** ((end_s - held.user_at_s[user]) / pace.half_life_user_s)
    held.user_log[user] -= pace.step_user / np.sqrt(held.n_burst[user]) * gradient
    held.user_at_s[user] = end_s
