"""Patterns of a series that no smooth law has: steps, favoured processor counts; and where a curve begins to decline.

Stepwise: from some size on, runtimes are those of the same curve times one factor (Deshmeh 2013: a phase an instance, A
and sigma shared, only the scale jumps). Favoured counts: sizes outside a class (powers of two, squares, multiples of a
node) take a factor longer. Either counts by its odds against a plain curve or a plain curve with one odd size.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import logsumexp

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.report import Report, Tally
from pipeline.core.screen_settings import PatternSettings
from pipeline.core.tables import PATTERNS
from pipeline.fit.pattern_words import pattern_words
from pipeline.fit.points import Points
from pipeline.laws.evidence import Noise, Seen, log_odds, overhead_odds

STEPWISE, DECLINING = "stepwise", "declining"
MIN_DECLINE_POINTS = 4
"""Three sizes tell a curve; a fourth, that it turns."""


def classes(node_procs: int | None) -> dict[str, str]:
    """Favoured processor counts looked for, by the name of their pattern: in words."""
    found = {"powers_of_two": "powers of two", "squares": "squares"}
    return found | ({"node_multiples": f"multiples of {node_procs}"} if node_procs else {})


def in_class(name: str, procs: Floats, node_procs: int | None) -> Bools:
    """Whether each size belongs to a class of `classes`."""
    if name == "powers_of_two":
        return np.asarray(np.log2(procs) % 1 == 0)
    if name == "squares":
        return np.asarray(np.rint(np.sqrt(procs)) ** 2 == procs)
    return np.asarray(procs % (node_procs or 1) == 0)


def find_patterns(
    observations: pa.Table, settings: PatternSettings, noise: tuple[float, float]
) -> tuple[pa.Table, Report]:
    """PATTERNS in order of group and pattern; `noise` is the least and the default log sd of a run.

    status: found; weaker (another pattern explains more); not_found; too_few_points; one_class_only (every size seen
    is in the class, so nothing tells what others would take). The Report counts groups.
    """
    points = Points.of(observations, *noise)
    rows = _Rows.empty(len(points.ids), [STEPWISE, *classes(settings.node_procs), DECLINING])
    for series, places in points.batches(points.n_points >= MIN_DECLINE_POINTS):
        seen, noise_of = points.seen(places), points.noise(series)
        _look(seen, noise_of, settings, series, rows)
    _decide(rows, settings)
    table = _table(points, rows, settings)
    found = np.isin(rows.status, ["found", "one_class_only"])
    facts = {f"groups_{name}": int(count) for name, count in zip(rows.names, found.sum(axis=0), strict=True)}
    groups = Tally(len(points.ids))
    return table, Report("patterns", "group", groups, groups, facts=facts).check()


@dataclass(frozen=True, slots=True)
class _Rows:
    """Per series and pattern, filled in place: log odds, factor, first size, status."""

    names: list[str]
    log_odds: Floats
    factor: Floats
    from_procs: Floats
    status: np.ndarray

    @classmethod
    def empty(cls, n_series: int, names: Sequence[str]) -> "_Rows":
        shape = (n_series, len(names))
        status = np.full(shape, "too_few_points", object)
        return cls(list(names), *(np.full(shape, np.nan) for _ in range(3)), status)

    def put(self, series: Ints, name: str, odds: Floats, factor: Floats, from_procs: Floats) -> None:
        column = self.names.index(name)
        self.log_odds[series, column], self.status[series, column] = odds, "not_found"
        self.factor[series, column], self.from_procs[series, column] = factor, from_procs


def _look(seen: Seen, noise: Noise, settings: PatternSettings, series: Ints, rows: _Rows) -> None:
    odd_size = _one_odd_size(seen, noise, settings.departure_log_sd)
    n_points, least = seen.procs.shape[1], settings.min_phase_points
    if n_points >= 2 * least:
        tried = [_step(seen, noise, split, settings) for split in range(least, n_points - least + 1)]
        odds, gains = np.array([one[0] for one in tried]), np.array([one[1] for one in tried])
        best, column = odds.argmax(axis=0), np.arange(len(series))
        whole = logsumexp(odds, axis=0) - np.log(len(odds)) - odd_size
        rows.put(series, STEPWISE, whole, np.exp(gains[best, column]), seen.procs[column, least + best])
    for name in classes(settings.node_procs):
        _favoured(name, seen, noise, settings, series, rows, odd_size)
    odds, from_procs = overhead_odds(seen, noise)
    rows.put(series, DECLINING, odds, np.full(len(series), np.nan), from_procs)


def _one_odd_size(seen: Seen, noise: Noise, departure_log_sd: float) -> Floats:
    """Log odds of a plain curve, or one with a single odd size, against a plain curve."""
    ones = np.eye(seen.procs.shape[1])
    odd = [log_odds(seen, noise, np.broadcast_to(one, seen.procs.shape), departure_log_sd)[0] for one in ones]
    return np.logaddexp(0.0, logsumexp(odd, axis=0) - np.log(len(odd)))


def _step(seen: Seen, noise: Noise, split: int, settings: PatternSettings) -> tuple[Floats, Floats]:
    part = np.broadcast_to((np.arange(seen.procs.shape[1]) >= split).astype(np.float64), seen.procs.shape)
    return log_odds(seen, noise, part, settings.departure_log_sd)


def _favoured(
    name: str, seen: Seen, noise: Noise, settings: PatternSettings, series: Ints, rows: _Rows, odd_size: Floats
) -> None:
    inside = in_class(name, seen.procs, settings.node_procs)
    outside = ~inside
    enough = np.minimum(inside.sum(axis=1), outside.sum(axis=1)) >= settings.min_class_points
    column = rows.names.index(name)
    rows.status[series[inside.all(axis=1)], column] = "one_class_only"
    if not enough.any():
        return
    part = seen.rows(enough)
    odds, gain = log_odds(
        part, Noise(noise.log_sd[enough], noise.freedom), outside[enough] * 1.0, settings.departure_log_sd
    )
    rows.put(series[enough], name, odds - odd_size[enough], np.exp(gain), np.full(int(enough.sum()), np.nan))


def _decide(rows: _Rows, settings: PatternSettings) -> None:
    """found where the odds reach the setting's; of steps and favoured counts only the likeliest, and none that gains."""
    reached = np.nan_to_num(rows.log_odds, nan=-np.inf) >= np.log(settings.odds)
    is_class = np.array([name not in (STEPWISE, DECLINING) for name in rows.names])
    # A class whose sizes take longer than the others is no favoured one.
    reached &= ~(is_class & (rows.factor < 1))
    rivals = np.where(reached, rows.log_odds, -np.inf)
    rivals[:, rows.names.index(DECLINING)] = -np.inf
    first = rivals == rivals.max(axis=1, keepdims=True, initial=-np.inf)
    first[:, rows.names.index(DECLINING)] = True
    rows.status[reached & first] = "found"
    rows.status[reached & ~first] = "weaker"


