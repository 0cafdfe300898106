"""The model average: the posterior over shapes of curves given a few sizes, what it predicts at others, and how surely.

Log runtimes are shape + level + drift + noise. The level's prior is flat, the drift from the shape is a Brownian motion
in log2 of processors, the noise independent; all variances share one unknown factor with a scaled-inverse-chi-square
prior. A hypothesis says which step from one size to the next may leave the shape by more than the drift. Given a shape
and a hypothesis this is kriging with an unknown mean (Cressie, Statistics for Spatial Data, 1993, chapter 3), whose
weights are the same for every shape. The prediction is the posterior mean of log T: on codes that had no say its error
is 7% below that of the posterior's median.

The intervals are those of measured runtimes about the model average, on codes that had no say in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Self

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.kernels import called_kernel, entry_kernel, kernel, place_in
from pipeline.laws import AVERAGED
from pipeline.scaling.fit import fit_law
from pipeline.scaling.series import PredictRules, SeriesBatch, median_variance

FREEDOM = 2
"""Degrees of freedom of the noise before any size is seen: few, because measured runs have heavy tails."""

PLAIN, LAST_ODD, FIRST_ODD, LAST_SLOPE, ENDED = range(5)
"""Hypotheses: every size lies on the curve; the last step is odd; the first is, as before the data fit in cache; only
the last two sizes lie on the curve, whose slope there goes on; scaling ended at the last size but one."""

N_HYPOTHESES = 5

ODDS = (1.0, 0.1, 0.3, 1.0, 0.3)
"""Prior odds of each, that of an odd last step per doubling of it. Chosen on measured codes with every code left out in
turn (benchmarks/bench_curves.py); from a third to three times each the error moves by less than 1%."""

DRIFT_LOG_SD = 0.07
"""How far runtimes drift from any law per root of a doubling (log s)."""

STEP_LOG_SD = 0.5
"""How far an odd step may jump off the drift (log s): a node filled, a network's next level, a cache reached."""

ENDED_LOG_SD, ENDED_GAIN = 0.1, 0.05
"""How far runtimes drift in a doubling where scaling has ended; it may have where it was, and the last step gains less
(log s)."""

LEAST_SIZES = 3
"""A series of fewer sizes has no step beside an odd one to compare it with, and does not inform its siblings."""

