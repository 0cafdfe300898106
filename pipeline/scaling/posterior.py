"""The posterior over shapes of curves and hypotheses on steps, given the sizes of one series after another.

Given a shape and a hypothesis on the steps this is kriging with an unknown mean (Cressie, Statistics for Spatial Data,
1993, chapter 3), whose weights are the same for every shape.
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.kernels import called_kernel, entry_kernel, kernel

FREEDOM = 2
"""Degrees of freedom of the noise before any size is seen: few, because measured runs have heavy tails."""

STEP_LOG_SD = 0.3
"""How far an odd step may jump off the drift (log s): a node filled, a network's next level, a cache reached."""

LAST_STEP_ODDS = 0.1
"""Prior odds that the last step is odd, per doubling of it."""

FIRST_STEP_ODDS = 0.3
"""Prior odds that the first is: the smallest size lies off a law that the rest obey, as before the data fit in cache.

Of 0, .1, .3 and 1 for both, every code left out in turn: from .1 to 1 the error moves by less than 1%.
"""

STEP_LEAST_SIZES = 3
"""A series of fewer sizes has no step beside an odd one to compare it with."""

SIBLING_WEIGHT = 0.3
"""J siblings weigh J * SIBLING_WEIGHT to 1 against the general prior. Of 0, .1, .2, .3 and .5, every code left out."""

HYPOTHESES, LAST_STEP, FIRST_STEP = 3, 1, 2
"""How many there are, and the places of those of an odd step; 0 has none."""

STEPS_PER_OCTAVE = 16
"""Rows of the table per doubling; between rows log T is interpolated, less than 0.0001 off a smooth law."""

LEAST_LOG2, MOST_LOG2 = -20, 30
"""What the table spans; beyond it the last slope goes on."""


class Shapes(NamedTuple):
    """log_shape[row, shape], STEPS_PER_OCTAVE rows to a doubling from LEAST_LOG2 on; prior weight per shape."""

    log_shape: Floats
    prior: Floats


class Columns(NamedTuple):
    """Series end to end as the kernels read them; rate is the drift's variance per doubling."""

    offsets: Ints
    log2_x: Floats
    log_t: Floats
    variance: Floats
    rate: Floats


class Kindred(NamedTuple):
    """Per series, its application (a number; -1: none), and whether it informs its siblings.

    Per application: `posterior_sums`, the sum of its informative series' posteriors over shapes, float64[applications,
    g]; `n_informative`, their number.
    """

    application: Ints
    is_informative: Bools
    posterior_sums: Floats
    n_informative: Floats


class Workspace(NamedTuple):
    """Arrays that one series after another is averaged in.

    By size and shape `error`, log T less log shape; by hypothesis and shape `misfit` and `weight`; by shape `curve`
    and `place`. By hypothesis `constant` (once weighed, the mean factor on its variances), `walked`, the drift's
    variance up to each size, `inverse` of the covariance, its row sums `ones` and their sum `whole`. `gain` by size.
    """

    error: Floats
    misfit: Floats
    weight: Floats
    curve: Floats
    place: Floats
    constant: Floats
    walked: Floats
    covariance: Floats
    inverse: Floats
    ones: Floats
    whole: Floats
    gain: Floats


@kernel
def fill_log_shape(log2_x: float, shapes: Shapes, out: Floats) -> None:
    """Fills out with log T of every shape at one place."""
    table = shapes.log_shape
    at = (log2_x - LEAST_LOG2) * STEPS_PER_OCTAVE
    row = min(max(int(np.floor(at)), 0), table.shape[0] - 2)
    share = at - row
    below, above = table[row], table[row + 1]
    for g in range(out.size):
        out[g] = below[g] + share * (above[g] - below[g])


@kernel
def log_determinant(matrix: Floats, inverse: Floats) -> float:
    """Fills inverse, symmetric and positive definite, by Gauss and Jordan; writes over the matrix."""
    m, logs = matrix.shape[0], 0.0
    for j in range(m):
        for k in range(m):
            inverse[j, k] = 1.0 if j == k else 0.0
    for j in range(m):
        pivot = matrix[j, j]
        logs += np.log(pivot)
        for k in range(m):
            matrix[j, k] /= pivot
            inverse[j, k] /= pivot
        for i in range(m):
            factor = matrix[i, j]
            if i != j and factor != 0.0:
                for k in range(m):
                    matrix[i, k] -= factor * matrix[j, k]
                    inverse[i, k] -= factor * inverse[j, k]
    return float(logs)


@kernel
def total(weight: Floats, values: Floats) -> float:
    """The sum of products, as four sums side by side: none waits for the one before it."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    even = values.size - values.size % 4
    for k in range(0, even, 4):
        a += weight[k] * values[k]
        b += weight[k + 1] * values[k + 1]
        c += weight[k + 2] * values[k + 2]
        d += weight[k + 3] * values[k + 3]
    for k in range(even, values.size):
        a += weight[k] * values[k]
    return (a + b) + (c + d)


@kernel
def log_constant(h: int, log2_x: Floats, variance: Floats, rate: float, work: Workspace) -> float:
    """Fills walked, inverse, ones and whole of a hypothesis; the log of its odds and of its density's constant."""
    m, odds = log2_x.size, 1.0
    walked, inverse, ones, covariance = work.walked[h], work.inverse[h, :m, :m], work.ones[h], work.covariance[:m, :m]
    if h == LAST_STEP:
        odds = min(LAST_STEP_ODDS * (log2_x[m - 1] - log2_x[m - 2]), 1.0)
    elif h == FIRST_STEP:
        odds = FIRST_STEP_ODDS
    walked[0] = 0.0
    for j in range(1, m):
        is_odd = (h == LAST_STEP and j == m - 1) or (h == FIRST_STEP and j == 1)
        walked[j] = walked[j - 1] + rate * (log2_x[j] - log2_x[j - 1]) + (STEP_LOG_SD**2 if is_odd else 0.0)
    for j in range(m):
        for k in range(m):
            covariance[j, k] = walked[min(j, k)] + (variance[j] if j == k else 0.0)
    logs, whole = log_determinant(covariance, inverse), 0.0
    for j in range(m):
        ones[j] = 0.0
        for k in range(m):
            ones[j] += inverse[j, k]
        whole += ones[j]
    work.whole[h] = whole
    return float(np.log(odds) - 0.5 * (logs + np.log(whole)))


