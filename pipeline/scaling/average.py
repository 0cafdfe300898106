"""The model average: the posterior over shapes of curves given a few sizes, and what it predicts at other sizes.

Log runtimes are shape + level + drift + noise. The level's prior is flat, the drift from the shape is a Brownian motion
in log2 of processors, the noise independent; all variances share one unknown factor with a scaled-inverse-chi-square
prior. Given a shape and a hypothesis on the steps this is kriging with an unknown mean (Cressie, Statistics for Spatial
Data, 1993, chapter 3), whose weights are the same for every shape. The prediction is the posterior mean of log T: on
codes that had no say its error is 7% below that of the posterior's median.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.kernels import called_kernel, entry_kernel, kernel
from pipeline.scaling.average_shapes import Shapes, fill_log_shape, shape_grid
from pipeline.scaling.fit_law import fit_law
from pipeline.scaling.series import SeriesBatch

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

LEAST_SIZES = 3
"""A series of fewer sizes does not inform its siblings."""

HYPOTHESES, LAST_STEP, FIRST_STEP = 3, 1, 2
"""How many there are, and the places of those of an odd step; 0 has none."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """k series end to end: series i is the slice offsets[i]:offsets[i + 1], by rising procs.

    Per size the runtime (s) and how far it may lie off the curve, as a variance of log s. Per series the drift: the
    variance of log s per doubling by which the truth walks away from any law's curve.
    """

    offsets: Ints
    procs: Floats
    runtime_s: Floats
    variance: Floats
    drift: Floats

    @property
    def n_series(self) -> int:
        """Number of series."""
        return self.offsets.size - 1

    def log2_from_least(self, series: Ints, procs: Floats) -> Floats:
        """Doublings of procs over the smallest size of their series; NaN where it has none."""
        least = np.append(self.procs, np.nan)[np.where(np.diff(self.offsets) > 0, self.offsets[:-1], -1)]
        logs: Floats = np.log2(procs / least[series])
        return logs


class Columns(NamedTuple):
    """Series end to end as the kernels read them; rate is the drift's variance per doubling."""

    offsets: Ints
    log2_x: Floats
    log_t: Floats
    variance: Floats
    rate: Floats


class Targets(NamedTuple):
    """Those of series i are offsets[i]:offsets[i + 1]."""

    offsets: Ints
    log2_x: Floats


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


@dataclass(frozen=True, slots=True)
class Averaged:
    """Per target: mean and standard deviation of log runtime; `split`, how far the surviving shapes disagree there.

    Split is the variance between shapes over the variance within one: what a run there would tell. Per series,
    `log_bayes`: log of the likelihood under the siblings' mean posterior over that under the general prior; 0 without.
    """

    log_s: Floats
    log_sd: Floats
    split: Floats
    log_bayes: Floats


def kin_of(sizes: Sizes, application: Ints) -> Kindred:
    """The summed posteriors of each application's informative series."""
    n_applications, shapes = int(application.max(initial=-1)) + 1, shape_grid().shapes
    sums = np.zeros((n_applications, shapes.prior.size))
    is_informative = (application >= 0) & (np.diff(sizes.offsets) >= LEAST_SIZES)
    if is_informative.any():
        add_posteriors(_columns(sizes), shapes, application, is_informative, sums, _workspace(sizes, shapes))
    n_informative = np.bincount(application[is_informative], minlength=n_applications).astype(float)
    return Kindred(application, is_informative, sums, n_informative)


def weights_of(sizes: Sizes, shapes: Shapes) -> Floats:
    """The posterior of the only series over the shapes given, sum 1."""
    sums, first = np.zeros((1, shapes.prior.size)), np.zeros(1, np.int64)
    add_posteriors(_columns(sizes), shapes, first, np.ones(1, np.bool_), sums, _workspace(sizes, shapes))
    posterior: Floats = sums[0]
    return posterior


def n_siblings(kin: Kindred) -> Floats:
    """Per series, how many others inform it."""
    others: Floats = np.append(kin.n_informative, 0.0)[kin.application] - kin.is_informative
    return np.where(kin.application >= 0, others, 0.0)


def average(
    sizes: Sizes, series: Ints, procs: Floats, kin: Kindred | None = None, shapes: Shapes | None = None
) -> Averaged:
    """The model average at every target (a series and a processor count), in the targets' order.

    `kin` are the series' siblings, where they have any; `shapes` stand for the averaged laws' where given. A series
    without sizes gives NaN.
    """
    order = np.argsort(series, kind="stable")
    starts = np.searchsorted(series[order], np.arange(sizes.n_series + 1)).astype(np.int64)
    found, log_bayes = np.full((3, series.size), np.nan), np.zeros(sizes.n_series)
    targets = Targets(starts, sizes.log2_from_least(series, procs)[order])
    kin, shapes = kin or kin_of(sizes, np.full(sizes.n_series, -1)), shapes or shape_grid().shapes
    fill_averages(_columns(sizes), shapes, kin, targets, found, log_bayes, _workspace(sizes, shapes))
    found[:, order] = found.copy()
    is_exact, curve = exact_log_s(sizes, series, procs)
    return Averaged(np.where(is_exact, curve, found[0]), np.sqrt(found[1] + found[2]), found[1] / found[2], log_bayes)


