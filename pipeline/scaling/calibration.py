"""How far measured runtimes lie off the model average, on codes that had no say in it; and the noise of a single run.

An end of an interval is exp(a) sd^b (1 + doublings)^c sizes^d off the prediction, in log s: sd is the standard
deviation of the average, doublings how far the count lies outside the sizes of the series. It is apart for either side,
because runtimes leave a law upwards more often and further.
"""

from collections.abc import Mapping

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.scaling.average import Sizes

QUANTILES = (0.025, 0.1, 0.5, 0.9, 0.975)
"""Which quantiles an interval's ends and the prediction stand for, in the columns' order."""

Widths = Mapping[float, tuple[float, ...]]

WIDTHS: Widths = {
    0.025: (-0.56, 0.07, 0.75, -0.54),
    0.1: (-0.47, 0.64, 0.2, -0.33),
    0.9: (-1.88, 0.64, 0.97, 0.84),
    0.975: (-0.37, 0.52, 0.78, 0.29),
}
"""a, b, c and d of each end. The least loss of quantile regression over sixteen measured codes and six simulated ones
(benchmarks/bench_curves.py --widths); b and c are at least 0, so that no interval narrows further out."""

MOST_SIZES = 6
"""A series of more sizes counts as one of so many: no measured code shows what more are worth."""


def width_columns(log_sd: Floats, n_sizes: Floats, doublings: Floats) -> Floats:
    """What a, b, c and d of WIDTHS are multiplied by, float64[t, 4]."""
    sizes = np.log(np.clip(n_sizes, 1, MOST_SIZES))
    return np.column_stack([np.ones(log_sd.size), np.log(log_sd), np.log1p(doublings), sizes])


def log_quantiles(log_s: Floats, log_sd: Floats, n_sizes: Floats, doublings: Floats, widths: Widths = WIDTHS) -> Floats:
    """Log runtimes at QUANTILES, float64[t, 5], from means and standard deviations (log s)."""
    columns = width_columns(log_sd, n_sizes, doublings)
    low95, low80, high80, high95 = np.exp(columns @ np.array(list(widths.values())).T).T
    ends = [-np.maximum(low95, low80), -low80, np.zeros(log_s.size), high80, np.maximum(high95, high80)]
    found: Floats = log_s[:, None] + np.column_stack(ends)
    return found


def below_smallest_size(log_quantile: Floats, sizes: Sizes, series: Ints, procs: Floats, log_sd: Floats) -> Floats:
    """Log runtimes at QUANTILES, none above what ran on the smallest size, where no size ran longer than one before it.

    The bound begins above that runtime by as much as the interval there, and reaches it within a doubling.
    """
    rises = np.diff(np.log(sizes.runtime_s), prepend=np.inf) > 0.0
    rises[sizes.offsets[:-1][np.diff(sizes.offsets) > 0]] = False
    n_rises = np.append(0, np.cumsum(rises))
    first, n_sizes = sizes.offsets[series], np.diff(sizes.offsets)[series]
    falls = (n_sizes > 1) & (n_rises[sizes.offsets[series + 1]] == n_rises[first])
    at = np.where(n_sizes > 0, first, 0)
    first_log_s, beyond = np.log(sizes.runtime_s[at]), np.log2(procs / sizes.procs[at])
    there = log_quantiles(first_log_s, log_sd, n_sizes, np.zeros(procs.size))
    bound = first_log_s[:, None] + np.clip(1.0 - beyond, 0.0, 1.0)[:, None] * np.maximum(
        there - first_log_s[:, None], 0.0
    )
    is_bounded = falls & (beyond >= 0.0)
    middle = log_quantile[:, [2]]
    return np.where(is_bounded[:, None], np.minimum(log_quantile, np.maximum(bound, middle)), log_quantile)


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
