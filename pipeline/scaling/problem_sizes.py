"""Pairs of groups that differ only in their problem_size: the smaller series borrows from the larger one."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Floats, category_codes, floats
from pipeline.columns import TEMPLATE_COLUMNS
from pipeline.report import Report, Tally
from pipeline.scaling.across import MIN_BASE_POINTS, MIN_TARGET_POINTS, Across, SizePair, across
from pipeline.scaling.scaling_rules import AcrossRules
from pipeline.tables import ACROSS

Series = dict[str, tuple[Floats, Floats]]


def predict_across(
    groups: pa.Table, observations: pa.Table, settings: AcrossRules, at: Sequence[int] = ()
) -> tuple[pa.Table, Report]:
    """ACROSS: predictions of groups with a known problem size that ran on fewer counts than their base.

    A group's base is the problem size of the same application that ran on most counts, at least four; of equals the one
    with most jobs. The rows are the counts of either group and the counts `at`. Sizes that OBSERVATIONS leaves out of
    the fit are left out here. The Report counts groups with a problem size.

    Parameters
    ----------
    groups : pa.Table
        GROUPS.
    observations : pa.Table
        OBSERVATIONS of these groups.
    settings : AcrossRules
        Settings of the joint fit.
    at : sequence of int
        More processor counts to predict.

    Returns
    -------
    table : pa.Table
        ACROSS; runtimes and interval ends in s.
    report : Report
        Groups with a problem size, with and without a base.

    Examples
    --------
    >>> table, report = predict_across(tables["groups"], tables["levelled"], AcrossRules())
    >>> report.kept.rows + sum(tally.rows for tally in report.set_aside.values()) == report.seen.rows
    True
    """
    series = _series(observations)
    named = groups.filter(pc.is_valid(groups.column("problem_size"))).to_pylist()
    others = [name for name in TEMPLATE_COLUMNS if name != "problem_size"]

    def application(row: dict[str, Any]) -> str:
        return repr([row["site"], row["template"], *(row[name] for name in others)])

    pairs = [
        pair
        for _, own in groupby(sorted(named, key=lambda row: (application(row), row["group_id"])), application)
        for pair in _pairs(list(own), series)
    ]
    given = [SizePair(*series[base], *series[target]) for base, target in pairs]
    asked = np.array(at, np.float64)
    procs = [np.union1d(np.union1d(pair.base_procs, pair.target_procs), asked) for pair in given]
    found = across(given, procs, settings)
    whole, done = Tally(len(named)), Tally(len(pairs))
    aside = {"no_base": Tally(len(named) - len(pairs))} if len(named) > len(pairs) else {}
    statuses = [one.status(settings) for one in found]
    facts = _facts(statuses)
    return _table(pairs, procs, found, statuses), Report("across", "group", whole, done, aside, facts).check()


def _series(observations: pa.Table) -> Series:
    kept = (floats(observations, "runtime_s_median") > 0) & ~(floats(observations, "fit_weight") == 0)
    own = observations.filter(pa.array(kept))
    codes, ids = category_codes(own, "group_id")
    order = np.lexsort((floats(own, "procs"), codes))
    cuts = np.searchsorted(codes[order], np.arange(1, len(ids)))
    columns = (np.split(floats(own, name)[order], cuts) for name in ("procs", "runtime_s_median"))
    return dict(zip(ids, zip(*columns, strict=True), strict=True)) if ids else {}


def _pairs(rows: list[dict[str, Any]], series: Series) -> list[tuple[str, str]]:
    """Base and target ids, of the groups of one application."""
    counts = {row["group_id"]: len(series[row["group_id"]][0]) for row in rows if row["group_id"] in series}
    bases = [row for row in rows if counts.get(row["group_id"], 0) >= MIN_BASE_POINTS]
    if not bases:
        return []
    base = max(bases, key=lambda row: (counts[row["group_id"]], row["n_jobs"], row["group_id"]))["group_id"]
    return [(base, name) for name, count in counts.items() if MIN_TARGET_POINTS <= count < counts[base]]


def _facts(statuses: list[str]) -> dict[str, int]:
    return {f"groups_{status}": statuses.count(status) for status in sorted(set(statuses))}


def _table(pairs: list[tuple[str, str]], procs: list[Floats], found: list[Across], statuses: list[str]) -> pa.Table:
    sizes = [len(one) for one in procs]

    def each(values: list[Any]) -> Any:
        return np.repeat(np.array(values, object), sizes)

    def joined(name: str) -> Floats:
        return np.concatenate([getattr(one, name) for one in found]) if found else np.empty(0)

    names = {"runtime_s": "runtime_s", "runtime_s_lo80": "lo80_s", "runtime_s_hi80": "hi80_s"}
    names |= {"runtime_s_lo95": "lo95_s", "runtime_s_hi95": "hi95_s", "ratio_s": "ratio_s", "own_s": "own_s"}
    table = ACROSS.build(
        group_id=each([target for _, target in pairs]),
        base_group_id=each([base for base, _ in pairs]),
        procs=np.concatenate(procs).astype(np.int64) if procs else np.empty(0, np.int64),
        status=each(statuses),
        same_application=each([one.same for one in found]).astype(np.float64),
        overhead_power=each([one.power for one in found]).astype(np.float64),
        **{column: joined(name) for column, name in names.items()},
    )
    order = np.lexsort((floats(table, "procs"), category_codes(table, "group_id")[0]))
    return ACROSS.check(table.take(pa.array(order)))


MIN_POINTS = 3
SAME_SHARE = 0.02
"""Log difference up to which two values of work per processor are equal."""


@dataclass(frozen=True, slots=True)
class WeakScaling:
    """A weak series by rising procs: runtimes (s), weak efficiency T(1)/T(x) and scaled speed-up, both relative to the
    smallest count; Gustafson's serial fraction (0 to 1), and the largest relative miss of his law."""

    procs: Floats
    runtime_s: Floats
    efficiency: Floats
    scaled_speedup: Floats
    serial_fraction: float
    worst_miss: float

    def runtime_at(self, procs: Floats) -> Floats:
        """Runtimes (s) by Gustafson's law for a problem that grows with the processors; NaN below the smallest count.

        Beyond the largest count the law is scaled to the runtime measured there, because growing overhead makes the law
        too low.
        """
        counts = np.asarray(procs, np.float64)
        missed = self.runtime_s[-1] / self._law_s(self.procs[-1:])[0]
        runtime_s = self._law_s(counts) * np.where(counts > self.procs[-1], missed, 1.0)
        return np.where(counts >= self.procs[0], runtime_s, np.nan)

    def _law_s(self, procs: Floats) -> Floats:
        x = procs / self.procs[0]
        law_s: Floats = self.runtime_s[0] * x / (x - self.serial_fraction * (x - 1))
        return law_s


