"""Screens of a series before laws are fitted: patterns that no smooth law has, and sizes that the others contradict.

Stepwise: from some size on, runtimes are those of the same curve times a factor (Deshmeh 2013: A and sigma are shared
by all phases, only the scale jumps). Favoured counts: sizes outside a class (powers of two, squares, multiples of a
node) take a factor longer. Declining: runtime rises again. Odd: one size lies off a curve through the others.

All four are judged by an average over a grid of shapes instead of by one best fit, because with a handful of sizes many
curves fit alike. Errors e = log T - log shape have variance s^2/weight; the scale's prior is flat in its log, s^2 is
scaled inverse chi-square with `freedom` degrees and the square of `log_sd`, log factors are normal about 0. All of
these are integrated exactly (Gelman et al. 2013, Bayesian Data Analysis, chapters 3 and 7). By Markov's inequality
odds of x come up in at most 1/x of the series that a shape of the grid describes.
"""

from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.special import stdtrit

from pipeline.arrays import CATEGORY, Array, Bools, Floats, Ints, arrow, floats, replaced
from pipeline.axes import Axis, counted, plural
from pipeline.laws import downey_s
from pipeline.report import Report, Tally
from pipeline.scaling.levels import STEPWISE, class_names, group_ids, in_class, levels
from pipeline.scaling.points import FREEDOM_WITH_REPEATS, MeasuredSeries, axes_of_groups, measured_series
from pipeline.scaling.rules import AnomalyRules, PatternRules
from pipeline.tables import OBSERVATIONS, PATTERNS

DECLINING = "declining"

MIN_DECLINE_POINTS = 4
"""Three sizes determine a curve; a fourth shows that it turns."""

MOST_PAIRS = 100
"""Of further steps that are tried together; a series of more than 22 sizes shows its steps one by one."""

DOUBLE_STEPS = 0.1
"""Prior probability that a stepped series has two further steps, not one."""

DOUBTED_LOG_ODDS = -1.0
"""A step or decline whose log odds lie above this is judged anew on the fine grid."""

FLAT_ERRORS = 2.0
"""Standard errors within which two neighbouring sizes run equally long."""


def find_patterns(observations: pa.Table, rules: PatternRules, noise: tuple[float, float]) -> tuple[pa.Table, Report]:
    """PATTERNS in order of group and pattern; `noise` is the least and the default log sd of a run.

    status: found; weaker (another pattern explains more); not_found; too_few_points; wide_group (its repeats spread
    too much to share a curve); one_class_only (every size seen is in the class). Each step of a series with several is
    a row of its own, numbered by rising processor counts. The Report counts groups.

    Parameters
    ----------
    observations : pa.Table
        OBSERVATIONS.
    rules : PatternRules
        Thresholds of the patterns.
    noise : tuple of float
        Least and default log standard deviation of a run.

    Returns
    -------
    table : pa.Table
        PATTERNS.
    report : Report
        Number of groups.

    Examples
    --------
    >>> table, _ = find_patterns(tables["observed"], PatternRules(), (0.01, 0.05))
    >>> table.equals(tables["patterns"])
    True
    """
    groups = measured_series(observations, *noise)
    axes = axes_of_groups(observations, [series.group_id for series in groups])
    rows = [
        {"group_id": series.group_id, "n_points": len(series.row), "words": _words(row, series, rules.node_procs, axis)}
        | row
        for series, axis in zip(groups, axes, strict=True)
        for row in _patterns(series, rules, N_SHAPES)
    ]
    table = PATTERNS.build(**{column: [row.get(column) for row in rows] for column in PATTERNS.schema().names})
    names = [STEPWISE, *class_names(rules.node_procs), DECLINING]
    found = [row["pattern"] for row in rows if row["status"] == "found" and row["step"] == 1]
    whole = Tally(len(groups))
    facts = {f"groups_{name}": found.count(name) for name in names}
    return table, Report("patterns", "group", whole, whole, facts=facts).check()


