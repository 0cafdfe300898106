"""Recommends processor counts per group: OBSERVATIONS and FITS -> SCALABILITY."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints
from pipeline.axes import Axis
from pipeline.report import Report, Tally
from pipeline.scaling.curves import Asked, AxisSeries, Curves, ObservedSeries
from pipeline.scaling.judgments import case_of, judged
from pipeline.scaling.points import on_each_axis
from pipeline.scaling.rules import PredictRules
from pipeline.settings import SiteSettings
from pipeline.tables import SCALABILITY

PER_DOUBLING = 8
"""Counts evaluated per doubling: results are whole counts at most 9% apart."""


NO_FASTER = 1.01
"""Runtimes up to this many times the least runtime count as equal to it: a gain of 1% justifies no processors."""


def recommended_procs(
    observed: ObservedSeries, groups: Ints, scaling: Curves, reach: float, max_procs: int | None
) -> dict[str, Floats]:
    """Per group, by column of SCALABILITY: the count of least runtime, and the last of at least 80% and 50% efficiency.

    The search covers counts from 1 to `reach` times the largest observed size, within the machine. The result is NaN
    where it lies beyond: the fastest count, for example, where runtime still falls at the end of the search.
    """
    counts = [_counts(top, reach, max_procs) for top in scaling["procs_max"]]
    lengths = np.array([len(found) for found in counts], np.int64)
    procs = np.concatenate(counts) if counts else np.empty(0)
    runtime_s = np.exp(observed.curve(np.repeat(groups, lengths), procs).log_s)
    starts = np.cumsum(lengths) - lengths
    efficiency = np.repeat(runtime_s[starts] if len(starts) else runtime_s, lengths) / (runtime_s * procs)
    least = np.minimum.reduceat(runtime_s, starts) if len(starts) else runtime_s
    optimal = _first(runtime_s <= NO_FASTER * np.repeat(least, lengths), starts, lengths)
    ends = starts + lengths - 1
    still_falls = runtime_s[ends] <= least
    return {
        "time_optimal_procs": _at(procs, np.where(still_falls, -1, optimal)),
        "efficiency_80_procs": _at(procs, _first(efficiency < 0.8, starts, lengths) - 1),
        "efficiency_50_procs": _at(procs, _first(efficiency < 0.5, starts, lengths) - 1),
    }


def _counts(largest: float, reach: float, max_procs: int | None) -> Floats:
    top = max(min(largest * reach, max(max_procs or np.inf, largest)), 1.0)
    steps = np.arange(0, np.floor(np.log2(top) * PER_DOUBLING) + 1) / PER_DOUBLING
    return np.unique(np.append(np.round(2.0**steps), np.floor(top)))


def _first(holds: Bools, starts: Ints, lengths: Ints) -> Ints:
    """Place of the first true value in each slice; -1 where the slice has none."""
    found = np.flatnonzero(holds)
    if not found.size:
        return np.full(len(starts), -1)
    place = np.searchsorted(found, starts)
    first = np.append(found, -1)[place]
    return np.where((first >= starts) & (first < starts + lengths), first, -1)


def _at(procs: Floats, place: Ints) -> Floats:
    return np.where(place >= 0, np.append(procs, np.nan)[np.maximum(place, -1)], np.nan)


_COARSE = np.unique(np.geomspace(1, 2**20, 1200).astype(np.int64)).astype(np.float64)
"""Processor counts of the first, coarse search for the working set, 1.2% apart."""


def scalability(
    observations: pa.Table,
    fits: pa.Table,
    rules: PredictRules,
    site: SiteSettings,
    run_id: str,
    application: Mapping[str, str] | None = None,
    patterns: pa.Table | None = None,
) -> tuple[pa.Table, Report]:
    """SCALABILITY: a row per group whose chosen law gains from processors, in order of group.

    Largest useful allocation: 2A - 1 (low variance) or A + A sigma - sigma (high), null where the law never stops
    gaining. Processor working set: the whole n that maximises S(n)^2/n (Ghosal, Serazzi & Tripathi 1991), null where
    it lies beyond 2^20. Both are the chosen law's; counts by efficiency and time are the model average's
    (`recommended_procs`). Advised runs keep to the counts that PATTERNS favours, if it is given.

    Parameters
    ----------
    observations : pa.Table
        OBSERVATIONS.
    fits : pa.Table
        FITS of these observations.
    rules : PredictRules
        Settings of the predictions.
    site : SiteSettings
        The machine's size and processors per node.
    run_id : str
        Id of the run, written to every row.
    application : mapping of str to str, optional
        Application of a group_id.
    patterns : pa.Table, optional
        PATTERNS of the observations.

    Returns
    -------
    table : pa.Table
        SCALABILITY; processor counts, t1_s in s.
    report : Report
        Groups with and without a law that gains from processors.

    Examples
    --------
    >>> table, _ = scalability(tables["levelled"], tables["fits"], PredictRules(), settings.site, "r1")
    >>> "constant" in table.column("law").to_pylist()
    False
    """
    asked = Asked(rules, site, run_id, application, patterns)

    def stage(axis: Axis, observed: pa.Table, fitted: pa.Table) -> tuple[pa.Table, Report]:
        return _scalability(AxisSeries.of(axis, observed, fitted, asked))

    return on_each_axis(observations, fits, stage, SCALABILITY)


def _scalability(series: AxisSeries) -> tuple[pa.Table, Report]:
    chosen, asked = series.chosen, series.asked
    rows = np.flatnonzero(chosen.law != "constant")
    scaling = chosen.take(rows)
    largest, working = scaling.largest_useful_procs(), working_set_procs(scaling)
    speedup = scaling.runtime_s(np.ones(len(scaling))) / scaling.runtime_s(np.fmax(working, 1.0))
    speedup = np.where(np.isnan(working), np.nan, speedup)
    beyond = np.fmax(np.where(np.isfinite(largest), largest, 2 * scaling["procs_max"]), 1.0)
    reliability, advice = judged(case_of(series, rows, beyond))
    table = SCALABILITY.build(
        group_id=scaling.group_id,
        axis=[series.axis] * len(scaling),
        law=scaling.law,
        t1_s=scaling["t1_s"],
        avg_parallelism=scaling["avg_parallelism"],
        sigma=scaling["sigma"],
        largest_useful_procs=np.where(np.isfinite(largest), largest, np.nan),
        working_set_procs=working,
        working_set_speedup=speedup,
        working_set_efficiency=speedup / working,
        **recommended_procs(series.observed, rows, scaling, asked.rules.reach, asked.site.max_procs),
        reliability=reliability,
        advice=advice,
        run_id=[asked.run_id] * len(scaling),
    )
    groups, kept = Tally(len(chosen)), Tally(len(scaling))
    set_aside = {"constant": Tally(groups.rows - kept.rows)} if groups.rows > kept.rows else {}
    return table, Report("scalability", "group", groups, kept, set_aside).check()


def working_set_procs(curves: Curves) -> Floats:
    """The whole processor count that maximises S^2/n per row, the smallest where several do; NaN beyond 2^20.

    S^2/n rises to one maximum and falls after it, so a coarse search brackets it and the bracket is searched whole.
    """
    return np.array([_best_whole_count(curves.take(np.array([row]))) for row in range(len(curves))], np.float64)


def _best_whole_count(curve: Curves) -> float:
    place = int(_merit(curve, _COARSE).argmax())
    if place == len(_COARSE) - 1:
        return np.nan
    fine = np.arange(_COARSE[max(place - 1, 0)], _COARSE[place + 1] + 1)
    return float(fine[_merit(curve, fine).argmax()])


def _merit(curve: Curves, procs: Floats) -> Floats:
    """S^2/n up to a constant factor: 1/(n T(n)^2)."""
    return 1.0 / (procs * curve.take(np.zeros(len(procs), np.int64)).runtime_s(procs) ** 2)
