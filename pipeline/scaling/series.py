"""The series of OBSERVATIONS: sizes by group and rising count, how runs of one size scatter, what each size is worth.

Counts are of processors, nodes or GPUs. Each axis is computed by itself: GPUs say nothing of processors, and the
machine's size is in processors.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from scipy.special import ndtri

from pipeline.arrays import Array, Bools, Floats, Ints, category_codes, floats
from pipeline.laws import FitStatus
from pipeline.schema import Axis, axis_of


@dataclass(frozen=True, slots=True)
class PredictRules:
    """On which processor counts runtimes are predicted, and what makes a prediction doubtful."""

    # Predict up to this many times the largest observed size, and down to the smallest over it.
    reach: float = 4.0
    # Other counts that every group of several sizes is predicted on.
    counts: tuple[int, ...] = ()
    # Error assumed for a group whose jobs do not determine it (log s).
    default_log_sd: float = 0.4
    # Lower bound of the spread of a single run (log s).
    measured_log_sd: float = 0.02
    # Spread of repeats where too few groups of the log have repeats (log s; 0.02 is 2%).
    run_log_sd: float = 0.02
    # Largest spread of repeats; a wider group has no common runtime (log s).
    wide_log_sd: float = 0.7
    # Least distance of a law from the runs of a size that it is said to miss (log s).
    high_log_error: float = 0.25
    # Largest relative error of a law at a size of its fit (ADEPT has 10%); above, the fit counts as doubtful.
    high_error: float = 0.1


class SeriesBatch(NamedTuple):
    """k series one after another in three columns: series i is the slice offsets[i]:offsets[i + 1] of each.

    procs rise strictly within a series and are at least 1; runtime_s (seconds) and weights are positive. A series
    that breaks this is fitted to status bad_values. A weight is relative in a fit; in the model average it is one over
    the variance by which log runtime may lie off the curve.
    """

    offsets: Ints
    procs: Floats
    runtime_s: Floats
    weights: Floats

    @property
    def n_series(self) -> int:
        """How many series the batch holds."""
        return self.offsets.size - 1

    @property
    def n_points(self) -> Ints:
        """Distinct sizes per series, int64[k]."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> Ints:
        """The series of each size."""
        return np.repeat(np.arange(self.n_series), self.n_points)

    def sizes_of(self, series: Ints) -> Ints:
        """The rows of some of the series, end to end."""
        n_points = self.n_points[series]
        ends = np.cumsum(n_points)
        return np.arange(n_points.sum()) + np.repeat(self.offsets[series] + n_points - ends, n_points)

    def ends(self, values: Floats) -> Floats:
        """Of values per size those of the first and of the last size of each series; NaN where it has none."""
        rows = np.array([self.offsets[:-1], self.offsets[1:] - 1])
        return np.asarray(np.append(values, np.nan)[np.where(self.n_points > 0, rows, -1)])

    def log2_from_least(self, series: Ints, procs: Floats) -> Floats:
        """Doublings of procs over the smallest size of their series; NaN where it has none."""
        return np.asarray(np.log2(procs / self.ends(self.procs)[0, series]))

    def take(self, series: Ints) -> "SeriesBatch":
        """Some of the series, repeated as asked."""
        rows = self.sizes_of(series)
        offsets = np.append(0, np.cumsum(self.n_points[series]))
        return SeriesBatch(offsets, self.procs[rows], self.runtime_s[rows], self.weights[rows])

    def total(self, values: Floats) -> Floats:
        """The sum of values per size over each series, along the last axis; NaN for none."""
        is_some = self.n_points > 0
        sums = np.full((*values.shape[:-1], self.n_series), np.nan)
        sums[..., is_some] = np.add.reduceat(values, self.offsets[:-1][is_some], axis=-1)
        return sums

    def refusals(self, n_parameters: int) -> Array:
        """The status that keeps each series from being fitted; ok where nothing does."""
        columns = (self.procs, self.runtime_s, self.weights)
        before = np.append(0.0, self.procs)[:-1]
        before[self.offsets[:-1][self.n_points > 0]] = 0.0
        is_good = (self.procs >= 1.0) & (self.procs > before)
        is_good &= np.all([(one > 0.0) & (one < np.inf) for one in columns], axis=0)
        status = np.where(self.n_points < n_parameters, FitStatus.TOO_FEW_POINTS, FitStatus.OK).astype(STATUS)
        status[self.owner[~is_good]] = FitStatus.BAD_VALUES
        return status


