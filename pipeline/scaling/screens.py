"""Screens of a series before laws are fitted: patterns that no smooth law has, and sizes that the others contradict.

Stepwise: from some size on, runtimes are those of the same curve times a factor (Deshmeh 2013: A and sigma are shared
by all phases, only the scale jumps). Favoured counts: sizes outside a class (powers of two, squares) take a factor
longer. Declining: runtime rises again. Odd: one size lies off a curve through the others. Laws are fitted to runtimes
at the level of the last phase or of the favoured counts; predictions are brought back from it.

All four are judged by an average over a grid of shapes instead of by one best fit, because with a handful of sizes many
curves fit alike. Errors e = log T - log shape have variance s^2/weight; the scale's prior is flat in its log, s^2 is
scaled inverse chi-square with `freedom` degrees and the square of `log_sd`, log factors are normal about 0. All of
these are integrated exactly (Gelman et al. 2013, Bayesian Data Analysis, chapters 3 and 7). By Markov's inequality
odds of x come up in at most 1/x of the series that a shape of the grid describes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import stdtrit

from pipeline.arrays import Array, Bools, Floats, Ints, arrow, category_codes, floats, replaced
from pipeline.laws import downey_s
from pipeline.report import Report, Tally
from pipeline.scaling.series import CLASSES, ObservedSizes, axes_of_groups, repeat_spread
from pipeline.schema import Axis, counted, plural
from pipeline.tables import INTERVALS, OBSERVATIONS, PATTERNS

STEPWISE, DECLINING = "stepwise", "declining"

MIN_DECLINE_POINTS = 4
"""Three sizes determine a curve; a fourth shows that it turns."""

MOST_PAIRS = 100
"""Of further steps that are tried together; a series of more than 22 sizes shows its steps one by one."""

DOUBLE_STEPS = 0.1
"""Prior probability that a stepped series has two further steps, not one."""

DOUBTED_LOG_ODDS, DOUBTED_SHARE = -1.0, 0.7
"""Log odds of a pattern, and share of an odd size's limit, above which the series is looked at more closely."""

FLAT_ERRORS = 2.0
"""Standard errors within which two neighbouring sizes run equally long."""


@dataclass(frozen=True, slots=True)
class ScreenRules:
    """Which sizes a series' fit leaves out because the others contradict them; steps, favoured counts and declines."""

    # Rate of false alarms: share of clean series in which a size is called odd.
    false_alarms: float = 0.05
    # Least number of sizes of a series in which a size can be odd.
    min_points: int = 5
    # Largest share of odd sizes in a series.
    max_share: float = 0.25
    # Least odds of a pattern that is reported; 20 is a false alarm in at most 1 of 20 series.
    odds: float = 20.0
    # The same for a step to faster runs where repeats measure the noise; a false alarm in at most 1 of 100 series.
    gain_odds: float = 1.5
    # Least deviation of an odd size, and least factor of a step or of a favoured class (log s; 0.1 is 10%).
    least_departure: float = 0.1
    # Typical deviation of a phase or class of sizes from the curve (log s; 0.3 is 35%).
    departure_log_sd: float = 0.3
    # Least number of sizes on either side of a step.
    min_phase_points: int = 3
    # Least number of sizes inside and outside a favoured class.
    min_class_points: int = 3
    # Largest spread of repeats in a searched group; wider groups mix different work (log s).
    wide_log_sd: float = 0.5
    # Lower bound of the spread of repeats (log s; 0.01 is 1%).
    least_log_sd: float = 0.01
    # Spread of repeats where the log has no repeats (log s).
    default_log_sd: float = 0.05


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


