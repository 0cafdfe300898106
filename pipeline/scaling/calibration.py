"""How far runtimes walk away from any law per doubling: judged on sizes the log has already seen run.

Each series with sizes enough is predicted from its smallest; what ran on the larger ones says which drift gives
intervals that are as narrow as they can be while they hold (Gneiting and Raftery 2007, the interval score), and by what
factor each interval must then be stretched to hold the share it names. The factors are learnt apart for answers between
the sizes of a series, and beyond its largest by the number of its sizes: the more sizes, the surer the average is of a
law, and the further it errs where the code leaves that law.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.scaling.average import Averaged, Sizes, average
from pipeline.scaling.series import ranges

DRIFTS = (0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.5)
"""What may be chosen (log s per root of a doubling)."""

KEPT_SIZES = (3, 4, 5)
"""Sizes a held-out series is predicted from, each in turn: its smallest. The more it has, the more it trusts a law."""

REACH = 4.0
"""Sizes up to this many times the largest kept one are judged."""

MIN_HELD_OUT, MIN_SERIES = 30, 10
"""Fewer sizes or series than these, and the defaults stand."""

DEFAULT_STRETCH = ((1.2, 1.5), (0.7, 1.2), (1.0, 1.4), (1.7, 2.0))
"""Of the 80% and 95% intervals, by the places of RESTS_ON.

Between what ten codes on real machines ask for and what they ask for together with six NAS kernels (the geometric
mean; each code is a voice). Any code left out moves a factor by at most a quarter, from 5 sizes by a half.
"""

OWN_SERIES = 300.0
"""Series judged from which a log's own drift and factors weigh half against the defaults: fewer mislead."""

STRETCH_SERIES = 100.0
"""The same for the factors of a place: of 100 series the share that an interval holds is known to within 4%."""

MOST_SERIES = 500
"""Series judged, evenly out of all."""

MOST_STRETCH = 3.0
"""An interval is made at most three times as wide, or as narrow, as the average has it."""

_INTERVALS = ((0.8, 1, 3), (0.95, 0, 4))
"""Share of a central interval, and the places of its ends in QUANTILES."""


RESTS_ON = ("between", "from_3", "from_4", "from_5")
"""The places of a calibration's factors: what an answer rests on, as `rests_on` counts it."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The drift (log s per root of a doubling), and factors on the half-widths of the 80% and 95% intervals.

    Held-out sizes leave a law seldom and far, as where small problems turn from falling to rising: heavier tails than
    any one drift gives, so that each interval has a factor of its own. `stretch` has a pair for each place of
    `rests_on`.
    """

    drift_log_sd: float
    stretch: tuple[tuple[float, float], ...] = DEFAULT_STRETCH

    def stretched(self, log_s: Floats, rests_on: Ints) -> Floats:
        """Quantiles of averages, their distances from the median stretched; the wider interval holds the narrower."""
        middle, ends = log_s[:, 2], log_s.copy()
        for (_, low, high), factor in zip(_INTERVALS, np.array(self.stretch)[rests_on].T, strict=True):
            ends[:, low] = middle + factor * (log_s[:, low] - middle)
            ends[:, high] = middle + factor * (log_s[:, high] - middle)
        ends[:, 0], ends[:, 4] = np.fmin(ends[:, 0], ends[:, 1]), np.fmax(ends[:, 4], ends[:, 3])
        return ends