STATUS = np.dtype(f"U{max(map(len, FitStatus))}")


@dataclass(frozen=True, slots=True)
class ObservedSizes:
    """The sizes of OBSERVATIONS that have a median, by group and rising procs; `ids` are its groups, a series each.

    `row` is each one's row in the table read, `table` has these rows. `batch` weighs a size by its fit_weight, 1 where
    it has none. `n_runs` are its jobs whose runtime is no lower bound, and 1 at least: what it knows of its runtime.
    """

    ids: list[str]
    row: Ints
    table: pa.Table
    batch: SeriesBatch
    n_runs: Floats

    @classmethod
    def of(cls, observations: pa.Table, *, with_odd: bool = False) -> Self:
        """Those that laws are fitted to, or also those called odd with a weight of 0."""
        is_kept = floats(observations, "runtime_s_median") > 0.0
        if not with_odd:
            is_kept &= floats(observations, "fit_weight") != 0.0
        ids, offsets, order = series_of(observations)
        offsets, row = np.append(0, np.cumsum(is_kept[order]))[offsets], order[is_kept[order]]
        table = observations.take(pa.array(row))
        weights = np.nan_to_num(floats(table, "fit_weight"), nan=1.0)
        batch = SeriesBatch(offsets, floats(table, "procs"), floats(table, "runtime_s_median"), weights)
        return cls(ids, row, table, batch, ended_jobs(table))


def series_of(table: pa.Table) -> tuple[list[str], Ints, Ints]:
    """Group ids in order; series i is rows[offsets[i]:offsets[i + 1]] of a table of groups, by rising procs."""
    codes, ids = category_codes(table, "group_id")
    rows = np.lexsort((floats(table, "procs"), codes))
    return ids, np.searchsorted(codes[rows], np.arange(len(ids) + 1)).astype(np.int64), rows


def ended_jobs(observed: pa.Table) -> Floats:
    """Jobs per size whose runtime is no lower bound, and 1 at least."""
    return np.maximum(floats(observed, "n_jobs") - np.nan_to_num(floats(observed, "n_censored")), 1.0)


MIN_CORE_JOBS = 5
"""Below it the 10% and 90% quantiles are the extremes themselves."""

_Q90, _Q975 = float(ndtri(0.9)), float(ndtri(0.975))


def repeat_spread(observed: ObservedSizes) -> dict[str, Floats]:
    """Per series, in log seconds: core_log_sd, repeat_log_lo95 and repeat_log_hi95; NaN without repeats.

    The core is the normal standard deviation with the repeats' 10% and 90% quantiles, pooled over sizes by jobs: a
    failed start or a hang among them moves it little. A size with too few jobs counts by its standard deviation. The
    other two hold the odd runs: the group's own quantiles, or 1.96 standard deviations where it has too few repeats.
    """
    table, n_runs, log_sd = observed.table, observed.n_runs, floats(observed.table, "log_sd")
    low, middle, high = (np.log(floats(table, f"runtime_s_{name}")) for name in ("q10", "median", "q90"))
    # Where lower bounds leave the upper end open, the lower half stands for both.
    core = np.where(np.isnan(high), middle - low, (high - low) / 2) / _Q90
    freedom = extra_runs(n_runs, log_sd)
    spread = {"core_log_sd": pooled(observed.batch, freedom, np.where(n_runs >= MIN_CORE_JOBS, core, log_sd))}
    normal = _Q975 * pooled(observed.batch, freedom, log_sd)
    for name in ("repeat_log_lo95", "repeat_log_hi95"):
        of_group = observed.batch.ends(floats(table, name))[0]
        spread[name] = np.where(np.isnan(of_group), normal, of_group)
    return spread


