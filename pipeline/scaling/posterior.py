"""Per series, the weight of every shape of the grid, given its sizes and what its siblings believe.

Log runtimes are shape + level + drift + noise. The level's prior is flat, the drift from the shape is a Brownian motion
in log2 of processors, the noise independent; all variances share one unknown factor with a scaled-inverse-chi-square
prior. Given a shape this is a local-level model, filtered exactly in one pass over the sizes (Durbin and Koopman, Time
Series Analysis by State Space Methods, chapter 2), and its gains are the same for every shape.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Bools, Floats, Ints
from pipeline.kernels import called_kernel, kernel
from pipeline.laws import AVERAGED

NEGLIGIBLE_LOG = 9.0
"""A shape e^9 times less likely than the best takes no part in a quantile."""

BLOCK = 512
"""Shapes filtered at a time."""

HOPELESS_LOG = 18.0
"""Nor can siblings make one of it that is e^18 times less likely."""


Places = npt.NDArray[np.uint64]
"""Places in an array, none counted from its end: a kernel need not look whether one is negative."""


FREEDOM = 2
"""Degrees of freedom of the noise before any size is seen: few, because measured runs have heavy tails. Of 1, 2, 3, 5
the value with the best interval score on real applications, each scored with what the others chose."""

SIBLING_WEIGHT = 0.1
"""J siblings weigh J * SIBLING_WEIGHT to 1 against the general prior: ten weigh as much as the prior itself. Chosen
from 0, .02, .05, .1 and .2 by leave-one-application-out: twelve of thirteen choices give this value, one .2."""

STEPS_PER_OCTAVE = 16
"""Rows of the table per doubling; between rows log T is interpolated, less than 0.0001 off a smooth law."""

LEAST_LOG2, MOST_LOG2 = -20, 30
"""What the table spans; beyond it the last slope goes on."""


class Shapes(NamedTuple):
    """log_shape[row, shape], STEPS_PER_OCTAVE rows to a doubling from LEAST_LOG2 on; prior weight per shape."""

    log_shape: Floats
    prior: Floats


class Kindred(NamedTuple):
    """Per series, its application (a number; -1: none), and whether it informs its siblings.

    Per application: `posterior_sums`, the sum of its informative series' posteriors over shapes, float64[applications,
    g]; `n_informative`, their number.
    """

    application: Ints
    is_informative: Bools
    posterior_sums: Floats
    n_informative: Floats


@kernel
def table_rows(log2_x: float, shapes: Shapes) -> tuple[int, int, float]:
    """The rows of the shapes' table below and above log2_x, and how far towards the latter.

    On a row of the table both are that row: powers of two read half as much.
    """
    at = (log2_x - LEAST_LOG2) * STEPS_PER_OCTAVE
    row = min(max(int(np.floor(at)), 0), shapes.log_shape.shape[0] - 2)
    share = at - row
    return row, row + 1 if share != 0.0 else row, share


@called_kernel
def filtered(
    log2_x: Floats, log_t: Floats, variance: Floats, gap: Floats, shapes: Shapes, level: Floats, misfit: Floats,
    spread: Floats,
) -> None:  # fmt: skip
    """Fills level[size, shape], where every shape stands given the sizes up to this one, misfit and spread[size].

    gap[j] is the drift's variance between sizes j and j + 1. Shapes go through the sizes a block at a time, which stays
    in the processor's nearest cache.
    """
    spread[0] = variance[0]
    for j in range(1, log2_x.size):
        ahead = spread[j - 1] + gap[j - 1]
        spread[j] = ahead * variance[j] / (ahead + variance[j])
    for first in range(0, misfit.size, BLOCK):
        last = min(first + BLOCK, misfit.size)
        squares, after = misfit[first:last], level[0, first:last]
        squares[:] = 0.0
        after[:] = 0.0
        for j in range(log2_x.size):
            row, next_row, share = table_rows(log2_x[j], shapes)
            below, above, y = shapes.log_shape[row, first:last], shapes.log_shape[next_row, first:last], log_t[j]
            before, after = after, level[j, first:last]
            gain, per_whole = 1.0, 0.0
            if j > 0:
                ahead = spread[j - 1] + gap[j - 1]
                gain, per_whole = ahead / (ahead + variance[j]), 1.0 / (ahead + variance[j])
            for g in range(squares.size):
                off = y - (below[g] + share * (above[g] - below[g])) - before[g]
                squares[g] += off * off * per_whole
                after[g] = before[g] + gain * off


@kernel
def least_and_most(values: Floats) -> tuple[float, float]:
    """The ends of values none of which is negative: their bits have the same order, and compare several at a time."""
    bits = values.view(np.int64)
    least, most = bits[0], bits[0]
    for k in range(bits.size):
        least, most = min(least, bits[k]), max(most, bits[k])
    return float(np.int64(least).view(np.float64)), float(np.int64(most).view(np.float64))


@kernel
def total(values: Floats) -> float:
    """Their sum, as four sums side by side: none waits for the one before it."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = values.size - values.size % 4
    for k in range(0, whole, 4):
        a += values[k]
        b += values[k + 1]
        c += values[k + 2]
        d += values[k + 3]
    for k in range(whole, values.size):
        a += values[k]
    return (a + b) + (c + d)