def rests_on(sizes: Sizes, series: Ints, procs: Floats) -> Ints:
    """Per target its place in RESTS_ON: within the sizes of its series, or beyond them, by their number.

    A series without sizes counts as one of few.
    """
    n_sizes = np.diff(sizes.offsets)[series]
    ends = np.append(sizes.procs, np.nan)
    first, last = ends[sizes.offsets[series]], ends[np.where(n_sizes > 0, sizes.offsets[series + 1] - 1, -1)]
    is_within = (n_sizes > 0) & (procs >= first) & (procs <= last)
    return np.where(is_within, 0, np.clip(n_sizes, KEPT_SIZES[0], KEPT_SIZES[-1]) - KEPT_SIZES[0] + 1)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Some sizes of series, `kept`; `rows` of the sizes to be predicted and, of each, its place in `kept`.

    `chosen[place]` is the series that it is of: one series may be kept more than once, with more sizes or fewer.
    """

    kept: Sizes
    rows: Ints
    series: Ints
    chosen: Ints


def calibrated(sizes: Sizes, new_variance: Floats, default_log_sd: float) -> Calibration:
    """The drift with the least interval score and the factors with which held-out sizes lie inside as often as said.

    The default where too little is known. `new_variance` per size: what its median scatters about the curve.
    """
    chosen = np.flatnonzero(np.diff(sizes.offsets) > min(KEPT_SIZES))
    own_share = chosen.size / (chosen.size + OWN_SERIES)
    if chosen.size > MOST_SERIES:
        chosen = chosen[np.linspace(0, chosen.size - 1, MOST_SERIES).astype(np.int64)]
    held = held_out(sizes, chosen)
    if np.unique(held.rows).size < MIN_HELD_OUT or chosen.size < MIN_SERIES:
        return Calibration(default_log_sd)
    truth = np.log(sizes.runtime_s[held.rows])
    scores = []
    for drift in DRIFTS:
        found = average(held.kept.drifting(drift), held.series, sizes.procs[held.rows], new_variance[held.rows])
        scores.append(float(by_series(interval_score(found, truth), held.series).mean()))
    drift = _shrunk(DRIFTS[int(np.argmin(scores))], default_log_sd, own_share)
    return Calibration(drift, _factors(sizes, new_variance, drift, (held, held_between(sizes, chosen))))


def _factors(
    sizes: Sizes, new_variance: Floats, drift: float, parts: Sequence[HeldOut]
) -> tuple[tuple[float, float], ...]:
    """The pair of every place of RESTS_ON; the default where no held-out size asks for it."""
    factors, counts = list(DEFAULT_STRETCH), np.diff(sizes.offsets)
    # Of all series, also where only some are judged: two hundred of ten thousand are no small log.
    n_series = [int((counts > least).sum()) for least in (min(KEPT_SIZES), *KEPT_SIZES)]
    for held in parts:
        procs, truth = sizes.procs[held.rows], np.log(sizes.runtime_s[held.rows])
        log_s = average(held.kept.drifting(drift), held.series, procs, new_variance[held.rows]).log_s
        kinds = rests_on(held.kept, held.series, procs)
        for kind in np.unique(kinds):
            own = kinds == kind
            found = _stretch(log_s[own], truth[own], held.series[own])
            share = n_series[kind] / (n_series[kind] + STRETCH_SERIES)
            low, high = (_shrunk(*pair, share) for pair in zip(found, DEFAULT_STRETCH[kind], strict=True))
            factors[kind] = (low, high)
    return tuple(factors)


def _shrunk(own: float, default: float, own_share: float) -> float:
    """Between the two in the log: a handful of series says little of either."""
    return float(own**own_share * default ** (1.0 - own_share))


def interval_score(found: Averaged, log_s: Floats) -> Floats:
    """Width of the central 80% and 95% intervals plus 2/alpha times how far the truth lies outside; less is better."""
    score = np.zeros(log_s.size)
    for share, low, high in _INTERVALS:
        below, above = found.log_s[:, low], found.log_s[:, high]
        outside = np.maximum(below - log_s, 0.0) + np.maximum(log_s - above, 0.0)
        score += above - below + 2.0 / (1.0 - share) * outside
    return score


def held_out(sizes: Sizes, chosen: Ints) -> HeldOut:
    """Each chosen series kept to its 3, 4 and 5 smallest sizes, where it has more, and its sizes beyond in reach."""
    parts = [(count, chosen[np.diff(sizes.offsets)[chosen] > count]) for count in KEPT_SIZES]
    series = np.concatenate([own for _, own in parts])
    count = np.repeat([count for count, _ in parts], [own.size for _, own in parts])
    after = sizes.offsets[series] + count
    kept, _ = ranges(sizes.offsets[series], after)
    rows, place = ranges(after, sizes.offsets[series + 1])
    near: Bools = sizes.procs[rows] <= REACH * sizes.procs[after - 1][place]
    offsets = np.append(0, np.cumsum(count))
    part = Sizes(offsets, sizes.procs[kept], sizes.runtime_s[kept], sizes.variance[kept], sizes.drift[series])
    return HeldOut(part, rows[near], place[near], series)


def held_between(sizes: Sizes, chosen: Ints) -> HeldOut:
    """Each chosen series without its middle size, which is to be predicted."""
    counts = np.diff(sizes.offsets)[chosen]
    rows = sizes.offsets[chosen] + counts // 2
    own, place = ranges(sizes.offsets[chosen], sizes.offsets[chosen + 1])
    is_kept = own != rows[place]
    kept, offsets = own[is_kept], np.append(0, np.cumsum(counts - 1))
    part = Sizes(offsets, sizes.procs[kept], sizes.runtime_s[kept], sizes.variance[kept], sizes.drift[chosen])
    return HeldOut(part, rows, np.arange(chosen.size), chosen)


def by_series(values: Floats, series: Ints) -> Floats:
    """Mean per series that has any: one long series is one voice."""
    counts = np.bincount(series)
    means: Floats = (np.bincount(series, values) / np.maximum(counts, 1))[counts > 0]
    return means


def _stretch(log_s: Floats, truth: Floats, series: Ints) -> tuple[float, float]:
    """Factors on the half-widths within which the shares named lie, each series one voice.

    Split-conformal: of n series, the share (1 + 1/n) times the one named, because the next series is one more.
    """
    weight, middle = 1.0 / np.bincount(series)[series], log_s[:, 2]
    one_more = 1.0 + 1.0 / weight.sum()
    weight /= weight.sum()
    factors = []
    for share, low, high in _INTERVALS:
        end = np.where(truth < middle, log_s[:, low], log_s[:, high])
        needed = (truth - middle) / (end - middle)
        order = np.argsort(needed)
        place = np.searchsorted(np.cumsum(weight[order]), share * one_more - 1e-12)
        factor = needed[order][min(int(place), needed.size - 1)]
        factors.append(float(np.clip(factor, 1.0 / MOST_STRETCH, MOST_STRETCH)))
    return factors[0], factors[1]


PRIOR_REPEATS = 3.0
"""Repeats that the log-wide noise counts as beside a group's own (the prototype's nu0)."""

MIN_GROUPS = 5
"""Groups with repeats a log must have to tell its noise."""

SCALE_OF_MEDIAN = 0.789
"""Scale over median of a scaled inverse chi-square with PRIOR_REPEATS degrees of freedom (chi-square median / 3)."""

MEDIAN_VARIANCE = np.pi / 2
"""Variance of a median over that of a mean, for normal errors and many of them."""


def log_wide_sd(freedom: Floats, core_log_sd: Floats, default_log_sd: float) -> float:
    """The log's typical noise (log s): of the median group with repeats; the default where too few have any."""
    if not has_noise(freedom, core_log_sd):
        return default_log_sd
    return float(np.median(core_log_sd[_has_repeats(freedom, core_log_sd)]) * np.sqrt(SCALE_OF_MEDIAN))


