"""How repeats at one size scatter, and so how much each size of a series is worth."""

import numpy as np
import pyarrow as pa
from scipy.special import ndtri

from pipeline.core.arrays import Floats, Ints, floats

MIN_CORE_JOBS = 5
"""Below it the 10% and 90% quantiles are the extremes themselves."""

_Q90, _Q975 = float(ndtri(0.9)), float(ndtri(0.975))


def repeat_spread(offsets: Ints, observed: pa.Table) -> dict[str, Floats]:
    """Per series, in log seconds: core_log_sd, repeat_log_lo95 and repeat_log_hi95; NaN without repeats.

    The core is the normal standard deviation with the repeats' 10% and 90% quantiles, pooled over sizes by jobs: a
    failed start or a hang among them moves it little. A size with too few jobs counts by its standard deviation. The
    other two hold the odd runs: the group's own quantiles, or 1.96 standard deviations where it has too few repeats.
    """
    n_jobs, log_sd = ended_jobs(observed), floats(observed, "log_sd")
    freedom = np.where(np.isnan(log_sd), 0.0, n_jobs - 1)
    low, middle, high = (np.log(floats(observed, f"runtime_s_{name}")) for name in ("q10", "median", "q90"))
    # Where lower bounds leave the upper end open, the lower half stands for both.
    core = np.where(np.isnan(high), middle - low, (high - low) / 2) / _Q90
    normal = _Q975 * pooled(offsets, freedom, log_sd)
    first = offsets[:-1]

    def tail(name: str) -> Floats:
        measured = floats(observed, name)[first]
        return np.where(np.isnan(measured), normal, measured)

    return {
        "core_log_sd": pooled(offsets, freedom, np.where(n_jobs >= MIN_CORE_JOBS, core, log_sd)),
        "repeat_log_lo95": tail("repeat_log_lo95"),
        "repeat_log_hi95": tail("repeat_log_hi95"),
    }


def ended_jobs(observed: pa.Table) -> Floats:
    """Jobs per size whose runtime is no lower bound, and 1 at least: what a size knows of its own runtime."""
    return np.maximum(floats(observed, "n_jobs") - np.nan_to_num(floats(observed, "n_censored")), 1.0)


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