def measured_series(observations: pa.Table, rules: ScreenRules) -> list[MeasuredSeries]:
    """The series of an OBSERVATIONS table in order of group, as the screens read them.

    The noise of one run is that of the series' own repeats, else the median over the log's series with repeats, else
    the default.
    """
    read = ObservedSizes.of(observations, with_odd=True)
    own = repeat_spread(read)["core_log_sd"]
    has_repeats = bool(np.isfinite(own).any())
    core = np.where(np.isnan(own), np.nanmedian(own) if has_repeats else rules.default_log_sd, own)
    freedom = FREEDOM_WITH_REPEATS if has_repeats else FREEDOM_WITHOUT
    series = []
    for k in np.flatnonzero(read.batch.n_points):
        at, sd = slice(*read.batch.offsets[k : k + 2]), float(core[k])
        variance = rules.least_log_sd**2 + sd**2
        weights = variance / (rules.least_log_sd**2 + sd**2 / read.n_runs[at])
        columns = read.row[at], read.batch.procs[at], read.batch.runtime_s[at], weights
        series.append(MeasuredSeries(read.ids[k], *columns, variance**0.5, freedom))
    return series


def find_patterns(observations: pa.Table, rules: ScreenRules) -> tuple[pa.Table, Report]:
    """PATTERNS in order of group and pattern.

    status: found; weaker (another pattern explains more); not_found; too_few_points; wide_group (its repeats spread
    too much to share a curve); one_class_only (every size seen is in the class). Each step of a series with several is
    a row of its own, numbered by rising processor counts. The Report counts groups.

    Parameters
    ----------
    observations : pa.Table
        OBSERVATIONS.
    rules : ScreenRules
        Thresholds of the screens.

    Returns
    -------
    table : pa.Table
        PATTERNS.
    report : Report
        Number of groups.

    Examples
    --------
    >>> table, _ = find_patterns(tables["observed"], ScreenRules())
    >>> table.equals(tables["patterns"])
    True
    """
    groups = measured_series(observations, rules)
    axes = axes_of_groups(observations, [series.group_id for series in groups])
    rows = [
        {"group_id": series.group_id, "n_points": len(series.row), "words": _words(row, series, axis)} | row
        for series, axis in zip(groups, axes, strict=True)
        for row in _patterns(series, rules)
    ]
    table = PATTERNS.build(**{column: [row.get(column) for row in rows] for column in PATTERNS.schema().names})
    found = [row["pattern"] for row in rows if row["status"] == "found" and row["step"] == 1]
    whole, names = Tally(len(groups)), (STEPWISE, *CLASSES, DECLINING)
    facts = {f"groups_{name}": found.count(name) for name in names}
    return table, Report("patterns", "group", whole, whole, facts=facts).check()


def _patterns(series: MeasuredSeries, rules: ScreenRules, coarse: "_Comparison | None" = None) -> list[dict[str, Any]]:
    """The rows of PATTERNS of one series, without its group: first what each pattern shows, then which are found."""
    classes = {name: is_in(series.procs) for name, is_in in CLASSES.items()}
    rows: dict[str, dict[str, Any]] = {
        name: {"pattern": name, "step": 1, "status": "too_few_points"} for name in (STEPWISE, *classes, DECLINING)
    }
    if series.log_sd > rules.wide_log_sd:
        return [{**row, "status": "wide_group"} for row in rows.values()]
    if len(series.row) < MIN_DECLINE_POINTS:
        return list(rows.values())
    shapes, reached = _Comparison(series, coarse), {}

    # 1. A decline stands by itself; it needs no factor.
    log_odds, turn = shapes.decline()
    status = "found" if log_odds >= np.log(rules.odds) else "not_found"
    rows[DECLINING] |= {"log_odds": log_odds, "from_procs": int(series.procs[turn]), "status": status}

    # 2. Sizes outside a class take longer, or one step is taken, or two that hide each other where either is looked for
    # alone; the rival of all is a plain curve, or one with an odd size.
    least = rules.min_class_points
    tried = [name for name, inside in classes.items() if least <= inside.sum() <= len(inside) - least]
    outside, steps = shapes.departures((), [~classes[name] for name in tried], rules)
    for name, inside in classes.items():
        if inside.all():
            rows[name]["status"] = "one_class_only"
    for name, (log_odds, gain) in zip(tried, outside, strict=True):
        rows[name] |= {"log_odds": log_odds, "factor": np.exp(gain), "status": "not_found"}
        if log_odds >= np.log(rules.odds) and gain >= rules.least_departure:
            reached[name] = log_odds
    if steps is not None:
        rows[STEPWISE] |= {"log_odds": steps.log_odds, "status": "not_found"} | steps.row(0, series)
        if steps.is_found:
            reached[STEPWISE] = steps.log_odds
    most = max(row.get("log_odds", -np.inf) for row in rows.values())
    if coarse is None and shapes.is_likely.sum() <= MOST_LIKELY and most > DOUBTED_LOG_ODDS:
        return _patterns(series, rules, shapes)

    # 3. Of steps and classes only the likeliest is found, because each explains some of what another would.
    for name, log_odds in reached.items():
        rows[name]["status"] = "found" if log_odds == max(reached.values()) else "weaker"
    phases = [rows.pop(STEPWISE)]
    if steps is not None and phases[0]["status"] == "found":
        # More steps are sought until none is found; each is a row, with the odds of the round that found it.
        odds_of: dict[int, float] = {}
        further: _Steps | None = steps
        while further is not None and further.is_found:
            steps, odds_of = further, dict.fromkeys(further.places, further.log_odds) | odds_of
            _, further = shapes.departures(steps.places, [], rules)
        phases = [
            phases[0] | {"step": number, "log_odds": odds_of[steps.places[at]]} | steps.row(at, series)
            for number, at in enumerate(np.argsort(steps.places).tolist(), start=1)
        ]
    return [*phases, *rows.values()]