def has_noise(freedom: Floats, core_log_sd: Floats) -> bool:
    """Whether enough groups have repeats to tell the log's noise."""
    return int(_has_repeats(freedom, core_log_sd).sum()) >= MIN_GROUPS


def _has_repeats(freedom: Floats, core_log_sd: Floats) -> Bools:
    found: Bools = (freedom >= PRIOR_REPEATS) & (core_log_sd > 0)
    return found


def run_log_sd(freedom: Floats, core_log_sd: Floats, log_wide: float) -> Floats:
    """Per group, log sd of a single run: its own repeats' variance averaged with the log's, by degrees of freedom."""
    own = freedom * np.nan_to_num(core_log_sd) ** 2
    shrunk: Floats = np.sqrt((PRIOR_REPEATS * log_wide**2 + own) / (PRIOR_REPEATS + freedom))
    return shrunk


def median_variance(run_sd: Floats, n_runs: Floats, floor_log_sd: float) -> Floats:
    """Variance (log s squared) of the median of a size's runs; the floor is what no number of repeats averages out."""
    per_run = np.where(n_runs > 2, MEDIAN_VARIANCE, 1.0) / np.maximum(n_runs, 1.0)
    variance: Floats = per_run * run_sd**2 + floor_log_sd**2
    return variance


def repeats(offsets: Ints, n_runs: Floats) -> Floats:
    """Per series, degrees of freedom its repeats give."""
    extra = np.append(np.maximum(n_runs - 1.0, 0.0), 0.0)
    total: Floats = np.add.reduceat(extra, offsets[:-1]) if offsets.size > 1 else np.empty(0)
    return np.where(np.diff(offsets) > 0, total, 0.0)
