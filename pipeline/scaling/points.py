"""The series of a table as the screens and the fits read them: how repeats scatter, and what each size is worth.

Counts are of processors, nodes or GPUs. Each axis is computed by itself: GPUs say nothing of processors, and the
machine's size is in processors.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtri

from pipeline.arrays import Floats, Ints, category_codes, floats
from pipeline.axes import Axis, axis_of
from pipeline.report import Report, joined_report
from pipeline.scaling.rules import ScreenRules
from pipeline.schema import TableKind
from pipeline.settings import SiteSettings


def series_of(observations: pa.Table) -> tuple[list[str], Ints, Ints]:
    """Group ids in order; series i is rows[offsets[i]:offsets[i + 1]] of OBSERVATIONS, by rising procs."""
    codes, ids = category_codes(observations, "group_id")
    rows = np.lexsort((floats(observations, "procs"), codes))
    return ids, np.searchsorted(codes[rows], np.arange(len(ids) + 1)).astype(np.int64), rows


def fitted_points(observations: pa.Table) -> pa.Table:
    """The sizes that laws are fitted to: those with a median, and not called odd with a weight of 0."""
    is_kept = pc.fill_null(pc.not_equal(observations.column("fit_weight"), 0.0), True)
    return observations.filter(pc.and_(pc.is_valid(observations.column("runtime_s_median")), is_kept))


MIN_CORE_JOBS = 5
"""Below it the 10% and 90% quantiles are the extremes themselves."""

_Q90, _Q975 = float(ndtri(0.9)), float(ndtri(0.975))


def repeat_spread(offsets: Ints, observed: pa.Table) -> dict[str, Floats]:
    """Per series, in log seconds: core_log_sd, repeat_log_lo95 and repeat_log_hi95; NaN without repeats.

    The core is the normal standard deviation with the repeats' 10% and 90% quantiles, pooled over sizes by jobs: a
    failed start or a hang among them moves it little. A size with too few jobs counts by its standard deviation. The
    other two hold the odd runs: the group's own quantiles, or 1.96 standard deviations where it has too few repeats.
    """
    n_jobs, log_sd = ended_jobs(observed), floats(observed, "log_sd")
    freedom = extra_runs(n_jobs, log_sd)
    low, middle, high = (np.log(floats(observed, f"runtime_s_{name}")) for name in ("q10", "median", "q90"))
    # Where lower bounds leave the upper end open, the lower half stands for both.
    core = np.where(np.isnan(high), middle - low, (high - low) / 2) / _Q90
    normal = _Q975 * pooled(offsets, freedom, log_sd)
    first = offsets[:-1]

    def tail(name: str) -> Floats:
        measured = floats(observed, name)[first]
        return np.where(np.isnan(measured), normal, measured)

    return {
        "core_log_sd": pooled(offsets, freedom, np.where(n_jobs >= MIN_CORE_JOBS, core, log_sd)),
        "repeat_log_lo95": tail("repeat_log_lo95"),
        "repeat_log_hi95": tail("repeat_log_hi95"),
    }


def ended_jobs(observed: pa.Table) -> Floats:
    """Jobs per size whose runtime is no lower bound, and 1 at least: what a size knows of its own runtime."""
    return np.maximum(floats(observed, "n_jobs") - np.nan_to_num(floats(observed, "n_censored")), 1.0)


def extra_runs(n_runs: Floats, log_sd: Floats) -> Floats:
    """Degrees of freedom of each size's spread of repeats; 0 where it has none."""
    return np.where(np.isnan(log_sd), 0.0, n_runs - 1)


def pooled(offsets: Ints, freedom: Floats, per_size: Floats) -> Floats:
    """Per series, the root mean square of a spread over its sizes, weighted by degrees of freedom; NaN for none."""
    if len(offsets) < 2:
        return np.empty(0)
    squares = np.add.reduceat(freedom * np.nan_to_num(per_size) ** 2, offsets[:-1])
    total = np.add.reduceat(freedom, offsets[:-1])
    return np.sqrt(squares / np.where(total > 0, total, np.nan))


