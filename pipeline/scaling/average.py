"""The model average: the posterior over shapes of curves given a few sizes, and what it predicts at other sizes.

Log runtimes are shape + level + drift + noise. The level's prior is flat, the drift from the shape is a Brownian motion
in log2 of processors, the noise independent; all variances share one unknown factor with a scaled-inverse-chi-square
prior. Given a shape and a hypothesis on the steps this is kriging with an unknown mean (Cressie, Statistics for Spatial
Data, 1993, chapter 3), whose weights are the same for every shape. The prediction is the posterior mean of log T: on
codes that had no say its error is 7% below that of the posterior's median.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.kernels import entry_kernel, kernel, place_in
from pipeline.laws import AVERAGED
from pipeline.scaling.batch import SeriesBatch
from pipeline.scaling.fit import fit_law
from pipeline.scaling.posterior import (
    FREEDOM,
    HYPOTHESES,
    LEAST_LOG2,
    MOST_LOG2,
    STEPS_PER_OCTAVE,
    Columns,
    Kindred,
    Shapes,
    Workspace,
    add_posteriors,
    fill_log_shape,
    informed_by_siblings,
    total,
    weighed,
)

LEAST_SIZES = 3
"""A series of fewer sizes does not inform its siblings."""


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


class Targets(NamedTuple):
    """Those of series i are offsets[i]:offsets[i + 1]."""

    offsets: Ints
    log2_x: Floats


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


def shape_grid() -> Shapes:
    """Every averaged law's shapes of T(x), x = procs over the smallest, by prior weight, sum 1.

    Within a law all points of its grid weigh the same. Counting in smallest counts makes 4, 8, 16 and 1, 2, 4 the same
    question.
    """
    return _tabulated(tuple(AVERAGED))


def table_places() -> Floats:
    """The x of the rows of a table of shapes."""
    return 2.0 ** (np.arange(LEAST_LOG2 * STEPS_PER_OCTAVE, MOST_LOG2 * STEPS_PER_OCTAVE + 1) / STEPS_PER_OCTAVE)


@cache
def _tabulated(laws: tuple[str, ...]) -> Shapes:
    x = table_places()[:, None]
    parts = [np.log(AVERAGED[law].formula(AVERAGED[law].grid(), x)) for law in laws]
    counts = [part.shape[1] for part in parts]
    weights = [one.prior_weight for one in AVERAGED.values()]
    prior = np.repeat(np.array(weights) / counts, counts)
    return Shapes(np.ascontiguousarray(np.hstack(parts)), prior / prior.sum())


def kin_of(sizes: Sizes, application: Ints) -> Kindred:
    """The summed posteriors of each application's informative series."""
    n_applications, shapes = int(application.max(initial=-1)) + 1, shape_grid()
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
    kin, shapes = kin or kin_of(sizes, np.full(sizes.n_series, -1)), shapes or shape_grid()
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
def fill_gain(h: int, at: float, log2_x: Floats, rate: float, work: Workspace) -> float:
    """Fills gain, what the error of each size counts at a place; the variance there in units of the noise's factor."""
    m, walked, inverse, ones = log2_x.size, work.walked[h], work.inverse[h], work.ones[h]
    right = place_in(log2_x, at, False)
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