class _Steps(NamedTuple):
    """Log odds of any further steps, and whether they suffice; where the likeliest begin, after those found before."""

    log_odds: float
    is_found: bool
    places: tuple[int, ...]
    log_factors: Floats

    def row(self, at: int, series: MeasuredSeries) -> dict[str, Any]:
        """Factor and first processor count of one step."""
        return {"factor": np.exp(self.log_factors[at]), "from_procs": int(series.procs[self.places[at]])}


SHOWN = 5
"""Counts a sentence lists."""


def _words(row: dict[str, Any], series: MeasuredSeries, axis: Axis) -> str | None:
    """The sentence of one row of PATTERNS; null where nothing was found."""
    name, first = row["pattern"], row.get("from_procs", 0)
    if row["status"] == "one_class_only":
        return f"All measured counts are {name.replace('_', ' ')}; runtimes at other counts are interpolated."
    if row["status"] != "found":
        return None
    if name == DECLINING:
        return f"More than {counted(first, axis)} would make it slower: request at most {first:,}."
    factor = row["factor"]
    if name == STEPWISE:
        faster = f"{1 / factor:.2f} times faster" if factor < 1 else f"{factor:.2f} times slower"
        return f"From {first} {axis.units} on it runs {faster} than the curve of the smaller counts."
    counts = np.arange(series.procs[0], 36 * series.procs[0] + SHOWN)
    listed = ", ".join(f"{count:.0f}" for count in counts[CLASSES[name](counts)][:SHOWN])
    return f"Run on {listed}, ...: other counts take {factor:.2f} times as long."


