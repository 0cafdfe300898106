"""Fits as numpy columns and the curves they draw; predictors by name: the average, every law alone, and ADEPT."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints, category_codes, floats
from pipeline.axes import Axis
from pipeline.laws import LAWS
from pipeline.scaling.adept import find
from pipeline.scaling.average import Averaged, Kindred, Sizes, average, kin_of
from pipeline.scaling.calibration import (
    below_smallest_size,
    has_noise,
    log_quantiles,
    log_wide_sd,
    median_variance,
    repeats,
    run_log_sd,
)
from pipeline.scaling.fit import Fits, SeriesBatch, fit_law
from pipeline.scaling.points import ended_jobs, extra_runs, fitted_points, of_axis, pooled
from pipeline.scaling.rules import AdeptRules, PredictRules
from pipeline.settings import SiteSettings
from pipeline.tables import FITS

_NUMBERS = tuple(column.name for column in FITS.columns if column.type in (pa.int64(), pa.float64()))


@dataclass(frozen=True, slots=True)
class Curves:
    """Rows of FITS: law, group and status per row, numbers by column name with NaN for null."""

    group_id: npt.NDArray[np.object_]
    law: npt.NDArray[np.object_]
    status: npt.NDArray[np.object_]
    numbers: dict[str, Floats]

    @classmethod
    def of(cls, fits: pa.Table) -> Self:
        """The rows of a FITS table."""
        words = {name: np.array(fits.column(name).to_pylist(), object) for name in ("group_id", "law", "status")}
        return cls(**words, numbers={name: floats(fits, name) for name in _NUMBERS})

    def __getitem__(self, name: str) -> Floats:
        """One column of numbers."""
        return self.numbers[name]

    def __len__(self) -> int:
        """How many rows."""
        return len(self.law)

    def take(self, rows: Ints | Bools) -> "Curves":
        """Some rows, repeated as asked."""
        numbers = {name: values[rows] for name, values in self.numbers.items()}
        return Curves(self.group_id[rows], self.law[rows], self.status[rows], numbers)

    def runtime_s(self, procs: Floats) -> Floats:
        """Runtime of each row's law at its processor count (s)."""
        return self._by_law("runtime_s", procs)

    def largest_useful_procs(self) -> Floats:
        """Size beyond which each row's law gains nothing; infinite where it never stops gaining."""
        return self._by_law("largest_useful_procs")

    def _by_law(self, name: str, *columns: Floats) -> Floats:
        result = np.full(len(self), np.nan)
        for law in set(self.law):
            rows = self.law == law
            part = {column: values[rows] for column, values in self.numbers.items()}
            result[rows] = getattr(LAWS[law], name)(part, *(column[rows] for column in columns))
        return result


def doublings_beyond(curves: Curves, procs: Floats) -> Floats:
    """How far procs lies outside the sizes observed, in doublings; 0 inside."""
    return doublings_outside(procs, curves["procs_min"], curves["procs_max"])


def doublings_outside(procs: Floats, smallest: Floats, largest: Floats) -> Floats:
    """How far procs lies outside smallest to largest, in doublings; 0 inside."""
    return np.log2(np.maximum(np.maximum(procs / largest, smallest / procs), 1.0))