def _columns(sizes: Sizes) -> Columns:
    of = np.repeat(np.arange(sizes.n_series), np.diff(sizes.offsets))
    log2_x = sizes.log2_from_least(of, sizes.procs)
    return Columns(sizes.offsets, log2_x, np.log(sizes.runtime_s), sizes.variance, sizes.drift)


def _workspace(sizes: Sizes, shapes: Shapes) -> Workspace:
    """Workspace for the longest series."""
    m, n, h = int(np.diff(sizes.offsets).max(initial=1)), shapes.prior.size, HYPOTHESES
    lengths = ((m, n), (h, n), (h, n), (n,), (n,), (h,), (h, m), (m, m), (h, m, m), (h, m), (h,), (m,))
    return Workspace(*(np.zeros(one) for one in lengths))


LEAST_EXACT_SIZES = 4
"""Two parameters leave two degrees of freedom: of runs that scatter by 2%, one series in 400 lies as close."""

EXACT_LOG_SD = 0.001
"""Root mean square off the curve, per degree of freedom, up to which a series counts as exact (log s)."""


def exact_log_s(sizes: Sizes, series: Ints, procs: Floats) -> tuple[Bools, Floats]:
    """Per target: whether its series lies on an Amdahl curve, and log T by that curve; undefined for other series."""
    fitted = fit_law("amdahl", SeriesBatch(sizes.offsets, sizes.procs, sizes.runtime_s, np.ones(sizes.procs.size)))
    m = np.diff(sizes.offsets)
    is_exact = (m >= LEAST_EXACT_SIZES) & (fitted.serial_fraction < 1.0) & (fitted.wssre <= (m - 2) * EXACT_LOG_SD**2)
    serial, t1_s = fitted.serial_fraction[series], fitted.t1_s[series]
    with np.errstate(divide="ignore", invalid="ignore"):
        return is_exact[series], np.log(t1_s * (serial + (1.0 - serial) / procs))


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


@kernel
def fill_gain(h: int, at: float, log2_x: Floats, rate: float, work: Workspace) -> float:
    """Fills gain, what the error of each size counts at a place; the variance there in units of the noise's factor."""
    m, walked, inverse, ones = log2_x.size, work.walked[h], work.inverse[h], work.ones[h]
    right = np.searchsorted(log2_x, at)
    there = walked[min(right, m - 1)]
    if 0 < right < m:
        part = (at - log2_x[right - 1]) / (log2_x[right] - log2_x[right - 1])
        there = walked[right - 1] + part * (walked[right] - walked[right - 1])
    spread = there + rate * (max(at - log2_x[m - 1], 0.0) + max(log2_x[0] - at, 0.0))
    rest = 1.0
    for j in range(m):
        rest -= min(there, walked[j]) * ones[j]
    for j in range(m):
        known = 0.0
        for k in range(m):
            known += inverse[j, k] * min(there, walked[k])
        spread -= known * min(there, walked[j])
        work.gain[j] = known + rest * ones[j] / work.whole[h]
    return float(spread + rest * rest / work.whole[h])


@entry_kernel
def fill_averages(
    series: Columns, shapes: Shapes, kin: Kindred, targets: Targets, found: Floats, log_bayes: Floats, work: Workspace
) -> None:
    """Fills log_bayes[series] and, per target, found: mean of log s, variance between shapes, variance within one."""
    for i in range(series.offsets.size - 1):
        a, b = series.offsets[i], series.offsets[i + 1]
        if a == b or targets.offsets[i] == targets.offsets[i + 1]:
            continue
        n_hypotheses = weighed(i, series, shapes, work)
        log_bayes[i] = informed_by_siblings(i, n_hypotheses, shapes.prior, kin, work)
        for h in range(n_hypotheses):
            for g in range(shapes.prior.size):
                work.misfit[h, g] = (FREEDOM + work.misfit[h, g]) / (FREEDOM + b - a - 1)
            work.constant[h] = total(work.weight[h], work.misfit[h])
        for t in range(targets.offsets[i], targets.offsets[i + 1]):
            fill_log_shape(targets.log2_x[t], shapes, work.curve)
            fill_moments(t, targets.log2_x[t], n_hypotheses, series.log2_x[a:b], series.rate[i], found, work)


@kernel
def fill_moments(
    t: int, at: float, n_hypotheses: int, log2_x: Floats, rate: float, found: Floats, work: Workspace
) -> None:
    """Fills one target's mean and variances from curve, log T of every shape there."""
    place, centre, first, second, within = work.place, 0.0, 0.0, 0.0, 0.0
    for h in range(n_hypotheses):
        within += fill_gain(h, at, log2_x, rate, work) * work.constant[h]
        for g in range(place.size):
            place[g] = work.curve[g] - centre
        for j in range(log2_x.size):
            gain, error = work.gain[j], work.error[j]
            for g in range(place.size):
                place[g] += gain * error[g]
        if h == 0:
            # About a place of its own, so that squares lose no digits.
            centre = place[np.argmax(work.weight[0])]
            for g in range(place.size):
                place[g] -= centre
        first += total(work.weight[h], place)
        for g in range(place.size):
            place[g] *= place[g]
        second += total(work.weight[h], place)
    found[0, t], found[1, t], found[2, t] = centre + first, max(second - first * first, 0.0), within