def weak_scaling(problem_size: Floats, procs: Floats, runtime_s: Floats) -> WeakScaling | None:
    """The longest series whose problem size is proportional to its processors; None where none has three counts.

    Of equally long ones, that of least work per processor. Sizes that are not positive numbers are left out.

    Parameters
    ----------
    problem_size : Floats
        float64[n], problem sizes in any unit.
    procs : Floats
        float64[n], processors.
    runtime_s : Floats
        float64[n], runtimes, s.

    Returns
    -------
    WeakScaling or None
        The series by ascending processors, and Gustafson's serial fraction.

    References
    ----------
    Gustafson (1988), Reevaluating Amdahl's law.

    Examples
    --------
    >>> n = np.array([1.0, 2.0, 4.0])
    >>> series = weak_scaling(1000 * n, n, n / (n - 0.1 * (n - 1)))
    >>> round(series.serial_fraction, 3)
    0.1
    """
    usable = np.flatnonzero((problem_size > 0) & (runtime_s > 0))
    if len(usable) < MIN_POINTS:
        return None
    share = np.log(problem_size[usable] / procs[usable])
    order = np.argsort(share, kind="stable")
    starts = np.flatnonzero(np.diff(share[order], prepend=-np.inf) > SAME_SHARE)
    chosen = max(np.split(order, starts[1:]), key=lambda rows: len(np.unique(procs[usable[rows]])))
    rows = usable[chosen]
    counts, first = np.unique(procs[rows], return_index=True)
    if len(counts) < MIN_POINTS:
        return None
    return _series_of_sizes(counts, runtime_s[rows][first])


def _series_of_sizes(procs: Floats, runtime_s: Floats) -> WeakScaling:
    x, efficiency = procs / procs[0], runtime_s[0] / runtime_s
    lost = x - x * efficiency
    serial = float(np.clip(lost @ (x - 1) / ((x - 1) @ (x - 1)), 0.0, 1.0))
    law_s = runtime_s[0] * x / (x - serial * (x - 1))
    return WeakScaling(procs, runtime_s, efficiency, x * efficiency, serial, float(np.abs(law_s / runtime_s - 1).max()))
