"""What makes a prediction doubtful, and which run would tell more.

A prediction is ok by its own interval and by the number of counts that it is made from, whatever the law leaves open.
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Bools, Floats, Ints, floats
from pipeline.axes import MOST_OK_SPAN
from pipeline.laws import LAWS, FitStatus
from pipeline.scaling.calibration import median_variance
from pipeline.scaling.counts import Favoured, candidates
from pipeline.scaling.curves import AxisSeries, Curves, doublings_beyond
from pipeline.scaling.points import ended_jobs

Words = npt.NDArray[np.object_]

LEAST_SIZES, LEAST_BEYOND, LEAST_FAR = 3, 4, 5
"""Counts that an ok prediction is made from: between them, up to twice beyond, and further beyond."""

RIVAL_APART = 1.5
"""Ratio of two fits' average parallelism from which one is a runner-up (Deshmeh 2013)."""

SIBLINGS_WORSE = float(np.log(20.0))
"""Log odds against its siblings' shapes from which a series scales differently."""

HINTS = {"tail_unidentified", "runner_up", "sizes_differ"}
"""Codes that name a run that would tell more, and make no row doubtful by themselves."""

UNBOUNDED = "No upper bound is known: it would lie beyond ten times the longest run."


def judged(series: AxisSeries, rows: Ints, procs: Floats) -> tuple[Words, Words]:
    """Per prediction (row of `chosen`, processor count) the codes that hold, joined by + (ok: none), and a sentence.

    The sentence is that of the gravest code. Without a code it is the next run where the counts hardly tell the laws
    apart, else the largest useful allocation of the chosen law, or null.
    """
    curves, rules, units = series.chosen.take(rows), series.asked.rules, series.axis.units
    n_points, largest, smallest = (curves[name] for name in ("n_points", "procs_max", "procs_min"))
    doublings, is_above = doublings_beyond(curves, procs), procs > largest
    groups, places = np.unique(rows, return_inverse=True)
    next_run = {name: values[places] for name, values in next_runs(series, groups).items()}

    # No count shows where scaling ends; and the average parallelism of the laws that fit about equally well.
    tails = (series.fits.status == FitStatus.TAIL_UNIDENTIFIED) & np.isfinite(series.fits["avg_parallelism"])
    is_open = np.isin(curves.group_id.astype(str), series.fits.group_id[tails].astype(str))
    low, high = (values[rows] for values in rival_parallelism(series.fits, series.chosen))

    fit_error = _fit_error(series)[rows]

    # The codes, gravest first.
    holds = {
        "one_size": n_points == 1,
        "wide_group": curves["core_log_sd"] > rules.wide_log_sd,
        "tail_unidentified": is_open & is_above,
        "runner_up": ~is_open & is_above & (high > RIVAL_APART * low),
        "few_sizes": (n_points > 1) & (n_points < np.where(doublings > 0, LEAST_BEYOND, LEAST_SIZES)),
        "sizes_differ": next_run["log_bayes"] < -SIBLINGS_WORSE,
        "off_law": _missed(series, rows, procs),
        "high_error": fit_error > rules.high_error,
        "far": (doublings > 1) & (n_points < LEAST_FAR),
    }

    def run_next(row: int, why: str) -> str:
        return _run_next({name: values[row] for name, values in next_run.items()}, series, n_points[row], why)

    def tail(row: int) -> str:
        if largest[row] >= (series.asked.site.max_procs or np.inf):
            return (
                f"The runtime still falls at {largest[row]:.0f}, the whole machine: where scaling ends cannot be "
                "measured here."
            )
        return run_next(row, f"the runtime still falls at {largest[row]:.0f}, so where scaling ends is not known")

    def rivals(row: int) -> str:
        top = "any" if np.isinf(high[row]) else f"{high[row]:.0f}"
        return run_next(row, f"fits with average parallelism from {low[row]:.0f} to {top} are about equally good")

    def few(row: int) -> str:
        return run_next(row, f"{n_points[row]:.0f} processor counts hardly tell the laws apart")

    sentences: dict[str, Callable[[int], str]] = {
        "one_size": lambda row: run_next(row, "one processor count has no information on others"),
        "wide_group": lambda row: (
            f"Repeats differ by a factor of {np.exp(curves['core_log_sd'][row]):.1f}: the group mixes different work; "
            "narrow the template or name the problem size."
        ),
        "tail_unidentified": tail,
        "runner_up": rivals,
        "few_sizes": few,
        "sizes_differ": lambda row: run_next(row, "this application's other groups scale differently"),
        "off_law": lambda row: f"The law misses the runs on {procs[row]:.0f} {units}; their median is used there.",
        "high_error": lambda row: f"The law misses one processor count by {fit_error[row]:.0%}: look at its runs.",
        "far": lambda row: f"No run is known beyond {largest[row]:.0f} or below {smallest[row]:.0f} {units}.",
    }
    codes, advice = np.full(len(procs), "", object), np.full(len(procs), None, object)
    useful = curves.largest_useful_procs()
    for row in np.flatnonzero(np.isfinite(useful) & (curves.law != "constant")):
        advice[row] = f"The chosen law gains nothing beyond {int(useful[row])} {units}."
    parameters = np.array([LAWS[law].n_parameters for law in curves.law], np.float64)
    for row in np.flatnonzero((n_points > 1) & (n_points < np.maximum(LEAST_BEYOND, parameters + 2))):
        advice[row] = few(int(row))
    for code, where in holds.items():
        for row in np.flatnonzero(where):
            advice[row] = advice[row] if codes[row] else sentences[code](int(row))
            codes[row] += f"+{code}" if codes[row] else code
    return np.where(codes == "", "ok", codes), advice


