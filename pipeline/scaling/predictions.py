"""The curve of every group: OBSERVATIONS and FITS -> the table `curves`, with the columns of PREDICTIONS.

A night publishes what group_runs.py makes of it and of the runs; for measured runs without a log it is the answer.
A curve is the model average over laws (average.py), not the chosen law. A prediction is ok by its own interval and by
the number of counts that it is made from, whatever the law leaves open.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import stdtrit

from pipeline.arrays import Array, Bools, Floats, Ints, category_codes, floats
from pipeline.laws import LAWS, FitStatus
from pipeline.report import Report, Tally, joined_report
from pipeline.scaling.average import ENDS, QUANTILES, Averaged, ObservedSeries, doublings_outside, n_siblings
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
    run_log_sd,
    series_of,
)
from pipeline.schema import MOST_OK_SPAN, Axis, TableKind, axis_of
from pipeline.settings import SiteSettings
from pipeline.tables import FITS, PREDICTIONS

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
    series: Sequence["FittedSeries"], run_id: str, at: Sequence[int] | None = None, across: pa.Table | None = None
) -> tuple[pa.Table, Report]:
    """PREDICTIONS of every group with a chosen law, in order of group and procs; on the counts `at` where given.

    Runtimes are those of the model average (see average.py), not of the chosen law. The machine's size bounds the
    grid: the site's max_procs where known, else the largest size observed anywhere.

    Parameters
    ----------
    series : sequence of FittedSeries
        The series of `fitted_series`, one for each axis; with their patterns, predictions are of the phase, or
        the kind of count, of each row.
    run_id : str
        Id of the run, written to every row.
    at : sequence of int, optional
        Processor counts to predict; by default a grid.
    across : pa.Table, optional
        ACROSS: groups of few sizes are answered from it, where another problem size tells more.

    Returns
    -------
    table : pa.Table
        PREDICTIONS; runtimes and interval ends in s.
    report : Report
        Groups with and without predictions.

    Examples
    --------
    >>> series = fitted_series(tables["levelled"], tables["fits"], PredictRules(), settings.site)
    >>> table, _ = predict(series, "r1", at=[64])
    >>> set(table.column("procs").to_pylist())
    {64}
    """
    return joined([_predictions(one, run_id, at, across) for one in series], PREDICTIONS)


def _predictions(
    series: "FittedSeries", run_id: str, at: Sequence[int] | None, across: pa.Table | None
) -> tuple[pa.Table, Report]:
    """PREDICTIONS of the series over one axis."""
    # 1. On which counts: a row of the chosen fits, and a count, per row of the table.
    rows, procs = _counts(series, at)
    chosen, observed = series.chosen[rows], series.observed
    is_alone = chosen["n_points"] == 1
    # 2. The curve there and on one processor, of which one size says nothing.
    curve, every = observed.curve(rows, procs), np.arange(len(series.chosen))
    runtime_s, one_s = np.exp(curve.log_s), np.exp(observed.curve(every, np.ones(len(every))).log_s)
    speedup = np.where(is_alone, np.nan, one_s[rows] / runtime_s)
    # 3. The intervals, and whether they can be relied on.
    ends = _intervals(series, rows, procs, curve)
    reliability, advice = judged(series, rows, procs, ends["runtime_s_hi80"] / ends["runtime_s_lo80"])
    # 4. The table.
    methods = np.where(n_siblings(observed.kin) > 0, "average+siblings", "average")[rows]
    table = PREDICTIONS.build(
        group_id=chosen["group_id"], axis=[series.axis] * len(rows), procs=procs.astype(np.int64),
        **ends, speedup=speedup, efficiency=speedup / procs,
        is_extrapolated=doublings_outside(procs, chosen["procs_min"], chosen["procs_max"]) > 0,
        reliability=reliability, advice=advice,
        method=np.where(is_alone, "observed", methods).astype(object), run_id=[run_id] * len(rows),
    )  # fmt: skip
    if series.patterns is not None:
        table = unlevel(table, series.patterns)
    n_groups, n_answered = (len(pc.unique(one.column("group_id"))) for one in (series.observations, table))
    set_aside = {"no_prediction": Tally(n_groups - n_answered)} if n_answered < n_groups else {}
    n_beyond = int(np.sum(table.column("is_extrapolated").to_numpy()))
    facts = {"predictions": table.num_rows, "predictions_extrapolated": n_beyond}
    report = Report("curves", "group", Tally(n_groups), Tally(n_answered), set_aside, facts).check()
    if across is not None:
        table = with_across(table, across, series.observations, series.axis, run_id, at)
    return table, report


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


def _intervals(series: "FittedSeries", rows: Ints, procs: Floats, curve: Averaged) -> dict[str, Floats]:
    """Median and ends (s) of the central 80% and 95% intervals of one new run, by column name of PREDICTIONS.

    A group of one size has no curve to be unsure of: its median is as sure as its repeats make it, and no 95% interval
    is narrower than the group's own odd runs.
    """
    chosen, observed = series.chosen[rows], series.observed
    run_sd = np.hypot(observed.run_sd[rows], series.rules.measured_log_sd)
    freedom = PRIOR_FREEDOM + np.maximum(chosen["n_jobs"] - chosen["n_points"], 0.0)
    repeated = stdtrit(freedom[:, None], QUANTILES) * np.hypot(run_sd, curve.log_sd)[:, None]
    off = observed.quantiles(rows, procs, curve, run_sd) - curve.log_s[:, None]
    off = np.where(chosen["n_points"][:, None] == 1, repeated, off)
    off[:, 0] = np.fmin(off[:, 0], -chosen["repeat_log_lo95"])
    off[:, -1] = np.fmax(off[:, -1], chosen["repeat_log_hi95"])
    return dict(zip(ENDS, np.exp(curve.log_s[:, None] + off).T, strict=True))


Curves = npt.NDArray[Any]
"""Rows of FITS, a record each: numbers as float64, NaN for null."""


def of_laws(curves: Curves, name: str, *arguments: Floats) -> Floats:
    """What a method of each row's law answers from its parameters, and its own of the arguments."""
    found = np.full(len(curves), np.nan)
    for law in set(curves["law"]):
        rows = curves["law"] == law
        found[rows] = getattr(LAWS[law], name)(curves[rows], *(one[rows] for one in arguments))
    return found


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