def screen(observations: pa.Table, patterns: pa.Table, rules: ScreenRules) -> tuple[pa.Table, Report]:
    """OBSERVATIONS with `odd` (slow or fast), `deviation`, `expected_s` and `fit_weight` set; the Report counts sizes.

    A size that is odd is no point of its group's series; whatever reads the table can see it and why. A size that is
    off by the factor of a pattern found is not odd, so PATTERNS is read for it.

    Parameters
    ----------
    observations : pa.Table
        OBSERVATIONS.
    patterns : pa.Table
        PATTERNS of these observations.
    rules : ScreenRules
        Thresholds of the screens.

    Returns
    -------
    table : pa.Table
        OBSERVATIONS with the same rows; `expected_s` in s.
    report : Report
        Number of sizes, and of odd ones.

    Examples
    --------
    >>> table, _ = screen(tables["observed"], tables["patterns"], ScreenRules())
    >>> table.equals(tables["observations"])
    True
    """
    factor = _levels(observations, patterns, floats(observations, "procs"))
    deviation, expected_s, fit_weight = np.full((3, observations.num_rows), np.nan)
    n_screened = 0
    for series in measured_series(observations, rules):
        if len(series.row) < rules.min_points or series.log_sd > rules.wide_log_sd:
            continue
        n_screened += 1
        levelled = series._replace(runtime_s=series.runtime_s * factor[series.row])
        deviation[series.row], expected, is_odd = _odd_sizes(levelled, rules)
        odd = series.row[is_odd]
        expected_s[odd], fit_weight[odd] = expected[is_odd] / factor[odd], 0.0

    is_odd = fit_weight == 0.0
    words = np.full(is_odd.shape, None, object)
    words[is_odd] = np.where(deviation[is_odd] > 0, "slow", "fast")
    table = replaced(observations, "odd", pa.array(words, pa.string()))
    table = _with_floats(table, {"deviation": deviation, "expected_s": expected_s, "fit_weight": fit_weight})
    n_odd, n_groups = int(is_odd.sum()), len(table.column("group_id").filter(pa.array(is_odd)).unique())
    are = "is an outlier and was" if n_odd == 1 else "are outliers and were"
    sizes = f"{n_odd:,} processor {plural('count', n_odd)} in {n_groups:,} {plural('group', n_groups)}"
    notes = (f"{sizes} {are} excluded from the fits.",) if n_odd else ()
    whole, kept, facts = Tally(table.num_rows), Tally(table.num_rows - n_odd), {"series_screened": n_screened}
    aside = {word: Tally(n) for word in ("slow", "fast") if (n := int((words == word).sum()))}
    return OBSERVATIONS.check(table), Report("screen", "observation", whole, kept, aside, facts, notes).check()


def _odd_sizes(series: MeasuredSeries, rules: ScreenRules) -> tuple[Floats, Floats, Bools]:
    """Per size: predictive standard deviations off, what the others predict (s), and whether it is odd.

    The size furthest beyond the threshold goes first; what is left is screened again, up to max_share.
    """
    m = len(series.row)
    # The sizes before cannot know where scaling ends, and a last size that shows it must not be lost to the fit.
    noise = series.log_sd * np.sqrt((1 / series.weights[-2:]).sum())
    scaling_ends = abs(np.log(series.runtime_s[-1] / series.runtime_s[-2])) <= FLAT_ERRORS * noise
    deviation, expected_s, is_odd = np.full(m, np.nan), np.full(m, np.nan), np.zeros(m, bool)
    while is_odd.sum() + 1 <= max(rules.max_share * m, 1.0) and (~is_odd).sum() >= rules.min_points:
        kept, shapes = np.flatnonzero(~is_odd), None
        rest = series._replace(**{name: getattr(series, name)[kept] for name in ("procs", "runtime_s", "weights")})
        # Student's t where one shape holds; Bonferroni over the sizes of the series.
        limit = stdtrit(series.freedom + kept.size - 2, 1 - rules.false_alarms / (2 * kept.size))
        for least in (DOUBTED_SHARE * limit, limit):
            shapes = _Comparison(rest, shapes)
            off_sd, log_off = shapes.left_out()
            may_be_odd = (np.abs(log_off) >= rules.least_departure) & ~(scaling_ends & (kept == m - 1))
            furthest = int(np.argmax(np.where(may_be_odd, np.abs(off_sd), -1.0)))
            reached = may_be_odd[furthest] and abs(off_sd[furthest]) > least
            if not reached:
                break
        deviation[kept], expected_s[kept] = off_sd, series.runtime_s[kept] * np.exp(log_off)
        if not reached:
            break
        is_odd[kept[furthest]] = True
    return deviation, expected_s, is_odd


