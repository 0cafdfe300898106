"""Soft limits: which limit a scheduler plans a job with, and how it is raised before the job reaches it.

The plug-in, the guard and the replay use these formulas alone, so that what is replayed is what is done. A job that is
planned with a limit shorter than its request never ends by it: the guard raises the limit while the job runs, at most
to the request. All times are in s; functions take numbers or arrays of one shape.
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints

MINUTE_S = 60.0
"""Slurm's limits are whole minutes."""

OVER_TIME_LIMIT_S, MARGIN_WITH_OVER_TIME_S = 900.0, 180.0
"""A Slurm with OverTimeLimit of at least the first lets jobs run on past their limits, so the second is enough."""


class SoftRules(NamedTuple):
    """The rules of a site."""

    quantile: float = 0.1
    """The quantile of the estimate that is the first limit (setting export.quantile)."""
    margin_s: float = 900.0
    """A job with less time left is extended: so long may the guard be away without a job ending."""
    least_saved_s: float = 600.0
    """A limit is set only where it is at least so much below the request,"""
    least_saved_share: float = 0.25
    """and at least this share of the request."""
    increments_s: tuple[float, ...] = (60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18000.0, 36000.0)
    """Time added by the first extension, the second and so on; the last one repeats."""
    round_s: float = 30.0
    """Time between two rounds of the guard."""
    patience_s: float = 3600.0
    """A job waits too long that has not started so long after the start that was expected first,"""
    patience_share: float = 0.1
    """and this share of its request."""


SOFT_RULES = SoftRules()
"""The rules of a site that sets nothing."""


def margin_of(over_time_limit_s: float) -> float:
    """The margin, s, with this OverTimeLimit (s) in slurm.conf."""
    return MARGIN_WITH_OVER_TIME_S if over_time_limit_s >= OVER_TIME_LIMIT_S else SOFT_RULES.margin_s


def rules_of(quantile: float, over_time_limit_min: float) -> SoftRules:
    """The rules of a site by its settings export.quantile and export.over_time_limit_min."""
    return SoftRules(quantile=quantile, margin_s=margin_of(MINUTE_S * over_time_limit_min))


def planned_limits(quantile_s: Floats, request_s: Floats, rules: SoftRules) -> Floats:
    """The limits, s, that jobs are planned with first; NaN where the request stands.

    Whole minutes, at least twice the margin. NaN also without a quantile (NaN) or a request (0 or NaN).
    """
    limit_s = np.maximum(np.ceil(np.asarray(quantile_s, np.float64) / MINUTE_S) * MINUTE_S, 2.0 * rules.margin_s)
    return np.where(saves_enough(limit_s, request_s, rules), limit_s, np.nan)


def saves_enough(shorter_s: Floats, request_s: Floats, rules: SoftRules = SOFT_RULES) -> Bools:
    """Whether times are so much below the requests (both s) that they are worth setting or recommending."""
    least_s = np.maximum(rules.least_saved_s, np.multiply(rules.least_saved_share, request_s))
    return np.greater_equal(request_s - shorter_s, least_s)


def next_limits(
    limit_s: Floats, request_s: Floats, n_extensions: Ints, median_left_s: Floats, rules: SoftRules
) -> Floats:
    """The limits, s, after one more extension.

    Parameters
    ----------
    limit_s, request_s : Floats
        The present limits and the requests, s.
    n_extensions : Ints
        Extensions so far (`extensions_of`).
    median_left_s : Floats
        The median of the time from the present limit to the end, for jobs that reach that limit, s; NaN: unknown.
    rules : SoftRules

    Returns
    -------
    Floats
        The present limit and the next increment, or the median where that is longer; whole minutes, at most the
        request.
    """
    steps_s = _steps_s(rules)
    step_s = np.fmax(steps_s[np.minimum(n_extensions, len(steps_s) - 1)], median_left_s)
    return np.minimum(np.ceil((limit_s + step_s) / MINUTE_S) * MINUTE_S, request_s)


def extensions_of(limit_s: Floats, first_s: Floats, rules: SoftRules) -> Ints:
    """How many increments lie between the first limits and the present ones (s): the guard keeps no count.

    An extension by a median counts as the increments that it holds.
    """
    return np.searchsorted(np.cumsum(_steps_s(rules)), np.subtract(limit_s, first_s), side="right")


def medians_left(quantiles_s: Floats, levels: tuple[float, ...], limit_s: Floats) -> Floats:
    """The median of the time from a limit to the end, s, of jobs that reach it, by runtime quantiles at `levels`.

    Between the quantiles the runtime is taken as even. `quantiles_s` is (jobs, levels); NaN where half of those that
    reach the limit run beyond the last quantile.
    """
    # As np.interp does it, for each row its own quantiles.
    row, known = np.arange(len(limit_s)), np.array(levels)
    above = (quantiles_s <= limit_s[:, None]).sum(axis=1).clip(0, len(known) - 1)
    below = np.maximum(above - 1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (limit_s - quantiles_s[row, below]) / (quantiles_s[row, above] - quantiles_s[row, below])
        reached = np.where(above == 0, 0.0, known[below] + np.minimum(share, 1.0) * (known[above] - known[below]))
    level = (1.0 + reached) / 2.0
    above = np.searchsorted(known, np.minimum(np.nan_to_num(level), known[-1])).clip(1)
    share = (level - known[above - 1]) / (known[above] - known[above - 1])
    end_s = quantiles_s[row, above - 1] + share * (quantiles_s[row, above] - quantiles_s[row, above - 1])
    return np.where(level <= known[-1], np.maximum(end_s - limit_s, 0.0), np.nan)


def waits_too_long(now_s: Floats | float, expected_s: Floats, request_s: Floats, rules: SoftRules) -> Bools:
    """Whether waiting jobs are too long past the start that was expected for them first.

    `expected_s` are these starts (s since 1970, NaN: none was expected), `request_s` the jobs' requests (s).
    """
    return np.greater(now_s, expected_s + patience_s(request_s, rules))


def patience_s(request_s: Floats | Ints, rules: SoftRules) -> Floats:
    """How long past that start jobs may wait, s."""
    return rules.patience_s + np.multiply(rules.patience_share, request_s)


def _steps_s(rules: SoftRules) -> Floats:
    """The increments, none shorter than the margin: after a shorter one the job would be near its limit at once."""
    return np.maximum(rules.increments_s, rules.margin_s)