SIBLING_WEIGHT = 0.3
"""J siblings weigh J * SIBLING_WEIGHT to 1 against the general prior. Of 0, .1, .2, .3 and .5, every code left out."""

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
    g], where every size lies on the curve; `n_informative`, their number.
    """

    application: Ints
    is_informative: Bools
    posterior_sums: Floats
    n_informative: Floats


class Averaged(NamedTuple):
    """Per target: mean and standard deviation of log runtime."""

    log_s: Floats
    log_sd: Floats


class _Workspace(NamedTuple):
    """Logarithms of all sizes, and arrays that one series after another is averaged in.

    By size and shape `error`, log T less log shape; its row after the last is that of the last size where scaling has
    ended. By hypothesis and shape `weight`, and `noise`, the factor on its variances; by shape `curve` and `place`. By
    hypothesis `walked`, the drift's variance up to each size, and the covariance's `inverse` and row sums `ones`.
    """

    log2_x: Floats
    log_t: Floats
    error: Floats
    weight: Floats
    noise: Floats
    curve: Floats
    place: Floats
    walked: Floats
    covariance: Floats
    inverse: Floats
    ones: Floats
    gain: Floats


def shape_grid() -> Shapes:
    """Every averaged law's shapes of T(x), x = procs over the smallest, by prior weight, sum 1.

    Within a law all points of its grid weigh the same. Counting in smallest counts makes 4, 8, 16 and 1, 2, 4 the same
    question.
    """
    return _tabulated(tuple(AVERAGED))


PLACES = 2.0 ** (np.arange(LEAST_LOG2 * STEPS_PER_OCTAVE, MOST_LOG2 * STEPS_PER_OCTAVE + 1) / STEPS_PER_OCTAVE)
"""The x of the rows of a table of shapes."""


@cache
def _tabulated(laws: tuple[str, ...]) -> Shapes:
    parts = [np.log(AVERAGED[law].formula(AVERAGED[law].grid(), PLACES[:, None])) for law in laws]
    counts = [part.shape[1] for part in parts]
    weights = [one.prior_weight for one in AVERAGED.values()]
    prior = np.repeat(np.array(weights) / counts, counts)
    return Shapes(np.ascontiguousarray(np.hstack(parts)), prior / prior.sum())


def average(
    sizes: SeriesBatch, series: Ints, procs: Floats, kin: Kindred | None = None, shapes: Shapes | None = None
) -> Averaged:
    """The model average at every target (a series and a processor count), in the targets' order.

    `kin` are the series' siblings, where they have any; `shapes` stand for the averaged laws' where given. A series
    without sizes gives NaN.
    """
    order = np.argsort(series, kind="stable")
    starts = np.searchsorted(series[order], np.arange(sizes.n_series + 1)).astype(np.int64)
    found = np.full((2, series.size), np.nan)
    kin, shapes = kin or kin_of(sizes, np.full(sizes.n_series, -1)), shapes or shape_grid()
    at = sizes.log2_from_least(series, procs)[order]
    _fill_averages(sizes, shapes, kin, starts, at, found, _workspace(sizes, shapes))
    found[:, order] = found.copy()
    is_exact, curve = exact_log_s(sizes, series, procs)
    return Averaged(np.where(is_exact, curve, found[0]), np.sqrt(found[1]))


@entry_kernel
def _fill_averages(
    sizes: SeriesBatch, shapes: Shapes, kin: Kindred, starts: Ints, at: Floats, found: Floats, work: _Workspace
) -> None:
    """Fills found, per target: mean and variance of log s.

    The targets of series i are starts[i]:starts[i + 1].
    """
    for i in range(sizes.offsets.size - 1):
        a, b = sizes.offsets[i], sizes.offsets[i + 1]
        if a == b or starts[i] == starts[i + 1]:
            continue
        # 1. The weights of hypotheses and shapes, from the series alone, then as its siblings inform them.
        n_hypotheses = _weigh(i, N_HYPOTHESES, sizes, shapes, work)
        _inform(i, n_hypotheses, shapes.prior, kin, work)
        log2_x, m, likeliest = work.log2_x[a:b], b - a, np.argmax(work.weight[PLAIN])
        for t in range(starts[i], starts[i + 1]):
            _fill_log_shape(at[t], shapes, work.curve)
            centre, first, second, within = 0.0, 0.0, 0.0, 0.0
            for h in range(n_hypotheses):
                if _odds(h, log2_x, work.log_t[a:b]) == 0.0:
                    continue
                weight, place = work.weight[h], work.place
                within += _fill_gain(h, at[t], log2_x, work) * np.dot(weight, work.noise[h])
                # 2. Where each shape goes through the target: its curve, shifted by what the sizes lie off it.
                is_past_end = h == ENDED and at[t] > log2_x[m - 2]
                for g in range(place.size):
                    curve = work.log_t[b - 2] - work.error[m - 2, g] if is_past_end else work.curve[g]
                    place[g] = curve - centre
                for j in range(m):
                    gain, error = work.gain[j], work.error[_row(h, j, m)]
                    for g in range(place.size):
                        place[g] += gain * error[g]
                if h == PLAIN:
                    # About a place of its own, so that squares lose no digits.
                    centre = place[likeliest]
                    for g in range(place.size):
                        place[g] -= centre
                # 3. Mean and variance over all of them.
                first += np.dot(weight, place)
                for g in range(place.size):
                    place[g] *= place[g]
                second += np.dot(weight, place)
            found[0, t], found[1, t] = centre + first, max(second - first * first, 0.0) + within


# Not inlined: two kernels call it once a series, and either would compile it again.
@called_kernel
def _weigh(i: int, most_hypotheses: int, sizes: SeriesBatch, shapes: Shapes, work: _Workspace) -> int:
    """Fills weight and noise of the first hypotheses and every shape, from series i alone, sum 1; how many they are.

    A weight is odds times prior times (FREEDOM + misfit)^-(FREEDOM + m - 1)/2. The power is whole in the root, so that
    squaring does what logarithms take five times as long for.
    """
    a, b = sizes.offsets[i], sizes.offsets[i + 1]
    m, prior, log2_x, log_t = b - a, shapes.prior, work.log2_x[a:b], work.log_t[a:b]
    n_hypotheses, freedom = most_hypotheses if m >= LEAST_SIZES else 1, FREEDOM + m - 1
    for j in range(m):
        _fill_log_shape(log2_x[j], shapes, work.error[j])
        for g in range(prior.size):
            work.error[j, g] = log_t[j] - work.error[j, g]
    for g in range(prior.size):
        work.error[m, g] = log_t[m - 1] - log_t[m - 2] + work.error[m - 2, g]
    constant, least = np.empty(n_hypotheses), np.inf
    for h in range(n_hypotheses):
        constant[h] = _krige(h, log2_x, log_t, sizes.weights[a:b], work)
        if constant[h] > -np.inf:
            _fill_misfit(h, m, work)
            least = min(least, max(work.noise[h].min(), 0.0))
    most, whole = constant.max(), 0.0
    for h in range(n_hypotheses):
        weight, noise, root, factor = work.weight[h], work.noise[h], work.place, np.exp(constant[h] - most)
        if constant[h] == -np.inf:
            weight[:] = 0.0
            continue
        for g in range(prior.size):
            noise[g] = FREEDOM + max(noise[g], 0.0)
            root[g] = np.sqrt((FREEDOM + least) / noise[g])
            weight[g] = factor * prior[g]
            noise[g] /= freedom
        exponent = freedom
        while exponent > 0:
            for g in range(prior.size):
                weight[g] *= root[g] if exponent % 2 == 1 else 1.0
                root[g] *= root[g]
            exponent //= 2
        root[:] = 1.0
        whole += np.dot(weight, root)
    work.weight[:n_hypotheses] /= whole
    return int(n_hypotheses)


@kernel
def _fill_misfit(h: int, m: int, work: _Workspace) -> None:
    """Fills noise with the squares of every shape about its level, in units of the covariance."""
    misfit, ones, inverse, whole = work.noise[h], work.ones[h], work.inverse[h], added(work.ones[h, :m])
    misfit[:] = 0.0
    for j in range(m):
        for k in range(j + 1):
            factor = (inverse[j, k] - ones[j] * ones[k] / whole) * (1.0 if j == k else 2.0)
            first, second = work.error[_row(h, j, m)], work.error[_row(h, k, m)]
            for g in range(misfit.size):
                misfit[g] += factor * first[g] * second[g]


@kernel
def _row(h: int, j: int, m: int) -> int:
    """The row of `error` that size j of m has under a hypothesis."""
    return m if h == ENDED and j == m - 1 else j


@kernel
def _odds(h: int, log2_x: Floats, log_t: Floats) -> float:
    """Prior odds of a hypothesis on a series of at least LEAST_SIZES, or of PLAIN on any; 0: it is not asked."""
    m, odds = log2_x.size, ODDS[h]
    if h == LAST_ODD:
        odds = min(odds * (log2_x[m - 1] - log2_x[m - 2]), 1.0)
    is_none = h == LAST_SLOPE and m == LEAST_SIZES
    if h == ENDED:
        is_none = log_t[m - 1] <= log_t[m - 2] - ENDED_GAIN or log_t[m - 2] >= log_t[0]
    return 0.0 if is_none else odds


@kernel
def _krige(h: int, log2_x: Floats, log_t: Floats, weights: Floats, work: _Workspace) -> float:
    """Fills walked, inverse and ones of a hypothesis; the log of its odds and of its density's constant."""
    m, odds = log2_x.size, _odds(h, log2_x, log_t)
    walked, inverse, covariance = work.walked[h], work.inverse[h, :m, :m], work.covariance[:m, :m]
    walked[0] = 0.0
    for j in range(1, m):
        is_last = j == m - 1
        is_odd = (h == LAST_ODD and is_last) or (h == FIRST_ODD and j == 1) or (h == LAST_SLOPE and not is_last)
        per_doubling = DRIFT_LOG_SD**2 + (ENDED_LOG_SD**2 if h == ENDED and is_last else 0.0)
        walked[j] = walked[j - 1] + per_doubling * (log2_x[j] - log2_x[j - 1]) + (STEP_LOG_SD**2 if is_odd else 0.0)
    for j in range(m):
        for k in range(m):
            covariance[j, k] = walked[min(j, k)] + (1.0 / weights[j] if j == k else 0.0)
    log_determinant, whole = _invert(covariance, inverse), 0.0
    for j in range(m):
        work.ones[h, j] = 0.0
        for k in range(m):
            work.ones[h, j] += inverse[j, k]
        whole += work.ones[h, j]
    return float(np.log(odds) - 0.5 * (log_determinant + np.log(whole))) if odds > 0.0 else -np.inf


