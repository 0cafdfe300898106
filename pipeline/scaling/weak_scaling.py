"""Weak scaling: series of one application whose problem size grows with its processors, by Gustafson's law."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats
from pipeline.tables import GROUPS, OBSERVATIONS

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


def weak_series(tables: Mapping[str, pa.Table], at: Sequence[int]) -> list[dict[str, Any]]:
    """Weak scaling per application whose problem_size grows with its processors, and its runtimes at counts `at`."""
    if GROUPS.name not in tables:
        return []
    named = {row["group_id"]: (row["application"], row["problem_size"]) for row in tables[GROUPS.name].to_pylist()}
    return weak_of(named, tables[OBSERVATIONS.name].to_pylist(), at)


def weak_of(
    named: Mapping[str, tuple[str, str | None]], observed: Sequence[Mapping[str, Any]], at: Sequence[int] = ()
) -> list[dict[str, Any]]:
    """Weak scaling from rows of OBSERVATIONS; `named` holds application and problem size by group_id."""
    by_application: dict[str, list[tuple[float, float, float]]] = {}
    for row in observed:
        if row["group_id"] in named:
            name, size = named[row["group_id"]]
            by_application.setdefault(name, []).append((_as_number(size), row["procs"], row["runtime_s_median"]))
    found = {name: weak_scaling(*np.array(points, np.float64).T) for name, points in by_application.items()}
    return [_weak_as_dict(name, one, at) for name, one in sorted(found.items()) if one is not None]


def _as_number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return np.nan


def _weak_as_dict(name: str, found: WeakScaling, at: Sequence[int]) -> dict[str, Any]:
    columns = (found.procs, found.runtime_s, found.efficiency, found.scaled_speedup)
    keys = ("procs", "runtime_s", "efficiency", "scaled_speedup")
    procs = np.array([n for n in at if n >= found.procs[0]], np.float64)
    beyond = zip(procs, found.runtime_at(procs), strict=True)
    return {
        "application": name,
        "serial_fraction": found.serial_fraction,
        "worst_miss": found.worst_miss,
        "points": [
            dict(zip(keys, map(float, row), strict=True)) | {"procs": int(row[0])} for row in zip(*columns, strict=True)
        ],
        "predictions": [{"procs": int(n), "runtime_s": float(value)} for n, value in beyond],
    }
