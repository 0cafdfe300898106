"""Computes the usual figures of a log before cleaning, after it, and for the jobs of each flag, from its blocks.

A long log is counted a block at a time. Equal values are counted, so that medians are exact and memory does not grow
with the number of jobs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pipeline.arrays import DAY_S, Bools, Floats, Ints
from pipeline.clean.job_arrays import JobArrays
from pipeline.schema import Flag
from pipeline.settings import SiteSettings
from pipeline.tables import EFFECT

BEFORE, AFTER = "before", "after"


@dataclass(slots=True)
class ValueCounts:
    """Distinct values in order, and how often each occurs."""

    values: Floats = field(default_factory=lambda: np.empty(0))
    counts: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def add(self, values: Floats) -> None:
        """Count more values."""
        new, counts = np.unique(values, return_counts=True)
        both, place = np.unique(np.concatenate([self.values, new]), return_inverse=True)
        self.counts = np.bincount(place, np.concatenate([self.counts, counts]), both.size).astype(np.int64)
        self.values = both

    @property
    def mean(self) -> float | None:
        """None without values."""
        return float(self.values @ self.counts / self.counts.sum()) if self.values.size else None

    @property
    def median(self) -> float | None:
        """None without values."""
        if not self.values.size:
            return None
        until = np.cumsum(self.counts)
        middle = np.searchsorted(until, [(until[-1] - 1) // 2, until[-1] // 2], "right")
        return float(self.values[middle].mean())


@dataclass(slots=True)
class SelectionCounts:
    """What a row of EFFECT is computed from."""

    n_jobs: int = 0
    work_s: float = 0.0
    users: set[str] = field(default_factory=set)
    runtime_s: ValueCounts = field(default_factory=ValueCounts)
    procs: ValueCounts = field(default_factory=ValueCounts)
    days: ValueCounts = field(default_factory=ValueCounts)
    """Of submits, days since 1970."""

    def add(self, arrays: JobArrays, chosen: Bools) -> None:
        """Count the chosen jobs of a block."""
        runtime_s, procs, submit_s = (values[chosen] for values in (arrays.runtime_s, arrays.procs, arrays.submit_s))
        codes, names = arrays.codes("user")
        self.n_jobs += int(chosen.sum())
        self.work_s += float(arrays.proc_s[chosen].sum())
        self.users |= {names[code] for code in np.unique(codes[chosen]) if code >= 0}
        self.runtime_s.add(runtime_s[runtime_s > 0])
        self.procs.add(procs[~np.isnan(procs)])
        self.days.add(np.floor(submit_s[~np.isnan(submit_s)] / DAY_S))


Selections = dict[str, SelectionCounts]
"""What EFFECT is computed from, by selection: `before`, `after` and the flags that occur."""


def count_block(counted: Selections, arrays: JobArrays, flag_places: Ints, flags: Sequence[Flag]) -> None:
    """Count a block of jobs; `flag_places` is per job the place of its flag in `flags`, -1 where it is kept."""
    counts = np.bincount(flag_places + 1, minlength=len(flags) + 1)[1:]
    chosen: dict[str, Bools] = {BEFORE: np.ones(len(flag_places), bool), AFTER: flag_places < 0}
    chosen |= {str(flag): flag_places == place for place, flag in enumerate(flags) if counts[place]}
    for name, mask in chosen.items():
        counted.setdefault(name, SelectionCounts()).add(arrays, mask)


def effect_of(counted: Selections, site: SiteSettings) -> pa.Table:
    """EFFECT: the rows `before` and `after`, then one row per flag that occurs, in order of precedence."""
    days = counted[BEFORE].days.values
    span = (int(days[0]), int(days[-1]) - int(days[0]) + 1) if days.size else (0, 1)
    rows = [_row(name, counted[name], span, site) for name in (BEFORE, AFTER, *map(str, Flag)) if name in counted]
    return EFFECT.build(**{name: [row[name] for row in rows] for name in rows[0]})


def _row(name: str, counted: SelectionCounts, span: tuple[int, int], site: SiteSettings) -> dict[str, object]:
    """`span` is the first day of the log and its number of days."""
    first_day, n_days = span
    per_day = np.zeros(n_days, np.int64)
    per_day[counted.days.values.astype(np.int64) - first_day] = counted.days.counts
    machine_s = (site.max_procs or 0) * n_days * DAY_S
    return {
        "selection": name,
        "n_jobs": counted.n_jobs,
        "n_users": len(counted.users),
        "proc_hours": counted.work_s / 3600,
        "runtime_s_mean": counted.runtime_s.mean,
        "runtime_s_median": counted.runtime_s.median,
        "procs_mean": counted.procs.mean,
        "procs_median": counted.procs.median,
        "jobs_per_day_mean": float(per_day.mean()),
        "jobs_per_day_median": float(np.median(per_day)),
        "load": counted.work_s / machine_s if machine_s else None,
    }
