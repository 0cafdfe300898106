"""Sizes whose runtime the others contradict: found, said, left out of the fit or counting less; never dropped.

Each size is predicted from the others by an average over a grid of shapes; it is odd where it lies further off than the
log's own noise explains.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import stdtrit

from pipeline.arrays import CATEGORY, Bools, Floats, Ints
from pipeline.report import Report, Tally
from pipeline.scaling.evidence import Evidence, held_out
from pipeline.scaling.levels import levels
from pipeline.scaling.points import Points
from pipeline.scaling.rules import AnomalyRules
from pipeline.tables import OBSERVATIONS

FLAT_ERRORS = 2.0
"""Standard errors within which two neighbouring sizes run equally long."""


def screen(observations: pa.Table, patterns: pa.Table, rules: AnomalyRules) -> tuple[pa.Table, Report]:
    """OBSERVATIONS with `odd` (slow or fast), `deviation`, `expected_s` and `fit_weight` set; the Report counts sizes.

    A size that is odd is no point of its group's series, or counts less; whatever reads the table can see it and why. A
    size that is off by the factor of a pattern found is not odd, so PATTERNS is read for it.

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
    points = Points.of(observations, *rules.noise)
    factor = levels(patterns, points.group_ids, points.series.procs)
    points = points.over(1.0 / factor)
    found = _Found.nothing(len(factor))
    _by_leave_one_out(points.series, rules, found)
    found.expected_s[:] /= factor
    table = _marked(observations, points.row, found)
    slow, fast = (int((found.is_odd & (sign * found.deviation > 0)).sum()) for sign in (1, -1))
    screened = int(_is_screened(points.series, rules).sum())
    return table, Report(
        "screen",
        "observation",
        Tally(table.num_rows),
        Tally(table.num_rows - slow - fast),
        {reason: Tally(count) for reason, count in (("slow", slow), ("fast", fast)) if count},
        {"series_screened": screened},
        _notes(slow + fast, table),
    ).check()


def _notes(n_odd: int, table: pa.Table) -> tuple[str, ...]:
    if not n_odd:
        return ()
    n_groups = len(table.filter(pc.is_valid(table.column("odd"))).column("group_id").unique())
    return (
        f"{n_odd} sizes of {n_groups} groups are contradicted by the group's other sizes and count less in its fits, "
        "or not at all: see odd in the table observations.",
    )


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


def _by_leave_one_out(series: Evidence, rules: AnomalyRules, found: _Found) -> None:
    """The size furthest beyond the threshold goes first; what is left is screened again, up to max_share."""
    n_points, first = series.n_points, series.offsets[:-1]
    n_odd = np.zeros(len(series), np.int64)
    ends = _where_scaling_ends(series)
    pending = np.flatnonzero(_is_screened(series, rules))
    while len(pending):
        z, expected_s = held_out(series, pending, ~found.is_odd)
        found.deviation[:] = np.where(np.isnan(z), found.deviation, z)
        off = np.abs(np.log(series.runtime_s / expected_s))
        far = np.where(np.nan_to_num(off, nan=-1.0) >= rules.least_departure, np.abs(z), -1.0)
        far[ends] = -1.0
        furthest = np.maximum.reduceat(far, first)
        # The first of equals, so that a series reads the same wherever it stands.
        at_furthest = np.where(far == np.repeat(furthest, n_points), np.arange(len(far)), len(far))
        worst = np.minimum.reduceat(at_furthest, first)
        limit = thresholds(rules.false_alarms, n_points[pending] - n_odd[pending], series.freedom)
        hit = pending[furthest[pending] > limit]
        places = worst[hit]
        found.is_odd[places], found.expected_s[places], found.fit_weight[places] = True, expected_s[places], 0.0
        n_odd[hit] += 1
        may_go_on = (n_odd + 1 <= rules.max_share * n_points) & (n_points - n_odd >= rules.min_points)
        pending = hit[may_go_on[hit]]


def _is_screened(series: Evidence, rules: AnomalyRules) -> Bools:
    return (series.n_points >= rules.min_points) & (series.log_sd <= rules.wide_log_sd)


def _where_scaling_ends(series: Evidence) -> Ints:
    """Places of last sizes that run as long as the size before, within the noise.

    A curve that turns flat there is no contradiction: the sizes before cannot know where scaling ends, and the size
    that shows it must not be lost to the fit.
    """
    last = series.offsets[1:] - 1
    gain = np.abs(np.log(series.runtime_s[last] / series.runtime_s[np.maximum(last - 1, 0)]))
    noise = series.log_sd * np.sqrt(1 / series.weights[last] + 1 / series.weights[np.maximum(last - 1, 0)])
    return last[gain <= FLAT_ERRORS * noise]


def thresholds(false_alarms: float, n_points: Ints, freedom: float) -> Floats:
    """Predictive standard deviations that some size of a clean series exceeds in this share of series, at most."""
    # Bonferroni over the sizes of the series.
    limits: Floats = stdtrit(freedom + n_points - 2, 1 - false_alarms / (2 * n_points))
    return limits


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
