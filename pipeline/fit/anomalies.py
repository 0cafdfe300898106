"""Sizes whose runtime the others contradict: found, said, and left out of the fit; never dropped from the table.

Two ways. "leave_one_out", the default: each size is predicted from the others by an average over a grid of shapes; it is
odd where it lies further off than the log's own noise explains. "r_metric" is ADEPT's (Deshmeh 2013, 3.9).
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy.special import stdtrit

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.columns import CATEGORY
from pipeline.core.report import Report, Tally
from pipeline.core.screen_settings import AnomalySettings
from pipeline.core.tables import OBSERVATIONS
from pipeline.fit.patterns import without_patterns
from pipeline.fit.points import Points
from pipeline.fit.r_metric import deviation_weights, r_deviation
from pipeline.laws.evidence import held_out


def screen(observations: pa.Table, patterns: pa.Table, settings: AnomalySettings) -> tuple[pa.Table, Report]:
    """OBSERVATIONS with `odd` (slow or fast), `deviation` and `expected_s` set; the Report counts sizes.

    A size that is odd is no point of its group's series; whatever reads the table can see it and why. A size that is
    off by the factor of a pattern found is not odd, so PATTERNS is read for it.
    """
    points = without_patterns(Points.of(observations, *settings.noise), patterns)
    found = _Found.nothing(len(points.procs))
    if settings.method == "leave_one_out":
        _by_leave_one_out(points, settings, found)
    elif settings.method == "r_metric":
        _by_r_metric(points, settings, found)
    table = _marked(observations, points.row, found)
    slow, fast = (int((found.is_odd & (sign * found.deviation > 0)).sum()) for sign in (1, -1))
    return table, Report(
        "screen",
        "observation",
        Tally(table.num_rows),
        Tally(table.num_rows - slow - fast),
        {reason: Tally(count) for reason, count in (("slow", slow), ("fast", fast)) if count},
        {"series_screened": int((points.n_points >= settings.min_points).sum())},
    ).check()


@dataclass(frozen=True, slots=True)
class _Found:
    """Per point, filled in place: whether it is odd, by how much, what the others predict (s), its factor of weight."""

    is_odd: Bools
    deviation: Floats
    expected_s: Floats
    fit_weight: Floats

    @classmethod
    def nothing(cls, n_points: int) -> "_Found":
        return cls(np.zeros(n_points, bool), *(np.full(n_points, np.nan) for _ in range(3)))


def _by_leave_one_out(points: Points, settings: AnomalySettings, found: _Found) -> None:
    """The size furthest beyond the threshold goes first; what is left is screened again, up to max_share of a series."""
    pending = points.n_points >= settings.min_points
    allowed = np.floor(settings.max_share * points.n_points)
    while pending.any():
        again = np.zeros(len(pending), bool)
        for series, places in points.batches(pending, ~found.is_odd):
            z, expected = held_out(points.seen(places), points.noise(series))
            is_first = ~np.isnan(found.deviation[places])
            found.deviation[places] = np.where(is_first, found.deviation[places], z)
            worst = np.abs(z).argmax(axis=1)
            at = (np.arange(len(series)), worst)
            hit = np.abs(z[at]) > threshold(settings.false_alarms, places.shape[1], points.freedom)
            chosen = places[at][hit]
            found.is_odd[chosen], found.deviation[chosen] = True, z[at][hit]
            found.expected_s[chosen], found.fit_weight[chosen] = np.exp(expected[at][hit]), 0.0
            again[series[hit]] = True
        odd = np.add.reduceat(np.append(found.is_odd, False), points.offsets[:-1], dtype=np.int64)
        left = points.n_points - odd
        pending = again & (odd < allowed) & (left >= settings.min_points)


def threshold(false_alarms: float, n_points: int, freedom: float) -> float:
    """Predictive standard deviations that some size of a clean series exceeds in this share of series, at most."""
    # Bonferroni over the sizes of the series.
    return float(stdtrit(freedom + n_points - 2, 1 - false_alarms / (2 * n_points)))


def _by_r_metric(points: Points, settings: AnomalySettings, found: _Found) -> None:
    for _, places in points.batches(points.n_points >= settings.min_points):
        deviation = r_deviation(points.procs[places], points.runtime_s[places], settings.epsilon)
        found.deviation[places] = deviation
        found.is_odd[places] = np.abs(deviation) > 0
        weights = deviation_weights(deviation, settings.theta, settings.weight_cap)
        found.fit_weight[places] = np.where(deviation == 0, np.nan, weights)


def _marked(observations: pa.Table, row: Ints, found: _Found) -> pa.Table:
    words = np.full(observations.num_rows, None, object)
    words[row[found.is_odd]] = np.where(found.deviation[found.is_odd] > 0, "slow", "fast")
    columns = {"odd": pa.array(words, pa.string()).cast(CATEGORY)}
    for name in ("deviation", "expected_s", "fit_weight"):
        values = np.full(observations.num_rows, np.nan)
        values[row] = getattr(found, name)
        columns[name] = pa.array(values, mask=np.isnan(values))
    for name, column in columns.items():
        field = OBSERVATIONS.schema().field(name)
        observations = observations.set_column(observations.column_names.index(name), field, column)
    return OBSERVATIONS.check(observations)
