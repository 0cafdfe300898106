"""How long a running job still runs: its estimate at the submit, given that it has already run for some time.

With F the distribution of the estimate, the share q of the time left is Q(F(elapsed) + (1 - F(elapsed)) q) - elapsed.
The shares are calibrated on jobs that have ended: how the true time left of each lay in what was said of it, by how
much of its limit had passed (probability integral transform: Dawid (1984), Statistical theory, the prequential
approach).
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats
from pipeline.estimate.score import QUANTILES

LEFT_SHARES = (0.10, 0.50, 0.80, 0.95)
"""The quantiles that are told of the time left."""

LEAST_S = 1.0
"""A job that still runs has at least this much left; and the first knot of a curve."""

SHARES = np.array([0.0, *QUANTILES, 1.0])
"""The shares of the jobs that are shorter than the knots of a curve, which are ascending logarithms of runtimes, s."""

BINS, NEWEST, PRIOR_JOBS = 5, 600, 30
"""Bins of elapsed over limit; jobs whose outcome counts in each; and jobs without error that are added to these."""

GRACE_SHARE = 0.95
"""A quantile above the median ends at most so late after the limit as this share of the past jobs beyond theirs."""

_APART = 1e-6
_TURN = (5**0.5 - 1) / 2


class Outcomes(NamedTuple):
    """How jobs that ended lay in what was said of them, one row a job in order of end."""

    end_s: Floats
    position: Floats
    """(jobs, BINS) share of the time left said that was at most the true one; NaN where the job ended before."""
    beyond_s: Floats
    """How long the job ran beyond its limit, s; NaN where it did not."""


class Calibration(NamedTuple):
    """What the outcomes known at a time say: ascending positions by bin, and the grace after the limit, s."""

    positions: tuple[Floats, ...]
    grace_s: float


UNCALIBRATED = Calibration((np.empty(0),) * BINS, 0.0)
"""Nothing is known of outcomes."""


def time_left(
    quantiles_s: Floats, elapsed_s: Floats, limit_s: Floats, known: Calibration, shares: tuple[float, ...] = LEFT_SHARES
) -> Floats:
    """(jobs, shares) time left, s, ascending, at least LEAST_S; an end that is told never moves to an earlier time.

    Parameters
    ----------
    quantiles_s : Floats
        float64[n, 6], the runtimes that were estimated at the submit, s, at QUANTILES; NaN: no answer.
    elapsed_s : Floats
        float64[n], how long each job has run, s.
    limit_s : Floats
        float64[n], requested times, s; NaN where none was requested. The median ends at the limit at the latest.
    known : Calibration
        The outcomes known at the time of the question.
    shares : tuple of float
        Ascending shares between 0 and 1.

    Returns
    -------
    Floats
        float64[n, len(shares)], s; NaN where the estimate has no answer.

    Examples
    --------
    >>> estimate_s = np.array([[600.0, 1800.0, 3000.0, 3200.0, 3400.0, 3600.0]])
    >>> left_s = time_left(estimate_s, np.array([1800.0]), np.array([3600.0]), UNCALIBRATED)
    >>> left_s.round().tolist()
    [[160.0, 955.0, 1400.0, 1724.0]]
    """
    found = np.full((len(elapsed_s), len(shares)), np.nan)
    jobs = np.flatnonzero(~np.isnan(quantiles_s).any(axis=1) & ~np.isnan(elapsed_s))
    knots = _knots(quantiles_s[jobs], limit_s[jobs], known.grace_s)
    scale_s, ran_s = _scale_s(quantiles_s, limit_s)[jobs, None], elapsed_s[jobs, None]
    current = np.clip(np.ceil(BINS * ran_s / scale_s) - 1, 0, BINS - 1)
    # An end told at the last instant of an earlier bin stays the least: what is told does not depend on a bin's edge.
    end_s = np.zeros((len(jobs), len(shares)))
    for one, positions in enumerate(known.positions):
        at_s = np.where(one == current, ran_s, scale_s * (one + 1) / BINS)
        before = share_below(knots, at_s)
        # The shares of the curve below which these shares of the outcomes lay, with PRIOR_JOBS that lie evenly.
        calibrated = np.quantile(np.concatenate([positions, np.linspace(0.0, 1.0, PRIOR_JOBS)]), shares)
        told_s = runtime_at(knots, before + (1.0 - before) * calibrated)
        end_s = np.where(one <= current, np.maximum(end_s, np.maximum(told_s, at_s + LEAST_S)), end_s)
    found[jobs] = end_s - ran_s
    most_s = limit_s[:, None] - elapsed_s[:, None] + np.where(np.array(shares) > 0.5, known.grace_s, 0.0)
    capped_s = np.maximum(np.fmin(found, most_s), LEAST_S)
    return np.where(np.isnan(found), np.nan, np.maximum.accumulate(capped_s, axis=1))


def share_below(knots: Floats, at_s: Floats) -> Floats:
    """(jobs, values): the share of each job's curve that is shorter than runtimes, s."""
    return interpolated(knots, np.broadcast_to(SHARES, knots.shape), np.log(np.maximum(at_s, LEAST_S)))


