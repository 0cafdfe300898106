"""The series of OBSERVATIONS: sizes by group and rising count, how runs of one size scatter, what each size is worth.

Counts are of processors, nodes or GPUs. Each axis is computed by itself: GPUs say nothing of processors, and the
machine's size is in processors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtri

from pipeline.arrays import Array, Floats, Ints, category_codes, floats
from pipeline.axes import Axis, axis_of
from pipeline.laws import FitStatus
from pipeline.report import Report, joined_report
from pipeline.scaling.rules import PredictRules, ScreenRules
from pipeline.schema import TableKind
from pipeline.settings import SiteSettings


@dataclass(frozen=True, slots=True)
class SeriesBatch:
    """k series end to end: series i is the slice offsets[i]:offsets[i + 1] of the three columns.

    procs rise strictly within a series and are at least 1; runtime_s (seconds) and weights are positive. A series
    that breaks this is fitted to status bad_values; ValueError where the arrays themselves do not fit together.
    """

    offsets: Ints
    procs: Floats
    runtime_s: Floats
    weights: Floats

    def __post_init__(self) -> None:
        """Refuse arrays that do not describe k slices of equally long float64 columns."""
        columns = (self.procs, self.runtime_s, self.weights)
        if any(c.dtype != np.float64 or c.shape != self.procs.shape or c.ndim != 1 for c in columns):
            raise ValueError("found columns of other types or lengths, expected three float64 arrays of one length")
        o, size = self.offsets, self.procs.size
        if o.dtype != np.int64 or o.ndim != 1 or o.size == 0 or o[0] != 0 or o[-1] != size or (np.diff(o) < 0).any():
            raise ValueError(f"found offsets {o!r}, expected int64 rising from 0 to {size}")

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
    """The sizes of OBSERVATIONS that have a median, by group and rising procs; `ids` are the groups of the series.

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
        known = np.flatnonzero(is_kept)
        ids, offsets, order = series_of(observations.take(pa.array(known)))
        table = observations.take(pa.array(known[order]))
        weights = np.nan_to_num(floats(table, "fit_weight"), nan=1.0)
        batch = SeriesBatch(offsets, floats(table, "procs"), floats(table, "runtime_s_median"), weights)
        return cls(ids, known[order], table, batch, ended_jobs(table))


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
        of_group = floats(table, name)[observed.batch.offsets[:-1]]
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


FREEDOM_WITH_REPEATS, FREEDOM_WITHOUT = 8.0, 3.0
"""What the log's noise is worth, in runs, where repeats show it; and where there is only the default."""


class MeasuredSeries(NamedTuple):
    """The sizes of one group with a median, by rising procs; `row` is each one's row in OBSERVATIONS.

    `log_sd` is the noise of one run, known as if from `freedom` runs; a weight is its variance over that of the median.
    """

    group_id: str
    row: Ints
    procs: Floats
    runtime_s: Floats
    weights: Floats
    log_sd: float
    freedom: float

    def at(self, sizes: Ints) -> "MeasuredSeries":
        """Some of its sizes."""
        columns = {name: getattr(self, name)[sizes] for name in ("row", "procs", "runtime_s", "weights")}
        return self._replace(**columns)


def measured_series(observations: pa.Table, rules: ScreenRules) -> list[MeasuredSeries]:
    """The series of an OBSERVATIONS table in order of group, as the screens read them.

    The noise of one run is that of the series' own repeats, else the median over the log's series with repeats, else
    the default.
    """
    read = ObservedSizes.of(observations, with_odd=True)
    offsets, own = read.batch.offsets, repeat_spread(read)["core_log_sd"]
    has_repeats = bool(np.isfinite(own).any())
    core = np.where(np.isnan(own), np.nanmedian(own) if has_repeats else rules.default_log_sd, own)
    freedom = FREEDOM_WITH_REPEATS if has_repeats else FREEDOM_WITHOUT
    series = []
    for group, first, last, sd in zip(read.ids, offsets[:-1], offsets[1:], core.tolist(), strict=True):
        at, variance = slice(first, last), rules.least_log_sd**2 + sd**2
        weights = variance / (rules.least_log_sd**2 + sd**2 / read.n_runs[at])
        columns = read.row[at], read.batch.procs[at], read.batch.runtime_s[at], weights
        series.append(MeasuredSeries(group, *columns, variance**0.5, freedom))
    return series


Stage = Callable[[Axis, pa.Table, pa.Table], tuple[pa.Table, Report]]
"""From an axis, and the OBSERVATIONS and FITS of its groups, to a table in order of group."""


def on_each_axis(observations: pa.Table, fits: pa.Table, stage: Stage, kind: TableKind) -> tuple[pa.Table, Report]:
    """The table of a stage in order of group, and its report."""
    axes = {axis_of(value): value for value in observations.column("axis").unique().to_pylist()}
    if len(axes) <= 1:
        return stage(next(iter(axes), Axis.PROCS), observations, fits)

    def over(table: pa.Table, axis: Axis) -> pa.Table:
        return table.filter(pc.equal(pc.fill_null(table.column("axis").cast(pa.string()), Axis.PROCS), axis))

    done = [stage(axis, over(observations, axis), over(fits, axis)) for axis in Axis if axis in axes]
    both = pa.concat_tables([table for table, _ in done]).unify_dictionaries()
    order = np.argsort(category_codes(both, "group_id")[0], kind="stable")
    return kind.check(both.take(pa.array(order))), joined_report([report for _, report in done])


def axes_of_groups(observations: pa.Table, ids: Sequence[str]) -> list[Axis]:
    """The axis of each of these groups of OBSERVATIONS."""
    axes = observations.column("axis").unique().to_pylist()
    if len(axes) <= 1:
        return [axis_of(next(iter(axes), None))] * len(ids)
    columns = (observations.column(name).to_pylist() for name in ("group_id", "axis"))
    of_group = dict(zip(*columns, strict=True))
    return [axis_of(of_group[group]) for group in ids]


def of_axis(site: SiteSettings, axis: Axis) -> SiteSettings:
    """The site with the machine's size and nodes where the axis counts processors; else neither is known."""
    return site if axis is Axis.PROCS else site.model_copy(update={"max_procs": None, "procs_per_node": None})
