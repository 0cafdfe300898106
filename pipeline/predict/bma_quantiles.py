"""Quantiles of the mixture of Student-t that the shapes of a model average predict at one size."""

import numpy as np
from scipy.special import stdtr

from pipeline.core.arrays import Floats
from pipeline.core.compiled import kernel

N_BINS = 48
T_STEPS = 1024
MAX_FREEDOM = 60
TOLERANCE = 0.001
"""How far the logit of the share below a quantile may be off: a thousandth of the smaller tail."""


def student_table() -> Floats:
    """P(T <= z) per degrees of freedom (row, 0 unused), on 1024 even steps of z / sqrt(freedom + z^2) from -1 to 1."""
    s = np.linspace(-1.0, 1.0, T_STEPS + 1)
    with np.errstate(divide="ignore"):
        z = s / np.sqrt(np.maximum(1.0 - s * s, 0.0))
    freedom = np.arange(1, MAX_FREEDOM + 1)[:, None]
    return np.vstack([np.zeros(T_STEPS + 1), stdtr(freedom, z * np.sqrt(freedom))])


@kernel
def logit_below(at: float, n: int, bins: Floats, cdf: Floats, freedom: int) -> float:
    """Logit of the share of a mixture of Student-t below `at`."""
    share = 0.0
    for b in range(n):
        z = (at - bins[1, b]) * bins[2, b]
        place = (z / np.sqrt(freedom + z * z) + 1.0) * (0.5 * T_STEPS)
        cell = min(int(place), T_STEPS - 1)
        share += bins[0, b] * (cdf[cell] + (place - cell) * (cdf[cell + 1] - cdf[cell]))
    return float(np.log(max(share, 1e-12) / max(1.0 - share, 1e-12)))


@kernel
def mixture_quantiles(logits: Floats, n: int, bins: Floats, cdf: Floats, freedom: int, out: Floats) -> None:
    """Fills out with the places below which shares of the mixture lie that have these logits, rising.

    The logit is nearly straight in the tails, so that few steps between two places suffice; the one before is the
    lower of them.
    """
    mean, square = 0.0, 0.0
    for b in range(n):
        mean += bins[0, b] * bins[1, b]
    for b in range(n):
        off = bins[1, b] - mean
        square += bins[0, b] * (off * off + 1.0 / (bins[2, b] * bins[2, b]))
    step = 2.5 * np.sqrt(square)
    low = mean - step
    f_low = logit_below(low, n, bins, cdf, freedom)
    width = step
    while f_low > logits[0]:
        low, width = low - width, 2.0 * width
        f_low = logit_below(low, n, bins, cdf, freedom)
    f_mean = logit_below(mean, n, bins, cdf, freedom)
    high, f_high, width = mean, f_mean, step
    for k in range(logits.size):
        while f_high < logits[k]:
            low, f_low = high, f_high
            high, width = high + width, 2.0 * width
            f_high = logit_below(high, n, bins, cdf, freedom)
        low = between(logits[k], low, f_low, high, f_high, n, bins, cdf, freedom)
        f_low, out[k] = logits[k], low


@kernel
def between(
    logit: float, low: float, f_low: float, high: float, f_high: float, n: int, bins: Floats, cdf: Floats, freedom: int
) -> float:
    """Where a mixture has that logit, by the Illinois rule between two places that have a lower and a higher one."""
    side, at, f_low, f_high = 0, low, f_low - logit, f_high - logit
    for _ in range(60):
        if f_high - f_low <= 0.0 or high - low < 1e-7:
            break
        at = (low * f_high - high * f_low) / (f_high - f_low)
        f = logit_below(at, n, bins, cdf, freedom) - logit
        if abs(f) < TOLERANCE:
            break
        if f < 0.0:
            low, f_low = at, f
            f_high = 0.5 * f_high if side == 1 else f_high
            side = 1
        else:
            high, f_high = at, f
            f_low = 0.5 * f_low if side == 2 else f_low
            side = 2
    return at


@kernel
def binned(loc: Floats, inner: Floats, weight: Floats, n: int, bins: Floats) -> int:
    """n Student-t terms of variances inner gathered by place into at most N_BINS; how many.

    Fills bins with their weights, places and 1/scales; the terms' spread within a bin is kept.
    """
    low, high, least = np.inf, -np.inf, np.inf
    for k in range(n):
        low, high, least = min(low, loc[k]), max(high, loc[k]), min(least, inner[k])
    per_step = 1.0 / max((high - low) / (N_BINS - 1), 0.2 * np.sqrt(least))
    bins[:, :] = 0.0
    for k in range(n):
        off = loc[k] - low
        b, w = int(off * per_step), weight[k]
        bins[0, b] += w
        bins[1, b] += w * off
        bins[2, b] += w * (inner[k] + off * off)
    n_bins = 0
    for b in range(N_BINS):
        w = bins[0, b]
        if w > 1e-7:
            mean = bins[1, b] / w
            variance = bins[2, b] / w - mean * mean
            bins[0, n_bins], bins[1, n_bins], bins[2, n_bins] = w, mean + low, 1.0 / np.sqrt(variance)
            n_bins += 1
    return n_bins


@kernel
def shapes_variance(loc: Floats, weight: Floats, n: int) -> float:
    """Variance between the shapes' predictions."""
    mean, square = 0.0, 0.0
    for k in range(n):
        off = loc[k] - loc[0]
        mean += weight[k] * off
        square += weight[k] * off * off
    return max(square - mean * mean, 0.0)