@kernel
def _fill_gain(h: int, at: float, log2_x: Floats, work: _Workspace) -> float:
    """Fills gain, what the error of each size counts at a place; the variance there in units of the noise's factor."""
    m, walked, inverse, ones = log2_x.size, work.walked[h], work.inverse[h], work.ones[h]
    right = place_in(log2_x, at, False)
    there = walked[min(right, m - 1)]
    if 0 < right < m:
        part = (at - log2_x[right - 1]) / (log2_x[right] - log2_x[right - 1])
        # A step is likelier half-way between two sizes: were it as likely beside one, intervals would jump there.
        there = walked[right - 1] + part * part * (3.0 - 2.0 * part) * (walked[right] - walked[right - 1])
    spread = there + DRIFT_LOG_SD**2 * (max(at - log2_x[m - 1], 0.0) + max(log2_x[0] - at, 0.0))
    rest, whole = 1.0, 0.0
    for j in range(m):
        rest -= min(there, walked[j]) * ones[j]
        whole += ones[j]
    for j in range(m):
        known = 0.0
        for k in range(m):
            known += inverse[j, k] * min(there, walked[k])
        spread -= known * min(there, walked[j])
        work.gain[j] = known + rest * ones[j] / whole
    return float(spread + rest * rest / whole)


@kernel
def _inform(i: int, n_hypotheses: int, prior: Floats, kin: Kindred, work: _Workspace) -> None:
    """Moves the weights of series i to those under the prior that its siblings inform.

    `kin.posterior_sums` adds n_informative posteriors, the series' own among them where it is informative.
    """
    of, odds, plain = kin.application[i], work.place, added(work.weight[PLAIN])
    own = 1.0 if kin.is_informative[i] else 0.0
    n_others = kin.n_informative[of] - own if of >= 0 else 0.0
    if n_others <= 0.0:
        return
    share, likelihood = n_others * SIBLING_WEIGHT / (1.0 + n_others * SIBLING_WEIGHT), 0.0
    for g in range(prior.size):
        here = 0.0
        for h in range(n_hypotheses):
            here += work.weight[h, g]
        odds[g] = max(kin.posterior_sums[of, g] - own * work.weight[PLAIN, g] / plain, 0.0) / (prior[g] * n_others)
        likelihood += here * odds[g]
    for h in range(n_hypotheses):
        for g in range(prior.size):
            work.weight[h, g] *= (1.0 - share + share * odds[g]) / (1.0 - share + share * likelihood)