def _patterns(series: MeasuredSeries, rules: PatternRules, n_shapes: int) -> list[dict[str, Any]]:
    """The rows of PATTERNS of one series, without its group: first what each pattern shows, then which are found."""
    classes = {name: in_class(name, series.procs, rules.node_procs) for name in class_names(rules.node_procs)}
    rows: dict[str, dict[str, Any]] = {
        name: {"pattern": name, "step": 1, "status": "too_few_points"} for name in (STEPWISE, *classes, DECLINING)
    }
    if series.log_sd > rules.wide_log_sd:
        return [{**row, "status": "wide_group"} for row in rows.values()]
    if len(series.row) < MIN_DECLINE_POINTS:
        return list(rows.values())
    shapes, reached = _Comparison(series, n_shapes), {}

    # A decline stands by itself; it needs no factor.
    log_odds, turn = shapes.decline()
    rows[DECLINING] |= {"log_odds": log_odds, "from_procs": int(series.procs[turn]), "status": "not_found"}
    if log_odds >= np.log(rules.odds):
        rows[DECLINING]["status"] = "found"

    # Sizes outside a class take longer; the rival is a plain curve, or one with an odd size.
    rival = shapes.plain_or_odd((), rules.departure_log_sd)
    for name, inside in classes.items():
        if inside.all():
            rows[name]["status"] = "one_class_only"
        elif rules.min_class_points <= inside.sum() <= len(inside) - rules.min_class_points:
            (odds,), ((gain,),) = shapes.odds((~inside)[None, None], rules.departure_log_sd)
            rows[name] |= {"log_odds": odds - rival, "factor": np.exp(gain), "status": "not_found"}
            if odds - rival >= np.log(rules.odds) and gain >= rules.least_departure:
                reached[name] = odds - rival

    # One step, or two that hide each other where either is looked for alone.
    steps = _further_steps(shapes, (), rules)
    if steps is not None:
        rows[STEPWISE] |= {"log_odds": steps.log_odds, "status": "not_found"} | steps.row(0, series.procs)
        if steps.is_found(0, series.freedom, rules):
            reached[STEPWISE] = steps.log_odds

    if (
        n_shapes < N_FINE
        and max(row.get("log_odds", -np.inf) for row in (rows[STEPWISE], rows[DECLINING])) > DOUBTED_LOG_ODDS
    ):
        return _patterns(series, rules, N_FINE)

    # Of steps and classes only the likeliest is found, because each explains some of what another would.
    for name, log_odds in reached.items():
        rows[name]["status"] = "found" if log_odds == max(reached.values()) else "weaker"
    others = [row for name, row in rows.items() if name != STEPWISE]
    if steps is None or rows[STEPWISE]["status"] != "found":
        return [rows[STEPWISE], *others]
    return [*(rows[STEPWISE] | phase for phase in _phases(shapes, steps, series, rules)), *others]


def _phases(
    shapes: "_Comparison", steps: "_Steps", series: MeasuredSeries, rules: PatternRules
) -> list[dict[str, Any]]:
    """Number, odds, factor and first processor count of every step, by rising counts: more are sought until none is."""
    log_odds: dict[int, float] = {}
    further: _Steps | None = steps
    while further is not None and further.is_found(len(log_odds), series.freedom, rules):
        steps = further
        log_odds |= {place: steps.log_odds for place in steps.places if place not in log_odds}
        further = _further_steps(shapes, steps.places, rules)
    return [
        {"step": number, "log_odds": log_odds[steps.places[at]]} | steps.row(at, series.procs)
        for number, at in enumerate(np.argsort(steps.places).tolist(), start=1)
    ]


class _Steps(NamedTuple):
    """Log odds of any further steps; where the likeliest begin, after those found before; the log factor of each."""

    log_odds: float
    places: tuple[int, ...]
    gains: Floats

    def is_found(self, n_before: int, freedom: float, rules: PatternRules) -> bool:
        """Whether the odds suffice: fewer where it gains, which no law does so suddenly, and repeats show the noise."""
        further = self.gains[n_before:]
        is_gain = freedom >= FREEDOM_WITH_REPEATS and bool((further < 0.0).all())
        enough = np.log(rules.gain_odds if is_gain else rules.odds)
        return bool(self.log_odds >= enough and (np.abs(further) >= rules.least_departure).all())

    def row(self, at: int, procs: Floats) -> dict[str, Any]:
        """Factor and first processor count of one step."""
        return {"factor": np.exp(self.gains[at]), "from_procs": int(procs[self.places[at]])}