def fitted_series(
    observations: pa.Table,
    fits: pa.Table,
    rules: PredictRules,
    site: SiteSettings,
    application: Mapping[str, str] | None = None,
    patterns: pa.Table | None = None,
) -> list[FittedSeries]:
    """The series over each axis, from OBSERVATIONS and their FITS; each axis is computed by itself.

    `application` names that of a group, where it is known: groups of one name inform each other. Runs advised keep to
    counts that PATTERNS, where given, favours. The machine's size and nodes are in processors: over another axis
    neither is known.
    """
    axes = {axis_of(value) for value in observations.column("axis").unique().to_pylist()} or {Axis.PROCS}
    found = []
    for axis in (one for one in Axis if one in axes):
        own, fitted = (
            table.filter(pc.equal(pc.fill_null(table.column("axis").cast(pa.string()), Axis.PROCS), axis))
            for table in (observations, fits)
        )
        kinds = {one.name: float if one.type in (pa.int64(), pa.float64()) else object for one in FITS.columns}
        every = np.empty(fitted.num_rows, list(kinds.items()))
        for name, kind in kinds.items():
            every[name] = floats(fitted, name) if kind is float else fitted.column(name).to_pylist()
        chosen = every[fitted.column("is_chosen").to_numpy()]
        # 1. The sizes of each chosen fit, and how single runs scatter.
        read = ObservedSizes.of(own)
        series = _index(chosen["group_id"], read.ids)
        batch, n_runs = read.batch.take(series), read.n_runs[read.batch.sizes_of(series)]
        run_sd = run_log_sd(batch, n_runs, chosen["core_log_sd"], rules)
        # 2. Which series are of one application.
        names = [(application or {}).get(name) for name in chosen["group_id"]]
        kin = _index(names, sorted({name for name in names if name is not None}))
        observed = ObservedSeries.of(batch, n_runs, run_sd, kin, rules)
        machine = site if axis is Axis.PROCS else site.model_copy(update={"max_procs": None, "procs_per_node": None})
        found.append(FittedSeries(axis, own, every, chosen, observed, rules, machine, patterns))
    return found


def joined(done: Sequence[tuple[pa.Table, Report]], kind: TableKind) -> tuple[pa.Table, Report]:
    """The table of a stage over every axis, in order of group, and its report."""
    both = pa.concat_tables([table for table, _ in done]).unify_dictionaries()
    order = np.argsort(category_codes(both, "group_id")[0], kind="stable")
    return kind.check(both.take(pa.array(order))), joined_report([report for _, report in done])


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
    "high_error": "The predictions miss the runs on one processor count by {error:.0%}: look at them.",
    "far": "No run is known beyond {largest:.0f} or below {smallest:.0f} {units}.",
    "useful": "The chosen law gains nothing beyond {useful:.0f} {units}.",
}
"""What is said of a row by its gravest code; `useful` and `few_sizes` also of rows without one."""

OUTCOME = " The fits predict {time} s there ({hours} {unit}-hours)."