def level(observations: pa.Table, patterns: pa.Table) -> tuple[pa.Table, Report]:
    """OBSERVATIONS with runtimes at the level of each group's last phase or favoured counts: what is fitted.

    Parameters
    ----------
    observations : pa.Table
        OBSERVATIONS.
    patterns : pa.Table
        PATTERNS of these observations.

    Returns
    -------
    table : pa.Table
        OBSERVATIONS with the same rows; runtimes in s.
    report : Report
        Number of sizes.

    Examples
    --------
    >>> table, _ = level(tables["observations"], tables["patterns"])
    >>> table.num_rows == tables["observations"].num_rows
    True
    """
    factor, whole = _levels(observations, patterns, floats(observations, "procs")), Tally(observations.num_rows)
    table = _scaled(observations, ("runtime_s_median", "runtime_s_q10", "runtime_s_q90", "expected_s"), factor)
    facts = {"observations_levelled": int((factor != 1.0).sum())}
    return table, Report("level", "observation", whole, whole, facts=facts).check()


def unlevel(predictions: pa.Table, patterns: pa.Table) -> pa.Table:
    """PREDICTIONS of levelled series as runtimes of the phase, or the kind of processor count, each row belongs to.

    The advice on counts beyond a decline is that of the pattern: no law declines, so that each misses some count there.

    Parameters
    ----------
    predictions : pa.Table
        PREDICTIONS of levelled series.
    patterns : pa.Table
        PATTERNS of the observations.

    Returns
    -------
    pa.Table
        PREDICTIONS with the same rows; runtimes in s.

    Examples
    --------
    >>> table = unlevel(tables["curves"], tables["patterns"])
    >>> table.num_rows == tables["curves"].num_rows
    True
    """
    factor = _levels(predictions, patterns, floats(predictions, "procs"))
    on_one = _levels(predictions, patterns, np.ones(predictions.num_rows))
    found = patterns.filter(pc.equal(patterns.column("status"), "found")).to_pylist()
    if declines := {row["group_id"]: row for row in found if row["pattern"] == DECLINING}:
        advice = predictions.column("advice").to_pylist()
        rows = zip(*(predictions.column(name).to_pylist() for name in ("group_id", "procs")), strict=True)
        for place, (group, procs) in enumerate(rows):
            if group in declines and procs > declines[group]["from_procs"]:
                advice[place] = declines[group]["words"]
        predictions = replaced(predictions, "advice", pa.array(advice, pa.string()))
    return _scaled(_scaled(predictions, INTERVALS, 1.0 / factor), ("speedup", "efficiency"), factor / on_one)


def _levels(table: pa.Table, patterns: pa.Table, procs: Floats) -> Floats:
    """Per row, what brings its group's runtime on `procs` to the level of the last phase or of the favoured counts."""
    factor = np.ones(len(procs))
    is_found = pc.and_(pc.equal(patterns.column("status"), "found"), pc.is_valid(patterns.column("factor")))
    codes, ids = category_codes(table, "group_id")
    code = {group: place for place, group in enumerate(ids)}
    for row in patterns.filter(is_found).to_pylist():
        rows = np.flatnonzero(codes == code.get(row["group_id"], -1))
        if row["pattern"] == STEPWISE:
            factor[rows] *= np.where(procs[rows] < row["from_procs"], row["factor"], 1.0)
        else:
            factor[rows] /= np.where(CLASSES[row["pattern"]](procs[rows]), 1.0, row["factor"])
    return factor


def _scaled(table: pa.Table, names: tuple[str, ...], factor: Floats) -> pa.Table:
    """The table with some columns times a factor per row."""
    return _with_floats(table, {name: floats(table, name) * factor for name in names if (factor != 1.0).any()})


def _with_floats(table: pa.Table, columns: Mapping[str, Floats]) -> pa.Table:
    """The table with these values in columns it has; NaN is null."""
    for name, values in columns.items():
        table = replaced(table, name, arrow(values, np.isnan(values)))
    return table


FAMILIES = ((("A",), 100), (("A", "sigma"), 300), (("A", "overhead"), 200), (("A", "overhead", "sigma"), 500))
"""Families of shapes, all equally likely, by their parameters, with the number of shapes: Amdahl's law and Downey's, in
both modes, either alone or with an overhead for the piece that declines (CSD-97-933 has none)."""

MOST_LIKELY = 400
"""Where more shapes are likely the noise hides the gaps between them."""

PARTS = 16
"""Of a shape that is looked at more closely; the gaps between whole ones may look like a small departure."""

