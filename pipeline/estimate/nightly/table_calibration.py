"""Calibrates quantiles of the nightly table by the positions of ended jobs' runtimes on their ladders.

A class of rows counts, per rung of the ladder, how many of its jobs ended below it, with a half-life. In addition each
level is corrected for the recent shortfall of coverage, as the integral term of conformal PID control does
(Angelopoulos, Candes & Tibshirani 2023), no faster than the feedback arrives. The correction that tables in service
already contain is subtracted from the shortfall first (a Smith predictor for the delayed response, Smith 1957):
otherwise the same shortfall is corrected again every night until the feedback arrives. Rows of few jobs have a
shortfall of their own, shrunk to that of all rows.
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.estimate.nightly.ladder import MEDIAN, N_RUNGS, assumed_counts
from pipeline.estimate.nightly.memory import ALL, UAQRP, UAR, R, Weights
from pipeline.kernels import kernel

EFFECTIVE = np.array([1.5, 3.0, 6.0, 12.0])
"""Effective jobs at which the classes of rows of a who part."""

OF_REQUEST, OF_ALL, EVERY = 15, 16, 17
"""Classes of the rows of no who, and of all rows together; before them five for each of three groups of kinds."""

FEW_JOBS = 5
"""A row with fewer jobs of its own key is a row of few jobs."""

FEW, ENOUGH, ALL_ROWS = range(3)
"""Groups of rows with a shortfall of their own, and all rows together."""

ABOVE_ALL = 1e-3
"""Least distance of a level from 0 and from 1."""

MOST_SHIFT = 2.0
"""Largest shift of a level, in log odds."""


class Calibration(NamedTuple):
    """Counts with a half-life, as of `day`."""

    counts: Floats
    """(2, classes, rungs + 1) jobs by the first rung that is not shorter, and by the first one that is longer."""
    shortfall: Floats
    """(groups, targets) expected minus observed number of jobs below each quantile."""
    underway: Floats
    """(groups, targets) jobs above the target's share that tables in service are expected to cover before feedback."""
    scored: Floats
    """(groups) number of jobs in the shortfall."""
    day: Floats
    """Last day counted (-1: none), and the number of days in the shortfall."""


def empty_calibration(n_targets: int, prior_jobs: float, prior_spread: float) -> Calibration:
    """The state before any job: only the prior counts of all rows."""
    counts = np.zeros((2, EVERY + 1, N_RUNGS + 1))
    counts[:, EVERY] = assumed_counts(prior_jobs, prior_spread)
    per_target = np.zeros((ALL_ROWS + 1, n_targets))
    return Calibration(counts, per_target, per_target.copy(), np.zeros(ALL_ROWS + 1), np.array([-1.0, 0.0]))


@kernel
def class_of(kind: int, effective: float) -> int:
    """The class of a row."""
    if kind >= R:
        return OF_REQUEST if kind < ALL else OF_ALL
    group = 0 if kind == UAQRP else (1 if kind < UAR else 2)
    for k in range(len(EFFECTIVE)):
        if effective <= EFFECTIVE[k]:
            return 5 * group + k
    return 5 * group + len(EFFECTIVE)


@kernel
def group_of(n_jobs: int) -> int:
    """The group of a row with so many jobs of its own key."""
    return FEW if n_jobs < FEW_JOBS else ENOUGH


@kernel
def begin_day(end_s: float, targets: Floats, weights: Weights, calibration: Calibration) -> None:
    """Decay older counts, if a job ended on a later day than the last one counted."""
    today, day = np.floor(end_s / 86_400.0), calibration.day
    if today <= day[0]:
        return
    if day[0] >= 0:
        _serve(today - day[0], targets, weights, calibration)
        _fade(calibration, 0.5 ** ((today - day[0]) / weights.half_life_days))
        kept = 0.5 ** ((today - day[0]) / weights.level_half_life_days)
        for group in range(ALL_ROWS + 1):
            calibration.scored[group] *= kept
            for k in range(len(targets)):
                calibration.shortfall[group, k] *= kept
        # The decayed number of days tends to half-life / ln 2.
        day[1] += (1 - kept) * (weights.level_half_life_days / np.log(2.0) - day[1])
    day[0] = today