def runtime_at(knots: Floats, share: Floats) -> Floats:
    """(jobs, values): the runtimes, s, at shares of each job's curve."""
    found: Floats = np.exp(interpolated(np.broadcast_to(SHARES, knots.shape), knots, share))
    return found


def interpolated(x: Floats, y: Floats, at: Floats) -> Floats:
    """(rows, values): numpy's interp of each row of `at` in the same row of ascending `x` and `y`, constant outside."""
    place = np.clip((x[:, None, :] <= at[:, :, None]).sum(axis=2) - 1, 0, x.shape[1] - 2)
    rows = np.arange(len(x))[:, None]
    step = np.maximum(x[rows, place + 1] - x[rows, place], 1e-12)
    found = (y[rows, place + 1] - y[rows, place]) / step * (np.maximum(at, x[:, :1]) - x[rows, place]) + y[rows, place]
    return np.where(at >= x[:, -1:], y[:, -1:], found)


def outcomes_of(quantiles_s: Floats, runtime_s: Floats, limit_s: Floats, end_s: Floats) -> Outcomes:
    """The outcomes of jobs that ended, each asked at one instant of every bin that it reached."""
    has_run = np.flatnonzero(~np.isnan(runtime_s) & np.isfinite(end_s) & ~np.isnan(quantiles_s).any(axis=1))
    jobs = has_run[np.argsort(end_s[has_run], kind="stable")]
    knots, ran_s = _knots(quantiles_s[jobs], limit_s[jobs], 0.0), runtime_s[jobs, None]
    # Instants spread evenly over the bin and chosen without the runtime: else long jobs would count too much.
    part = np.arange(BINS) + (_TURN * np.arange(len(jobs))[:, None]) % 1.0
    asked_s = _scale_s(quantiles_s, limit_s)[jobs, None] * part / BINS
    before = share_below(knots, asked_s)
    position = (share_below(knots, ran_s) - before) / np.maximum(1.0 - before, _APART)
    beyond_s = (runtime_s - limit_s)[jobs]
    return Outcomes(end_s[jobs], np.where(asked_s < ran_s, position, np.nan), np.where(beyond_s > 0, beyond_s, np.nan))


def calibration(outcomes: Outcomes, at_s: float) -> Calibration:
    """What the jobs that ended by a time (s) say, the newest of each bin."""
    n_known = int(np.searchsorted(outcomes.end_s, at_s, side="right"))
    positions = tuple(np.sort(_newest(outcomes.position[:n_known, one])) for one in range(BINS))
    beyond_s = _newest(outcomes.beyond_s[:n_known])
    return Calibration(positions, float(np.quantile(beyond_s, GRACE_SHARE)) if len(beyond_s) else 0.0)


def _newest(values: Floats) -> Floats:
    known: Bools = ~np.isnan(values[-8 * NEWEST :])
    return values[-8 * NEWEST :][known][-NEWEST:]


def _scale_s(quantiles_s: Floats, limit_s: Floats) -> Floats:
    """What the elapsed time is compared with: the limit, or without one the last quantile."""
    return np.maximum(np.where(limit_s > 0, limit_s, quantiles_s[:, -1]), LEAST_S)


def _knots(quantiles_s: Floats, limit_s: Floats, grace_s: float) -> Floats:
    """(jobs, 8): the knots of each job's curve; the last one is beyond the limit."""
    beyond_s = quantiles_s[:, -1] ** 2 / np.maximum(quantiles_s[:, -2], LEAST_S)
    knots = knots_of(quantiles_s, np.maximum(beyond_s, np.nan_to_num(limit_s) + grace_s))
    return knots + _APART * np.arange(knots.shape[1])


def knots_of(quantiles_s: Floats, last_s: Floats) -> Floats:
    """(jobs, 8): the knots at SHARES of curves through these quantiles, whose last knots are at these runtimes, s."""
    steps = np.log(np.maximum(np.column_stack([np.ones(len(last_s)), quantiles_s, last_s]), LEAST_S))
    return np.maximum.accumulate(steps, axis=1)