def pooled(batch: SeriesBatch, freedom: Floats, per_size: Floats) -> Floats:
    """Per series, the root mean square of a spread over its sizes, weighted by degrees of freedom; NaN for none."""
    squares, total = batch.total(freedom * np.nan_to_num(per_size) ** 2), batch.total(freedom)
    return np.sqrt(squares / np.where(total > 0, total, np.nan))


def extra_runs(n_runs: Floats, log_sd: Floats) -> Floats:
    """Degrees of freedom of each size's spread of repeats; 0 where it has none."""
    return np.where(np.isnan(log_sd), 0.0, n_runs - 1)


def precision_weights(batch: SeriesBatch, n_runs: Floats, core_log_sd: Floats, noise_floor: float) -> Floats:
    """Weight per size, 1/(floor^2 + pooled variance/jobs), scaled to average 1 within its series.

    Relative errors are log errors to first order, so this is the weight of a weighted least-squares fit of relative
    errors; the floor keeps a size with a thousand jobs from silencing all others.
    """
    raw = 1.0 / (noise_floor**2 + np.nan_to_num(core_log_sd)[batch.owner] ** 2 / n_runs)
    return raw * (batch.n_points / batch.total(raw))[batch.owner]


PRIOR_REPEATS = 3.0
"""Repeats that the log-wide noise counts as beside a group's own (the prototype's nu0)."""

MIN_GROUPS = 5
"""Groups with repeats a log must have to tell its noise."""

SCALE_OF_MEDIAN = 0.789
"""Scale over median of a scaled inverse chi-square with PRIOR_REPEATS degrees of freedom (chi-square median / 3)."""

MEDIAN_VARIANCE = np.pi / 2
"""Variance of a median over that of a mean, for normal errors and many of them."""


def run_log_sd(batch: SeriesBatch, n_runs: Floats, core_log_sd: Floats, rules: PredictRules) -> Floats:
    """Per series, log sd of a single run: its own repeats' variance averaged with the log's, by degrees of freedom.

    The log's is that of the median group with repeats. Where too few have any it is the rules'; and neither one size
    without repeats nor any other group of such a log shows the spread of runs.
    """
    freedom = np.where(np.isnan(core_log_sd), 0.0, batch.total(n_runs - 1.0))
    has_repeats = (freedom >= PRIOR_REPEATS) & (core_log_sd > 0)
    log_wide, is_unknown = rules.run_log_sd, (freedom == 0) & (batch.n_points == 1)
    if has_repeats.sum() >= MIN_GROUPS:
        log_wide, is_unknown = float(np.median(core_log_sd[has_repeats]) * np.sqrt(SCALE_OF_MEDIAN)), False
    own = freedom * np.nan_to_num(core_log_sd) ** 2
    found = np.sqrt((PRIOR_REPEATS * log_wide**2 + own) / (PRIOR_REPEATS + freedom))
    return np.where(is_unknown, rules.default_log_sd, found)


def median_variance(run_sd: Floats, n_runs: Floats, floor_log_sd: float) -> Floats:
    """Variance (log s squared) of the median of a size's runs; the floor is what no number of repeats averages out."""
    per_run = np.where(n_runs > 2, MEDIAN_VARIANCE, 1.0) / np.maximum(n_runs, 1.0)
    return per_run * run_sd**2 + floor_log_sd**2


CLASSES: dict[str, Callable[[Floats], Bools]] = {
    "powers_of_two": lambda procs: np.log2(procs) % 1 == 0,
    "squares": lambda procs: np.rint(np.sqrt(procs)) ** 2 == procs,
}
"""Whether each count belongs to a class."""

REACH = 2
"""Recommended counts and next runs are at most this many times the largest observed count: costs grow with it."""

CLASS_REACH = 4
"""The same limit of a next run where the code's class of counts has none so near, as with powers of four."""

