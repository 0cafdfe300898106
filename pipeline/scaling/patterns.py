"""Patterns of a series that no smooth law has: steps, favoured processor counts; and where a curve begins to decline.

Stepwise: from some size on, runtimes are those of the same curve times one factor (Deshmeh 2013: a phase an instance, A
and sigma shared, only the scale jumps). Favoured counts: sizes outside a class (powers of two, squares, multiples of a
node) take a factor longer. Either counts by its odds against a plain curve or a plain curve with one odd size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints
from pipeline.axes import Axis
from pipeline.report import Report, Tally
from pipeline.scaling.evidence import Departures, departures
from pipeline.scaling.levels import STEPWISE, class_names, in_class
from pipeline.scaling.points import FREEDOM_WITH_REPEATS, Points, axes_of_groups
from pipeline.scaling.rules import PatternRules
from pipeline.tables import PATTERNS

SHOWN = 5
"""Counts a sentence lists."""

_CLASS = {"powers_of_two": "all powers of two", "squares": "all squares", "node_multiples": "all whole nodes"}


def pattern_words(
    name: str,
    status: str,
    procs: Floats,
    factor: float,
    from_procs: float,
    node_procs: int | None,
    axis: Axis = Axis.PROCS,
) -> str | None:
    """The sentence of one row of PATTERNS; null where nothing was found."""
    if status not in ("found", "one_class_only"):
        return None
    if name == "stepwise":
        faster = f"{1 / factor:.2f} times faster" if factor < 1 else f"{factor:.2f} times slower"
        return f"From {from_procs:.0f} {axis.units} on it runs {faster} than the curve of the smaller counts."
    if name == "declining":
        return f"Beyond {from_procs:.0f} {axis.units} it runs longer, not shorter: ask for no more."
    if status == "one_class_only":
        return f"Only ever ran on {_counts_that_ran(procs)}, {_CLASS[name]}: what other counts would take is not known."
    listed = f"{', '.join(str(count) for count in next_counts(name, procs, node_procs))}, ..."
    return f"Run on {listed}: other counts take {factor:.2f} times as long."


def _counts_that_ran(procs: Floats) -> str:
    """Every count, or the first few and the largest."""
    counts = [f"{count:.0f}" for count in np.unique(procs)]
    shown = counts if len(counts) <= SHOWN + 2 else [*counts[:SHOWN], "...", counts[-1]]
    return ", ".join(shown)


def next_counts(name: str, procs: Floats, node_procs: int | None) -> list[int]:
    """The class's first counts from the smallest size seen on."""
    smallest = float(procs.min())
    if name == "powers_of_two":
        start = int(np.ceil(np.log2(smallest)))
        return [2**k for k in range(start, start + SHOWN)]
    if name == "squares":
        start = int(np.ceil(np.sqrt(smallest)))
        return [k * k for k in range(start, start + SHOWN)]
    node = node_procs or 1
    start = max(int(np.ceil(smallest / node)), 1)
    return [k * node for k in range(start, start + SHOWN)]


DECLINING = "declining"
MIN_DECLINE_POINTS = 4
"""Three sizes determine a curve; a fourth shows that it turns."""

DOUBTED_LOG_ODDS = -4.0
"""A step or decline whose log odds on the coarse grid lie above this is judged anew on the fine one (log).

Where the coarse grid has no curve like the series, a step explains what its gaps leave.
"""


