"""What makes a prediction doubtful, and what to do about it. A new judgment is a line in JUDGMENTS, gravest first."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints, category_codes, floats
from pipeline.laws import LAWS
from pipeline.scaling.batch import FitStatus
from pipeline.scaling.calibration import median_variance
from pipeline.scaling.curves import AxisSeries, Curves, doublings_beyond
from pipeline.scaling.next_run import NONE_FAVOURED, Favoured, NextRun, next_runs
from pipeline.scaling.points import ended_jobs
from pipeline.scaling.rules import PredictRules

FEW_SIZES = 4
"""With fewer sizes, or fewer than the law's parameters plus two, leave-one-out rests on one or two points."""

RIVAL_APART = 1.5
"""Ratio of two fits' average parallelism from which one is a runner-up (Deshmeh 2013)."""

SIBLINGS_WORSE = float(np.log(20.0))
"""Log odds against its siblings' shapes from which a series scales differently."""


@dataclass(frozen=True, slots=True)
class Case:
    """A row per prediction: its group's chosen fit, procs, and what the judgments below look at.

    `is_open`: no size shows where scaling ends. `rival_lo`, `rival_hi`: least and largest average parallelism among
    the laws that fit about as well (NaN: none has one). `is_missed`: the law misses what ran at this very size.
    `fit_error`: the largest relative error of the law at a size of its fit.
    `next_run` is for the advice.
    """

    series: AxisSeries
    curves: Curves
    procs: Floats
    is_open: Bools
    rival_lo: Floats
    rival_hi: Floats
    is_missed: Bools
    fit_error: Floats
    next_run: NextRun

    @property
    def is_above(self) -> Bools:
        """Rows beyond the group's largest observed size."""
        return self.procs > self.curves["procs_max"]


@dataclass(frozen=True, slots=True)
class Judgment:
    """The rows where the judgment holds, and the sentence for one row."""

    holds: Callable[[Case], Bools]
    sentence: Callable[[Case, int], str]


def _few_sizes(case: Case) -> Bools:
    parameters = np.array([LAWS[law].n_parameters for law in case.curves.law], np.float64)
    points = case.curves["n_points"]
    return (points > 1) & (points < np.maximum(FEW_SIZES, parameters + 2))


def _rivals(case: Case) -> Bools:
    # tail_unidentified covers open tails.
    return case.is_above & ~case.is_open & (case.rival_hi > RIVAL_APART * case.rival_lo)


def _run_next(case: Case, row: int) -> str:
    n = int(case.next_run.procs[row])
    return f"Run on {n} {case.series.axis.units} next" if n else "Repeat the runs"


def _settles(case: Case, row: int) -> str:
    if not case.next_run.procs[row] or case.curves["n_points"][row] < 2:
        return ""
    ends_s = case.next_run.low_s[row], case.next_run.high_s[row]
    low, high = map(_seconds, ends_s)
    hours = " to ".join(_seconds(case.next_run.procs[row] * end_s / 3600) for end_s in ends_s)
    hours = f"{hours} {case.series.axis.unit}-hours"
    return f" Fits so far predict {low} to {high} s there ({hours}): that run shows which holds."


def _seconds(value_s: float) -> str:
    return f"{value_s:,.0f}" if value_s >= 100 else f"{value_s:.3g}"


def _tail(case: Case, row: int) -> str:
    largest = int(case.curves["procs_max"][row])
    machine = case.series.asked.site.max_procs
    if machine is not None and largest >= machine:
        return f"Runtime still falls at {largest}, the whole machine: where scaling ends cannot be seen here."
    return f"{_run_next(case, row)}: runtime still falls at {largest}, so where scaling ends is not known." + _settles(
        case, row
    )


def _rival_words(case: Case, row: int) -> str:
    low, high = case.rival_lo[row], case.rival_hi[row]
    top = "any" if np.isinf(high) else f"{high:.0f}"
    return (
        f"{_run_next(case, row)}: fits with average parallelism from {low:.0f} to {top} are about as good."
        + _settles(case, row)
    )


def _few_words(case: Case, row: int) -> str:
    points = int(case.curves["n_points"][row])
    return f"{_run_next(case, row)}: {points} sizes hardly tell the laws apart." + _settles(case, row)


