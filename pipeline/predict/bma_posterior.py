"""Per series, the weight of every shape of the grid, given its sizes and what its siblings believe.

Log runtimes are shape + level + drift + noise. The level's prior is flat, the drift from the shape is a Brownian motion
in log2 of processors, the noise independent; all variances share one unknown factor with a scaled-inverse-chi-square
prior. Given a shape this is a local-level model, filtered exactly in one pass over the sizes (Durbin and Koopman, Time
Series Analysis by State Space Methods, chapter 2), and its gains are the same for every shape.
"""

from typing import NamedTuple

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.compiled import kernel

NEGLIGIBLE_LOG = 9.0
"""A shape e^9 times less likely than the best takes no part in a quantile."""

HOPELESS_LOG = 18.0
"""Nor can siblings make one of it that is e^18 times less likely."""


class Shapes(NamedTuple):
    """log_shape[row, shape], rows per_octave to a doubling from the log2 `least` on; prior weight per shape."""

    log_shape: Floats
    prior: Floats
    least: float
    per_octave: float


class Kindred(NamedTuple):
    """As siblings.Kin; `worth` of one sibling against the general prior."""

    application: Ints
    tells: Bools
    told: Floats
    n_told: Floats
    worth: float


@kernel
def table_place(log2_x: float, shapes: Shapes) -> tuple[int, float]:
    """Row of the shapes' table below log2_x, and how far towards the next."""
    at = (log2_x - shapes.least) * shapes.per_octave
    row = min(max(int(np.floor(at)), 0), shapes.log_shape.shape[0] - 2)
    return row, at - row


@kernel
def filtered(
    log2_x: Floats, log_t: Floats, variance: Floats, gap: Floats, places: Ints, shapes: Shapes, level: Floats,
    misfit: Floats, spread: Floats,
) -> None:  # fmt: skip
    """Fills level[size, k], where shape places[k] stands given the sizes up to this one, misfit[k] and spread[size].

    gap[j] is the drift's variance between sizes j and j + 1.
    """
    n_shapes = places.size
    is_all = n_shapes == shapes.prior.size
    for j in range(log2_x.size):
        row, share = table_place(log2_x[j], shapes)
        below, above, y = shapes.log_shape[row], shapes.log_shape[row + 1], log_t[j]
        if not is_all:
            # End to end, the loops below run several shapes at a time.
            below, above = below[places], above[places]
        if j == 0:
            spread[0] = variance[0]
            for k in range(n_shapes):
                level[0, k] = y - (below[k] + share * (above[k] - below[k]))
                misfit[k] = 0.0
            continue
        ahead = spread[j - 1] + gap[j - 1]
        whole = ahead + variance[j]
        gain, per_whole, spread[j] = ahead / whole, 1.0 / whole, ahead * variance[j] / whole
        before, after = level[j - 1], level[j]
        for k in range(n_shapes):
            off = y - (below[k] + share * (above[k] - below[k])) - before[k]
            misfit[k] += off * off * per_whole
            after[k] = before[k] + gain * off


@kernel
def posterior(misfit: Floats, prior: Floats, n_sizes: int, freedom0: int, weight: Floats, power: Floats) -> None:
    """Fills the weight of every shape, prior (freedom0 + misfit)^-(freedom0 + sizes - 1)/2, sum 1; the hopeless get 0.

    The power is whole in the root, so that squaring does what logarithms take five times as long for.
    """
    least = freedom0 + misfit.min()
    for g in range(misfit.size):
        power[g] = np.sqrt(least / (freedom0 + misfit[g]))
        weight[g] = prior[g]
    exponent = freedom0 + n_sizes - 1
    while exponent > 0:
        if exponent % 2 == 1:
            for g in range(misfit.size):
                weight[g] *= power[g]
        for g in range(misfit.size):
            power[g] *= power[g]
        exponent //= 2
    hopeless, whole = weight.max() * np.exp(-HOPELESS_LOG), 0.0
    for g in range(misfit.size):
        weight[g] = weight[g] if weight[g] > hopeless else 0.0
        whole += weight[g]
    for g in range(misfit.size):
        weight[g] /= whole


@kernel
def told_by_siblings(i: int, weight: Floats, prior: Floats, kin: Kindred) -> float:
    """Moves the posterior of series i to that under the prior that its siblings inform; their log Bayes factor.

    `weight` is by hypothesis and shape. `kin.told` sums n_told posteriors, this one's own among them where it tells.
    """
    of, n_shapes = kin.application[i], prior.size
    own = 1.0 if kin.tells[i] else 0.0
    n_siblings = kin.n_told[of] - own if of >= 0 else 0.0
    if n_siblings <= 0.0:
        return 0.0
    told, share = kin.told[of], n_siblings * kin.worth / (1.0 + n_siblings * kin.worth)
    foretold, whole = 0.0, 0.0
    for g in range(n_shapes):
        here = weight[g] + weight[n_shapes + g]
        if here > 0.0:
            odds = max(told[g] - own * here, 0.0) / (n_siblings * prior[g])
            foretold += here * odds
            factor = 1.0 - share + share * odds
            weight[g] *= factor
            weight[n_shapes + g] *= factor
            whole += here * factor
    for g in range(weight.size):
        weight[g] /= whole
    return float(np.log(max(foretold, 1e-300)))


@kernel
def kept_shapes(weight: Floats, n_shapes: int, kept: Ints, share: Floats) -> tuple[int, int]:
    """Fills kept and share with the shapes that are not negligible, those without a jump first; how many of each."""
    n, n_plain, whole, least = 0, 0, 0.0, weight.max() * np.exp(-NEGLIGIBLE_LOG)
    for g in range(weight.size):
        if weight[g] > least:
            kept[n], share[n] = g % n_shapes, weight[g]
            whole += weight[g]
            n += 1
            n_plain += g < n_shapes
    for k in range(n):
        share[k] /= whole
    return n_plain, n - n_plain