def with_width(ends: Mapping[str, Floats], reliability: Words, advice: Words) -> tuple[Words, Words]:
    """Reliability by the 80% interval: ok where it spans at most MOST_OK_SPAN and no code but hints holds.

    Else `unbounded` is added where an upper end is open, and `wide` where the interval spans more.
    """
    is_open = np.isnan(ends["runtime_s_hi95"])
    is_wide = ~is_open & ~(ends["runtime_s_hi80"] <= MOST_OK_SPAN * ends["runtime_s_lo80"])
    width = np.select([is_open, is_wide], ["unbounded", "wide"], "").astype(object)
    earned = np.array([HINTS.issuperset(codes.split("+")) for codes in reliability], bool)
    kept = np.where((width == "") & earned, "ok", reliability)
    codes = np.where(kept == "ok", np.where(width == "", "ok", width), kept + np.where(width == "", "", "+" + width))
    return codes, np.where((advice == None) & is_open, UNBOUNDED, advice)  # noqa: E711 - by element


def _run_next(next_run: Mapping[str, float], series: AxisSeries, n_points: float, why: str) -> str:
    """What to run, why, and what the fits predict of that run."""
    if not next_run["procs"]:
        return f"Repeat the runs: {why}."
    first = f"Run on {next_run['procs']:.0f} {series.axis.units} next: {why}."
    if n_points < 2:
        return first
    ends_s = np.array([next_run["low_s"], next_run["high_s"]])
    hours = next_run["procs"] * ends_s / 3600
    return (
        f"{first} The fits predict {_to(ends_s)} s there ({_to(hours)} {series.axis.unit}-hours); that run would "
        "decide between them."
    )


def _to(ends: Floats) -> str:
    return " to ".join(f"{end:,.0f}" if end >= 10 else f"{end:.2g}" for end in ends)