@kernel
def _fill_log_shape(log2_x: float, shapes: Shapes, out: Floats) -> None:
    """Fills out with log T of every shape at one place."""
    table = shapes.log_shape
    at = (log2_x - LEAST_LOG2) * STEPS_PER_OCTAVE
    row = min(max(int(np.floor(at)), 0), table.shape[0] - 2)
    share, below, above = at - row, table[row], table[row + 1]
    for g in range(out.size):
        out[g] = below[g] + share * (above[g] - below[g])


@kernel
def _invert(matrix: Floats, inverse: Floats) -> float:
    """Fills inverse, symmetric and positive definite, by Gauss and Jordan; writes over the matrix; log determinant."""
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
def added(values: Floats) -> float:
    """The sum, one after another: compiled and interpreted it is equal to the last digit."""
    whole = 0.0
    for value in values:
        whole += value
    return whole


@entry_kernel
def _add_posteriors(
    sizes: SeriesBatch, shapes: Shapes, application: Ints, is_informative: Bools, most_hypotheses: int, sums: Floats,
    work: _Workspace,
) -> None:  # fmt: skip
    """Adds to sums[application, shape] the posterior of each informative series over the shapes, by itself, sum 1."""
    for i in range(sizes.offsets.size - 1):
        if is_informative[i]:
            for h in range(_weigh(i, most_hypotheses, sizes, shapes, work)):
                for g in range(shapes.prior.size):
                    sums[application[i], g] += work.weight[h, g]