@dataclass(frozen=True, slots=True)
class ObservedSeries:
    """The sizes of every group, in the groups' order, with their kin; per group the log sd of a single run."""

    sizes: Sizes
    kin: Kindred
    run_sd: Floats

    @classmethod
    def of(cls, chosen: Curves, observations: pa.Table, application: Mapping[str, str], rules: PredictRules) -> Self:
        """The groups of `chosen`; `application` names the application of a group, where it is known."""
        offsets, rows = _series(chosen, observations)
        n_runs = ended_jobs(rows)
        weights = np.nan_to_num(floats(rows, "fit_weight"), nan=1.0)
        run_sd = _run_sd(offsets, n_runs, chosen["core_log_sd"], rules)
        columns = (floats(rows, "procs"), floats(rows, "runtime_s_median"), n_runs, weights)
        return cls.build(offsets, *columns, run_sd, _codes(chosen, application), rules)

    @classmethod
    def build(
        cls, offsets: Ints, procs: Floats, runtime_s: Floats, n_runs: Floats, weights: Floats,
        run_sd: Floats, application: Ints, rules: PredictRules,
    ) -> Self:  # fmt: skip
        """From columns: per size its median runtime (s), its number of runs, and a weight (1: normal)."""
        n_series = offsets.size - 1
        series = np.repeat(np.arange(n_series), np.diff(offsets))
        variance = median_variance(run_sd[series], n_runs, rules.measured_log_sd) / weights
        sizes = Sizes(offsets, procs, runtime_s, variance, np.full(n_series, rules.drift_log_sd**2))
        return cls(sizes, kin_of(sizes, application), run_sd)

    def curve(self, group: Ints, procs: Floats) -> Averaged:
        """The curve at each group and processor count, without the scatter of a new run.

        A group of one size has its median there; on other counts it has the model average, as other groups have.
        """
        found = average(self.sizes, group, procs, self.kin)
        first = np.minimum(self.sizes.offsets[group], max(self.sizes.procs.size - 1, 0))
        is_seen = (np.diff(self.sizes.offsets) == 1)[group] & (self.sizes.procs[first] == procs)
        log_s = np.where(is_seen, np.log(self.sizes.runtime_s[first]), found.log_s)
        log_sd = np.where(is_seen, np.sqrt(self.sizes.variance[first]), found.log_sd)
        return Averaged(log_s, log_sd, np.where(is_seen, 0.0, found.split), found.log_bayes)

    def quantiles(self, group: Ints, procs: Floats, curve: Averaged, new_log_sd: Floats | float = 0.0) -> Floats:
        """Log runtimes at QUANTILES of the curve, or of something that scatters about it by `new_log_sd` (log s)."""
        sizes, log_sd = self.sizes, np.hypot(curve.log_sd, new_log_sd)
        n_sizes, ends = np.diff(sizes.offsets)[group], np.append(sizes.procs, np.nan)
        first, last = (
            ends[np.where(n_sizes > 0, place, -1)] for place in (sizes.offsets[group], sizes.offsets[group + 1] - 1)
        )
        doublings = np.nan_to_num(doublings_outside(procs, first, last))
        found = log_quantiles(curve.log_s, log_sd, n_sizes, doublings)
        return below_smallest_size(found, sizes, group, procs, self.run_sd[group])


def _series(chosen: Curves, observations: pa.Table) -> tuple[Ints, pa.Table]:
    """Offsets per group of `chosen`, and its observations with a positive weight, by rising procs."""
    kept = fitted_points(observations)
    codes, ids = category_codes(kept, "group_id")
    place = {group: row for row, group in enumerate(chosen.group_id)}
    group = np.array([place.get(name, -1) for name in ids], np.int64)[codes] if ids else np.empty(0, np.int64)
    order = np.lexsort((floats(kept, "procs"), group))
    order = order[group[order] >= 0]
    return np.searchsorted(group[order], np.arange(len(chosen) + 1)).astype(np.int64), kept.take(pa.array(order))


def _run_sd(offsets: Ints, n_runs: Floats, core_log_sd: Floats, rules: PredictRules) -> Floats:
    freedom = np.where(np.isnan(core_log_sd), 0.0, repeats(offsets, n_runs))
    run_sd = run_log_sd(freedom, core_log_sd, log_wide_sd(freedom, core_log_sd, rules.run_log_sd))
    if has_noise(freedom, core_log_sd):
        return run_sd
    # Neither one size without repeats nor any other group of this log shows the spread of runs.
    return np.where((freedom == 0) & (np.diff(offsets) == 1), rules.default_log_sd, run_sd)


def _codes(chosen: Curves, application: Mapping[str, str]) -> Ints:
    names = [application.get(group) for group in chosen.group_id]
    place = {name: code for code, name in enumerate(sorted({name for name in names if name is not None}))}
    return np.array([-1 if name is None else place[name] for name in names], np.int64)