def _further_steps(shapes: "_Comparison", found: tuple[int, ...], rules: PatternRules) -> _Steps | None:
    """All single and double steps beside those found, each with all factors estimated together; None for no room.

    Odds are those of any single or double step, against a plain curve or one odd size.
    """
    m, least = len(shapes.weights), rules.min_phase_points
    free = [at for at in range(least, m - least + 1) if all(abs(at - other) >= least for other in found)]
    singles = [(*found, at) for at in free]
    doubles = [(*found, first, second) for first in free for second in free if second - first >= least]
    if not singles:
        return None
    tried = [singles, doubles] if 0 < len(doubles) <= MOST_PAIRS else [singles]
    best, log_odds = _Steps(-np.inf, (), np.empty(0)), -np.inf
    for places, prior in zip(tried, (1 - DOUBLE_STEPS, DOUBLE_STEPS) if len(tried) > 1 else (1.0,), strict=True):
        odds, gains = shapes.odds(phases_from(m)[np.array(places)], rules.departure_log_sd)
        odds = odds + np.log(prior / len(places))
        log_odds, likeliest = np.logaddexp(log_odds, np.logaddexp.reduce(odds)), int(np.argmax(odds))
        if odds[likeliest] > best.log_odds:
            best = _Steps(odds[likeliest], places[likeliest], gains[likeliest])
    return best._replace(log_odds=float(log_odds) - shapes.plain_or_odd(found, rules.departure_log_sd))


_CLASSES = {"powers_of_two": "powers of two", "squares": "squares", "node_multiples": "whole nodes"}

SHOWN = 5
"""Counts a sentence lists."""


def _words(row: dict[str, Any], series: MeasuredSeries, node_procs: int | None, axis: Axis) -> str | None:
    """The sentence of one row of PATTERNS; null where nothing was found."""
    name, first = row["pattern"], row.get("from_procs", 0)
    if row["status"] == "one_class_only":
        return f"All measured counts are {_CLASSES[name]}; runtimes at other counts are interpolated."
    if row["status"] != "found":
        return None
    if name == DECLINING:
        return f"More than {counted(first, axis)} {'makes' if first == 1 else 'make'} it slower. Request {first:,}."
    factor = row["factor"]
    if name == STEPWISE:
        faster = f"{1 / factor:.2f} times faster" if factor < 1 else f"{factor:.2f} times slower"
        return f"From {first} {axis.units} on it runs {faster} than the curve of the smaller counts."
    counts = np.arange(series.procs[0], 36 * series.procs[0] + SHOWN * (node_procs or 1))
    listed = ", ".join(f"{count:.0f}" for count in counts[in_class(name, counts, node_procs)][:SHOWN])
    return f"Run on {listed}, ...: other counts take {factor:.2f} times as long."


