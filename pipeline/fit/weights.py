"""How much each size of a series is worth: the precision of its median on the log scale."""

import numpy as np

from pipeline.core.arrays import Floats, Ints


def pooled_log_sd(offsets: Ints, n_jobs: Floats, log_sd: Floats) -> Floats:
    """Per series, the log standard deviation of repeats at one size, pooled over sizes (log s); NaN without repeats."""
    if len(offsets) < 2:
        return np.empty(0)
    freedom = np.where(np.isnan(log_sd), 0.0, n_jobs - 1)
    squares = np.add.reduceat(freedom * np.nan_to_num(log_sd) ** 2, offsets[:-1])
    total = np.add.reduceat(freedom, offsets[:-1])
    pooled: Floats = np.sqrt(squares / np.where(total > 0, total, np.nan))
    return pooled


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