def judged(series: FittedSeries, rows: Ints, procs: Floats, span: Floats | None = None) -> tuple[Array, Array]:
    """Per prediction (row of `chosen`, processor count) the codes that hold, joined by + (ok: none), and a sentence.

    The sentence is that of the gravest code. Without a code it is the next run where the counts hardly tell the laws
    apart, else the largest useful allocation of the chosen law, or null. Where `span` is given, which is the upper end
    of the 80% interval over the lower one, a row is ok that spans at most MOST_OK_SPAN and has no code but hints.
    """
    chosen, rules, axis = series.chosen[rows], series.rules, series.axis
    n_points, largest, smallest = (chosen[name] for name in ("n_points", "procs_max", "procs_min"))
    doublings, is_above = doublings_outside(procs, smallest, largest), procs > largest
    groups, places = np.unique(rows, return_inverse=True)
    next_procs, next_s = (values[places] for values in _next_runs(series, groups))
    # No count shows where scaling ends; and the average parallelism of the laws that fit about equally well.
    is_open, (low, high) = _rivals(series, rows)
    error, is_missed = _misses(series, rows, procs)
    useful = of_laws(series.chosen, "largest_useful_procs")[rows]
    is_useful = np.isfinite(useful) & (chosen["law"] != "constant")
    n_parameters = np.array([LAWS[law].n_parameters for law in chosen["law"]], np.float64)
    is_several = n_points > 1
    # 1. The codes, gravest first.
    holds = {
        "one_size": n_points == 1,
        "wide_group": chosen["core_log_sd"] > rules.wide_log_sd,
        "tail_unidentified": is_open & is_above,
        "runner_up": ~is_open & is_above & (high > RIVAL_APART * low),
        "few_sizes": is_several & (n_points < np.where(doublings > 0, LEAST_BEYOND, LEAST_SIZES)),
        "off_law": is_missed,
        "high_error": error > rules.high_error,
        "far": (doublings > 1) & (n_points < LEAST_FAR),
        "wide": np.zeros(len(rows), bool) if span is None else ~(span <= MOST_OK_SPAN),
    }
    # 2. The sentence of each row.
    is_few = is_several & (n_points < np.maximum(LEAST_BEYOND, n_parameters + 2))
    machine = series.site.max_procs or np.inf
    codes = [[code for code in holds if holds[code][row]] for row in range(len(rows))]
    advice = np.full(len(rows), None, object)
    for row, own in enumerate(codes):
        otherwise = "few_sizes" if is_few[row] else "useful" if is_useful[row] else None
        code = own[0] if own and own[0] != "wide" else otherwise
        if code == "tail_unidentified" and largest[row] >= machine:
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
    earned = set() if span is None else HINTS
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


def _rivals(series: FittedSeries, rows: Ints) -> tuple[Bools, tuple[Floats, Floats]]:
    """Per row: whether a law of its group fits with an open tail, and least and largest A of the good fits.

    FITS has a row of every law for each group.
    """
    laws = series.fits.reshape(-1, len(set(series.fits["law"])) or 1)
    laws = laws[_index(series.chosen["group_id"], laws["group_id"][:, 0])]
    wssre, parallelism = laws["wssre"], laws["avg_parallelism"]
    least = np.nan_to_num(wssre, nan=np.inf).min(axis=1, initial=np.inf)
    limit = NEAR * least + series.chosen["n_points"] * PERFECT**2
    is_good = (wssre <= limit[:, None]) & ~np.isnan(parallelism)
    low = np.where(is_good, np.fmin(laws["avg_parallelism_lo"], parallelism), np.inf).min(axis=1, initial=np.inf)
    high = np.where(is_good, np.fmax(laws["avg_parallelism_hi"], parallelism), -np.inf).max(axis=1, initial=-np.inf)
    is_open = ((laws["status"] == FitStatus.TAIL_UNIDENTIFIED) & np.isfinite(parallelism)).any(axis=1)
    return is_open[rows], (low[rows], high[rows])


def _misses(series: FittedSeries, rows: Ints, procs: Floats) -> tuple[Floats, Bools]:
    """Per row: the largest relative error of its curve at a size of the fit, |1 - T/t| (Deshmeh 2013, Table 3); and
    whether the law misses the median of repeats on its count by MISSED_ERRORS standard errors and by a high error.

    The curve is what is published; where it follows the runs, the law alone may miss them.
    """
    rules, ids = series.rules, pa.array(series.chosen["group_id"], pa.string())
    observations = series.observations.filter(pc.is_in(series.observations.column("group_id").cast(pa.string()), ids))
    group = _index(observations.column("group_id").to_pylist(), series.chosen["group_id"])
    counts, median_s = floats(observations, "procs"), floats(observations, "runtime_s_median")
    n_jobs, run_sd = ended_jobs(observations), series.observed.run_sd[group]
    distance = np.abs(np.log(of_laws(series.chosen[group], "runtime_s", counts) / median_s))
    limit = MISSED_ERRORS * np.sqrt(median_variance(run_sd, n_jobs, rules.measured_log_sd))
    is_missed = (n_jobs > 1) & (distance > np.maximum(limit, rules.high_log_error))
    ratio = np.exp(series.observed.curve(group, counts).log_s) / median_s
    error, is_fitted = np.zeros(len(series.chosen)), floats(observations, "fit_weight") != 0.0
    np.fmax.at(error, group[is_fitted], np.abs(1.0 - ratio[is_fitted]))
    seen = _index(zip(rows, procs, strict=True), zip(group, counts, strict=True))
    return error[rows], np.append(is_missed, False)[seen]


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