def screen(observations: pa.Table, patterns: pa.Table, rules: AnomalyRules) -> tuple[pa.Table, Report]:
    """OBSERVATIONS with `odd` (slow or fast), `deviation`, `expected_s` and `fit_weight` set; the Report counts sizes.

    A size that is odd is no point of its group's series; whatever reads the table can see it and why. A size that is
    off by the factor of a pattern found is not odd, so PATTERNS is read for it.

    Parameters
    ----------
    observations : pa.Table
        OBSERVATIONS.
    patterns : pa.Table
        PATTERNS of these observations.
    rules : AnomalyRules
        Thresholds of odd sizes.

    Returns
    -------
    table : pa.Table
        OBSERVATIONS with the same rows; `expected_s` in s.
    report : Report
        Number of sizes, and of odd ones.

    Examples
    --------
    >>> table, _ = screen(tables["observed"], tables["patterns"], AnomalyRules())
    >>> table.equals(tables["observations"])
    True
    """
    factor = levels(patterns, group_ids(observations), floats(observations, "procs"))
    deviation, expected_s, fit_weight = np.full((3, observations.num_rows), np.nan)
    n_screened = 0
    for series in measured_series(observations, *rules.noise):
        if len(series.row) < rules.min_points or series.log_sd > rules.wide_log_sd:
            continue
        n_screened += 1
        level = series._replace(runtime_s=series.runtime_s * factor[series.row])
        deviation[series.row], expected, is_odd = _odd_sizes(level, rules)
        odd = series.row[is_odd]
        expected_s[odd], fit_weight[odd] = expected[is_odd] / factor[odd], 0.0

    is_odd = fit_weight == 0.0
    words = np.full(is_odd.shape, None, object)
    words[is_odd] = np.where(deviation[is_odd] > 0, "slow", "fast")
    columns = {"odd": pa.array(words, pa.string()).cast(CATEGORY)}
    for name, values in (("deviation", deviation), ("expected_s", expected_s), ("fit_weight", fit_weight)):
        columns[name] = arrow(values, np.isnan(values))
    for name, column in columns.items():
        observations = replaced(observations, name, column)
    n_odd = {word: Tally(int((words == word).sum())) for word in ("slow", "fast")}
    whole, aside = Tally(observations.num_rows), {word: tally for word, tally in n_odd.items() if tally.rows}
    kept = Tally(whole.rows - int(is_odd.sum()))
    notes = _notes(int(is_odd.sum()), len(set(group_ids(observations)[is_odd])))
    facts = {"series_screened": n_screened}
    return OBSERVATIONS.check(observations), Report("screen", "observation", whole, kept, aside, facts, notes).check()


def _notes(n_odd: int, n_groups: int) -> tuple[str, ...]:
    if not n_odd:
        return ()
    are = "is an outlier and was" if n_odd == 1 else "are outliers and were"
    sizes = f"{n_odd:,} processor {plural('count', n_odd)} in {n_groups:,} {plural('group', n_groups)}"
    return (f"{sizes} {are} down-weighted or excluded.",)


def _odd_sizes(series: MeasuredSeries, rules: AnomalyRules) -> tuple[Floats, Floats, Bools]:
    """Per size: predictive standard deviations off, what the others predict (s), and whether it is odd.

    The size furthest beyond the threshold goes first; what is left is screened again, up to max_share.
    """
    m, ends = len(series.row), _scaling_ends(series)
    deviation, expected_s, is_odd = np.full(m, np.nan), np.full(m, np.nan), np.zeros(m, bool)
    while is_odd.sum() + 1 <= max(rules.max_share * m, 1.0) and (~is_odd).sum() >= rules.min_points:
        kept = np.flatnonzero(~is_odd)
        deviation[kept], log_off = _Comparison(series.at(kept), N_SHAPES).left_out()
        expected_s[kept] = series.runtime_s[kept] * np.exp(log_off)
        may_be_odd = (np.abs(log_off) >= rules.least_departure) & ~(ends & (kept == m - 1))
        furthest = kept[np.argmax(np.where(may_be_odd, np.abs(deviation[kept]), -1.0))]
        # Student's t where one shape holds; Bonferroni over the sizes of the series.
        limit = stdtrit(series.freedom + kept.size - 2, 1 - rules.false_alarms / (2 * kept.size))
        if not may_be_odd.any() or abs(deviation[furthest]) <= limit:
            break
        is_odd[furthest] = True
    return deviation, expected_s, is_odd


def _scaling_ends(series: MeasuredSeries) -> bool:
    """Whether the last size runs as long as the one before, within the noise: then it is not odd.

    The sizes before cannot know where scaling ends, and the size that shows it must not be lost to the fit.
    """
    before, last = series.runtime_s[-2:]
    noise = series.log_sd * np.sqrt((1 / series.weights[-2:]).sum())
    return bool(abs(np.log(last / before)) <= FLAT_ERRORS * noise)


N_SHAPES, N_FINE = 6_000, 24_000
"""Of the grid that judges every series, and of that for small departures: the gaps of the first may look like one."""

BEYOND = 16.0
"""The largest A, in multiples of the largest size: its curve is linear to within 6% there."""

MOST_OVERHEAD = 300.0
"""At the largest size, in multiples of what the law without it takes there."""

