"""How repeats at one size scatter, and so how much each size of a series is worth."""

import numpy as np
import pyarrow as pa
from scipy.special import ndtri

from pipeline.core.arrays import Floats, Ints, floats

MIN_CORE_JOBS = 5
"""Below it the 10% and 90% quantiles are the extremes themselves."""

MIN_TAIL_JOBS = 40
"""Below it the 2.5% and 97.5% quantiles are the extremes themselves."""

_Q90, _Q975 = float(ndtri(0.9)), float(ndtri(0.975))


def repeat_spread(offsets: Ints, observed: pa.Table) -> dict[str, Floats]:
    """Per series, in log seconds: core_log_sd, repeat_log_lo95 and repeat_log_hi95; NaN without repeats.

    The core is the normal standard deviation with the repeats' 10% and 90% quantiles: a failed start or a hang among
    them moves it little. The other two are distances from the median to the 2.5% and 97.5% quantiles, which do hold
    the odd runs. A size with too few jobs for its quantiles counts by its standard deviation; sizes are pooled by jobs.
    """
    n_jobs, log_sd = floats(observed, "n_jobs"), floats(observed, "log_sd")
    median_s = floats(observed, "runtime_s_median")

    def distance(low_s: Floats, high: str, normal: float, enough: int) -> Floats:
        measured = np.log(floats(observed, high) / low_s)
        per_size = np.where(n_jobs >= enough, np.abs(measured), normal * log_sd)
        return pooled(offsets, np.where(np.isnan(log_sd), 0.0, n_jobs - 1), per_size)

    return {
        "core_log_sd": distance(floats(observed, "runtime_s_q10"), "runtime_s_q90", 2 * _Q90, MIN_CORE_JOBS)
        / (2 * _Q90),
        "repeat_log_lo95": distance(median_s, "runtime_s_q025", _Q975, MIN_TAIL_JOBS),
        "repeat_log_hi95": distance(median_s, "runtime_s_q975", _Q975, MIN_TAIL_JOBS),
    }


def pooled(offsets: Ints, freedom: Floats, per_size: Floats) -> Floats:
    """Per series, the root mean square of a spread over its sizes, weighted by degrees of freedom; NaN for none."""
    if len(offsets) < 2:
        return np.empty(0)
    squares = np.add.reduceat(freedom * np.nan_to_num(per_size) ** 2, offsets[:-1])
    total = np.add.reduceat(freedom, offsets[:-1])
    spread: Floats = np.sqrt(squares / np.where(total > 0, total, np.nan))
    return spread


def precision_weights(offsets: Ints, n_jobs: Floats, core_log_sd: Floats, noise_floor: float) -> Floats:
    """Weight per size, 1/(floor^2 + pooled variance/jobs), scaled to average 1 within its series.

    Relative errors are log errors to first order, so this is the weight of a weighted least-squares fit of relative
    errors; the floor keeps a size with a thousand jobs from silencing all others.
    """
    sizes = np.diff(offsets)
    variance = np.repeat(np.nan_to_num(core_log_sd) ** 2, sizes) / n_jobs
    raw = 1.0 / (noise_floor**2 + variance)
    if not len(raw):
        return raw
    weights: Floats = raw * np.repeat(sizes / np.add.reduceat(raw, offsets[:-1]), sizes)
    return weights