BEYOND = 16.0
"""The largest A, in multiples of the largest size: its curve is linear to within 6% there."""

MOST_OVERHEAD = 300.0
"""At the largest size, in multiples of what the law without it takes there."""

EXPONENTS, POWER_SHARE = np.arange(0.025, 1.11, 0.025), 0.15
"""Of power laws x^-b, and their share of the prior."""


def _evenly(d: int, n: int) -> Floats:
    """Coordinates of n points that fill the unit cube of d dimensions, by multiples of powers of the root of
    x^(d + 1) = x + 1: better than crossed grids, where most points repeat one another's values."""
    root = np.roots([1.0, *[0.0] * (d - 1), -1.0, -1.0]).real.max()
    return np.mod(np.outer(root ** -np.arange(1.0, d + 1), np.arange(n) + 0.5), 1.0)


@cache
def _grid(n_parts: int) -> tuple[dict[str, Floats], Floats]:
    """Where shapes lie between the ends of each parameter, from 0 to 1, and the prior weights of all, sum 1.

    The parts of a shape follow one another and fill its share of the space. Shapes with an overhead, which come last,
    count twice: it grows with n or with log n.
    """
    places: dict[str, list[Floats]] = {"A": [], "overhead": [], "sigma": []}
    prior: list[Floats] = []
    for names, n in FAMILIES:
        within = _evenly(len(names), n_parts)
        off = (within - within.mean(axis=1, keepdims=True)) * n ** (-1 / len(names))
        # Parts beyond an end of a parameter are folded back.
        at = np.abs(_evenly(len(names), n)[:, :, None] + off[:, None]).reshape(len(names), -1)
        given = dict(zip(names, 1 - np.abs(1 - at), strict=True))
        for name, parts in places.items():
            parts.append(given.get(name, np.full(n * n_parts, np.nan)))
        prior.append(np.full(n * n_parts, 1 / (n * n_parts) / (2 if "overhead" in names else 1)))
    powers = np.full(EXPONENTS.size * n_parts, POWER_SHARE / EXPONENTS.size / n_parts)
    laws = np.concatenate([*prior, *prior[2:]]) * (1 - POWER_SHARE) / len(FAMILIES)
    return {name: np.concatenate(parts) for name, parts in places.items()}, np.append(laws, powers)


@lru_cache(maxsize=512)
def _log_shapes(x: float, doublings: int, n_parts: int) -> Array:
    """log T(x)/T(1) of every shape and part, as float32; x counts from the smallest of sizes over so many doublings."""
    at, top = _grid(n_parts)[0], 2.0**doublings
    # Low and high variance are equally likely; without a sigma it is Amdahl's law.
    sigma = np.where(at["sigma"] < 0.5, 2 * at["sigma"], 0.5 / np.maximum(1 - at["sigma"], 1e-300))
    sigma = np.where(np.isnan(sigma), np.inf, sigma)
    A = (BEYOND * top) ** at["A"]
    law, law_at_top = (downey_s(np.array([n]), np.ones(1), A, sigma) for n in (x, top))
    overhead = np.expm1(np.nan_to_num(at["overhead"]) * np.log1p(MOST_OVERHEAD)) * law_at_top
    linear, logarithmic = (law + overhead * grown for grown in ((x - 1) / (top - 1), np.log(x) / np.log(top)))
    grows_by_log = logarithmic[~np.isnan(at["overhead"])]
    exponents = np.add.outer(EXPONENTS, (np.arange(0.5, n_parts) / n_parts - 0.5) * EXPONENTS[0]).ravel()
    return np.concatenate([np.log(linear), np.log(grows_by_log), -exponents * np.log(x)]).astype(np.float32)


NEGLIGIBLE_LOG = 10.0
"""A shape e^10 times less likely than the best takes no part in an average, and is not looked at more closely."""

TURN_LOG = 0.02
"""A curve that rises less than this after its least runtime is flat, not declining (log s)."""