def _workspace(sizes: SeriesBatch, shapes: Shapes) -> _Workspace:
    """Workspace for the longest series."""
    m, n, h = int(np.diff(sizes.offsets).max(initial=1)), shapes.prior.size, N_HYPOTHESES
    lengths = ((m + 1, n), (h, n), (h, n), (n,), (n,), (h, m), (m, m), (h, m, m), (h, m), (m,))
    logs = sizes.log2_from_least(sizes.owner, sizes.procs), np.log(sizes.runtime_s)
    return _Workspace(*logs, *(np.zeros(one) for one in lengths))


def kin_of(sizes: SeriesBatch, application: Ints) -> Kindred:
    """The summed posteriors of each application's informative series."""
    n_applications, shapes = int(application.max(initial=-1)) + 1, shape_grid()
    sums = np.zeros((n_applications, shapes.prior.size))
    is_informative = (application >= 0) & (np.diff(sizes.offsets) >= LEAST_SIZES)
    # Where every size lies on the curve: other hypotheses would tell siblings of one series' accidents.
    _add_posteriors(sizes, shapes, application, is_informative, 1, sums, _workspace(sizes, shapes))
    n_informative = np.bincount(application[is_informative], minlength=n_applications).astype(float)
    return Kindred(application, is_informative, sums, n_informative)


def weights_of(sizes: SeriesBatch, shapes: Shapes) -> Floats:
    """The posterior of the only series over the shapes given, sum 1."""
    sums, first = np.zeros((1, shapes.prior.size)), np.zeros(1, np.int64)
    work = _workspace(sizes, shapes)
    _add_posteriors(sizes, shapes, first, np.ones(1, np.bool_), N_HYPOTHESES, sums, work)
    return np.asarray(sums[0])


def n_siblings(kin: Kindred) -> Floats:
    """Per series, how many others inform it."""
    others = np.append(kin.n_informative, 0.0)[kin.application] - kin.is_informative
    return np.where(kin.application >= 0, others, 0.0)


LEAST_EXACT_SIZES = 4
"""Two parameters leave two degrees of freedom: of runs that scatter by 2%, one series in 400 lies as close."""

EXACT_LOG_SD = 0.001
"""Root mean square off the curve, per degree of freedom, up to which a series counts as exact (log s)."""


def exact_log_s(sizes: SeriesBatch, series: Ints, procs: Floats) -> tuple[Bools, Floats]:
    """Per target: whether its series lies on an Amdahl curve, and log T by that curve; undefined for other series."""
    fitted, m = fit_law("amdahl", sizes._replace(weights=np.ones(sizes.procs.size))), sizes.n_points
    is_exact = (m >= LEAST_EXACT_SIZES) & (fitted.serial_fraction < 1.0) & (fitted.wssre <= (m - 2) * EXACT_LOG_SD**2)
    serial, t1_s = fitted.serial_fraction[series], fitted.t1_s[series]
    with np.errstate(divide="ignore", invalid="ignore"):
        return is_exact[series], np.log(t1_s * (serial + (1.0 - serial) / procs))


QUANTILES = (0.025, 0.1, 0.5, 0.9, 0.975)
"""Which quantiles an interval's ends and the prediction stand for."""

ENDS = ("runtime_s_lo95", "runtime_s_lo80", "runtime_s", "runtime_s_hi80", "runtime_s_hi95")
"""Columns of PREDICTIONS and ACROSS at QUANTILES."""

Widths = Mapping[float, tuple[float, ...]]

WIDTHS: Widths = {
    0.025: (-0.56, 0.07, 0.75, -0.54),
    0.1: (-0.47, 0.64, 0.2, -0.33),
    0.9: (-1.88, 0.64, 0.97, 0.84),
    0.975: (-0.37, 0.52, 0.78, 0.29),
}
"""a, b, c and d of each end of an interval, which is exp(a) sd^b (1 + doublings)^c sizes^d off the prediction (log s):
sd is the standard deviation of the average, doublings how far the count lies outside the sizes of the series. It is
apart for either side, because runtimes leave a law upwards more often and further. The least loss of quantile
regression over sixteen measured codes and six simulated ones (benchmarks/bench_curves.py --widths); b and c are at
least 0, so that no interval narrows further out."""