def _far_words(case: Case, row: int) -> str:
    smallest, largest = (int(case.curves[name][row]) for name in ("procs_min", "procs_max"))
    return f"Nothing beyond {largest} or below {smallest} {case.series.axis.units} was seen."


JUDGMENTS: dict[str, Judgment] = {
    "one_size": Judgment(
        lambda case: case.curves["n_points"] == 1,
        lambda case, row: f"{_run_next(case, row)}: one size says nothing about another.",
    ),
    "wide_group": Judgment(
        lambda case: case.curves["core_log_sd"] > case.series.asked.rules.wide_log_sd,
        lambda case, row: (
            f"Repeats differ by a factor of {np.exp(case.curves['core_log_sd'][row]):.1f}: the group "
            "mixes different work; narrow the template or name the problem size."
        ),
    ),
    "tail_unidentified": Judgment(lambda case: case.is_open & case.is_above, _tail),
    "runner_up": Judgment(_rivals, _rival_words),
    "few_sizes": Judgment(_few_sizes, _few_words),
    "sizes_differ": Judgment(
        lambda case: case.next_run.sibling_log_bayes < -SIBLINGS_WORSE,
        lambda case, row: (
            f"{_run_next(case, row)}: this application's other groups scale differently, so they say "
            "little about this one." + _settles(case, row)
        ),
    ),
    "off_law": Judgment(
        lambda case: case.is_missed,
        lambda case, row: (
            f"The law misses what ran on {case.procs[row]:.0f} {case.series.axis.units}; what ran there counts."
        ),
    ),
    "high_error": Judgment(
        lambda case: case.fit_error > case.series.asked.rules.high_error,
        lambda case, row: f"No law comes close (one count is missed by {case.fit_error[row]:.0%}): look at the runs.",
    ),
    "far": Judgment(lambda case: doublings_beyond(case.curves, case.procs) > 1, _far_words),
}


Words = npt.NDArray[np.object_]


def judged(case: Case) -> tuple[Words, Words]:
    """Per row: the codes that hold, joined by + (ok: none), and a sentence (see `advice`)."""
    held = {code: judgment.holds(case) for code, judgment in JUDGMENTS.items()}
    return reliability(held, len(case.curves)), advice(case, held)


def reliability(held: dict[str, Bools], n_rows: int) -> Words:
    """The codes that hold, joined by +; ok where none does."""
    words = np.full(n_rows, "", object)
    for code, where in held.items():
        words[where] = np.where(words[where] == "", code, words[where] + "+" + code)
    words[words == ""] = "ok"
    return words


def advice(case: Case, held: dict[str, Bools]) -> Words:
    """A sentence for the most serious code; without a code, the largest useful allocation, or null."""
    sentences = np.full(len(case.curves), None, object)
    largest = case.curves.largest_useful_procs()
    bounded = np.flatnonzero(np.isfinite(largest) & (case.curves.law != "constant"))
    sentences[bounded] = [
        f"By the law that fits best nothing more is gained beyond {int(largest[row])} {case.series.axis.units}."
        for row in bounded
    ]
    for code, where in reversed(held.items()):
        rows = np.flatnonzero(where)
        sentences[rows] = [JUDGMENTS[code].sentence(case, int(row)) for row in rows]
    return sentences


NEAR = 1.1
"""Ratio to the least WSSRE up to which a fit is about as good as the best (Deshmeh 2013)."""

PERFECT = 0.005
"""Relative error per size that is tolerated even beside a perfect fit."""


def rival_parallelism(fits: Curves, chosen: Curves) -> tuple[Floats, Floats]:
    """Per row of `chosen`, least and largest A of its group's good fits; NaN where none of them has an A."""
    place = {group: row for row, group in enumerate(chosen.group_id)}
    group = np.array([place.get(name, -1) for name in fits.group_id], np.int64)
    rows = np.flatnonzero((group >= 0) & np.isfinite(fits["wssre"]))
    least = _extreme(np.minimum, group[rows], fits["wssre"][rows], len(chosen), np.inf)
    limit = NEAR * least + chosen["n_points"] * PERFECT**2
    good = rows[fits["wssre"][rows] <= limit[group[rows]]]
    parallelism = fits["avg_parallelism"][good]
    low = np.fmin(fits["avg_parallelism_lo"][good], parallelism)
    high = np.fmax(fits["avg_parallelism_hi"][good], parallelism)
    known = ~np.isnan(low)
    low = _extreme(np.minimum, group[good[known]], low[known], len(chosen), np.inf)
    high = _extreme(np.maximum, group[good[known]], high[known], len(chosen), -np.inf)
    has_any = high > -np.inf
    return np.where(has_any, low, np.nan), np.where(has_any, high, np.nan)