def find_patterns(observations: pa.Table, rules: PatternRules, noise: tuple[float, float]) -> tuple[pa.Table, Report]:
    """PATTERNS in order of group and pattern; `noise` is the least and the default log sd of a run.

    status: found; weaker (another pattern explains more); not_found; too_few_points; wide_group (its repeats spread
    too much to share a curve); one_class_only (every size seen is in the class, so it is not known what others would
    take). A second step of a series is a row of its own, with step 2, and so on. The Report counts groups.

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
    points = Points.of(observations, *noise)
    names = [STEPWISE, *class_names(rules.node_procs), DECLINING]
    is_wide = points.series.log_sd > rules.wide_log_sd
    asked = np.flatnonzero((points.series.n_points >= MIN_DECLINE_POINTS) & ~is_wide)
    rows = _Rows.first(points, names, asked, rules)
    rows.status[is_wide] = "wide_group"
    tables = [rows]
    while len(rows.series):
        rows = _further_steps(points, tables, rules)
        tables.append(rows)
    _adjust_together(points, tables, rules)
    table = _table(points, tables, rules, axes_of_groups(observations, points.ids))
    return table, _report(points, tables[0])


@dataclass(frozen=True, slots=True)
class _Rows:
    """Per series asked and pattern, [k, names]: log odds, factor, first size, status."""

    series: Ints
    names: Sequence[str]
    log_odds: Floats
    factor: Floats
    from_procs: Floats
    status: npt.NDArray[np.object_]

    @classmethod
    def first(cls, points: Points, names: Sequence[str], asked: Ints, rules: PatternRules) -> "_Rows":
        shown, inside = _shown(points, asked, rules)
        shape = (len(points.ids), len(names))
        odds, factor, start = np.full((3, *shape), np.nan)
        rows = cls(np.arange(shape[0]), names, odds, factor, start, np.full(shape, "", object))
        rows._put(STEPWISE, shown.step - shown.odd_size, shown.step_gain, _procs_at(points, shown.step_place))
        for column, name in enumerate(class_names(rules.node_procs)):
            rows._put(name, shown.classes[:, column] - shown.odd_size, shown.class_gain[:, column])
        rows._put(DECLINING, shown.decline, from_procs=shown.least_procs)
        rows._decide(_one_class_only(points, asked, inside), rules, points.series.freedom)
        return rows

    def stepped(self) -> Ints:
        """The series in which a step was found."""
        found: Ints = self.series[self.status[:, self.names.index(STEPWISE)] == "found"]
        return found

    def _put(self, name: str, odds: Floats, gain: Floats | None = None, from_procs: Floats | None = None) -> None:
        column = self.names.index(name)
        self.log_odds[:, column] = odds
        if gain is not None:
            self.factor[:, column] = np.exp(gain)
        if from_procs is not None:
            self.from_procs[:, column] = from_procs

    def _decide(self, one_class_only: Bools, rules: PatternRules, freedom: float) -> None:
        """found where the odds reach the setting's; of steps and classes only the likeliest, and none that gains."""
        self.status[:] = np.where(np.isnan(self.log_odds), "too_few_points", "not_found")
        enough = np.full(self.log_odds.shape, rules.odds)
        step = self.names.index(STEPWISE)
        enough[:, step] = _step_odds(self.factor[:, step], rules, freedom)
        reached = np.nan_to_num(self.log_odds, nan=-np.inf) >= np.log(enough)
        declining, is_class = self.names.index(DECLINING), slice(1, len(self.names) - 1)
        jumps = np.nan_to_num(np.abs(np.log(self.factor[:, :declining])))
        reached[:, :declining] &= jumps >= rules.least_departure
        # A class whose sizes take longer than the others is no favoured one.
        reached[:, is_class] &= ~(self.factor[:, is_class] < 1)
        rivals = np.where(reached, self.log_odds, -np.inf)
        rivals[:, declining] = -np.inf
        first = rivals == rivals.max(axis=1, keepdims=True, initial=-np.inf)
        first[:, declining] = True
        self.status[reached] = np.where(first, "found", "weaker")[reached]
        self.status[:, is_class][one_class_only] = "one_class_only"


def _shown(points: Points, asked: Ints, rules: PatternRules) -> tuple[Departures, Bools]:
    names = class_names(rules.node_procs)
    inside = np.array([in_class(name, points.series.procs, rules.node_procs) for name in names])
    limits = (rules.departure_log_sd, rules.min_phase_points, rules.min_class_points)
    shown = departures(points.series, asked, inside, *limits)
    odds = np.fmax(shown.step - shown.odd_size, shown.decline)[asked]
    doubted = asked[odds > DOUBTED_LOG_ODDS]
    return shown.with_rows(doubted, departures(points.series, doubted, inside, *limits, is_fine=True)), inside


def _step_odds(factor: Floats, rules: PatternRules, freedom: float) -> Floats:
    """The odds a step needs: fewer where it gains, which no law does so suddenly, and repeats show the noise."""
    has_repeats = freedom >= FREEDOM_WITH_REPEATS
    return np.where(has_repeats & (factor < 1), rules.gain_odds, rules.odds)


def _procs_at(points: Points, place: Ints) -> Floats:
    procs = points.series.procs
    return np.where(place >= 0, procs[np.maximum(place, 0)], np.nan) if len(procs) else np.full(len(place), np.nan)


def _one_class_only(points: Points, asked: Ints, inside: Bools) -> Bools:
    """Per series and class: whether no size lies outside it."""
    found = np.zeros((len(points.ids), len(inside)), bool)
    if len(asked):
        found[asked] = np.logical_and.reduceat(inside, points.series.offsets[:-1], axis=1).T[asked]
    return found