@dataclass(frozen=True, slots=True)
class Asked:
    """What series are asked: by which rules, on which machine, in which run; the application of a group_id, PATTERNS.

    `at` are the counts that are predicted; None: those of a grid.
    """

    rules: PredictRules
    site: SiteSettings
    run_id: str
    application: Mapping[str, str] | None = None
    patterns: pa.Table | None = None
    at: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class AxisSeries:
    """The series over one axis: every fit, the chosen one of each, and what is asked, with the site of this axis."""

    axis: Axis
    observations: pa.Table
    fits: Curves
    chosen: Curves
    observed: ObservedSeries
    asked: Asked

    @classmethod
    def of(cls, axis: Axis, observations: pa.Table, fits: pa.Table, asked: Asked) -> Self:
        """The series of OBSERVATIONS and their FITS."""
        every = Curves.of(fits)
        chosen = every.take(fits.column("is_chosen").to_numpy())
        observed = ObservedSeries.of(chosen, observations, asked.application or {}, asked.rules)
        return cls(axis, observations, every, chosen, observed, replace(asked, site=of_axis(asked.site, axis)))


@dataclass(frozen=True, slots=True)
class PredictionTask:
    """k concatenated series, each sorted by distinct procs: series i is the slice offsets[i]:offsets[i + 1].

    Per series: `application`, an integer that series of one application share. Per size: `procs`, `runtime_s` (median
    of the runs), `n_runs`, and `log_sd`, the standard deviation of repeats (log s, NaN for a single run). Per target,
    in any order: `target_series` (0 to k - 1) and `target_procs`.
    """

    offsets: Ints
    application: Ints
    procs: Floats
    runtime_s: Floats
    n_runs: Floats
    log_sd: Floats
    target_series: Ints
    target_procs: Floats


Predictor = Callable[[PredictionTask], Floats]
"""Predicted runtime (s) per target, float64; NaN where the predictor has no answer."""


def _curve(law: str, asked: PredictionTask) -> Floats:
    """The law's least relative squares."""
    return _followed(law, fit_law(law, _batch(asked)), asked.target_series, asked.target_procs)


def _downey(asked: PredictionTask) -> Floats:
    """The better of Downey's two modes, series by series."""
    batch, targets = _batch(asked), (asked.target_series, asked.target_procs)
    low, high = (fit_law(law, batch) for law in ("downey_low", "downey_high"))
    is_high = (high.wssre < low.wssre)[asked.target_series]
    return np.where(is_high, _followed("downey_high", high, *targets), _followed("downey_low", low, *targets))


def _batch(asked: PredictionTask) -> SeriesBatch:
    return SeriesBatch(asked.offsets, asked.procs, asked.runtime_s, np.ones(asked.procs.size))


def _followed(law: str, fitted: Fits, series: Ints, procs: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return LAWS[law].runtime_s(fitted[series], procs)


def _average(asked: PredictionTask) -> Floats:
    """The model average of each series alone."""
    return _mean(asked, np.full(asked.offsets.size - 1, -1))


def _walltime(asked: PredictionTask) -> Floats:
    """Walltime's default: the model average, informed by the other series of the application that are asked about."""
    return _mean(asked, asked.application)


def _mean(asked: PredictionTask, application: Ints) -> Floats:
    observed = observed_series(asked, application)
    return np.exp(observed.curve(asked.target_series, asked.target_procs).log_s)


def observed_series(asked: PredictionTask, application: Ints) -> ObservedSeries:
    """The series of a task as the model average reads them; those of one `application` inform each other (-1: none)."""
    rules, freedom = PredictRules(), repeats(asked.offsets, asked.n_runs)
    spread = pooled(asked.offsets, extra_runs(asked.n_runs, asked.log_sd), asked.log_sd)
    run_sd = run_log_sd(freedom, spread, log_wide_sd(freedom, spread, rules.run_log_sd))
    columns = (asked.offsets, asked.procs, asked.runtime_s, asked.n_runs, np.ones(asked.procs.size))
    return ObservedSeries.build(*columns, run_sd, application, rules)


def _adept(asked: PredictionTask) -> Floats:
    """ADEPT: each target by its own instance, every size of the series counted alike but for its distance."""
    found = find(_batch(asked), asked.target_series, asked.target_procs, AdeptRules())
    return found.runtime_s(asked.target_procs)


PREDICTORS: dict[str, Predictor] = {
    "average": _average,
    "walltime": _walltime,
    **{law: partial(_curve, law) for law in LAWS},
    "downey": _downey,
    "adept": _adept,
}