def _extreme(pick: np.ufunc, group: Ints, values: Floats, n_groups: int, empty: float) -> Floats:
    found = np.full(n_groups, empty)
    pick.at(found, group, values)
    return found


MISSED_ERRORS = 3
"""Standard errors of the median beyond which the law misses it."""


def case_of(series: AxisSeries, rows: Ints, procs: Floats) -> Case:
    """A row per prediction: row of `chosen`, processor count. Suggested runs keep to counts that PATTERNS favours."""
    fits, chosen, asked = series.fits, series.chosen, series.asked
    curves = chosen.take(rows)
    tails = (fits.status == FitStatus.TAIL_UNIDENTIFIED) & np.isfinite(fits["avg_parallelism"])
    is_open = np.isin(chosen.group_id.astype(str), fits.group_id[tails].astype(str))
    low, high = rival_parallelism(fits, chosen)
    groups, places = np.unique(rows, return_inverse=True)
    by_group = {} if asked.patterns is None else Favoured.by_group(asked.patterns)
    favoured = [by_group.get(group, NONE_FAVOURED) for group in chosen.group_id[groups]]
    next_run = next_runs(series.observed, groups, asked.site.max_procs, asked.site.procs_per_node, favoured)
    return Case(
        series=series,
        curves=curves,
        procs=procs,
        is_open=is_open[rows],
        rival_lo=low[rows],
        rival_hi=high[rows],
        fit_error=_fit_error(series)[rows],
        is_missed=_missed(curves, procs, series.observed.run_sd[rows], series.observations, asked.rules),
        next_run=next_run.rows(places),
    )


def _fit_error(series: AxisSeries) -> Floats:
    """Of each chosen law the largest relative error at a size of its fit, |1 - T/t| (Deshmeh 2013, Table 3)."""
    sizes, found = series.observed.sizes, np.zeros(len(series.chosen))
    group = np.repeat(np.arange(sizes.n_series), np.diff(sizes.offsets))
    np.fmax.at(found, group, np.abs(1.0 - series.chosen.take(group).runtime_s(sizes.procs) / sizes.runtime_s))
    return found


def _missed(curves: Curves, procs: Floats, run_sd: Floats, observations: pa.Table, rules: PredictRules) -> Bools:
    """Rows whose median of repeats is further from the law than MISSED_ERRORS standard errors and than a high error."""
    median_s, n_jobs = _seen_at(curves, procs, observations)
    error = np.sqrt(median_variance(run_sd, n_jobs, rules.measured_log_sd))
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(np.log(median_s / curves.runtime_s(procs)))
    missed: Bools = (n_jobs > 1) & (distance > np.maximum(MISSED_ERRORS * error, rules.high_log_error))
    return missed


def _seen_at(curves: Curves, procs: Floats, observations: pa.Table) -> tuple[Floats, Floats]:
    """Median runtime of each row's group at its size and the jobs that ended there; NaN where none ran."""
    codes, ids = category_codes(observations, "group_id")
    place = {group: code for code, group in enumerate(ids)}
    wanted = np.array([place[group] for group in curves.group_id], np.float64)
    span = float(max(procs.max(initial=0), floats(observations, "procs").max(initial=0))) + 1
    keys = codes * span + floats(observations, "procs")
    order = np.argsort(keys)
    found = np.searchsorted(keys[order], wanted * span + procs)
    rows = order[np.minimum(found, len(order) - 1)] if len(order) else np.zeros(0, np.int64)
    is_seen = keys[rows] == wanted * span + procs
    columns = (floats(observations, "runtime_s_median")[rows], ended_jobs(observations)[rows])
    median_s, n_jobs = (np.where(is_seen, values, np.nan) for values in columns)
    return median_s, n_jobs