@kernel
def fill_misfit(h: int, m: int, work: Workspace) -> None:
    """Fills the misfit of every shape: squares about the level, in units of the covariance."""
    misfit, ones, inverse, per_whole = work.misfit[h], work.ones[h], work.inverse[h], 1.0 / work.whole[h]
    misfit[:] = 0.0
    for j in range(m):
        first = work.error[j]
        for k in range(j + 1):
            second, factor = work.error[k], inverse[j, k] - ones[j] * ones[k] * per_whole
            factor = factor if j == k else 2.0 * factor
            for g in range(misfit.size):
                misfit[g] += factor * first[g] * second[g]


# Not inlined: both kernels below call it once a series, and either would compile it again.
@called_kernel
def weighed(i: int, series: Columns, shapes: Shapes, work: Workspace) -> int:
    """Fills the weight of every hypothesis and shape, from series i alone, sum 1; how many hypotheses there are."""
    a, b = series.offsets[i], series.offsets[i + 1]
    m, n_hypotheses = b - a, HYPOTHESES if b - a >= STEP_LEAST_SIZES else 1
    for j in range(m):
        fill_log_shape(series.log2_x[a + j], shapes, work.error[j])
        for g in range(shapes.prior.size):
            work.error[j, g] = series.log_t[a + j] - work.error[j, g]
    for h in range(n_hypotheses):
        work.constant[h] = log_constant(h, series.log2_x[a:b], series.variance[a:b], series.rate[i], work)
        fill_misfit(h, m, work)
    fill_weights(n_hypotheses, m, shapes.prior, work)
    return int(n_hypotheses)


@kernel
def fill_weights(n_hypotheses: int, m: int, prior: Floats, work: Workspace) -> None:
    """Fills weight: odds times prior times (FREEDOM + misfit)^-(FREEDOM + m - 1)/2, sum 1.

    The power is whole in the root, so that squaring does what logarithms take five times as long for.
    """
    least, most = np.inf, work.constant[0]
    for h in range(n_hypotheses):
        most = max(most, work.constant[h])
        for g in range(prior.size):
            least = min(least, work.misfit[h, g])
    for h in range(n_hypotheses):
        weight, misfit, root, factor = work.weight[h], work.misfit[h], work.place, np.exp(work.constant[h] - most)
        for g in range(prior.size):
            root[g] = np.sqrt((FREEDOM + max(least, 0.0)) / (FREEDOM + max(misfit[g], 0.0)))
            weight[g] = factor * prior[g]
        exponent = FREEDOM + m - 1
        while exponent > 0:
            is_factor = exponent % 2 == 1
            for g in range(prior.size):
                weight[g] *= root[g] if is_factor else 1.0
                root[g] *= root[g]
            exponent //= 2
    work.place[:] = 1.0
    whole = 0.0
    for h in range(n_hypotheses):
        whole += total(work.weight[h], work.place)
    for h in range(n_hypotheses):
        for g in range(prior.size):
            work.weight[h, g] /= whole


@kernel
def informed_by_siblings(i: int, n_hypotheses: int, prior: Floats, kin: Kindred, work: Workspace) -> float:
    """Moves the weights of series i to those under the prior that its siblings inform; their log Bayes factor.

    `kin.posterior_sums` adds n_informative posteriors, the series' own among them where it is informative.
    """
    of, odds = kin.application[i], work.place
    own = 1.0 if kin.is_informative[i] else 0.0
    n_others = kin.n_informative[of] - own if of >= 0 else 0.0
    if n_others <= 0.0:
        return 0.0
    share, likelihood = n_others * SIBLING_WEIGHT / (1.0 + n_others * SIBLING_WEIGHT), 0.0
    for g in range(prior.size):
        here = 0.0
        for h in range(n_hypotheses):
            here += work.weight[h, g]
        odds[g] = max(kin.posterior_sums[of, g] - own * here, 0.0) / (prior[g] * n_others)
        likelihood += here * odds[g]
    for h in range(n_hypotheses):
        for g in range(prior.size):
            work.weight[h, g] *= (1.0 - share + share * odds[g]) / (1.0 - share + share * likelihood)
    return float(np.log(max(likelihood, 1e-300)))


@entry_kernel
def add_posteriors(
    series: Columns, shapes: Shapes, application: Ints, is_informative: Bools, sums: Floats, work: Workspace
) -> None:
    """Adds to sums[application, shape] the posterior of each informative series over the shapes, by itself."""
    for i in range(series.offsets.size - 1):
        if is_informative[i]:
            for h in range(weighed(i, series, shapes, work)):
                for g in range(shapes.prior.size):
                    sums[application[i], g] += work.weight[h, g]