def precision_weights(offsets: Ints, n_jobs: Floats, core_log_sd: Floats, noise_floor: float) -> Floats:
    """Weight per size, 1/(floor^2 + pooled variance/jobs), scaled to average 1 within its series.

    Relative errors are log errors to first order, so this is the weight of a weighted least-squares fit of relative
    errors; the floor keeps a size with a thousand jobs from silencing all others.
    """
    sizes = np.diff(offsets)
    variance = np.repeat(np.nan_to_num(core_log_sd) ** 2, sizes) / n_jobs
    raw = 1.0 / (noise_floor**2 + variance)
    if not len(raw):
        return raw
    return raw * np.repeat(sizes / np.add.reduceat(raw, offsets[:-1]), sizes)


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
    """The series of an OBSERVATIONS table in order of group.

    The noise of one run is that of the series' own repeats, else the median over the log's series with repeats, else
    the default.
    """
    known = np.flatnonzero(floats(observations, "runtime_s_median") > 0)
    ids, offsets, order = series_of(observations.take(pa.array(known)))
    rows = known[order]
    observed = observations.take(pa.array(rows))
    own = repeat_spread(offsets, observed)["core_log_sd"]
    has_repeats = bool(np.isfinite(own).any())
    core = np.where(np.isnan(own), np.nanmedian(own) if has_repeats else rules.default_log_sd, own)
    freedom = FREEDOM_WITH_REPEATS if has_repeats else FREEDOM_WITHOUT
    procs, runtime_s, n_jobs = floats(observed, "procs"), floats(observed, "runtime_s_median"), ended_jobs(observed)
    series = []
    for group, first, last, sd in zip(ids, offsets[:-1], offsets[1:], core.tolist(), strict=True):
        at, variance = slice(first, last), rules.least_log_sd**2 + sd**2
        weights = variance / (rules.least_log_sd**2 + sd**2 / n_jobs[at])
        series.append(MeasuredSeries(group, rows[at], procs[at], runtime_s[at], weights, variance**0.5, freedom))
    return series


Stage = Callable[[Axis, pa.Table, pa.Table], tuple[pa.Table, Report]]
"""From an axis, and the OBSERVATIONS and FITS of its groups, to a table in order of group."""


def on_each_axis(observations: pa.Table, fits: pa.Table, stage: Stage, kind: TableKind) -> tuple[pa.Table, Report]:
    """The table of a stage in order of group, and its report."""
    axes = {axis_of(value): value for value in observations.column("axis").unique().to_pylist()}
    if len(axes) <= 1:
        return stage(next(iter(axes), Axis.PROCS), observations, fits)
    done = [stage(axis, *(_of_axis(table, axis) for table in (observations, fits))) for axis in Axis if axis in axes]
    both = pa.concat_tables([table for table, _ in done]).unify_dictionaries()
    order = np.argsort(category_codes(both, "group_id")[0], kind="stable")
    return kind.check(both.take(pa.array(order))), joined_report([report for _, report in done])


def _of_axis(table: pa.Table, axis: Axis) -> pa.Table:
    known = pc.fill_null(table.column("axis").cast(pa.string()), Axis.PROCS)
    return table.filter(pc.equal(known, axis))


def axes_of_groups(observations: pa.Table, ids: Sequence[str]) -> list[Axis]:
    """The axis of each of these groups of OBSERVATIONS."""
    axes = observations.column("axis").unique().to_pylist()
    if len(axes) <= 1:
        return [axis_of(axes[0]) if axes else Axis.PROCS] * len(ids)
    columns = (observations.column(name).to_pylist() for name in ("group_id", "axis"))
    of_group = dict(zip(*columns, strict=True))
    return [axis_of(of_group[group]) for group in ids]


def of_axis(site: SiteSettings, axis: Axis) -> SiteSettings:
    """The site with the machine's size and nodes where the axis counts processors; else neither is known."""
    return site if axis is Axis.PROCS else site.model_copy(update={"max_procs": None, "procs_per_node": None})
