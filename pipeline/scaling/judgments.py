"""What makes a prediction doubtful, and which run would tell more. A judgment is a line in JUDGMENTS, gravest first.

A prediction is ok by its own interval and by the number of counts that it is made from, whatever the law leaves open.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Bools, Floats, Ints, floats
from pipeline.axes import MOST_OK_SPAN
from pipeline.laws import LAWS
from pipeline.scaling.calibration import median_variance
from pipeline.scaling.counts import Favoured, candidates
from pipeline.scaling.curves import AxisSeries, Curves, doublings_beyond
from pipeline.scaling.points import ended_jobs
from pipeline.scaling.series import FitStatus

Words = npt.NDArray[np.object_]

LEAST_SIZES, LEAST_BEYOND, LEAST_FAR = 3, 4, 5
"""Counts that an ok prediction is made from: between them, up to twice beyond, and further beyond."""

RIVAL_APART = 1.5
"""Ratio of two fits' average parallelism from which one is a runner-up (Deshmeh 2013)."""

SIBLINGS_WORSE = float(np.log(20.0))
"""Log odds against its siblings' shapes from which a series scales differently."""

UNBOUNDED = "No upper bound is known: it would lie beyond ten times the longest run."


@dataclass(frozen=True, slots=True)
class Case:
    """A row per prediction: its group's chosen fit, procs, and what the judgments below look at.

    `is_open`: no count shows where scaling ends. `rival_lo`, `rival_hi`: least and largest average parallelism among
    the laws that fit about as well (NaN: none has one). `is_missed`: the law misses what ran at this very count.
    `next_run`: the columns of `next_runs`.
    """

    series: AxisSeries
    curves: Curves
    procs: Floats
    is_open: Bools
    rival_lo: Floats
    rival_hi: Floats
    is_missed: Bools
    next_run: dict[str, Floats]

    @property
    def doublings(self) -> Floats:
        """How far beyond the observed counts."""
        return doublings_beyond(self.curves, self.procs)


def case_of(series: AxisSeries, rows: Ints, procs: Floats) -> Case:
    """A row per prediction: row of `chosen`, processor count."""
    fits, chosen = series.fits, series.chosen
    tails = (fits.status == FitStatus.TAIL_UNIDENTIFIED) & np.isfinite(fits["avg_parallelism"])
    is_open = np.isin(chosen.group_id.astype(str), fits.group_id[tails].astype(str))
    low, high = rival_parallelism(fits, chosen)
    groups, places = np.unique(rows, return_inverse=True)
    next_run = {name: values[places] for name, values in next_runs(series, groups).items()}
    return Case(
        series, chosen.take(rows), procs, is_open[rows], low[rows], high[rows], _missed(series, rows, procs), next_run
    )


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


@dataclass(frozen=True, slots=True)
class Judgment:
    """The rows where the judgment holds, and the sentence for one row. A hint alone makes no row doubtful."""

    holds: Callable[[Case], Bools]
    sentence: Callable[[Case, int], str]
    is_hint: bool = False


def _run_next(case: Case, row: int, why: str) -> str:
    """What to run, why, and what the fits predict of that run."""
    next_run = {name: values[row] for name, values in case.next_run.items()}
    if not next_run["procs"]:
        return f"Repeat the runs: {why}."
    first = f"Run on {next_run['procs']:.0f} {case.series.axis.units} next: {why}."
    if case.curves["n_points"][row] < 2:
        return first
    ends_s = np.array([next_run["low_s"], next_run["high_s"]])
    hours = next_run["procs"] * ends_s / 3600
    return (
        f"{first} The fits predict {_to(ends_s)} s there ({_to(hours)} {case.series.axis.unit}-hours); that run would "
        "decide between them."
    )


def _to(ends: Floats) -> str:
    return " to ".join(f"{end:,.0f}" if end >= 10 else f"{end:.2g}" for end in ends)


def _tail(case: Case, row: int) -> str:
    largest, machine = int(case.curves["procs_max"][row]), case.series.asked.site.max_procs
    if machine is not None and largest >= machine:
        return f"The runtime still falls at {largest}, the whole machine: where scaling ends cannot be measured here."
    return _run_next(case, row, f"the runtime still falls at {largest}, so where scaling ends is not known")