DENSE = 64
"""Counts per doubling where one nearest to some count is wanted: below 92 they are all counts."""


def counts_between(low: float, high: float, per_doubling: int) -> Floats:
    """Whole counts from `low` to `high`, so many in each doubling, evenly spaced in their logarithm.

    Every power of two is one of them, whatever the ends. Ends that are wanted are added by the caller.
    """
    first, last = (np.log2(max(end, 1.0)) * per_doubling for end in (low, high))
    found = np.unique(np.round(2.0 ** (np.arange(np.floor(first), np.ceil(last) + 1) / per_doubling)))
    return found[(found >= low) & (found <= high)]


def favoured_class(patterns: Iterable[Mapping[str, Any]]) -> str | None:
    """The class of counts that a group was found to run faster on, from its rows of PATTERNS."""
    return next((row["pattern"] for row in patterns if row["status"] == "found" and row["pattern"] in CLASSES), None)


MIN_IN_CLASS = 4
"""Least number of counts in a class to suggest it: fewer may lie in a class by chance."""

SHARE_IN_CLASS = 0.75
"""Least share of a series' counts in a class for suggestions to keep to it."""


def classes_of(sizes: Floats, favoured: str | None) -> list[str]:
    """Names of the class favoured and of those that three quarters of the counts, four at least, belong to."""
    enough = max(MIN_IN_CLASS, SHARE_IN_CLASS * len(sizes))
    return [name for name, is_in in CLASSES.items() if name == favoured or is_in(sizes).sum() >= enough]


def runnable(counts: Floats, sizes: Floats, procs_per_node: int | None, favoured: str | None) -> Floats:
    """The `counts` in the favoured class and in every class of the observed counts; above one node only whole nodes.

    A count within one node may be any of the class. Where no count above
    one node is a whole number of nodes, the class takes precedence: the code may not run outside it.
    """
    kept, classes = counts, classes_of(sizes, favoured)
    for name in classes:
        kept = kept[CLASSES[name](kept)]
    if procs_per_node is None:
        return kept
    within, above = kept[kept <= procs_per_node], kept[kept > procs_per_node]
    whole = above[above % procs_per_node == 0]
    return np.concatenate([within, above if classes and not len(whole) else whole])


def runnable_between(
    low: float, high: float, per_doubling: int, sizes: Floats, procs_per_node: int | None, favoured: str | None
) -> Floats:
    """Runnable counts from `low` to `high`: those of the generator, and the squares and whole nodes nearest to them."""
    if high < max(low, 1.0):
        return np.empty(0)
    near, node = counts_between(low / 2, high * 2, per_doubling), procs_per_node or 1
    found = np.unique(np.concatenate([near, np.rint(np.sqrt(near)) ** 2, np.maximum(near // node, 1) * node]))
    return runnable(found[(found >= low) & (found <= high)], sizes, procs_per_node, favoured)


def next_count(sizes: Floats, max_procs: int | None, procs_per_node: int | None, favoured: str | None) -> int:
    """The count to run on next: that nearest to twice the largest, else to half the smallest; 0 where neither can run.

    `sizes` are the counts that ran.
    """
    machine = max_procs or np.inf
    for low, high, wanted in (
        (sizes[-1] + 1, min(REACH * sizes[-1], machine), REACH * sizes[-1]),
        (sizes[-1] + 1, min(CLASS_REACH * sizes[-1], machine), sizes[-1]),
        (1.0, sizes[0] - 1, sizes[0] / 2),
    ):
        counts = runnable_between(low, high, DENSE, sizes, procs_per_node, favoured)
        if len(counts):
            return int(counts[np.abs(np.log(counts / wanted)).argmin()])
    return 0


def axes_of_groups(observations: pa.Table, ids: Sequence[str]) -> list[Axis]:
    """The axis of each of these groups of OBSERVATIONS."""
    of_group = dict(zip(*(observations.column(name).to_pylist() for name in ("group_id", "axis")), strict=True))
    return [axis_of(of_group[group]) for group in ids]
