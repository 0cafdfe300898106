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
    log2_x: Floats,
    log_t: Floats,
    variance: Floats,
    rate: float,
    places: Ints,
    shapes: Shapes,
    level: Floats,
    misfit: Floats,
    spread: Floats,
) -> None:
    """Fills level[size, k], where shape places[k] stands given the sizes up to this one, misfit[k] and spread[size]."""
    n_sizes, n_shapes = log2_x.size, places.size
    for j in range(n_sizes):
        row, share = table_place(log2_x[j], shapes)
        below, above, y = shapes.log_shape[row], shapes.log_shape[row + 1], log_t[j]
        if j == 0:
            spread[0] = variance[0]
            for k in range(n_shapes):
                g = places[k]
                level[0, k] = y - (below[g] + share * (above[g] - below[g]))
                misfit[k] = 0.0
            continue
        ahead = spread[j - 1] + rate * abs(log2_x[j] - log2_x[j - 1])
        whole = ahead + variance[j]
        gain, spread[j] = ahead / whole, ahead * variance[j] / whole
        before, after = level[j - 1], level[j]
        for k in range(n_shapes):
            g = places[k]
            off = y - (below[g] + share * (above[g] - below[g])) - before[k]
            misfit[k] += off * off / whole
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

    `kin.told` sums n_told posteriors, this one's own among them where it tells.
    """
    of = kin.application[i]
    own = 1.0 if kin.tells[i] else 0.0
    n_siblings = kin.n_told[of] - own if of >= 0 else 0.0
    if n_siblings <= 0.0:
        return 0.0
    told, share = kin.told[of], n_siblings * kin.worth / (1.0 + n_siblings * kin.worth)
    foretold, whole = 0.0, 0.0
    for g in range(weight.size):
        if weight[g] > 0.0:
            odds = max(told[g] - own * weight[g], 0.0) / (n_siblings * prior[g])
            foretold += weight[g] * odds
            weight[g] *= 1.0 - share + share * odds
            whole += weight[g]
    for g in range(weight.size):
        weight[g] /= whole
    return float(np.log(max(foretold, 1e-300)))


@kernel
def kept_shapes(weight: Floats, misfit: Floats, ahead: Floats, n_sizes: int, kept: Ints) -> int:
    """Moves the shapes that are not negligible to the front of weight, misfit and ahead, and names them; how many."""
    n, whole, least = 0, 0.0, weight.max() * np.exp(-NEGLIGIBLE_LOG)
    for g in range(weight.size):
        if weight[g] > least:
            kept[n], weight[n], misfit[n] = g, weight[g], misfit[g]
            whole += weight[g]
            for j in range(n_sizes):
                ahead[j, n] = ahead[j, g]
            n += 1
    for k in range(n):
        weight[k] /= whole
    return n