class _Comparison:
    """One series against every shape: what each leaves of the log runtimes, and which departures that speaks for.

    `errors` by size and shape, about their weighted mean; `squares`, their weighted sum by shape; `known`, what the
    noise counts before any size is seen; `half`, half the degrees of freedom.
    """

    def __init__(self, series: MeasuredSeries, coarse: "_Comparison | None" = None) -> None:
        """The series against every shape, or against the parts of those that a coarse comparison found likely."""
        multiples = series.procs / series.procs[0]
        doublings, n_parts = max(int(np.ceil(np.log2(multiples[-1]) - 1e-9)), 1), PARTS if coarse else 1
        # A series spans few powers of e, and half the bytes are half the time.
        tables, self.prior = [_log_shapes(float(x), doublings, n_parts) for x in multiples], _grid(n_parts)[1]
        if coarse:
            tables = [table.reshape(-1, n_parts)[coarse.is_likely].ravel() for table in tables]
            self.prior = self.prior.reshape(-1, n_parts)[coarse.is_likely].ravel()
        self.curves = np.array(tables)
        self.turns = self.curves[-1] - self.curves.min(axis=0) > TURN_LOG
        self.coarse = coarse
        self.is_likely: Bools = np.zeros(self.prior.size, bool)
        log_t, self.weights = np.log(series.runtime_s), series.weights
        weights = self.weights.astype(np.float32)
        errors = (log_t - log_t.mean()).astype(np.float32)[:, None] - self.curves
        self.errors = errors - weights @ errors / weights.sum()
        self.squares = weights @ self.errors**2
        self.log_t, self.log_sd, self.freedom = log_t, series.log_sd, series.freedom
        self.known = series.freedom * series.log_sd**2
        self.half = 0.5 * (series.freedom + len(log_t) - 1)

    def evidence(self, left: Array, half: float, apart: float = np.inf) -> tuple[Floats, Ints, Array]:
        """Per row of left[row, shape], the squares that shapes leave: log of the mean of (1 + squares/known)^-half.

        Also the shapes that are not negligible in some row, and their shares of its sum.
        """
        best = left.min(axis=1, keepdims=True)
        cut = (self.known + best) * np.exp(NEGLIGIBLE_LOG / half) - self.known
        is_near = left <= cut
        kept = np.flatnonzero(is_near.any(axis=0))
        ratio = (self.known + left[:, kept]) / (self.known + best)
        weight = self.prior[kept] * np.exp(np.float32(-half) * np.log(ratio))
        whole = weight.sum(axis=1, keepdims=True)
        found = np.log(whole[:, 0]) - half * np.log1p(best[:, 0] / self.known)
        self.is_likely |= is_near[found > found.max() - apart].any(axis=0)
        return found, kept, weight / whole

    def odds(self, parts: Bools, departure_log_sd: float) -> tuple[Floats, Floats]:
        """Log odds of departures against the first, and posterior means of their log factors [departure, factor].

        parts[departure, factor, size]: whether a factor is on a size; its log is normal about 0 with this sd. A factor
        on no size changes nothing.
        """
        inside = parts.astype(float)
        centred = (inside - (inside @ self.weights / self.weights.sum())[..., None]) * self.weights
        known = np.eye(parts.shape[1]) * (self.log_sd / departure_log_sd) ** 2
        root = np.linalg.cholesky(centred @ inside.transpose(0, 2, 1) + known)
        inverse = np.linalg.inv(root)
        contrast = (inverse @ centred).astype(np.float32).reshape(-1, parts.shape[2])
        moved = (contrast @ self.errors).reshape(*parts.shape[:2], -1)
        left = np.maximum(self.squares - (moved**2).sum(axis=1), 0.0)
        log_evidence, kept, share = self.evidence(left, self.half, NEGLIGIBLE_LOG)
        means = np.einsum("pg,pfg->pf", share, moved[..., kept])
        occam = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        relative = log_evidence - occam
        return relative - relative[0], np.einsum("pef,pe->pf", inverse, means)

    def departures(
        self, found: tuple[int, ...], others: list[Bools], rules: ScreenRules
    ) -> tuple[list[tuple[float, float]], _Steps | None]:
        """Log odds and log factor of each of `others`, the sizes that it slows, and the likeliest one or two steps.

        All beside the steps found, with the factors of all estimated together, against those alone or with one odd
        size. Odds of steps are those of any one or two; None where there is no room for any.
        """
        m, least = len(self.weights), rules.min_phase_points
        free = [at for at in range(least, m - least + 1) if all(abs(at - other) >= least for other in found)]
        doubles = [(first, second) for first in free for second in free if second - first >= least]
        doubles = doubles if len(doubles) <= MOST_PAIRS else []
        share = DOUBLE_STEPS if doubles else 0.0
        # Row j of `phases` has the sizes from j on, the last none.
        phases = np.arange(m) >= np.arange(m + 1)[:, None]
        steps = [(*found, at, m) for at in free] + [(*found, *pair) for pair in doubles]
        alone = np.concatenate([np.eye(m + 1, m, -1, dtype=bool), np.array(others, bool).reshape(-1, m)])
        beside = np.broadcast_to(phases[[*found, m]], (len(alone), len(found) + 1, m))
        parts = [np.concatenate([beside, alone[:, None]], axis=1), *([phases[np.array(steps)]] if steps else [])]
        odds, gains = self.odds(np.concatenate(parts), rules.departure_log_sd)

        rival = np.logaddexp(odds[0], np.logaddexp.reduce(odds[1 : m + 1]) - np.log(m))
        n_alone = len(alone)
        outside = list(zip((odds[m + 1 : n_alone] - rival).tolist(), gains[m + 1 : n_alone, -1].tolist(), strict=True))
        if not steps:
            return outside, None
        prior = np.repeat([(1 - share) / len(free), share / max(len(doubles), 1)], [len(free), len(doubles)])
        of_steps = odds[n_alone:] + np.log(prior)
        likeliest = int(np.argmax(of_steps))
        places = tuple(at for at in steps[likeliest] if at < m)
        log_factors, log_odds = gains[n_alone + likeliest, : len(places)], float(np.logaddexp.reduce(of_steps) - rival)
        # Fewer odds suffice for steps to faster runs, which no law takes so suddenly, where repeats show the noise.
        further = log_factors[len(found) :]
        is_gain = self.freedom >= FREEDOM_WITH_REPEATS and bool((further < 0.0).all())
        is_found = log_odds >= np.log(rules.gain_odds if is_gain else rules.odds)
        is_found = bool(is_found and (np.abs(further) >= rules.least_departure).all())
        return outside, _Steps(log_odds, is_found, places, log_factors)

    def decline(self) -> tuple[float, int]:
        """Log odds that runtime rises again between two sizes, and where: the size of least runtime up to that where
        most of the posterior weight turns, because none that was slower than a smaller one is to be requested."""
        if self.coarse and len(np.unique(self.turns)) == 1:
            return self.coarse.decline()
        sides = np.where([self.turns, ~self.turns], self.squares, np.float32(np.inf))
        (turning, other), kept, share = self.evidence(sides, self.half)
        # The parts are of likely shapes: what is likely before any run is seen, all shapes tell.
        whole = self.coarse or self
        turning_share = whole.prior[whole.turns].sum()
        prior_odds = turning_share / (1 - turning_share)
        turn = np.bincount(self.curves[:, kept].argmin(axis=0), share[0]).argmax()
        return float(turning - other - np.log(prior_odds)), int(self.log_t[: turn + 1].argmin())

    def left_out(self) -> tuple[Floats, Floats]:
        """Each size from the others: predictive standard deviations off, and predicted less seen log runtime.

        The first follow Student's t with freedom + m - 2 degrees where one shape holds.
        """
        w, half = self.weights[:, None], self.half - 0.5
        total = w.sum()
        rest = total - w
        left = np.maximum(self.squares - (total * w / rest).astype(np.float32) * self.errors**2, 0.0)
        _, kept, share = self.evidence(left, half)
        off = -self.errors[:, kept] * total / rest
        variance = (self.known + left[:, kept]) * (1 / w + 1 / rest) / (2 * half)
        centre = (share * off).sum(axis=1)
        return -centre / np.sqrt((share * (variance + off**2)).sum(axis=1) - centre**2), centre