def _further_steps(points: Points, before: Sequence[_Rows], rules: PatternRules) -> _Rows:
    """Steps of the series whose last look found one, with those found before taken out; each its own phase of sizes."""
    asked = before[-1].stepped()
    factor, is_free = _steps_out(points, before, rules.min_phase_points)
    shown, _ = _shown(points.over(factor), asked, rules)
    odds, place = (shown.step - shown.odd_size)[asked], shown.step_place[asked]
    enough = np.log(_step_odds(np.exp(shown.step_gain[asked]), rules, points.series.freedom))
    found = (np.nan_to_num(odds, nan=-np.inf) >= enough) & is_free[place]
    found &= np.abs(shown.step_gain[asked]) >= rules.least_departure
    chosen = asked[found]
    gain, start = np.exp(shown.step_gain[chosen]), _procs_at(points, shown.step_place)[chosen]
    log_odds, factor, from_procs = (values[:, None] for values in (odds[found], gain, start))
    return _Rows(chosen, [STEPWISE], log_odds, factor, from_procs, np.full((len(chosen), 1), "found", object))


def _adjust_together(points: Points, looks: Sequence[_Rows], rules: PatternRules) -> None:
    """Of series with several steps, each factor again with the other steps out: the first took some of theirs."""
    several = np.concatenate([np.empty(0, np.int64), *(rows.series for rows in looks[1:])])
    for rows in [*looks, *looks] if len(several) else []:
        factor, _ = _steps_out(points, [other for other in looks if other is not rows], 1)
        shown, _ = _shown(points.over(factor), np.unique(several), rules)
        at = rows.names.index(STEPWISE)
        again = np.isin(rows.series, several) & (
            _procs_at(points, shown.step_place)[rows.series] == rows.from_procs[:, at]
        )
        rows.factor[again, at] = np.exp(shown.step_gain[rows.series[again]])


def _steps_out(points: Points, looks: Sequence[_Rows], margin: int) -> tuple[Floats, Bools]:
    """Per point, the factor of the steps found; and whether it is `margin` sizes or more away from where one begins."""
    procs, offsets = points.series.procs, points.series.offsets
    factor, is_free = np.ones(len(procs)), np.ones(len(procs), bool)
    for rows in looks:
        at, is_found = rows.names.index(STEPWISE), np.isin(rows.series, rows.stepped())
        for row in np.flatnonzero(is_found):
            own = slice(offsets[rows.series[row]], offsets[rows.series[row] + 1])
            after = procs[own] >= rows.from_procs[row, at]
            factor[own] *= np.where(after, rows.factor[row, at], 1.0)
            is_free[own] &= np.abs(np.arange(len(after)) - int((~after).sum())) >= margin
    return factor, is_free


def _table(points: Points, looks: Sequence[_Rows], rules: PatternRules, axes: Sequence[Axis]) -> pa.Table:
    parts: dict[str, list[npt.NDArray[np.object_]]] = {}
    for step, rows in enumerate(looks, start=1):
        n_names, size = len(rows.names), rows.status.size
        columns = {
            "series": np.repeat(rows.series, n_names),
            "name": np.tile(np.arange(n_names), len(rows.series)),
            "pattern": np.tile(np.array(rows.names, object), len(rows.series)),
            "step": np.full(size, step),
        }
        columns |= {name: getattr(rows, name).ravel() for name in ("log_odds", "factor", "from_procs", "status")}
        for name, values in columns.items():
            parts.setdefault(name, []).append(values)
    flat = {name: np.concatenate(values) for name, values in parts.items()}
    order = np.lexsort((flat["step"], flat["name"], flat["series"]))
    flat = {name: values[order] for name, values in flat.items()}
    series, start = flat.pop("series"), flat.pop("from_procs").astype(np.float64)
    flat.pop("name")
    node = np.where(flat["pattern"] == "node_multiples", float(rules.node_procs or 0), np.nan)
    offsets = points.series.offsets
    words = [
        pattern_words(
            pattern, status, points.series.procs[offsets[i] : offsets[i + 1]], factor, first, rules.node_procs, axes[i]
        )
        for i, pattern, status, factor, first in zip(
            series, flat["pattern"], flat["status"], flat["factor"], start, strict=True
        )
    ]
    return PATTERNS.build(
        group_id=np.array(points.ids, object)[series],
        from_procs=pa.array(np.nan_to_num(start).astype(np.int64), mask=np.isnan(start)),
        n_points=points.series.n_points[series],
        node_procs=pa.array(np.nan_to_num(node).astype(np.int64), mask=np.isnan(node)),
        words=words,
        **flat,
    )


def _report(points: Points, rows: _Rows) -> Report:
    found = (rows.status == "found").sum(axis=0)
    facts = {f"groups_{name}": int(count) for name, count in zip(rows.names, found, strict=True)}
    groups = Tally(len(points.ids))
    return Report("patterns", "group", groups, groups, facts=facts).check()