EXPONENTS = np.arange(0.025, 1.11, 0.025)
"""Of power laws x^-b."""

POWER_SHARE = 0.15


@cache
def _grid(n_shapes: int) -> tuple[dict[str, Floats], Floats]:
    """Where shapes lie between the ends of each parameter, from 0 to 1, and the prior weights of all, sum 1.

    Shapes of Downey's law, in both modes, and of Amdahl's, either alone or with an overhead in n or in log n for the
    piece that declines (CSD-97-933 has none); then power laws. They fill the space evenly, by multiples of powers of
    the root of x^5 = x + 1: better than crossed grids, where most shapes repeat one another's values.
    """
    root = np.roots([1, 0, 0, 0, -1, -1]).real.max()
    axes = np.mod(np.outer(root ** -np.arange(1.0, 5.0), np.arange(n_shapes) + 0.5), 1.0)
    shares = [(1 - POWER_SHARE) / n_shapes, POWER_SHARE / EXPONENTS.size]
    names = ("avg_parallelism", "sigma", "overhead", "is_linear")
    return dict(zip(names, axes, strict=True)), np.repeat(shares, [n_shapes, EXPONENTS.size])


@lru_cache(maxsize=512)
def _log_shapes(x: float, doublings: int, n_shapes: int) -> Array:
    """log T(x)/T(1) of every shape, as float32; x counts from the smallest of sizes that span so many doublings."""
    at, top = _grid(n_shapes)[0], 2.0**doublings
    # A quarter each of low and high variance; the other half is Amdahl's law, the likeliest.
    sigma = np.where(at["sigma"] < 0.25, 4 * at["sigma"], 1 / np.maximum(2 - 4 * at["sigma"], 1e-300))
    sigma = np.where(at["sigma"] < 0.5, sigma, np.inf)
    A = (BEYOND * top) ** at["avg_parallelism"]
    law, law_at_top = (downey_s(np.array([n]), np.ones(1), A, sigma) for n in (x, top))
    # Half of the shapes have no overhead.
    overhead = np.expm1(np.maximum(2 * at["overhead"] - 1, 0.0) * np.log1p(MOST_OVERHEAD)) * law_at_top
    grown = np.where(at["is_linear"] < 0.5, (x - 1) / (top - 1), np.log(x) / np.log(top))
    return np.append(np.log(law + overhead * grown), -EXPONENTS * np.log(x)).astype(np.float32)


NEGLIGIBLE_LOG = 7.0
"""A shape e^7 (a thousand) times less likely than the best takes no part in an average."""

TURN_LOG = 0.02
"""A curve that rises less than this after its least runtime is flat, not declining (log s)."""


def phases_from(m: int) -> Bools:
    """Row j: the sizes from j on."""
    return np.tri(m, dtype=bool).T


