"""How much each size of a series is worth: the precision of its median on the log scale."""

import numpy as np
from scipy.special import ndtri

from pipeline.core.arrays import Floats, Ints

MIN_QUANTILE_JOBS = 5
_Q10_TO_Q90 = 2 * float(ndtri(0.9))


def pooled_log_sd(offsets: Ints, n_jobs: Floats, log_sd: Floats) -> Floats:
    """Per series, the log standard deviation of repeats at one size, pooled over sizes (log s); NaN without repeats."""
    if len(offsets) < 2:
        return np.empty(0)
    freedom = np.where(np.isnan(log_sd), 0.0, n_jobs - 1)
    squares = np.add.reduceat(freedom * np.nan_to_num(log_sd) ** 2, offsets[:-1])
    total = np.add.reduceat(freedom, offsets[:-1])
    pooled: Floats = np.sqrt(squares / np.where(total > 0, total, np.nan))
    return pooled


def core_log_sds(n_jobs: Floats, q10_s: Floats, q90_s: Floats, log_sd: Floats) -> Floats:
    """Per size, the normal standard deviation with these 10% and 90% quantiles of log runtime (log s).

    A failed start or a hang among many repeats moves it little. Below five jobs the quantiles say no more than log_sd.
    """
    spread: Floats = np.where(n_jobs >= MIN_QUANTILE_JOBS, np.log(q90_s / q10_s) / _Q10_TO_Q90, log_sd)
    return spread


def precision_weights(offsets: Ints, n_jobs: Floats, repeat_log_sd: Floats, noise_floor: float) -> Floats:
    """Weight per size, 1/(floor^2 + pooled variance/jobs), scaled to average 1 within its series.

    Relative errors are log errors to first order, so this is the weight of a weighted least-squares fit of relative
    errors; the floor keeps a size with a thousand jobs from silencing all others.
    """
    sizes = np.diff(offsets)
    variance = np.repeat(np.nan_to_num(repeat_log_sd) ** 2, sizes) / n_jobs
    raw = 1.0 / (noise_floor**2 + variance)
    if not len(raw):
        return raw
    weights: Floats = raw * np.repeat(sizes / np.add.reduceat(raw, offsets[:-1]), sizes)
    return weights
