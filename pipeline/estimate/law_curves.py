"""The laws of groups as a hypothesis beside the estimate: median runtime by size, and which of the two was closer.

A curve has a shape alone; its level is that of the group's latest runs, those on near sizes most. It answers where its
recent error on the group's ended jobs, each as of its submit, is below that of the estimate. On a size that never ran
it answers where that error is small, whatever the estimate's: that record is of sizes that had run.
"""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.blend import weighted_median
from pipeline.estimate.curves import Curve, height
from pipeline.estimate.score import CALIBRATED, QUANTILES
from pipeline.estimate.similar_jobs import N_OF_GROUP
from pipeline.estimate.submits import Jobs
from pipeline.kernels import entry_kernel, kernel

KEPT, LARGEST = 0.9, 2.0
"""What an ended job leaves of the errors of earlier ones; the largest error that counts (log)."""

ENOUGH = 5
"""Ended jobs that a record needs; those of one job array count as one."""

FARTHEST = math.log(1.2)
"""Largest recent error (log) of a curve that answers for a size that never ran, and of an answer to rely on."""

LOG_S, CURVE_ERROR, ESTIMATE_ERROR, N_ENDED, IS_NEW, BELOW, ABOVE, LOW, HIGH = range(9)
"""Columns of what is judged: the curve's log runtime; the errors of curve and estimate (log); ended jobs of both; 1
where no run of the size is remembered; the places of jobs of the next smaller and larger sizes that are, where it is
not, and -1 without one; how far (log) the curve's 80% interval reaches below and above it."""

# SciPy's ndtri would load SciPy, which a query does without.
REACH = np.array([NormalDist().inv_cdf(share) for share in CALIBRATED]) / NormalDist().inv_cdf(0.9)
"""How far each of CALIBRATED lies from the median, where the ends of 80% are at 1, on a normal scale of logs."""


class LawCurves(NamedTuple):
    """Curves end to end: curve c has the sizes from `offsets[c]` to `offsets[c + 1]`, by size, and log runtimes there.

    `low` and `high`: how far (log) the 80% interval reaches below and above.
    `of_group`: the curve of each of the State's groups, -1 for none; the last one is a blank key. `group_key`: which of
    GROUP_KEYS the groups of PREDICTIONS have, one number.
    """

    of_group: Ints
    offsets: Ints
    log_size: Floats
    log_s: Floats
    low: Floats
    high: Floats
    group_key: Ints


def no_curves() -> LawCurves:
    """No group has a curve."""
    nothing, zero = np.empty(0), np.zeros(1, np.int64)
    return LawCurves(np.full(1, -1, np.int64), zero, nothing, nothing, nothing, nothing, zero)


@entry_kernel
def judged(jobs: Jobs, past: Jobs, newest: Ints, before: Ints, laws: LawCurves) -> Floats:
    """(jobs, 9) what the columns say; NaN where the group has no curve, or none of its ended jobs is remembered.

    `newest` is the newest ended job of a group, `before` per job the one before it in its group.
    """
    found, nothing = np.full((len(jobs.who), HIGH + 1), np.nan), np.empty(0)
    for job in range(len(jobs.who)):
        group = jobs.group[job]
        if group < 0:
            continue
        _set_sizes_around(job, jobs, newest[group], before, past, found[job])
        if laws.of_group[group] < 0:
            continue
        first, after = laws.offsets[laws.of_group[group]], laws.offsets[laws.of_group[group] + 1]
        shape = np.array([float(after - first), 0.0, 1.0])
        curve = Curve(laws.log_size[first:after], laws.log_s[first:after], nothing, shape)
        found[job, LOG_S] = _on_curve(jobs.log_size[job], math.inf, newest[group], before, past, curve)
        for side, widths in ((LOW, laws.low), (HIGH, laws.high)):
            width = Curve(laws.log_size[first:after], widths[first:after], nothing, shape)
            found[job, side] = max(height(jobs.log_size[job], width), 0.0)
        _judge(newest[group], before, past, curve, found[job])
    return found


@kernel
def _set_sizes_around(job: int, jobs: Jobs, newest: int, before: Ints, past: Jobs, found: Floats) -> None:
    """Set IS_NEW, BELOW and ABOVE from the sizes of a group's remembered jobs."""
    below, above, other, found[IS_NEW] = -1, -1, newest, 1.0
    own = jobs.log_size[job]
    while other >= 0:
        size = past.log_size[other]
        if past.size[other] == jobs.size[job]:
            found[IS_NEW] = 0.0
            return
        if size < own and (below < 0 or size > past.log_size[below]):
            below = other
        if size > own and (above < 0 or size < past.log_size[above]):
            above = other
        other = before[other]
    found[BELOW], found[ABOVE] = below, above


