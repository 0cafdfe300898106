"""The posterior over curve shapes given a few sizes, averaged into a runtime and its quantiles at other sizes."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import logit

from pipeline.arrays import Bools, Floats, Ints
from pipeline.kernels import entry_kernel
from pipeline.scaling.mixtures import Columns, Targets, add_posteriors, empty_workspace, mixtures
from pipeline.scaling.posterior import Kindred, shape_grid
from pipeline.scaling.quantiles import student_table


@dataclass(frozen=True, slots=True)
class Sizes:
    """k series end to end: series i is the slice offsets[i]:offsets[i + 1], by rising procs.

    Per size the runtime (s) and how far it may lie off the curve, as a variance of log s: noise. Per series the
    drift: the variance of log s per doubling by which the truth walks away from any law's curve.
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

    def columns(self) -> Columns:
        """As the kernels read them: offsets, doublings from the least size, log runtimes, variances, drifts."""
        of = np.repeat(np.arange(self.n_series), np.diff(self.offsets))
        log2_x = self.log2_from_least(of, self.procs)
        return Columns(self.offsets, log2_x, np.log(self.runtime_s), self.variance, self.drift)

    def log2_from_least(self, series: Ints, procs: Floats) -> Floats:
        """Doublings of procs over the smallest size of their series; NaN where it has none."""
        least = np.append(self.procs, np.nan)[np.where(np.diff(self.offsets) > 0, self.offsets[:-1], -1)]
        logs: Floats = np.log2(procs / least[series])
        return logs

    def drifting(self, log_sd: float) -> "Sizes":
        """The same, every series with this drift (log s per root of a doubling)."""
        return Sizes(self.offsets, self.procs, self.runtime_s, self.variance, np.full(self.n_series, log_sd**2))


LEAST_SIZES = 3
"""A series of fewer sizes does not inform its siblings."""


def kin_of(sizes: Sizes, application: Ints) -> Kindred:
    """The summed posteriors of each application's informative series."""
    n_applications = int(application.max(initial=-1)) + 1
    sums = np.zeros((n_applications, shape_grid().prior.size))
    is_informative = (application >= 0) & (np.diff(sizes.offsets) >= LEAST_SIZES)
    add_posteriors(sizes.columns(), shape_grid().shapes(), application, is_informative, sums,
                   empty_workspace(sizes.offsets, shape_grid().prior.size))  # fmt: skip
    n_informative = np.bincount(application[is_informative], minlength=n_applications).astype(float)
    return Kindred(application, is_informative, sums, n_informative)


def n_siblings(kin: Kindred) -> Floats:
    """Per series, how many others inform it."""
    others: Floats = np.append(kin.n_informative, 0.0)[kin.application] - kin.is_informative
    return np.where(kin.application >= 0, others, 0.0)


LEAST_EXACT_SIZES = 4
"""Two parameters leave two degrees of freedom: of runs that scatter by 2%, one series in 400 lies as close."""

EXACT_LOG_SD = 0.001
"""Root mean square off the curve, per degree of freedom, up to which a series counts as exact (log s)."""


def exact_log_s(sizes: Sizes, series: Ints, procs: Floats) -> tuple[Bools, Floats]:
    """Per target: whether its series lies on an Amdahl curve, and log T by that curve; undefined for other series."""
    coefficients = np.zeros((sizes.n_series, 2))
    is_exact = amdahl_fits(sizes.offsets, sizes.procs, sizes.runtime_s, coefficients)
    serial_s, parallel_s = coefficients[series].T
    with np.errstate(divide="ignore", invalid="ignore"):
        return is_exact[series], np.log(serial_s + parallel_s / procs)


@entry_kernel
def amdahl_fits(offsets: Ints, procs: Floats, runtime_s: Floats, coefficients: Floats) -> Bools:
    """Fills serial and parallel seconds, least squares of relative errors; whether each series is exact."""
    is_exact = np.zeros(offsets.size - 1, np.bool_)
    for i in range(is_exact.size):
        a, b = offsets[i], offsets[i + 1]
        if b - a < LEAST_EXACT_SIZES:
            continue
        u, v = 1.0 / runtime_s[a:b], 1.0 / (procs[a:b] * runtime_s[a:b])
        uu, uv, vv = (u * u).sum(), (u * v).sum(), (v * v).sum()
        determinant = uu * vv - uv * uv
        if determinant <= 1e-12 * uu * vv:
            continue
        serial = (vv * u.sum() - uv * v.sum()) / determinant
        serial = max(0.0, serial)
        parallel = (v.sum() - serial * uv) / vv
        squares = ((serial * u + parallel * v - 1.0) ** 2).sum()
        coefficients[i, 0], coefficients[i, 1] = serial, parallel
        is_exact[i] = parallel > 0.0 and squares <= (b - a - 2) * EXACT_LOG_SD**2
    return is_exact


QUANTILES = np.array([0.025, 0.1, 0.5, 0.9, 0.975])
"""Which quantiles are asked for, in the columns' order."""


@dataclass(frozen=True, slots=True)
class Averaged:
    """Per target: log runtime at QUANTILES, float64[t, 5]; `split`, how far the surviving shapes disagree there.

    Split is the variance between shapes over the variance within one: what a run there would tell. Per series,
    `log_bayes`: log of the likelihood under the siblings' mean posterior over that under the general prior; 0 without.
    """

    log_s: Floats
    split: Floats
    log_bayes: Floats


def average(sizes: Sizes, series: Ints, procs: Floats, new_variance: Floats, kin: Kindred | None = None) -> Averaged:
    """The model average at every target (a series and a processor count), in the targets' order.

    `new_variance` (log s squared, per target) is added for what a new observation scatters; 0 asks for the curve.
    `kin` are the series' siblings (see siblings.py), where they have any. A series without sizes gives NaN.
    """
    order = np.argsort(series, kind="stable")
    starts = np.searchsorted(series[order], np.arange(sizes.n_series + 1)).astype(np.int64)
    log_s, split = np.full((series.size, QUANTILES.size), np.nan), np.full(series.size, np.nan)
    at, log_bayes = sizes.log2_from_least(series, procs)[order], np.zeros(sizes.n_series)
    kin = kin or kin_of(sizes, np.full(sizes.n_series, -1))
    targets = Targets(starts, at, new_variance[order])
    mixtures(sizes.columns(), shape_grid().shapes(), kin, targets, logit(QUANTILES), _student(),
             log_s, split, log_bayes, empty_workspace(sizes.offsets, shape_grid().prior.size))  # fmt: skip
    back = np.empty(series.size, np.int64)
    back[order] = np.arange(series.size)
    return Averaged(_exact_where_known(log_s[back], sizes, series, procs), split[back], log_bayes)


def _exact_where_known(log_s: Floats, sizes: Sizes, series: Ints, procs: Floats) -> Floats:
    """Quantiles moved to the exact curve of series that have one; their distances from the median stay."""
    is_exact, curve = exact_log_s(sizes, series, procs)
    shift = np.where(is_exact, curve - log_s[:, 2], 0.0)
    moved: Floats = log_s + shift[:, None]
    return moved


@cache
def _student() -> Floats:
    return student_table()