MOST_SIZES = 6
"""A series of more sizes counts as one of so many: no measured code shows what more are worth."""


def width_columns(log_sd: Floats, n_sizes: Floats, doublings: Floats) -> Floats:
    """What a, b, c and d of WIDTHS are multiplied by, float64[t, 4]."""
    sizes = np.log(np.clip(n_sizes, 1, MOST_SIZES))
    return np.column_stack([np.ones(log_sd.size), np.log(log_sd), np.log1p(doublings), sizes])


def log_quantiles(log_s: Floats, log_sd: Floats, n_sizes: Floats, doublings: Floats, widths: Widths = WIDTHS) -> Floats:
    """Log runtimes at QUANTILES, float64[t, 5], from means and standard deviations (log s)."""
    columns = width_columns(log_sd, n_sizes, doublings)
    low95, low80, high80, high95 = np.exp(columns @ np.array(list(widths.values())).T).T
    ends = [-np.maximum(low95, low80), -low80, np.zeros(log_s.size), high80, np.maximum(high95, high80)]
    return np.asarray(log_s[:, None] + np.column_stack(ends))


def doublings_outside(procs: Floats, smallest: Floats, largest: Floats) -> Floats:
    """How far procs lies outside the sizes observed; 0 inside."""
    return np.log2(np.maximum(np.maximum(procs / largest, smallest / procs), 1.0))


@dataclass(frozen=True, slots=True)
class ObservedSeries:
    """Series as the average reads them, with their kin and the log sd of a single run of each."""

    sizes: SeriesBatch
    kin: Kindred
    run_sd: Floats

    @classmethod
    def of(cls, batch: SeriesBatch, n_runs: Floats, run_sd: Floats, application: Ints, rules: PredictRules) -> Self:
        """From series with the runs of each size, and weights (1: normal); kin are those of one application."""
        variance = median_variance(run_sd[batch.owner], n_runs, rules.measured_log_sd)
        sizes = batch._replace(weights=batch.weights / variance)
        return cls(sizes, kin_of(sizes, application), run_sd)

    def curve(self, group: Ints, procs: Floats) -> Averaged:
        """The curve at each group and processor count, without the scatter of a new run."""
        return average(self.sizes, group, procs, self.kin)

    def quantiles(self, group: Ints, procs: Floats, curve: Averaged, new_log_sd: Floats | float = 0.0) -> Floats:
        """Log runtimes at QUANTILES of the curve, or of something that scatters about it by `new_log_sd` (log s).

        None is above what ran on the smallest size, where no size ran longer than one before it. That bound begins
        above that runtime by as much as the interval there, and reaches it within a doubling.
        """
        sizes, log_t = self.sizes, np.log(self.sizes.runtime_s)
        first, n_sizes = sizes.offsets[group], np.diff(sizes.offsets)[group]
        smallest, largest, first_log_s = sizes.procs[first], sizes.procs[sizes.offsets[group + 1] - 1], log_t[first]
        log_sd, doublings = np.hypot(curve.log_sd, new_log_sd), doublings_outside(procs, smallest, largest)
        found = log_quantiles(curve.log_s, log_sd, n_sizes, doublings)
        rises = np.diff(log_t, prepend=np.inf) > 0.0
        rises[sizes.offsets[:-1]] = False
        n_rises, beyond = np.append(0, np.cumsum(rises)), np.log2(procs / smallest)
        is_bounded = (n_sizes > 1) & (n_rises[sizes.offsets[group + 1]] == n_rises[first]) & (beyond >= 0.0)
        above = log_quantiles(first_log_s, self.run_sd[group], n_sizes, np.zeros(procs.size)) - first_log_s[:, None]
        bound = first_log_s[:, None] + np.clip(1.0 - beyond, 0.0, 1.0)[:, None] * np.maximum(above, 0.0)
        bounded = np.minimum(found, np.maximum(bound, found[:, [2]]))
        return np.where(is_bounded[:, None], bounded, found)
