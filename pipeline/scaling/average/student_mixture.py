"""Quantiles of mixtures of Student-t distributions, whose terms share their degrees of freedom."""

import numpy as np

from pipeline.arrays import Floats
from pipeline.kernels import entry_kernel, kernel

N_BINS = 128
"""Terms that end close together count as one."""

CLOSE = 1e-5
"""How far a quantile may be off (log s)."""


@kernel
def student_below(z: float, freedom: int) -> float:
    """P(T <= z), by the finite sums that whole degrees of freedom allow."""
    hypotenuse = np.sqrt(freedom + z * z)
    sine, cosine = z / hypotenuse, np.sqrt(freedom) / hypotenuse
    odd = freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * k / (k + 1.0)
    inside = 2.0 / np.pi * (np.arcsin(sine) + sine * total) if odd else sine * total
    below: float = 0.5 + 0.5 * inside
    return below


@kernel
def gathered(share: Floats, where: Floats, spread: Floats, bins: Floats) -> int:
    """Weights, means and spreads in at most N_BINS equal steps of `where`; how many are in use."""
    low, step = where.min(), max((where.max() - where.min()) / N_BINS, 1e-14)
    bins[:, :] = 0.0
    for k in range(len(share)):
        b = min(int((where[k] - low) / step), N_BINS - 1)
        bins[0, b] += share[k]
        bins[1, b] += share[k] * where[k]
        bins[2, b] += share[k] * spread[k]
    count, whole = 0, bins[0].sum()
    for b in range(N_BINS):
        w = bins[0, b]
        if w > 0.0:
            bins[0, count], bins[1, count], bins[2, count] = w / whole, bins[1, b] / w, bins[2, b] / w
            count += 1
    return count


@kernel
def quantile(q: float, low: float, high: float, bins: Floats, count: int, freedom: int) -> float:
    """Where a share q lies below; low and high hold it between them."""
    while high - low > CLOSE:
        middle, below = 0.5 * (low + high), 0.0
        for b in range(count):
            below += bins[0, b] * student_below((middle - bins[1, b]) / bins[2, b], freedom)
        if below < q:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@entry_kernel
def quantiles(share: Floats, where: Floats, spread: Floats, freedom: int, asked: Floats) -> Floats:
    """Per share asked for, rising, and column of `where`: terms by row, float64[len(asked), columns]."""
    found, bins = np.empty((len(asked), where.shape[1])), np.empty((3, N_BINS))
    for column in range(where.shape[1]):
        count = gathered(share, where[:, column], spread, bins)
        far = 60.0 * bins[2, :count].max()
        low, high = bins[1, :count].min() - far, bins[1, :count].max() + far
        for k in range(len(asked)):
            low = quantile(asked[k], low, high, bins, count, freedom)
            found[k, column] = low
            low -= CLOSE
    return found