@kernel
def posterior(misfit: Floats, prior: Floats, n_sizes: int, weight: Floats, power: Floats) -> None:
    """Fills the weight of every shape, prior (FREEDOM + misfit)^-(FREEDOM + sizes - 1)/2, sum 1; the hopeless get 0.

    The power is whole in the root, so that squaring does what logarithms take five times as long for.
    """
    least = FREEDOM + least_and_most(misfit)[0]
    for g in range(misfit.size):
        power[g] = np.sqrt(least / (FREEDOM + misfit[g]))
        weight[g] = prior[g]
    exponent = FREEDOM + n_sizes - 1
    while exponent > 0:
        factor = exponent % 2 == 1
        for g in range(misfit.size):
            weight[g] *= power[g] if factor else 1.0
            power[g] *= power[g]
        exponent //= 2
    hopeless = least_and_most(weight)[1] * np.exp(-HOPELESS_LOG)
    for g in range(misfit.size):
        weight[g] = weight[g] if weight[g] > hopeless else 0.0
    per_whole = 1.0 / total(weight)
    for g in range(misfit.size):
        weight[g] *= per_whole


@kernel
def informed_by_siblings(i: int, weight: Floats, prior: Floats, kin: Kindred, odds: Floats) -> float:
    """Moves the posterior of series i to that under the prior that its siblings inform; their log Bayes factor.

    `weight` is by hypothesis and shape, `odds` as long and written over. `kin.posterior_sums` adds n_informative
    posteriors, the series' own among them where it is informative.
    """
    of, n_shapes = kin.application[i], prior.size
    own = 1.0 if kin.is_informative[i] else 0.0
    n_siblings = kin.n_informative[of] - own if of >= 0 else 0.0
    if n_siblings <= 0.0:
        return 0.0
    odds_of_siblings = n_siblings * SIBLING_WEIGHT
    sums, share, per_sibling = kin.posterior_sums[of], odds_of_siblings / (1.0 + odds_of_siblings), 1.0 / n_siblings
    for g in range(n_shapes):
        here = weight[g] + weight[n_shapes + g]
        odds[g] = max(sums[g] - own * here, 0.0) / prior[g] * per_sibling
        odds[n_shapes + g] = here * odds[g]
    likelihood = total(odds[n_shapes:])
    per_whole = 1.0 / (1.0 - share + share * likelihood)
    for g in range(n_shapes):
        factor = (1.0 - share + share * odds[g]) * per_whole
        weight[g] *= factor
        weight[n_shapes + g] *= factor
    return float(np.log(max(likelihood, 1e-300)))


@kernel
def kept_shapes(weight: Floats, n_shapes: int, kept: Places, share: Floats) -> tuple[int, int]:
    """Fills kept and share with the shapes that are not negligible, those without a jump first; how many of each."""
    n, n_plain, least = 0, 0, least_and_most(weight)[1] * np.exp(-NEGLIGIBLE_LOG)
    for h in range(2):
        n_plain = n
        for g in range(n_shapes):
            # Written either way and counted if kept: which are is hard to foresee for a processor.
            kept[n], share[n] = g, weight[h * n_shapes + g]
            n += 1 if weight[h * n_shapes + g] > least else 0
    per_whole = 1.0 / total(share[:n])
    for k in range(n):
        share[k] *= per_whole
    return n_plain, n - n_plain


@dataclass(frozen=True, slots=True)
class ShapeGrid:
    """`log_shape[row, shape]` of T(x) up to its scale, x = procs over the smallest; `prior` per shape sums to 1.

    `family[shape]` is a place in `families`. Counting in smallest counts makes 4, 8, 16 and 1, 2, 4 the same question.
    """

    log_shape: Floats
    prior: Floats
    family: Ints
    families: tuple[str, ...]

    def shapes(self) -> Shapes:
        """As the kernels read it."""
        return Shapes(self.log_shape, self.prior)


def shape_grid() -> ShapeGrid:
    """Every averaged law's shapes, by prior weight; within a law all points of its grid weigh the same."""
    return _tabulated(tuple(AVERAGED))


@cache
def _tabulated(laws: tuple[str, ...]) -> ShapeGrid:
    log2_x = np.arange(LEAST_LOG2 * STEPS_PER_OCTAVE, MOST_LOG2 * STEPS_PER_OCTAVE + 1) / STEPS_PER_OCTAVE
    x = (2.0**log2_x)[:, None]
    parts = [np.log(AVERAGED[law].formula(AVERAGED[law].grid(), x)) for law in laws]
    counts = [part.shape[1] for part in parts]
    weights = law_weights()
    prior = np.repeat([weights[law] / count for law, count in zip(laws, counts, strict=True)], counts)
    family = np.repeat(np.arange(len(parts)), counts).astype(np.int64)
    return ShapeGrid(np.ascontiguousarray(np.hstack(parts)), prior / prior.sum(), family, laws)


def law_weights() -> dict[str, float]:
    """The prior weight of each averaged law, as its file declares it."""
    return {name: law.averaging.weight for name, law in AVERAGED.items() if law.averaging}
