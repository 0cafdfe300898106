"""The prediction stage: OBSERVATIONS and FITS -> PREDICTIONS, by the model average over laws."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.special import stdtrit

from pipeline.arrays import Floats, Ints, floats
from pipeline.axes import Axis
from pipeline.report import Report, Tally
from pipeline.scaling.average import Averaged, n_siblings
from pipeline.scaling.calibration import QUANTILES
from pipeline.scaling.counts import counts_between
from pipeline.scaling.curves import Asked, AxisSeries, Curves, ObservedSeries, doublings_beyond
from pipeline.scaling.judgments import judged, with_width
from pipeline.scaling.points import on_each_axis, series_of
from pipeline.scaling.problem_sizes import with_across
from pipeline.scaling.rules import PredictRules
from pipeline.scaling.screens import unlevel
from pipeline.settings import SiteSettings
from pipeline.tables import PREDICTIONS

Words = npt.NDArray[np.object_]

BEYOND_LOG = 10.0
"""An interval is cut at this many times outside the runtimes of the whole log."""

PRIOR_FREEDOM = 3
"""Degrees of freedom granted before any repeat was seen (the prototype's nu0)."""

_COLUMNS = {"runtime_s_lo95": 0, "runtime_s_lo80": 1, "runtime_s_hi80": 3, "runtime_s_hi95": 4}


def intervals(found: "_Averaged") -> dict[str, Floats]:
    """Ends (s) of the central 80% and 95% intervals of one new run, by column name of PREDICTIONS.

    A group of one size has no curve to be unsure of: its median is as sure as its repeats make it, and no 95% interval
    is narrower than the group's own odd runs.
    """
    curves, middle, observed = found.curves, found.curve.log_s, found.series.observed
    run_log_sd = np.hypot(observed.run_sd[found.rows], found.series.asked.rules.measured_log_sd)
    log_s = observed.quantiles(found.rows, found.procs, found.curve, run_log_sd)
    freedom = PRIOR_FREEDOM + np.maximum(curves["n_jobs"] - curves["n_points"], 0.0)
    own_sd, is_alone = np.hypot(run_log_sd, found.curve.log_sd), curves["n_points"] == 1
    ends = {}
    for name, place in _COLUMNS.items():
        side = 1 if "_hi" in name else -1
        repeated = stdtrit(freedom, max(QUANTILES[place], 1.0 - QUANTILES[place])) * own_sd
        off = np.where(is_alone, repeated, side * (log_s[:, place] - middle))
        if "95" in name:
            off = np.fmax(off, curves[f"repeat_log_{name[-4:]}"])
        ends[name] = np.exp(middle + side * off)
    return ends


def within_log(
    ends: dict[str, Floats], runtime_s: Floats, curves: Curves, procs: Floats, observations: pa.Table
) -> dict[str, Floats]:
    """The ends cut at ten times outside the runtimes of the whole log, but never inside their own prediction.

    Where a group cannot tell its jobs' runtime to within powers of ten, the machine's other jobs still bound it. Below
    its smallest size a group may take longer, as work that one processor does alone, and beyond its largest less.
    Outside the sizes that ran a cut upper end is no bound: NaN there. A lower end is cut only from below, an upper one
    only from above: where the runtime itself exceeds the log's longest, its lower end may do so too.
    """
    if not len(runtime_s) or not observations.num_rows:
        return ends
    seen_s = [floats(observations, f"runtime_s_{name}") for name in ("q10", "median", "q90")]
    # Lower bounds may leave a size without some of them, but never a group that is predicted without a median.
    shortest_s = np.nanmin(seen_s) / BEYOND_LOG * np.minimum(curves["procs_max"] / procs, 1.0)
    longest_s = np.nanmax(seen_s) * BEYOND_LOG * np.maximum(curves["procs_min"] / procs, 1.0)
    is_outside = doublings_beyond(curves, procs) > 0
    return {
        name: np.fmin(np.fmax(values, shortest_s), runtime_s)
        if "_lo" in name
        else np.where(is_outside & (values > longest_s), np.nan, np.fmax(np.fmin(values, longest_s), runtime_s))
        for name, values in ends.items()
    }


def prediction_grid(
    chosen: Curves, sizes_by_group: dict[str, Ints], rules: PredictRules, max_procs: int, at: Sequence[int] | None
) -> tuple[Ints, Floats]:
    """Row of `chosen` and processor count for every prediction, in order of both.

    The sizes observed, the powers of two from smallest/reach to largest*reach on the machine, and the counts that the
    rules ask for; or exactly `at`. A group seen at one size is predicted there alone: one size says nothing of another.
    """
    grids = [_grid(sizes_by_group[group], rules, max_procs, at) for group in chosen.group_id]
    rows = np.repeat(np.arange(len(chosen)), [len(grid) for grid in grids])
    return rows, np.concatenate(grids).astype(np.float64) if grids else np.empty(0)


def _grid(observed: Ints, rules: PredictRules, max_procs: int, at: Sequence[int] | None) -> Ints:
    if at is not None:
        asked = np.unique(np.asarray(at, np.int64))
        return np.intersect1d(asked, observed) if len(observed) == 1 else asked
    if len(observed) == 1:
        return observed
    top = min(observed[-1] * rules.reach, max(max_procs, observed[-1]))
    powers = counts_between(observed[0] / rules.reach, top, 1).astype(np.int64)
    asked = np.array(rules.counts, np.int64)
    return np.union1d(np.union1d(observed, powers), asked)


class _Averaged(NamedTuple):
    """The model average at every count asked for: a row of the chosen fits per row of the table to be."""

    series: AxisSeries
    sizes: dict[str, Ints]
    rows: Ints
    procs: Floats
    curve: Averaged
    reliability: Words
    advice: Words

    @classmethod
    def of(cls, series: AxisSeries) -> Self:
        """The average of these series, on the counts that they are asked for."""
        asked, sizes = series.asked, _sizes_by_group(series.observations)
        max_procs = asked.site.max_procs or max((int(grid[-1]) for grid in sizes.values()), default=1)
        rows, procs = prediction_grid(series.chosen, sizes, asked.rules, max_procs, asked.at)
        curve = series.observed.curve(rows, procs)
        return cls(series, sizes, rows, procs, curve, *judged(series, rows, procs))

    @property
    def curves(self) -> Curves:
        """The chosen fit of each row."""
        return self.series.chosen.take(self.rows)

    @property
    def runtime_s(self) -> Floats:
        """Posterior medians, s."""
        return np.exp(self.curve.log_s)

    def table(self, **more: Floats | Words) -> tuple[pa.Table, Report]:
        """PREDICTIONS of the phase, or the kind of count, of each row; columns of `more` replace the average's."""
        curves, series = self.curves, self.series
        columns = {
            "group_id": curves.group_id, "axis": [series.axis] * len(self.rows), "procs": self.procs.astype(np.int64),
            "runtime_s": self.runtime_s, "is_extrapolated": doublings_beyond(curves, self.procs) > 0,
            "reliability": self.reliability, "advice": self.advice,
            "method": _methods(series.observed, series.chosen)[self.rows],
            "run_id": [series.asked.run_id] * len(self.rows),
        }  # fmt: skip
        table = PREDICTIONS.build(**(columns | more))
        table = table if series.asked.patterns is None else unlevel(table, series.asked.patterns)
        return table, _report(self.sizes, table)


def law_medians(
    observations: pa.Table,
    fits: pa.Table,
    rules: PredictRules,
    site: SiteSettings,
    run_id: str,
    application: Mapping[str, str],
    patterns: pa.Table,
    across: pa.Table,
) -> tuple[pa.Table, Report]:
    """What a run reads of the laws: `predict` without efficiencies and codes of width, which are the estimate's there.

    The estimate knows jobs by their processors: of groups over nodes or GPUs it is `predict` as a whole.

    Parameters
    ----------
    observations : pa.Table
        OBSERVATIONS: median runtimes in s by group and processors.
    fits : pa.Table
        FITS of these observations.
    rules : PredictRules
        Settings of the predictions.
    site : SiteSettings
        The machine's size and processors per node.
    run_id : str
        Id of the run, written to every row.
    application : mapping of str to str
        Application of a group_id.
    patterns : pa.Table
        PATTERNS of the observations.
    across : pa.Table
        ACROSS: groups of few sizes are answered from it, where another problem size tells more.

    Returns
    -------
    table : pa.Table
        PREDICTIONS by law alone; runtimes in s.
    report : Report
        Groups with and without predictions.

    Examples
    --------
    >>> named = groups_by_application(tables["groups"])
    >>> rest = PredictRules(), settings.site, "r1", named, tables["patterns"], tables["across"]
    >>> table, _ = law_medians(tables["levelled"], tables["fits"], *rest)
    >>> table.column("speedup").null_count < table.num_rows
    True
    """
    asked = Asked(rules, site, run_id, application, patterns)

    def stage(axis: Axis, observed: pa.Table, fitted: pa.Table) -> tuple[pa.Table, Report]:
        found = _Averaged.of(AxisSeries.of(axis, observed, fitted, asked))
        if axis is not Axis.PROCS:
            return _with_intervals(found)
        is_alone = found.curves["n_points"] == 1
        speedup = _speedup(found.series.observed, found.rows, found.runtime_s, is_alone)
        return found.table(**intervals(found), speedup=speedup)

    table, report = on_each_axis(observations, fits, stage, PREDICTIONS)
    return with_across(table, across, observations), report


def _with_intervals(found: _Averaged) -> tuple[pa.Table, Report]:
    curves, runtime_s = found.curves, found.runtime_s
    ends = within_log(intervals(found), runtime_s, curves, found.procs, found.series.observations)
    reliability, advice = with_width(ends, found.reliability, found.advice)
    speedup = _speedup(found.series.observed, found.rows, runtime_s, curves["n_points"] == 1)
    return found.table(
        **ends, speedup=speedup, efficiency=speedup / found.procs, reliability=reliability, advice=advice
    )


def predict(
    observations: pa.Table,
    fits: pa.Table,
    rules: PredictRules,
    site: SiteSettings,
    run_id: str,
    at: Sequence[int] | None = None,
    application: Mapping[str, str] | None = None,
    patterns: pa.Table | None = None,
) -> tuple[pa.Table, Report]:
    """PREDICTIONS of every group with a chosen law, in order of group and procs; on the counts `at` where given.

    Each axis is predicted by itself; counts are of processors, nodes or GPUs, as `axis` of the observations says.

    Runtimes are posterior medians of the model average (see average.py), not the chosen law's. Groups that
    `application` gives one name inform each other. The machine's size bounds the grid: the site's max_procs where
    known, else the largest size observed anywhere. Runs advised keep to counts that PATTERNS, where given, favours.

    Parameters
    ----------
    observations : pa.Table
        OBSERVATIONS: median runtimes in s by group and processors.
    fits : pa.Table
        FITS of these observations.
    rules : PredictRules
        Settings of the predictions.
    site : SiteSettings
        The machine's size and processors per node.
    run_id : str
        Id of the run, written to every row.
    at : sequence of int, optional
        Processor counts to predict; by default a grid.
    application : mapping of str to str, optional
        Application of a group_id.
    patterns : pa.Table, optional
        PATTERNS of the observations; predictions are of the phase, or the kind of count, of each row.

    Returns
    -------
    table : pa.Table
        PREDICTIONS; runtimes and interval ends in s.
    report : Report
        Groups with and without predictions.

    Examples
    --------
    >>> table, _ = predict(tables["levelled"], tables["fits"], PredictRules(), settings.site, "r1", at=[64])
    >>> set(table.column("procs").to_pylist())
    {64}
    """
    asked = Asked(rules, site, run_id, application, patterns, at)

    def stage(axis: Axis, observed: pa.Table, fitted: pa.Table) -> tuple[pa.Table, Report]:
        return _with_intervals(_Averaged.of(AxisSeries.of(axis, observed, fitted, asked)))

    return on_each_axis(observations, fits, stage, PREDICTIONS)


def groups_by_application(groups: pa.Table) -> dict[str, str]:
    """Group id to the application its template names, for groups that have one; never across sites.

    Parameters
    ----------
    groups : pa.Table
        GROUPS.

    Returns
    -------
    dict of str to str
        Site, application and type of GPUs of each group_id whose application is known.

    Examples
    --------
    >>> set(groups_by_application(tables["groups"])) <= set(tables["groups"].column("group_id").to_pylist())
    True
    """
    columns = [groups.column(name).to_pylist() for name in ("group_id", "site", "application", "gpu_type")]
    return {
        group: "\n".join([site, name, *([] if card is None else [card])])
        for group, site, name, card in zip(*columns, strict=True)
        if name is not None
    }


def _speedup(observed: ObservedSeries, rows: Ints, runtime_s: Floats, is_alone: npt.NDArray[np.bool_]) -> Floats:
    """T(1)/T(n) of the average; unknown for a group of one size."""
    wanted = np.flatnonzero(~is_alone)
    groups, places = np.unique(rows[wanted], return_inverse=True)
    on_one_s = np.exp(observed.curve(groups, np.ones(len(groups))).log_s)
    speedup = np.full(len(rows), np.nan)
    speedup[wanted] = on_one_s[places] / runtime_s[wanted]
    return speedup


def _methods(observed: ObservedSeries, chosen: Curves) -> npt.NDArray[np.object_]:
    cases = [chosen["n_points"] == 1, n_siblings(observed.kin) > 0]
    return np.select(cases, ["observed", "average+siblings"], "average").astype(object)


def _sizes_by_group(observations: pa.Table) -> dict[str, Ints]:
    ids, offsets, rows = series_of(observations)
    procs = observations.column("procs").to_numpy()[rows]
    return dict(zip(ids, np.split(procs, offsets[1:-1]), strict=True)) if ids else {}


def _report(sizes: dict[str, Ints], table: pa.Table) -> Report:
    answered = len(table.column("group_id").unique())
    extrapolated = int(np.sum(table.column("is_extrapolated").to_numpy()))
    set_aside = {"no_prediction": Tally(len(sizes) - answered)} if answered < len(sizes) else {}
    facts = {"predictions": table.num_rows, "predictions_extrapolated": extrapolated}
    return Report("curves", "group", Tally(len(sizes)), Tally(answered), set_aside, facts).check()