@kernel
def _serve(n_days: float, targets: Floats, weights: Weights, calibration: Calibration) -> None:
    """Account for `n_days` of service: add the correction in today's tables, decay that of older tables."""
    ahead_days = weights.delay_days * (1 - np.exp(-n_days / weights.delay_days))
    for k in range(len(targets)):
        # All rows come last, because the levels of the groups depend on what of theirs is underway.
        for group in range(ALL_ROWS + 1):
            more = _level(k, group, targets[k], weights, calibration) - targets[k]
            n_jobs = ahead_days * calibration.scored[group] / max(calibration.day[1], 1.0)
            underway = calibration.underway[group, k] * (1 - ahead_days / weights.delay_days)
            calibration.underway[group, k] = underway + more * n_jobs


@kernel
def _fade(calibration: Calibration, kept: float) -> None:
    # An expression over a whole array would take three seconds to compile.
    for side in range(2):
        for one in range(EVERY + 1):
            for rung in range(N_RUNGS + 1):
                calibration.counts[side, one, rung] *= kept


@kernel
def count(
    runtime_s: float,
    class_: int,
    group: int,
    lower: int,
    upper: int,
    quantiles_s: Floats,
    targets: Floats,
    calibration: Calibration,
) -> None:
    """Count a job that ended: its positions on its ladder, and the quantiles above its runtime."""
    for one in (class_, EVERY):
        calibration.counts[0, one, lower] += 1.0
        calibration.counts[1, one, upper] += 1.0
    for one in (group, ALL_ROWS):
        calibration.scored[one] += 1.0
        for k in range(len(targets)):
            # A runtime equal to a quantile lies inside the interval.
            is_below = runtime_s < quantiles_s[k] if targets[k] < 0.5 else runtime_s <= quantiles_s[k]
            calibration.shortfall[one, k] += targets[k] - (1.0 if is_below else 0.0)


@kernel
def quantiles(
    class_: int, group: int, most: float, ladder: Floats, targets: Floats, weights: Weights, calibration: Calibration,
    found: Floats,
) -> None:  # fmt: skip
    """Ascending quantiles of one row; the median is the sample's own, at most the request."""
    for k in range(len(targets)):
        if targets[k] == 0.5:
            found[k] = min(ladder[MEDIAN], most)
        else:
            level = _level(k, group, targets[k], weights, calibration)
            found[k] = _on_ladder(level, 1 if targets[k] < 0.5 else 0, class_, ladder, weights, calibration)
    found[0] = min(found[0], found[1])
    for k in range(1, len(targets)):
        found[k] = max(found[k], found[k - 1])


@kernel
def _level(k: int, group: int, target: float, weights: Weights, calibration: Calibration) -> float:
    gain = min(weights.level_gain, weights.level_speed * calibration.day[1] / weights.delay_days)
    missing = _missing(k, ALL_ROWS, 0.0, weights, calibration)
    if group != ALL_ROWS:
        missing = _missing(k, group, missing, weights, calibration)
    shift = min(max(gain * missing / (target * (1 - target)), -MOST_SHIFT), MOST_SHIFT)
    odds = target / (1 - target) * np.exp(shift)
    return float(min(max(odds / (1 + odds), ABOVE_ALL), 1 - ABOVE_ALL))


@kernel
def _missing(k: int, group: int, assumed: float, weights: Weights, calibration: Calibration) -> float:
    """Share of a group's jobs still to be corrected, shrunk to `assumed` with the weight of `level_jobs` jobs."""
    short = calibration.shortfall[group, k] - calibration.underway[group, k]
    return float((short + weights.level_jobs * assumed) / (calibration.scored[group] + weights.level_jobs))


@kernel
def _on_ladder(
    level: float, side: int, class_: int, ladder: Floats, weights: Weights, calibration: Calibration
) -> float:
    """The runtime below which that share of the class's jobs lay, on a line in its logarithm between two rungs."""
    own, every = calibration.counts[side, class_], calibration.counts[side, EVERY]
    n_own, n_every = 0.0, 0.0
    for rung in range(N_RUNGS + 1):
        n_own, n_every = n_own + own[rung], n_every + every[rung]
    scale, wanted, reached = weights.pseudo_jobs / n_every, level * (n_own + weights.pseudo_jobs), 0.0
    for rung in range(N_RUNGS):
        step = own[rung] + scale * every[rung]
        if reached + step >= wanted:
            if rung == 0:
                return float(ladder[0])
            part = (wanted - reached) / step
            return float(ladder[rung - 1] ** (1 - part) * ladder[rung] ** part)
        reached += step
    return float(ladder[N_RUNGS - 1])


@kernel
def positions(value: float, ladder: Floats, found: Ints) -> None:
    """Write the first rung that is not shorter, and the first one that is longer."""
    found[0], found[1] = 0, 0
    for rung in range(N_RUNGS):
        found[0] += ladder[rung] < value
        found[1] += ladder[rung] <= value