def _table(points: Points, rows: _Rows, settings: PatternSettings) -> pa.Table:
    n_groups, n_names = rows.status.shape
    procs = np.split(points.procs, points.offsets[1:-1]) if n_groups else []
    words = [
        pattern_words(name, rows.status[i, j], procs[i], rows.factor[i, j], rows.from_procs[i, j], settings.node_procs)
        for i in range(n_groups)
        for j, name in enumerate(rows.names)
    ]
    flat = {name: getattr(rows, name).ravel() for name in ("log_odds", "factor")}
    start = rows.from_procs.ravel()
    table = PATTERNS.build(
        group_id=np.repeat(np.array(points.ids, object), n_names),
        pattern=np.tile(np.array(rows.names, object), n_groups),
        status=rows.status.ravel(),
        from_procs=pa.array(np.nan_to_num(start).astype(np.int64), mask=np.isnan(start)),
        n_points=np.repeat(points.n_points, n_names),
        node_procs=[settings.node_procs if name == "node_multiples" else None for name in rows.names] * n_groups,
        words=words,
        **flat,
    )
    return table


def without_patterns(points: Points, patterns: pa.Table) -> Points:
    """The points with the factor of each group's step or favoured counts taken out of their runtimes."""
    found = patterns.filter(
        pc.and_(pc.equal(patterns.column("status"), "found"), pc.is_valid(patterns.column("factor")))
    )
    log_factor = np.zeros(len(points.procs))
    place = {group: series for series, group in enumerate(points.ids)}
    for row in found.select(["group_id", "pattern", "factor", "from_procs", "node_procs"]).to_pylist():
        own = slice(points.offsets[place[row["group_id"]]], points.offsets[place[row["group_id"]] + 1])
        procs = points.procs[own]
        is_apart = (
            procs >= row["from_procs"]
            if row["pattern"] == STEPWISE
            else ~in_class(row["pattern"], procs, row["node_procs"])
        )
        log_factor[own] = np.where(is_apart, np.log(row["factor"]), 0.0)
    return dataclasses.replace(points, runtime_s=points.runtime_s / np.exp(log_factor))