def next_runs(series: AxisSeries, groups: Ints) -> dict[str, Floats]:
    """For each of `groups` the count where a run would tell most about the shape of its curve.

    That is the candidate with the largest split of the posterior: the variance between shapes over the variance within
    one, with which the mutual information of a normal observation and the shape grows. Candidates keep to the counts
    that PATTERNS favours. A group of one count has no information on shapes: the largest candidate is chosen.

    Columns: `procs` (0: every candidate was run); `low_s` and `high_s`, the 80% interval of the curve there today;
    `log_bayes`, the log Bayes factor of the siblings' prior over the general one (see average.Averaged).
    """
    observed, site, sizes = series.observed, series.asked.site, series.observed.sizes
    by_group = {} if series.asked.patterns is None else Favoured.by_group(series.asked.patterns)
    chosen, low_s, high_s = np.zeros(len(groups)), np.full(len(groups), np.nan), np.full(len(groups), np.nan)
    asked: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        own = sizes.procs[sizes.offsets[group] : sizes.offsets[group + 1]]
        favoured = by_group.get(series.chosen.group_id[group])
        found = candidates(own, site.max_procs, site.procs_per_node, favoured)
        chosen[row] = found[0] if found else 0
        if found and len(own) > 1:
            asked[row] = found
    lengths = np.array([len(found) for found in asked.values()], np.int64)
    place = np.repeat(groups[list(asked)], lengths)
    procs = np.array([n for found in asked.values() for n in found], np.float64)
    curve = observed.curve(place, procs)
    log_s = observed.quantiles(place, procs, curve)
    for row, first, n in zip(asked, np.cumsum(lengths) - lengths, lengths, strict=True):
        best = first + int(np.argmax(curve.split[first : first + n]))
        chosen[row], (low_s[row], high_s[row]) = procs[best], np.exp(log_s[best, [1, 3]])
    return {"procs": chosen, "low_s": low_s, "high_s": high_s, "log_bayes": curve.log_bayes[groups]}


NEAR = 1.1
"""Ratio to the least WSSRE up to which a fit is about as good as the best (Deshmeh 2013)."""

PERFECT = 0.005
"""Relative error per count that is tolerated even beside a perfect fit."""


def rival_parallelism(fits: Curves, chosen: Curves) -> tuple[Floats, Floats]:
    """Per row of `chosen`, least and largest A of its group's good fits; NaN where none of them has an A."""
    place = {group: row for row, group in enumerate(chosen.group_id)}
    group = np.array([place.get(name, -1) for name in fits.group_id], np.int64)

    def extreme(pick: np.ufunc, rows: Ints, values: Floats, empty: float) -> Floats:
        found = np.full(len(chosen), empty)
        pick.at(found, group[rows], values)
        return found

    rows = np.flatnonzero((group >= 0) & np.isfinite(fits["wssre"]))
    limit = NEAR * extreme(np.minimum, rows, fits["wssre"][rows], np.inf) + chosen["n_points"] * PERFECT**2
    good = rows[(fits["wssre"][rows] <= limit[group[rows]]) & ~np.isnan(fits["avg_parallelism"][rows])]
    parallelism = fits["avg_parallelism"][good]
    low = extreme(np.minimum, good, np.fmin(fits["avg_parallelism_lo"][good], parallelism), np.inf)
    high = extreme(np.maximum, good, np.fmax(fits["avg_parallelism_hi"][good], parallelism), -np.inf)
    has_any = high > -np.inf
    return np.where(has_any, low, np.nan), np.where(has_any, high, np.nan)


MISSED_ERRORS = 3
"""Standard errors of the median beyond which the law misses it."""


def _fit_error(series: AxisSeries) -> Floats:
    """Of each chosen law the largest relative error at a size of its fit, |1 - T/t| (Deshmeh 2013, Table 3)."""
    sizes, found = series.observed.sizes, np.zeros(len(series.chosen))
    group = np.repeat(np.arange(sizes.n_series), np.diff(sizes.offsets))
    np.fmax.at(found, group, np.abs(1.0 - series.chosen.take(group).runtime_s(sizes.procs) / sizes.runtime_s))
    return found


def _missed(series: AxisSeries, rows: Ints, procs: Floats) -> Bools:
    """Rows whose median of repeats is further from the law than MISSED_ERRORS standard errors and than a high error."""
    rules, curves = series.asked.rules, series.chosen.take(rows)
    keys = zip(*(series.observations.column(name).to_pylist() for name in ("group_id", "procs")), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}
    seen = np.array([row_of.get(key, -1) for key in zip(curves.group_id, procs, strict=True)], np.int64)
    median_s = np.append(floats(series.observations, "runtime_s_median"), np.nan)[seen]
    n_jobs = np.append(ended_jobs(series.observations), np.nan)[seen]
    error = np.sqrt(median_variance(series.observed.run_sd[rows], n_jobs, rules.measured_log_sd))
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(np.log(median_s / curves.runtime_s(procs)))
    missed: Bools = (n_jobs > 1) & (distance > np.maximum(MISSED_ERRORS * error, rules.high_log_error))
    return missed