class _Comparison:
    """One series against every shape: what each leaves of the log runtimes, and which departures that speaks for.

    `errors` by size and shape, about their weighted mean; `squares`, their weighted sum by shape; `known`, what the
    noise counts before any size is seen; `half`, half the degrees of freedom.
    """

    def __init__(self, series: MeasuredSeries, n_shapes: int) -> None:
        multiples = series.procs / series.procs[0]
        doublings = max(int(np.ceil(np.log2(multiples[-1]) - 1e-9)), 1)
        # A series spans few powers of e, and half the bytes are half the time.
        self.curves = np.array([_log_shapes(float(x), doublings, n_shapes) for x in multiples])
        log_t, self.weights = np.log(series.runtime_s), series.weights
        weights = self.weights.astype(np.float32)
        errors = (log_t - log_t.mean()).astype(np.float32)[:, None] - self.curves
        self.errors = errors - weights @ errors / weights.sum()
        self.squares = weights @ self.errors**2
        self.log_sd, self.known = series.log_sd, series.freedom * series.log_sd**2
        self.half = 0.5 * (series.freedom + len(log_t) - 1)
        self.prior = _grid(n_shapes)[1]
        self.plain = self.evidence(self.squares[None], self.prior, self.half)[0]
        self.rivals: dict[tuple[int, ...], float] = {}

    def evidence(self, left: Array, prior: Floats, half: float) -> tuple[Floats, Ints, Array]:
        """Per row of left[row, shape], the squares that shapes leave: log of the mean of (1 + squares/known)^-half.

        Also the shapes that are not negligible in some row, and their shares of its sum.
        """
        best = left.min(axis=1, keepdims=True)
        cut = (self.known + best) * np.exp(NEGLIGIBLE_LOG / half) - self.known
        kept = np.flatnonzero((left <= cut).any(axis=0))
        weight = prior[kept] * np.exp(np.float32(-half) * np.log((self.known + left[:, kept]) / (self.known + best)))
        whole = weight.sum(axis=1, keepdims=True)
        return np.log(whole[:, 0]) - half * np.log1p(best[:, 0] / self.known), kept, weight / whole

    def odds(self, parts: Bools, departure_log_sd: float) -> tuple[Floats, Floats]:
        """Log odds of departures against a plain curve, and posterior means of their log factors [departure, factor].

        parts[departure, factor, size]: whether a factor is on a size; its log is normal about 0 with this sd.
        """
        inside = parts.astype(float)
        centred = (inside - (inside @ self.weights / self.weights.sum())[..., None]) * self.weights
        precision = centred @ inside.transpose(0, 2, 1)
        known = np.eye(parts.shape[1]) * (self.log_sd / departure_log_sd) ** 2
        root = np.linalg.inv(np.linalg.cholesky(precision + known))
        contrast = (root @ centred).astype(np.float32).reshape(-1, parts.shape[2])
        moved = (contrast @ self.errors).reshape(*parts.shape[:2], -1)
        left = np.maximum(self.squares - (moved**2).sum(axis=1), 0.0)
        log_evidence, kept, share = self.evidence(left, self.prior, self.half)
        means = np.einsum("pg,pfg->pf", share, moved[..., kept])
        occam = 0.5 * (np.linalg.slogdet(precision + known)[1] - np.linalg.slogdet(known)[1])
        return log_evidence - self.plain - occam, np.einsum("pef,pe->pf", root, means)

    def plain_or_odd(self, steps: tuple[int, ...], departure_log_sd: float) -> float:
        """Log odds of nothing, or of some one odd size, beside these steps."""
        if steps in self.rivals:
            return self.rivals[steps]
        m = len(self.weights)
        # The last of these parts has no size: its factor is on none.
        one_size = np.eye(m + 1, m, dtype=bool)[:, None]
        phases = np.broadcast_to(phases_from(m)[list(steps)], (m + 1, len(steps), m))
        odds, _ = self.odds(np.concatenate([phases, one_size], axis=1), departure_log_sd)
        self.rivals[steps] = float(np.logaddexp(np.logaddexp.reduce(odds[:-1]) - np.log(m), odds[-1]))
        return self.rivals[steps]

    def decline(self) -> tuple[float, int]:
        """Log odds that runtime rises again between two sizes, and where most of the posterior weight turns."""
        turns = self.curves[-1] - self.curves.min(axis=0) > TURN_LOG
        sides = [
            self.evidence(self.squares[None, side], self.prior[side] / self.prior[side].sum(), self.half)
            for side in (turns, ~turns)
        ]
        (turning, kept, share), (other, _, _) = sides
        least = self.curves[:, turns][:, kept].argmin(axis=0)
        return float(turning[0] - other[0]), int(np.bincount(least, share[0]).argmax())

    def left_out(self) -> tuple[Floats, Floats]:
        """Each size from the others: predictive standard deviations off, and predicted less seen log runtime.

        The first follow Student's t with freedom + m - 2 degrees where one shape holds.
        """
        w, half = self.weights[:, None], self.half - 0.5
        total = w.sum()
        rest = total - w
        left = np.maximum(self.squares - total * w / rest * self.errors**2, 0.0)
        _, kept, share = self.evidence(left, self.prior, half)
        off = -self.errors[:, kept] * total / rest
        variance = (self.known + left[:, kept]) * (1 / w + 1 / rest) / (2 * half)
        centre = (share * off).sum(axis=1)
        return -centre / np.sqrt((share * (variance + off**2)).sum(axis=1) - centre**2), centre