def _rivals(case: Case, row: int) -> str:
    low, high = case.rival_lo[row], case.rival_hi[row]
    top = "any" if np.isinf(high) else f"{high:.0f}"
    return _run_next(case, row, f"fits with average parallelism from {low:.0f} to {top} are about equally good")


def _few(case: Case, row: int) -> str:
    return _run_next(case, row, f"{case.curves['n_points'][row]:.0f} processor counts hardly tell the laws apart")


JUDGMENTS: dict[str, Judgment] = {
    "one_size": Judgment(
        lambda case: case.curves["n_points"] == 1,
        lambda case, row: _run_next(case, row, "one processor count has no information on others"),
    ),
    "wide_group": Judgment(
        lambda case: case.curves["core_log_sd"] > case.series.asked.rules.wide_log_sd,
        lambda case, row: (
            f"Repeats differ by a factor of {np.exp(case.curves['core_log_sd'][row]):.1f}: the group "
            "mixes different work; narrow the template or name the problem size."
        ),
    ),
    "tail_unidentified": Judgment(lambda case: case.is_open & (case.procs > case.curves["procs_max"]), _tail, True),
    "runner_up": Judgment(
        # tail_unidentified covers open tails.
        lambda case: (
            ~case.is_open & (case.procs > case.curves["procs_max"]) & (case.rival_hi > RIVAL_APART * case.rival_lo)
        ),
        _rivals,
        True,
    ),
    "few_sizes": Judgment(
        lambda case: (
            (case.curves["n_points"] > 1)
            & (case.curves["n_points"] < np.where(case.doublings > 0, LEAST_BEYOND, LEAST_SIZES))
        ),
        _few,
    ),
    "sizes_differ": Judgment(
        lambda case: case.next_run["log_bayes"] < -SIBLINGS_WORSE,
        lambda case, row: _run_next(case, row, "this application's other groups scale differently"),
        True,
    ),
    "off_law": Judgment(
        lambda case: case.is_missed,
        lambda case, row: (
            f"The law misses the runs on {case.procs[row]:.0f} {case.series.axis.units}; their median is used there."
        ),
    ),
    "high_error": Judgment(
        lambda case: case.curves["loo_log_rmse"] > case.series.asked.rules.high_log_error,
        lambda case, row: (
            f"No law comes close (leave-one-out error {case.curves['loo_log_rmse'][row]:.0%}): look at the runs."
        ),
    ),
    "far": Judgment(
        lambda case: (case.doublings > 1) & (case.curves["n_points"] < LEAST_FAR),
        lambda case, row: (
            f"No run is known beyond {case.curves['procs_max'][row]:.0f} or below {case.curves['procs_min'][row]:.0f} "
            f"{case.series.axis.units}."
        ),
    ),
}

HINTS = {code for code, judgment in JUDGMENTS.items() if judgment.is_hint}


def judged(case: Case) -> tuple[Words, Words]:
    """Per row: the codes that hold, joined by + (ok: none), and a sentence for the gravest.

    Without a code it is the next run where the counts hardly tell laws apart, else the largest useful allocation.
    """
    codes, advice = np.full(len(case.procs), "", object), np.full(len(case.procs), None, object)
    largest, n_points = case.curves.largest_useful_procs(), case.curves["n_points"]
    for row in np.flatnonzero(np.isfinite(largest) & (case.curves.law != "constant")):
        advice[row] = f"The chosen law gains nothing beyond {int(largest[row])} {case.series.axis.units}."
    parameters = np.array([LAWS[law].n_parameters for law in case.curves.law], np.float64)
    for row in np.flatnonzero((n_points > 1) & (n_points < np.maximum(LEAST_BEYOND, parameters + 2))):
        advice[row] = _few(case, int(row))
    for code, judgment in JUDGMENTS.items():
        for row in np.flatnonzero(judgment.holds(case)):
            advice[row] = advice[row] if codes[row] else judgment.sentence(case, int(row))
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