@kernel
def _on_curve(log_size: float, known_s: float, newest: int, before: Ints, past: Jobs, curve: Curve) -> float:
    """The curve's log runtime at a size, at the level of the group's jobs that had ended by a time; NaN: none had."""
    above, weight, n_runs, age, other = np.empty(N_OF_GROUP), np.empty(N_OF_GROUP), 0, 1.0, newest
    while other >= 0:
        if past.end_s[other] <= known_s and not past.is_lower_bound[other]:
            above[n_runs] = math.log(past.runtime_s[other]) - height(past.log_size[other], curve)
            weight[n_runs] = age * math.exp(-abs(past.log_size[other] - log_size) / math.log(2.0))
            n_runs, age = n_runs + 1, age * KEPT
        other = before[other]
    return height(log_size, curve) + weighted_median(above[:n_runs], weight[:n_runs]) if n_runs else math.nan


@kernel
def _judge(newest: int, before: Ints, past: Jobs, curve: Curve, found: Floats) -> None:
    """Set the two errors, means in which the newest job weighs most, and the number of jobs."""
    total, weight, n_ended, other = 0.0, 1.0, 0, newest
    of_curve = of_estimate = 0.0
    while other >= 0:
        if not past.is_lower_bound[other] and past.answered_s[other] > 0:
            log_s = math.log(past.runtime_s[other])
            expected = _on_curve(past.log_size[other], past.submit_s[other], before[other], before, past, curve)
            if not math.isnan(expected):
                of_curve += weight * min(abs(log_s - expected), LARGEST)
                of_estimate += weight * min(abs(log_s - math.log(past.answered_s[other])), LARGEST)
                total += weight
                weight *= KEPT
                n_ended += not _is_counted(other, newest, before, past)
        other = before[other]
    found[N_ENDED] = n_ended
    if total > 0:
        found[CURVE_ERROR], found[ESTIMATE_ERROR] = of_curve / total, of_estimate / total


@kernel
def _is_counted(job: int, newest: int, before: Ints, past: Jobs) -> bool:
    """Whether a later job of the same array is judged, which counts for all of it."""
    other = newest
    while other != job and past.array[job] >= 0:
        if past.array[other] == past.array[job] and not past.is_lower_bound[other] and past.answered_s[other] > 0:
            return True
        other = before[other]
    return False


def speaks(law: Floats) -> Bools:
    """Whether the curve answers, per row of what is judged."""
    is_near, is_closer = law[:, CURVE_ERROR] <= FARTHEST, law[:, CURVE_ERROR] < law[:, ESTIMATE_ERROR]
    return (law[:, N_ENDED] >= ENOUGH) & np.where(law[:, IS_NEW] == 1, is_near, is_closer)


def with_laws(quantiles_s: Floats, law: Floats, limit_s: Floats, grace_s: float) -> Floats:
    """The quantiles, s, shifted so that the curve's runtime is the median where the curve answers.

    On a size that never ran they are at least as far from it as those of the curve.
    """
    away = np.where(REACH < 0, law[:, [LOW]], law[:, [HIGH]]) * np.abs(REACH)
    median_s = quantiles_s[:, [QUANTILES.index(0.5)]]
    wider_s = median_s * np.exp(np.sign(REACH) * np.maximum(np.abs(np.log(quantiles_s / median_s)), away))
    here_s = np.where(law[:, [IS_NEW]] == 1, wider_s, quantiles_s)
    return np.where(speaks(law)[:, None], shifted(here_s, np.exp(law[:, LOG_S]), limit_s, grace_s), quantiles_s)


def shifted(quantiles_s: Floats, median_s: Floats, limit_s: Floats, grace_s: float) -> Floats:
    """The quantiles, s, shifted (in logs) to a median.

    `limit_s` is the requested time, infinite for none: the median is at most that, the others a grace time more.
    """
    ratio = np.minimum(median_s, limit_s) / quantiles_s[:, QUANTILES.index(0.5)]
    return np.minimum(ratio[:, None] * quantiles_s, np.maximum(quantiles_s, limit_s[:, None] + grace_s))
