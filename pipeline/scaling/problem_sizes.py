"""Problem sizes of one application: one size's curve predicted from another's, and weak scaling across them.

The thesis's way (Deshmeh 2013, 3.12 to 3.15, by the project's notes): one ratio, at the smallest common count. Beyond
it: an average over rescaled curves of the base and over all shapes, as if the two sizes were different applications.
Each curve is weighted by its fit to the target's points. The ratio is published beside it, for comparison. `guarded`
decides from the two series alone how much of this average is published.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import stdtr

from pipeline.arrays import Floats, category_codes, floats
from pipeline.columns import TEMPLATE_COLUMNS
from pipeline.report import Report, Tally
from pipeline.scaling.average import QUANTILES
from pipeline.scaling.curves import ObservedSeries
from pipeline.scaling.points import fitted_points, series_of
from pipeline.scaling.rules import AcrossRules, PredictRules
from pipeline.scaling.shapes import shapes_up_to
from pipeline.tables import ACROSS

LARGER = 2.0
"""A base whose log runtime exceeds the target's by this many standard deviations of a run is a larger problem."""


def own_runtime(target_procs: Floats, target_s: Floats, procs: Floats) -> Floats:
    """Runtimes (s) that the model average gives from the target's points alone."""
    rules, ones = PredictRules(), np.ones(len(target_procs))
    columns = np.array([0, len(ones)]), target_procs, target_s, ones, ones
    own = ObservedSeries.build(*columns, np.array([rules.run_log_sd]), np.array([-1]), rules)
    runtime_s: Floats = np.exp(own.curve(np.zeros(len(procs), np.int64), np.asarray(procs, np.float64)).log_s[:, 2])
    return runtime_s


def borrows(ratio: float, same: float, rules: AcrossRules) -> bool:
    """Whether the target borrows from the base; `ratio` is the target's runtime over the base's.

    It does not borrow from another application, nor from a problem larger by more than noise. On counts where the
    larger problem still scales its overhead is hidden, so the joint fit cannot estimate the smaller target's overhead.
    """
    is_larger_base = rules.is_guarded and np.log(ratio) < -LARGER * rules.run_log_sd
    return bool(same >= rules.apart and not is_larger_base)


def guarded(joint: Floats, own: Floats, base_shaped: Floats, largest_s: float, rules: AcrossRules) -> Floats:
    """Log runtimes to publish where the target borrows, per count, from three predictions of log runtime.

    The result is a weighted mean in logs of the joint fit and the own prediction, which weighs `own_share`. No series
    supports the joint fit where the base's shape takes longer than the target's largest size (`largest_s`) and the
    joint fit is faster than the own prediction. There the faster of the own prediction and the base's shape replaces
    it.
    """
    is_unsupported = rules.is_guarded & (base_shaped >= np.log(largest_s)) & (joint < own)
    joint = np.where(is_unsupported, np.minimum(own, base_shaped), joint)
    pooled: Floats = (1 - rules.own_share) * joint + rules.own_share * own
    return pooled


