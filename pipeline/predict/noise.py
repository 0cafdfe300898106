"""How far a run, and the median of a size's runs, scatter: a group's repeats, shrunk to what the whole log shows."""

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints

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
    found: Bools = (freedom >= PRIOR_REPEATS) & (core_log_sd > 0)
    return found


def run_log_sd(freedom: Floats, core_log_sd: Floats, log_wide: float) -> Floats:
    """Per group, log sd of a single run: its own repeats' variance averaged with the log's, by degrees of freedom."""
    own = freedom * np.nan_to_num(core_log_sd) ** 2
    shrunk: Floats = np.sqrt((PRIOR_REPEATS * log_wide**2 + own) / (PRIOR_REPEATS + freedom))
    return shrunk


def median_variance(run_sd: Floats, n_runs: Floats, floor_log_sd: float) -> Floats:
    """Variance (log s squared) of the median of a size's runs; the floor is what no number of repeats averages out."""
    per_run = np.where(n_runs > 2, MEDIAN_VARIANCE, 1.0) / np.maximum(n_runs, 1.0)
    variance: Floats = per_run * run_sd**2 + floor_log_sd**2
    return variance


def repeats(offsets: Ints, n_runs: Floats) -> Floats:
    """Per series, degrees of freedom its repeats give."""
    extra = np.append(np.maximum(n_runs - 1.0, 0.0), 0.0)
    total: Floats = np.add.reduceat(extra, offsets[:-1]) if offsets.size > 1 else np.empty(0)
    return np.where(np.diff(offsets) > 0, total, 0.0)


def pooled_log_sd(offsets: Ints, n_runs: Floats, log_sd: Floats) -> Floats:
    """Per series, the spread of repeats pooled over its sizes by degrees of freedom; NaN where nothing was repeated."""
    n_series = offsets.size - 1
    series = np.repeat(np.arange(n_series), np.diff(offsets))
    freedom = np.where(np.isnan(log_sd), 0.0, n_runs - 1)
    squares = np.bincount(series, freedom * np.nan_to_num(log_sd) ** 2, n_series)
    with np.errstate(invalid="ignore"):
        spread: Floats = np.sqrt(squares / np.bincount(series, freedom, n_series))
    return spread
