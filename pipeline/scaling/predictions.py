"""PREDICTIONS: OBSERVATIONS and FITS -> the curve of every group, its intervals, and what makes a prediction doubtful.

A curve is the model average over laws (average.py), not the chosen law. A prediction is ok by its own interval and by
the number of counts that it is made from, whatever the law leaves open.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import stdtrit

from pipeline.arrays import Array, Bools, Floats, Ints, floats
from pipeline.axes import MOST_OK_SPAN, Axis
from pipeline.laws import LAWS, FitStatus
from pipeline.report import Report, Tally
from pipeline.scaling.average import QUANTILES, Averaged, ObservedSeries, doublings_outside, n_siblings
from pipeline.scaling.problem_sizes import with_across
from pipeline.scaling.screens import unlevel
from pipeline.scaling.series import (
    ObservedSizes,
    PredictRules,
    counts_between,
    ended_jobs,
    favoured_class,
    median_variance,
    next_count,
    of_axis,
    on_each_axis,
    run_log_sd,
    series_of,
)
from pipeline.settings import SiteSettings
from pipeline.tables import FITS, PREDICTIONS

BEYOND_LOG = 10.0
"""An interval is cut at this many times outside the runtimes of the whole log."""

PRIOR_FREEDOM = 3
"""Degrees of freedom granted before any repeat was seen (the prototype's nu0)."""

LEAST_SIZES, LEAST_BEYOND, LEAST_FAR = 3, 4, 5
"""Counts that an ok prediction is made from: between them, up to twice beyond, and further beyond."""

NEAR, PERFECT = 1.1, 0.005
"""A fit is about as good as the best up to this ratio of their WSSRE (Deshmeh 2013), and this relative error a count,
which is tolerated even beside a perfect fit."""

RIVAL_APART = 1.5
"""Ratio of two such fits' average parallelism from which one is a runner-up (Deshmeh 2013)."""

MISSED_ERRORS = 3
"""Standard errors of the median beyond which the law misses it."""

HINTS = {"tail_unidentified", "runner_up"}
"""Codes that name a run that would tell more, and make no row doubtful by themselves."""


def predict(
    observations: pa.Table,
    fits: pa.Table,
    rules: PredictRules,
    site: SiteSettings,
    run_id: str,
    at: Sequence[int] | None = None,
    application: Mapping[str, str] | None = None,
    patterns: pa.Table | None = None,
    across: pa.Table | None = None,
    *,
    is_estimated: bool = False,
) -> tuple[pa.Table, Report]:
    """PREDICTIONS of every group with a chosen law, in order of group and procs; on the counts `at` where given.

    Each axis is predicted by itself; counts are of processors, nodes or GPUs, as `axis` of the observations says.

    Runtimes are those of the model average (see average.py), not of the chosen law. Groups that
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
    across : pa.Table, optional
        ACROSS: groups of few sizes are answered from it, where another problem size tells more.
    is_estimated : bool
        Whether the estimate will answer over processors, as in a run. Then efficiencies and codes of width, which are
        the estimate's there, are left out, and intervals are not cut.

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

    def stage(axis: Axis, observed: pa.Table, fitted: pa.Table) -> tuple[pa.Table, Report]:
        series = FittedSeries.of(axis, observed, fitted, rules, site, application or {}, patterns)
        return _predictions(series, run_id, at, is_estimated=is_estimated and axis is Axis.PROCS)

    table, report = on_each_axis(observations, fits, stage, PREDICTIONS)
    return table if across is None else with_across(table, across, observations, at), report


def _predictions(
    series: "FittedSeries", run_id: str, at: Sequence[int] | None, *, is_estimated: bool
) -> tuple[pa.Table, Report]:
    """PREDICTIONS of the series over one axis."""
    # 1. On which counts: a row of the chosen fits, and a count, per row of the table.
    rows, procs = _counts(series, at)
    chosen, observed = series.chosen.take(rows), series.observed
    is_alone = chosen["n_points"] == 1
    # 2. The curve there and on one processor, of which one size says nothing.
    curve, every = observed.curve(rows, procs), np.arange(len(series.chosen))
    runtime_s, one_s = np.exp(curve.log_s), np.exp(observed.curve(every, np.ones(len(every))).log_s)
    speedup = np.where(is_alone, np.nan, one_s[rows] / runtime_s)
    # 3. The intervals, and whether they can be relied on.
    ends = _intervals(series, rows, procs, curve, is_cut=not is_estimated)
    reliability, advice = judged(series, rows, procs, None if is_estimated else ends)
    # 4. The table.
    methods = np.where(n_siblings(observed.kin) > 0, "average+siblings", "average")[rows]
    table = PREDICTIONS.build(
        group_id=chosen["group_id"], axis=[series.axis] * len(rows), procs=procs.astype(np.int64), runtime_s=runtime_s,
        **ends, speedup=speedup, efficiency=np.full(len(rows), np.nan) if is_estimated else speedup / procs,
        is_extrapolated=chosen.doublings_beyond(procs) > 0, reliability=reliability, advice=advice,
        method=np.where(is_alone, "observed", methods).astype(object), run_id=[run_id] * len(rows),
    )  # fmt: skip
    if series.patterns is not None:
        table = unlevel(table, series.patterns)
    n_groups, n_answered = (len(pc.unique(one.column("group_id"))) for one in (series.observations, table))
    set_aside = {"no_prediction": Tally(n_groups - n_answered)} if n_answered < n_groups else {}
    n_beyond = int(np.sum(table.column("is_extrapolated").to_numpy()))
    facts = {"predictions": table.num_rows, "predictions_extrapolated": n_beyond}
    return table, Report("curves", "group", Tally(n_groups), Tally(n_answered), set_aside, facts).check()


def _counts(series: "FittedSeries", at: Sequence[int] | None) -> tuple[Ints, Floats]:
    """Row of the chosen fits and processor count for every prediction, in order of both.

    The sizes observed, the powers of two from smallest/reach to largest*reach on the machine, and the counts that the
    rules ask for; or exactly `at`. A group seen at one size is predicted there alone: one size says nothing of another.
    """
    ids, offsets, order = series_of(series.observations)
    every, rules = floats(series.observations, "procs")[order], series.rules
    sizes = dict(zip(ids, np.split(every, offsets[1:-1]), strict=False))
    machine, grids = series.site.max_procs or every.max(initial=1.0), []
    for group in series.chosen["group_id"]:
        own = sizes[group]
        if len(own) == 1:
            grids.append(own if at is None else np.intersect1d(own, at))
        elif at is not None:
            grids.append(np.unique(np.asarray(at, np.float64)))
        else:
            top = min(own[-1] * rules.reach, max(machine, own[-1]))
            grids.append(np.union1d(own, [*counts_between(own[0] / rules.reach, top, 1), *rules.counts]))
    rows = np.repeat(np.arange(len(grids)), [len(grid) for grid in grids])
    return rows, np.concatenate([np.empty(0), *grids])


def _intervals(
    series: "FittedSeries", rows: Ints, procs: Floats, curve: Averaged, *, is_cut: bool
) -> dict[str, Floats]:
    """Ends (s) of the central 80% and 95% intervals of one new run, by column name of PREDICTIONS.

    A group of one size has no curve to be unsure of: its median is as sure as its repeats make it, and no 95% interval
    is narrower than the group's own odd runs.

    Where a group cannot tell its jobs' runtime to within powers of ten, the machine's other jobs still bound it. So the
    ends are cut at BEYOND_LOG, but never inside their own prediction. Below its smallest size a group may take longer,
    as work that one processor does alone, and beyond its largest less. Outside the sizes that ran a cut upper end is no
    bound: NaN there. A lower end is cut only from below, an upper one only from above: where the runtime itself exceeds
    the log's longest, its lower end may do so too.
    """
    chosen, observed, middle_s = series.chosen.take(rows), series.observed, np.exp(curve.log_s)
    run_sd = np.hypot(observed.run_sd[rows], series.rules.measured_log_sd)
    log_s = observed.quantiles(rows, procs, curve, run_sd)
    freedom = PRIOR_FREEDOM + np.maximum(chosen["n_jobs"] - chosen["n_points"], 0.0)
    shortest_s, longest_s, is_outside = np.zeros(len(rows)), np.full(len(rows), np.inf), np.zeros(len(rows), bool)
    if is_cut and len(rows):
        # Lower bounds may leave a size without some of them, but never a group that is predicted without a median.
        seen_s = [floats(series.observations, f"runtime_s_{name}") for name in ("q10", "median", "q90")]
        shortest_s = np.nanmin(seen_s) / BEYOND_LOG * np.minimum(chosen["procs_max"] / procs, 1.0)
        longest_s = np.nanmax(seen_s) * BEYOND_LOG * np.maximum(chosen["procs_min"] / procs, 1.0)
        is_outside = chosen.doublings_beyond(procs) > 0
    ends = {}
    for name, place in (("lo95", 0), ("lo80", 1), ("hi80", 3), ("hi95", 4)):
        side = 1 if name.startswith("hi") else -1
        repeated = stdtrit(freedom, max(QUANTILES[place], 1.0 - QUANTILES[place])) * np.hypot(run_sd, curve.log_sd)
        off = np.where(chosen["n_points"] == 1, repeated, side * (log_s[:, place] - curve.log_s))
        if name.endswith("95"):
            off = np.fmax(off, chosen[f"repeat_log_{name}"])
        end_s = np.exp(curve.log_s + side * off)
        if side < 0:
            cut_s = np.fmin(np.fmax(end_s, shortest_s), middle_s)
        else:
            cut_s = np.where(is_outside & (end_s > longest_s), np.nan, np.fmax(np.fmin(end_s, longest_s), middle_s))
        ends[f"runtime_s_{name}"] = cut_s
    return ends


class Curves(np.recarray[Any, Any]):
    """Rows of FITS, a record each: numbers as float64, NaN for null."""

    @classmethod
    def of(cls, fits: pa.Table) -> "Curves":
        """The rows of a FITS table."""
        types = dict.fromkeys(("group_id", "law", "status"), object)
        types |= {one.name: float for one in FITS.columns if one.type in (pa.int64(), pa.float64())}
        rows = cls(fits.num_rows, list(types.items()))
        for name, kind in types.items():
            rows[name] = floats(fits, name) if kind is float else fits.column(name).to_pylist()
        return rows

    def take(self, rows: Any, *_: Any, **__: Any) -> "Curves":  # type: ignore[override]
        """Some rows, repeated as asked."""
        return cast(Curves, self[rows])

    def doublings_beyond(self, procs: Floats) -> Floats:
        """How far procs lies outside the sizes observed, in doublings; 0 inside."""
        return doublings_outside(procs, self["procs_min"], self["procs_max"])

    def runtime_s(self, procs: Floats) -> Floats:
        """Runtime of each row's law at its processor count (s)."""
        return self._by_law("runtime_s", procs)

    def largest_useful_procs(self) -> Floats:
        """Size beyond which each row's law gains nothing; infinite where it never stops gaining."""
        return self._by_law("largest_useful_procs")

    def _by_law(self, name: str, *arguments: Floats) -> Floats:
        result = np.full(len(self), np.nan)
        for law in set(self["law"]):
            rows = self["law"] == law
            result[rows] = getattr(LAWS[law], name)(self[rows], *(one[rows] for one in arguments))
        return result


@dataclass(frozen=True, slots=True)
class FittedSeries:
    """The series over one axis: every fit, the chosen one of each, and what is known of machine and patterns."""

    axis: Axis
    observations: pa.Table
    fits: Curves
    chosen: Curves
    observed: ObservedSeries
    rules: PredictRules
    site: SiteSettings
    patterns: pa.Table | None

    @classmethod
    def of(
        cls, axis: Axis, observations: pa.Table, fits: pa.Table, rules: PredictRules, site: SiteSettings,
        application: Mapping[str, str], patterns: pa.Table | None,
    ) -> Self:  # fmt: skip
        """The series of OBSERVATIONS and their FITS; `application` names that of a group, where it is known."""
        every = Curves.of(fits)
        chosen = every.take(fits.column("is_chosen").to_numpy())
        # 1. The sizes of each chosen fit, and how single runs scatter.
        read = ObservedSizes.of(observations)
        series = _index(chosen["group_id"], read.ids)
        batch, n_runs = read.batch.take(series), read.n_runs[read.batch.sizes_of(series)]
        run_sd = run_log_sd(batch, n_runs, chosen["core_log_sd"], rules)
        # 2. Which series are of one application.
        names = [application.get(name) for name in chosen["group_id"]]
        kin = _index(names, sorted({name for name in names if name is not None}))
        observed = ObservedSeries.of(batch, n_runs, run_sd, kin, rules)
        return cls(axis, observations, every, chosen, observed, rules, of_axis(site, axis), patterns)


def _index(of: Iterable[Hashable], among: Iterable[Hashable]) -> Ints:
    """The index of each value among others, -1 where it is none of them."""
    place = {one: row for row, one in enumerate(among)}
    return np.array([place.get(one, -1) for one in of], np.int64)


SENTENCES = {
    "one_size": "{run}: one processor count has no information on others.{outcome}",
    "wide_group": "Repeats differ by a factor of {spread:.1f}: the group mixes different work; narrow the template or "
    "name the problem size.",
    "tail_unidentified": "{run}: the runtime still falls at {largest:.0f}, so where scaling ends is not "
    "known.{outcome}",
    "whole_machine": "The runtime still falls at {largest:.0f}, the whole machine: where scaling ends cannot be "
    "measured here.",
    "runner_up": "{run}: fits with average parallelism from {low:.0f} to {high} are about equally good.{outcome}",
    "few_sizes": "{run}: {n_points:.0f} processor counts hardly tell the laws apart.{outcome}",
    "off_law": "The law misses the runs on {procs:.0f} {units}; their median is used there.",
    "high_error": "The law misses one processor count by {error:.0%}: look at its runs.",
    "far": "No run is known beyond {largest:.0f} or below {smallest:.0f} {units}.",
    "unbounded": "No upper bound is known: it would lie beyond ten times the longest run.",
    "useful": "The chosen law gains nothing beyond {useful:.0f} {units}.",
}
"""What is said of a row by its gravest code; `useful` and `few_sizes` also of rows without one."""

OUTCOME = " The fits predict {time} s there ({hours} {unit}-hours)."


def judged(
    series: FittedSeries, rows: Ints, procs: Floats, ends: Mapping[str, Floats] | None = None
) -> tuple[Array, Array]:
    """Per prediction (row of `chosen`, processor count) the codes that hold, joined by + (ok: none), and a sentence.

    The sentence is that of the gravest code. Without a code it is the next run where the counts hardly tell the laws
    apart, else the largest useful allocation of the chosen law, or null. Where the `ends` of intervals are given, a row
    is ok whose 80% interval spans at most MOST_OK_SPAN and for which no code but hints holds.
    """
    chosen, rules, axis = series.chosen.take(rows), series.rules, series.axis
    n_points, largest, smallest = (chosen[name] for name in ("n_points", "procs_max", "procs_min"))
    doublings, is_above = chosen.doublings_beyond(procs), procs > largest
    groups, places = np.unique(rows, return_inverse=True)
    next_procs, next_s = (values[places] for values in _next_runs(series, groups))
    # No count shows where scaling ends; and the average parallelism of the laws that fit about equally well.
    tails = (series.fits["status"] == FitStatus.TAIL_UNIDENTIFIED) & np.isfinite(series.fits["avg_parallelism"])
    is_open = np.isin(chosen["group_id"].astype(str), series.fits["group_id"][tails].astype(str))
    low, high = (values[rows] for values in _rival_parallelism(series.fits, series.chosen))
    error, useful = _fit_error(series)[rows], series.chosen.largest_useful_procs()[rows]
    is_useful = np.isfinite(useful) & (chosen["law"] != "constant")
    n_parameters = np.array([LAWS[law].n_parameters for law in chosen["law"]], np.float64)
    is_several, is_unbounded, is_wide = n_points > 1, np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    if ends is not None:
        is_unbounded = np.isnan(ends["runtime_s_hi95"])
        is_wide = ~is_unbounded & ~(ends["runtime_s_hi80"] <= MOST_OK_SPAN * ends["runtime_s_lo80"])
    # 1. The codes, gravest first.
    holds = {
        "one_size": n_points == 1,
        "wide_group": chosen["core_log_sd"] > rules.wide_log_sd,
        "tail_unidentified": is_open & is_above,
        "runner_up": ~is_open & is_above & (high > RIVAL_APART * low),
        "few_sizes": is_several & (n_points < np.where(doublings > 0, LEAST_BEYOND, LEAST_SIZES)),
        "off_law": _is_missed(series, rows, procs),
        "high_error": error > rules.high_error,
        "far": (doublings > 1) & (n_points < LEAST_FAR),
        "unbounded": is_unbounded,
        "wide": is_wide,
    }
    # 2. The sentence of each row.
    is_few = is_several & (n_points < np.maximum(LEAST_BEYOND, n_parameters + 2))
    machine = series.site.max_procs or np.inf
    codes = [[code for code in holds if holds[code][row]] for row in range(len(rows))]
    advice = np.full(len(rows), None, object)
    for row, own in enumerate(codes):
        otherwise = "few_sizes" if is_few[row] else "useful" if is_useful[row] else None
        code = own[0] if own else otherwise
        if code == "wide" or (code == "unbounded" and otherwise):
            code = otherwise
        elif code == "tail_unidentified" and largest[row] >= machine:
            code = "whole_machine"
        if code is None:
            continue
        run, outcome, n = "Repeat the runs", "", next_procs[row]
        if n:
            run, ends_s = f"Run on {n:.0f} {axis.units} next", next_s[row]
            if is_several[row]:
                outcome = OUTCOME.format(time=_to(ends_s), hours=_to(n * ends_s / 3600), unit=axis.unit)
        facts = {
            "run": run, "outcome": outcome, "units": axis.units, "procs": procs[row], "n_points": n_points[row],
            "largest": largest[row], "smallest": smallest[row], "spread": np.exp(chosen["core_log_sd"][row]),
            "low": low[row], "high": "any" if np.isinf(high[row]) else f"{high[row]:.0f}", "error": error[row],
            "useful": np.floor(useful[row]),
        }  # fmt: skip
        advice[row] = SENTENCES[code].format(**facts)
    earned = set() if ends is None else HINTS
    return np.array(["ok" if earned.issuperset(own) else "+".join(own) for own in codes], object), advice


def _to(ends: Floats) -> str:
    return " to ".join(f"{end:,.0f}" if end >= 10 else f"{end:.2g}" for end in ends)


def _next_runs(series: FittedSeries, groups: Ints) -> tuple[Floats, Floats]:
    """For each of `groups` the count to run on next (0: none), and the ends of the 80% interval of the curve there (s).

    The count is one of those that PATTERNS favours, where it favours any.
    """
    sizes, site, names = series.observed.sizes, series.site, series.chosen["group_id"]
    patterns: dict[str, list[dict[str, Any]]] = {}
    for row in series.patterns.to_pylist() if series.patterns else ():
        patterns.setdefault(row["group_id"], []).append(row)
    procs = np.zeros(len(groups))
    for row, group in enumerate(groups):
        own = sizes.procs[sizes.offsets[group] : sizes.offsets[group + 1]]
        favoured = favoured_class(patterns.get(names[group], ()))
        procs[row] = next_count(own, site.max_procs, site.procs_per_node, favoured)
    asked = np.maximum(procs, 1.0)
    return procs, np.exp(series.observed.quantiles(groups, asked, series.observed.curve(groups, asked))[:, [1, 3]])


def _rival_parallelism(fits: Curves, chosen: Curves) -> tuple[Floats, Floats]:
    """Per row of `chosen`, least and largest A of its group's good fits; none: infinite, and minus infinite."""
    group, wssre, parallelism = _index(fits["group_id"], chosen["group_id"]), fits["wssre"], fits["avg_parallelism"]
    least, low, high = (np.full(len(chosen), end) for end in (np.inf, np.inf, -np.inf))
    rows = np.flatnonzero((group >= 0) & np.isfinite(wssre))
    np.minimum.at(least, group[rows], wssre[rows])
    limit = NEAR * least + chosen["n_points"] * PERFECT**2
    good = rows[(wssre[rows] <= limit[group[rows]]) & ~np.isnan(parallelism[rows])]
    np.minimum.at(low, group[good], np.fmin(fits["avg_parallelism_lo"], parallelism)[good])
    np.maximum.at(high, group[good], np.fmax(fits["avg_parallelism_hi"], parallelism)[good])
    return low, high


def _fit_error(series: FittedSeries) -> Floats:
    """Of each chosen law the largest relative error at a size of its fit, |1 - T/t| (Deshmeh 2013, Table 3)."""
    sizes, found = series.observed.sizes, np.zeros(len(series.chosen))
    np.fmax.at(
        found, sizes.owner, np.abs(1.0 - series.chosen.take(sizes.owner).runtime_s(sizes.procs) / sizes.runtime_s)
    )
    return found


def _is_missed(series: FittedSeries, rows: Ints, procs: Floats) -> Bools:
    """Rows whose median of repeats is further from the law than MISSED_ERRORS standard errors and than a high error."""
    rules, curves, observations = series.rules, series.chosen.take(rows), series.observations
    keys = zip(*(observations.column(name).to_pylist() for name in ("group_id", "procs")), strict=True)
    seen = _index(zip(curves["group_id"], procs, strict=True), keys)
    median_s = np.append(floats(observations, "runtime_s_median"), np.nan)[seen]
    n_jobs = np.append(ended_jobs(observations), np.nan)[seen]
    error = np.sqrt(median_variance(series.observed.run_sd[rows], n_jobs, rules.measured_log_sd))
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(np.log(median_s / curves.runtime_s(procs)))
    missed: Bools = (n_jobs > 1) & (distance > np.maximum(MISSED_ERRORS * error, rules.high_log_error))
    return missed


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