LEAST_LOG_THETA, MOST_LOG_THETA, N_THETA = -6.0, 3.0, 61
FALLS = (-0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Values of c."""

FALL, FALL_SD = 0.2, 0.4
"""Prior of c: messages shrink as a larger problem is cut up, latency does not."""

POWER, POWER_SD = 1 / 3, 0.5
"""Prior of b: half-way between 0 (latency) and 2/3 (the surface of a volume), wide enough for either and for 1."""

LEAST_THETA_SD = 0.4
"""Prior standard deviation of log theta even where the serial times agree: sizes differ in steps, too (log)."""

COMMON = 0.2
"""Prior weight of the base's own shape, not rescaled."""

LEAST_PARALLEL = 0.3
"""A curve is at most 1 / 0.3 times as fast as linear speed-up allows."""


@dataclass(frozen=True, slots=True)
class RescaledCurves:
    """g curves at m sizes: log runtime up to a scale, float64[g, m]; log prior, float64[g]; their theta, float64[g]."""

    log_shape: Floats
    log_prior: Floats
    log_theta: Floats


def base_log_runtime(base_procs: Floats, base_s: Floats, procs: Floats, log_sd: float) -> Floats:
    """log T of the base on `procs`: interpolated in logs between its sizes, beyond the largest by an average of shapes.

    Below its smallest size the base scales linearly.
    """
    x = base_procs / base_procs[0]
    beyond = np.maximum(procs / base_procs[0], x[-1])
    span = int(np.ceil(np.log2(max(float(beyond.max(initial=1.0)), 2.0)) - 1e-9))
    shapes = shapes_up_to(span)
    logs = shapes.at(np.concatenate([x, beyond]))
    share, _, _ = _posterior(np.log(shapes.prior), logs, np.log(base_s), log_sd**2)
    mean = share @ logs
    ahead = mean[len(x) :] - mean[len(x) - 1]
    below = np.maximum(np.log(base_procs[0] / procs), 0.0)
    inside = np.interp(np.log(procs), np.log(base_procs), np.log(base_s))
    found: Floats = inside + ahead + below
    return found


def rescaled_curves(
    base_procs: Floats, base_s: Floats, procs: Floats, n_target: int, log_rho: float, log_sd: float
) -> RescaledCurves:
    """The curves at `procs`; the target ran on the first `n_target` of these. rho is target over base."""
    x = procs / base_procs[0]
    rest = np.exp(base_log_runtime(base_procs, base_s, procs, log_sd) - np.log(base_s[0])) - 1 / x
    log_theta = np.linspace(LEAST_LOG_THETA, MOST_LOG_THETA, N_THETA)
    log_prior = -0.5 * ((log_theta - (POWER - 1) * log_rho) / np.hypot(POWER_SD * log_rho, LEAST_THETA_SD)) ** 2
    falls = np.array(FALLS)
    beyond = np.maximum(x / x[:n_target].max(), 1.0)
    overhead = np.exp(log_theta)[None, :, None] * rest * beyond ** -falls[:, None, None]
    curves = np.log(np.maximum(1 / x + overhead, LEAST_PARALLEL / x)).reshape(-1, len(x))
    prior = (-0.5 * ((falls - FALL) / FALL_SD) ** 2)[:, None] + log_prior
    flat = prior.ravel() - np.logaddexp.reduce(prior.ravel()) + np.log(1 - COMMON)
    common = np.log(1 / x + rest)[None, :]
    return RescaledCurves(
        np.vstack([common, curves]), np.append(np.log(COMMON), flat), np.append(0.0, np.tile(log_theta, len(falls)))
    )


FREEDOM = 3
"""Prior degrees of freedom of the given noise (the prototype's nu0)."""


def _posterior(
    log_prior: Floats, log_shape: Floats, log_t: Floats, variance: Floats | float
) -> tuple[Floats, Floats, Floats]:
    """Per curve its weight, its log scale, and the log standard deviation of one more runtime.

    Scale and noise are unknown; log_t has the first sizes of log_shape.
    """
    errors = log_t - log_shape[:, : len(log_t)]
    scale, free = errors.mean(axis=1), len(log_t) - 1
    squares = ((errors - scale[:, None]) ** 2).sum(axis=1)
    logs = log_prior - 0.5 * (FREEDOM + free) * np.log1p(squares / (FREEDOM * variance)) - 0.5 * free * np.log(variance)
    spread = np.sqrt((FREEDOM * variance + squares) / (FREEDOM + free) * (1 + 1 / len(log_t)))
    return np.exp(logs - np.logaddexp.reduce(logs)), scale, spread


N_BINS = 128
"""Terms of a mixture that end close together count as one."""

CLOSE = 1e-5
"""How far a quantile may be off (log s)."""


def quantiles(share: Floats, where: Floats, spread: Floats, freedom: int, asked: Floats) -> Floats:
    """Quantiles of mixtures of Student-t, whose terms share their degrees of freedom, float64[len(asked), columns].

    A mixture per column of `where`, a term per row, with its share and spread. Quantiles are found by bisection.
    """
    weight, mean, sd = _gathered(share, where, spread)
    is_used = weight > 0
    far = 60.0 * sd.max(axis=0, initial=0.0, where=is_used)
    low = mean.min(axis=0, initial=np.inf, where=is_used) - far
    highest = mean.max(axis=0, initial=-np.inf, where=is_used) + far
    found = np.empty((len(asked), where.shape[1]))
    for k, wanted in enumerate(asked):
        high = highest
        while (is_wide := high - low > CLOSE).any():
            middle = 0.5 * (low + high)
            is_below = (weight * stdtr(freedom, (middle - mean) / sd)).sum(axis=0) < wanted
            low, high = np.where(is_wide & is_below, middle, low), np.where(is_wide & ~is_below, middle, high)
        found[k] = 0.5 * (low + high)
        low = found[k] - CLOSE
    return found


def _gathered(share: Floats, where: Floats, spread: Floats) -> tuple[Floats, Floats, Floats]:
    """Weights, means and spreads, float64[N_BINS, columns], in equal steps of `where`; 0, 0 and 1 where empty."""
    n_columns = where.shape[1]
    step = np.maximum((where.max(axis=0) - where.min(axis=0)) / N_BINS, 1e-14)
    place = np.minimum(((where - where.min(axis=0)) / step).astype(np.int64), N_BINS - 1)
    places = (place * n_columns + np.arange(n_columns)).ravel()
    w = np.broadcast_to(share[:, None], where.shape)
    terms = (w, w * where, w * spread[:, None])
    sums = [np.bincount(places, one.ravel(), N_BINS * n_columns).reshape(N_BINS, n_columns) for one in terms]
    used = np.where(sums[0] > 0, sums[0], 1.0)
    return sums[0] / sums[0].sum(axis=0), sums[1] / used, np.where(sums[0] > 0, sums[2] / used, 1.0)


MIN_BASE_POINTS, MIN_TARGET_POINTS = 4, 2


@dataclass(frozen=True, slots=True)
class SizePair:
    """Runtimes (s) of one application at two problem sizes, by processors, rising."""

    base_procs: Floats
    base_s: Floats
    target_procs: Floats
    target_s: Floats


@dataclass(frozen=True, slots=True)
class Across:
    """Predictions of the target on the requested counts, and how the two problem sizes are related.

    `same` is the posterior probability that the two are one application whose shape may change. `power` is the mean of
    b: overhead grows as this power of the serial time. `ratio` is the target's runtime over the base's at their
    smallest common count. `ratio_s` is the base's runtime times this ratio. `own_s` is the model average of the
    target's own points. All are NaN where there are too few points.
    """

    runtime_s: Floats
    lo80_s: Floats
    hi80_s: Floats
    lo95_s: Floats
    hi95_s: Floats
    ratio_s: Floats
    own_s: Floats
    same: float
    power: float
    ratio: float

    def status(self, rules: AcrossRules) -> str:
        """same_shape, shape_moves (a constant ratio misleads), larger_base, two_applications or too_few_points.

        With larger_base and two_applications the target's own prediction is published; it borrows nothing.
        """
        if np.isnan(self.same):
            return "too_few_points"
        if self.same < rules.apart:
            return "two_applications"
        if not borrows(self.ratio, self.same, rules):
            return "larger_base"
        off = np.abs(np.log(self.ratio_s / self.runtime_s))
        return "shape_moves" if np.median(off) > rules.ratio_log_error else "same_shape"


def across(pairs: Sequence[SizePair], procs: Sequence[Floats], rules: AcrossRules) -> list[Across]:
    """One prediction a pair, each at its own sizes."""
    return [_one(pair, at, rules) for pair, at in zip(pairs, procs, strict=True)]


def ratio_at_common(pair: SizePair, log_sd: float) -> float:
    """Target over base at the smallest count both ran on; at the target's smallest where they share none."""
    common = np.intersect1d(pair.base_procs, pair.target_procs)
    at = common[:1] if len(common) else pair.target_procs[:1]
    base = base_log_runtime(pair.base_procs, pair.base_s, at, log_sd)
    return float(pair.target_s[pair.target_procs == at][0] / np.exp(base[0]))


def _one(pair: SizePair, procs: Floats, rules: AcrossRules) -> Across:
    if len(pair.base_procs) < MIN_BASE_POINTS or len(pair.target_procs) < MIN_TARGET_POINTS:
        nothing = np.full(len(procs), np.nan)
        return Across(nothing, nothing, nothing, nothing, nothing, nothing, nothing, np.nan, np.nan, np.nan)
    log_sd = rules.run_log_sd
    log_t, n_target = np.log(pair.target_s), len(pair.target_procs)
    everywhere = np.concatenate([pair.target_procs, procs])
    ratio = ratio_at_common(pair, log_sd)
    rescaled = rescaled_curves(pair.base_procs, pair.base_s, everywhere, n_target, float(np.log(ratio)), log_sd)
    x = everywhere / everywhere.min()
    shapes = shapes_up_to(int(np.ceil(np.log2(max(x.max(), 2.0)) - 1e-9)))
    curves = np.concatenate([shapes.at(x), rescaled.log_shape])
    is_rescaled = np.arange(len(curves)) >= len(shapes.prior)
    variance = log_sd**2 + np.where(is_rescaled, rules.size_log_sd**2, 0.0)
    prior = np.concatenate(
        [np.log(shapes.prior) + np.log(1 - rules.same_prior), rescaled.log_prior + np.log(rules.same_prior)]
    )
    share, scale, spread = _posterior(prior, curves, log_t, variance)
    same = float(share[is_rescaled].sum())
    where = curves[:, n_target:] + scale[:, None]
    kept = share > share.max() * 1e-5
    ends = quantiles(share[kept], where[kept], spread[kept], FREEDOM + n_target - 1, QUANTILES)
    base = np.exp(base_log_runtime(pair.base_procs, pair.base_s, procs, log_sd))
    theta = float(share[is_rescaled] @ rescaled.log_theta) / same if same else np.nan
    power = 1 + theta / np.log(ratio) if abs(np.log(ratio)) > 0.1 else np.nan
    own_s, centre = own_runtime(pair.target_procs, pair.target_s, procs), ends[2]
    published = np.log(own_s)
    if borrows(ratio, same, rules):
        # A mixture of all shapes holds far more than its share where the curve borrowed is right.
        ends = centre + (1 - rules.agreement * same) * (ends - centre)
        shaped = _base_shaped(pair, procs, log_sd)
        published = guarded(centre, published, shaped, pair.target_s[-1], rules)
    lo95_s, lo80_s, runtime_s, hi80_s, hi95_s = np.exp(ends + (published - centre))
    return Across(runtime_s, lo80_s, hi80_s, lo95_s, hi95_s, base * ratio, own_s, same, power, ratio)


def _base_shaped(pair: SizePair, procs: Floats, log_sd: float) -> Floats:
    """Log runtimes that the base's shape gives from the target's largest size on."""
    log_s = base_log_runtime(pair.base_procs, pair.base_s, np.append(procs, pair.target_procs[-1]), log_sd)
    shaped: Floats = log_s[:-1] - log_s[-1] + np.log(pair.target_s[-1])
    return shaped


Series = dict[str, tuple[Floats, Floats]]


def predict_across(
    groups: pa.Table, observations: pa.Table, rules: AcrossRules, at: Sequence[int] = ()
) -> tuple[pa.Table, Report]:
    """ACROSS: predictions of groups with a known problem size that ran on fewer counts than their base.

    A group's base is the problem size of the same application that ran on most counts, at least four; of equals the one
    with most jobs. The rows are the counts of either group and the counts `at`. Sizes that OBSERVATIONS leaves out of
    the fit are left out here. The Report counts groups with a problem size.

    Parameters
    ----------
    groups : pa.Table
        GROUPS.
    observations : pa.Table
        OBSERVATIONS of these groups.
    rules : AcrossRules
        Settings of the joint fit.
    at : sequence of int
        More processor counts to predict.

    Returns
    -------
    table : pa.Table
        ACROSS; runtimes and interval ends in s.
    report : Report
        Groups with a problem size, with and without a base.

    Examples
    --------
    >>> table, report = predict_across(tables["groups"], tables["levelled"], AcrossRules())
    >>> report.kept.rows + sum(tally.rows for tally in report.set_aside.values()) == report.seen.rows
    True
    """
    series = _series(observations)
    named = groups.filter(pc.is_valid(groups.column("problem_size"))).to_pylist()
    others = [name for name in TEMPLATE_COLUMNS if name != "problem_size"]

    def application(row: dict[str, Any]) -> str:
        return repr([row["site"], row["template"], *(row[name] for name in (*others, "gpu_type", "axis"))])

    pairs = [
        pair
        for _, own in groupby(sorted(named, key=lambda row: (application(row), row["group_id"])), application)
        for pair in _pairs(list(own), series)
    ]
    given = [SizePair(*series[base], *series[target]) for base, target in pairs]
    asked = np.array(at, np.float64)
    procs = [np.union1d(np.union1d(pair.base_procs, pair.target_procs), asked) for pair in given]
    found = across(given, procs, rules)
    whole, done = Tally(len(named)), Tally(len(pairs))
    aside = {"no_base": Tally(len(named) - len(pairs))} if len(named) > len(pairs) else {}
    statuses = [one.status(rules) for one in found]
    facts = _facts(statuses)
    return _table(pairs, procs, found, statuses), Report("across", "group", whole, done, aside, facts).check()


def _series(observations: pa.Table) -> Series:
    own = fitted_points(observations)
    ids, offsets, rows = series_of(own)
    columns = (np.split(floats(own, name)[rows], offsets[1:-1]) for name in ("procs", "runtime_s_median"))
    return dict(zip(ids, zip(*columns, strict=True), strict=True)) if ids else {}


def _pairs(rows: list[dict[str, Any]], series: Series) -> list[tuple[str, str]]:
    """Base and target ids, of the groups of one application."""
    counts = {row["group_id"]: len(series[row["group_id"]][0]) for row in rows if row["group_id"] in series}
    bases = [row for row in rows if counts.get(row["group_id"], 0) >= MIN_BASE_POINTS]
    if not bases:
        return []
    base = max(bases, key=lambda row: (counts[row["group_id"]], row["n_jobs"], row["group_id"]))["group_id"]
    return [(base, name) for name, count in counts.items() if MIN_TARGET_POINTS <= count < counts[base]]


def _facts(statuses: list[str]) -> dict[str, int]:
    return {f"groups_{status}": statuses.count(status) for status in sorted(set(statuses))}


def _table(pairs: list[tuple[str, str]], procs: list[Floats], found: list[Across], statuses: list[str]) -> pa.Table:
    sizes = [len(one) for one in procs]

    def each(values: list[Any]) -> Any:
        return np.repeat(np.array(values, object), sizes)

    def joined(name: str) -> Floats:
        return np.concatenate([getattr(one, name) for one in found]) if found else np.empty(0)

    names = {"runtime_s": "runtime_s", "runtime_s_lo80": "lo80_s", "runtime_s_hi80": "hi80_s"}
    names |= {"runtime_s_lo95": "lo95_s", "runtime_s_hi95": "hi95_s", "ratio_s": "ratio_s", "own_s": "own_s"}
    table = ACROSS.build(
        group_id=each([target for _, target in pairs]),
        base_group_id=each([base for base, _ in pairs]),
        procs=np.concatenate(procs).astype(np.int64) if procs else np.empty(0, np.int64),
        status=each(statuses),
        same_application=each([one.same for one in found]).astype(np.float64),
        overhead_power=each([one.power for one in found]).astype(np.float64),
        **{column: joined(name) for column, name in names.items()},
    )
    order = np.lexsort((floats(table, "procs"), category_codes(table, "group_id")[0]))
    return ACROSS.check(table.take(pa.array(order)))


MIN_POINTS = 3
SAME_SHARE = 0.02
"""Log difference up to which two values of work per processor are equal."""


@dataclass(frozen=True, slots=True)
class WeakScaling:
    """A weak series by rising procs: runtimes (s), weak efficiency T(1)/T(x) and scaled speed-up, both relative to the
    smallest count; Gustafson's serial fraction (0 to 1), and the largest relative miss of his law."""

    procs: Floats
    runtime_s: Floats
    efficiency: Floats
    scaled_speedup: Floats
    serial_fraction: float
    worst_miss: float

    def runtime_at(self, procs: Floats) -> Floats:
        """Runtimes (s) by Gustafson's law for a problem that grows with the processors; NaN below the smallest count.

        Beyond the largest count the law is scaled to the runtime measured there, because growing overhead makes the law
        too low.
        """
        counts = np.asarray(procs, np.float64)
        missed = self.runtime_s[-1] / self._law_s(self.procs[-1:])[0]
        runtime_s = self._law_s(counts) * np.where(counts > self.procs[-1], missed, 1.0)
        return np.where(counts >= self.procs[0], runtime_s, np.nan)

    def _law_s(self, procs: Floats) -> Floats:
        x = procs / self.procs[0]
        law_s: Floats = self.runtime_s[0] * x / (x - self.serial_fraction * (x - 1))
        return law_s


def weak_scaling(problem_size: Floats, procs: Floats, runtime_s: Floats) -> WeakScaling | None:
    """The longest series whose problem size is proportional to its processors; None where none has three counts.

    Of equally long ones, that of least work per processor. Sizes that are not positive numbers are left out.

    Parameters
    ----------
    problem_size : Floats
        float64[n], problem sizes in any unit.
    procs : Floats
        float64[n], processors.
    runtime_s : Floats
        float64[n], runtimes, s.

    Returns
    -------
    WeakScaling or None
        The series by ascending processors, and Gustafson's serial fraction.

    References
    ----------
    Gustafson (1988), Reevaluating Amdahl's law.

    Examples
    --------
    >>> n = np.array([1.0, 2.0, 4.0])
    >>> series = weak_scaling(1000 * n, n, n / (n - 0.1 * (n - 1)))
    >>> round(series.serial_fraction, 3)
    0.1
    """
    usable = np.flatnonzero((problem_size > 0) & (runtime_s > 0))
    if len(usable) < MIN_POINTS:
        return None
    share = np.log(problem_size[usable] / procs[usable])
    order = np.argsort(share, kind="stable")
    starts = np.flatnonzero(np.diff(share[order], prepend=-np.inf) > SAME_SHARE)
    chosen = max(np.split(order, starts[1:]), key=lambda rows: len(np.unique(procs[usable[rows]])))
    rows = usable[chosen]
    counts, first = np.unique(procs[rows], return_index=True)
    if len(counts) < MIN_POINTS:
        return None
    return _series_of_sizes(counts, runtime_s[rows][first])


def _series_of_sizes(procs: Floats, runtime_s: Floats) -> WeakScaling:
    x, efficiency = procs / procs[0], runtime_s[0] / runtime_s
    lost = x - x * efficiency
    serial = float(np.clip(lost @ (x - 1) / ((x - 1) @ (x - 1)), 0.0, 1.0))
    law_s = runtime_s[0] * x / (x - serial * (x - 1))
    return WeakScaling(procs, runtime_s, efficiency, x * efficiency, serial, float(np.abs(law_s / runtime_s - 1).max()))
