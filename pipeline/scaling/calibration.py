"""How far measured runtimes lie off the model average, in its standard deviations, on codes that had no say in it.

The factors are apart for answers between the sizes of a series, and beyond them by the number of its sizes and by the
reach: the more sizes, the surer the average is of a law, and the further it errs where the code leaves that law. They
are apart for either end, because runtimes leave a law upwards more often and further. Second half: what repeats say of
the noise of a single run.
"""

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.scaling.average import Sizes

MOST_SIZES, MOST_DOUBLINGS = 5, 3
"""More sizes, or a reach of more doublings, count as these."""

FACTORS = (
    (-3.07, -1.01, 1.04, 2.14),
    (-1.34, -0.85, 1.42, 6.39), (-1.34, -0.85, 1.25, 6.39), (-1.34, -0.87, 1.21, 6.39),
    (-1.78, -0.84, 0.84, 2.64), (-1.78, -0.84, 1.00, 3.21), (-1.78, -0.78, 1.16, 3.21),
    (-1.74, -0.78, 0.91, 2.39), (-1.74, -0.74, 1.35, 5.44), (-1.74, -0.70, 1.63, 5.44),
    (-1.53, -0.75, 1.55, 9.67), (-1.57, -0.88, 2.33, 9.67), (-1.57, -0.54, 3.13, 9.67),
    (-2.59, -1.15, 1.58, 4.94), (-2.59, -0.79, 2.20, 8.21), (-2.59, -0.69, 3.01, 8.21),
)  # fmt: skip
"""Lower ends of the 95% and 80% interval and their upper ends, in standard deviations: between sizes, then a line for
each of 1 to 5 sizes, up to 1.5, 2.5 and more doublings beyond. From ten measured codes and six simulated ones."""

QUANTILES = (0.025, 0.1, 0.5, 0.9, 0.975)
"""Which quantiles an interval's ends and the prediction stand for, in the columns' order."""


def rests_on(sizes: Sizes, series: Ints, procs: Floats) -> Ints:
    """Per target its place in FACTORS: within the sizes of its series, or beyond them by their number and the reach.

    A series without sizes counts as one of one size.
    """
    n_sizes, ends = np.diff(sizes.offsets)[series], np.append(sizes.procs, np.nan)
    first, last = ends[sizes.offsets[series]], ends[np.where(n_sizes > 0, sizes.offsets[series + 1] - 1, -1)]
    doublings = np.nan_to_num(np.log2(np.maximum(procs / last, first / procs)))
    reach = np.clip(np.floor(doublings + 0.5), 1, MOST_DOUBLINGS).astype(np.int64)
    beyond = 1 + MOST_DOUBLINGS * (np.clip(n_sizes, 1, MOST_SIZES) - 1) + reach - 1
    is_within = (n_sizes > 1) & (procs >= first) & (procs <= last)
    return np.where(is_within, 0, beyond)


def log_quantiles(log_s: Floats, log_sd: Floats, place: Ints) -> Floats:
    """Log runtimes at QUANTILES, float64[t, 5], from means and standard deviations and places in FACTORS."""
    low95, low80, high80, high95 = np.array(FACTORS)[place].T
    ends = [low95, low80, np.zeros(place.size), high80, high95]
    found: Floats = log_s[:, None] + log_sd[:, None] * np.column_stack(ends)
    return found


PRIOR_REPEATS = 3.0
"""Repeats that the log-wide noise counts as beside a group's own (the prototype's nu0)."""

MIN_GROUPS = 5
"""Groups with repeats a log must have to tell its noise."""

SCALE_OF_MEDIAN = 0.789
"""Scale over median of a scaled inverse chi-square with PRIOR_REPEATS degrees of freedom (chi-square median / 3)."""

MEDIAN_VARIANCE = np.pi / 2
"""Variance of a median over that of a mean, for normal errors and many of them."""


def log_wide_sd(freedom: Floats, core_log_sd: Floats, default_log_sd: float) -> float:
    """The log's typical noise (log s): of the median group with repeats; the default where too few have any."""
    if not has_noise(freedom, core_log_sd):
        return default_log_sd
    return float(np.median(core_log_sd[_has_repeats(freedom, core_log_sd)]) * np.sqrt(SCALE_OF_MEDIAN))


def has_noise(freedom: Floats, core_log_sd: Floats) -> bool:
    """Whether enough groups have repeats to tell the log's noise."""
    return int(_has_repeats(freedom, core_log_sd).sum()) >= MIN_GROUPS


def _has_repeats(freedom: Floats, core_log_sd: Floats) -> Bools:
    return (freedom >= PRIOR_REPEATS) & (core_log_sd > 0)


def run_log_sd(freedom: Floats, core_log_sd: Floats, log_wide: float) -> Floats:
    """Per group, log sd of a single run: its own repeats' variance averaged with the log's, by degrees of freedom."""
    own = freedom * np.nan_to_num(core_log_sd) ** 2
    return np.sqrt((PRIOR_REPEATS * log_wide**2 + own) / (PRIOR_REPEATS + freedom))


def median_variance(run_sd: Floats, n_runs: Floats, floor_log_sd: float) -> Floats:
    """Variance (log s squared) of the median of a size's runs; the floor is what no number of repeats averages out."""
    per_run = np.where(n_runs > 2, MEDIAN_VARIANCE, 1.0) / np.maximum(n_runs, 1.0)
    return per_run * run_sd**2 + floor_log_sd**2


def repeats(offsets: Ints, n_runs: Floats) -> Floats:
    """Per series, degrees of freedom its repeats give."""
    extra = np.append(np.maximum(n_runs - 1.0, 0.0), 0.0)
    total: Floats = np.add.reduceat(extra, offsets[:-1]) if offsets.size > 1 else np.empty(0)
    return np.where(np.diff(offsets) > 0, total, 0.0)
