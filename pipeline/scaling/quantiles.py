"""Quantiles of the mixture of Student-t that the shapes of a model average predict at one size."""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from pipeline.arrays import Floats
from pipeline.kernels import called_kernel, kernel
from pipeline.scaling.posterior import least_and_most

N_BINS = 48
LANES = 4
"""Sums that terms are added to in turn: neighbours mostly share a bin, and would wait for one another."""
T_STEPS = 1024
MAX_FREEDOM = 60
TOLERANCE = 0.001
"""How far the logit of the share below a quantile may be off: a thousandth of the smaller tail."""


class Bins(NamedTuple):
    """A mixture gathered: weight, place and 1/scale of each term; room for a number per term."""

    weight: Floats
    place: Floats
    per_scale: Floats
    step: Floats


def student_table() -> Floats:
    """P(T <= z) per degrees of freedom (row, 0 unused), on 1024 even steps of z / sqrt(freedom + z^2) from -1 to 1."""
    s = np.linspace(-1.0, 1.0, T_STEPS + 1)
    with np.errstate(divide="ignore"):
        z = s / np.sqrt(np.maximum(1.0 - s * s, 0.0))
    freedom = np.arange(1, MAX_FREEDOM + 1)[:, None]
    return np.vstack([np.zeros(T_STEPS + 1), stdtr(freedom, z * np.sqrt(freedom))])


@kernel
def logit_below(at: float, n: int, bins: Bins, cdf: Floats, freedom: int) -> float:
    """Logit of the share of a mixture of Student-t below `at`."""
    weight, place, per_scale, step = bins
    for b in range(n):
        z = (at - place[b]) * per_scale[b]
        step[b] = (z / np.sqrt(freedom + z * z) + 1.0) * (0.5 * T_STEPS)
    share = 0.0
    for b in range(n):
        cell = min(int(step[b]), T_STEPS - 1)
        share += weight[b] * (cdf[cell] + (step[b] - cell) * (cdf[cell + 1] - cdf[cell]))
    return float(np.log(max(share, 1e-12) / max(1.0 - share, 1e-12)))


@kernel
def mixture_quantiles(logits: Floats, n: int, bins: Bins, cdf: Floats, freedom: int, out: Floats) -> None:
    """Fills out with the places below which shares of the mixture lie that have these logits, rising.

    The logit is nearly straight in the tails, so that few steps between two places suffice; the one before is the
    lower of them.
    """
    mean, square = 0.0, 0.0
    for b in range(n):
        mean += bins.weight[b] * bins.place[b]
    for b in range(n):
        off = bins.place[b] - mean
        square += bins.weight[b] * (off * off + 1.0 / (bins.per_scale[b] * bins.per_scale[b]))
    step = 2.5 * np.sqrt(square)
    f_mean = logit_below(mean, n, bins, cdf, freedom)
    low, f_low, reach = mean, f_mean, step
    while f_low > logits[0]:
        low, reach = mean - reach, 2.0 * reach
        f_low = logit_below(low, n, bins, cdf, freedom)
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
    logit: float, low: float, f_low: float, high: float, f_high: float, n: int, bins: Bins, cdf: Floats, freedom: int
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
def ends(values: Floats) -> tuple[float, float]:
    """Least and largest, two at a time: none waits for the one before it."""
    low, high, other_low, other_high = values[0], values[0], values[-1], values[-1]
    for k in range(0, values.size - 1, 2):
        low, high = min(low, values[k]), max(high, values[k])
        other_low, other_high = min(other_low, values[k + 1]), max(other_high, values[k + 1])
    return min(low, other_low), max(high, other_high)


@called_kernel
def binned(loc: Floats, inner: Floats, weight: Floats, variance: float, cells: Floats) -> float:
    """Student-t terms of variances inner * variance gathered by place into at most N_BINS; the least place.

    Fills cells[lane, bin] with sums of weight, weight * off, weight * inner, weight * off^2, off from the least place.
    """
    low, high = ends(loc)
    least = least_and_most(inner)[0] * variance
    per_step = 1.0 / max((high - low) / (N_BINS - 1), 0.2 * np.sqrt(least))
    cells[:] = 0.0
    for k in range(loc.size):
        off = loc[k] - low
        w, own = weight[k], inner[k]
        cell = cells[k & LANES - 1, np.uint64(off * per_step)]
        first, own, second = w * off, w * own, w * off * off
        w, first, own, second = cell[0] + w, cell[1] + first, cell[2] + own, cell[3] + second
        cell[0], cell[1], cell[2], cell[3] = w, first, own, second
    return low


@kernel
def gathered(
    low: float, variance: float, cells: Floats, n_bins: int, bins: Bins, zero: float,
    moments: tuple[float, float, float],
) -> tuple[int, tuple[float, float, float]]:  # fmt: skip
    """Appends cells to the bins, the terms' spread within a cell kept; how many there are now.

    To the moments it adds the terms' places from `zero`, these squared, and their variances, by weight.
    """
    mean, square, within = moments
    shift = low - zero
    for b in range(N_BINS):
        w, first, own, second = 0.0, 0.0, 0.0, 0.0
        for lane in range(LANES):
            w += cells[lane, b, 0]
            first += cells[lane, b, 1]
            own += cells[lane, b, 2]
            second += cells[lane, b, 3]
        mean += first + w * shift
        square += second + 2.0 * shift * first + w * shift * shift
        within += own * variance
        if w > 1e-7:
            off = first / w
            bins.weight[n_bins], bins.place[n_bins] = w, low + off
            bins.per_scale[n_bins] = 1.0 / np.sqrt((own * variance + second) / w - off * off)
            n_bins += 1
    return n_bins, (mean, square, within)
