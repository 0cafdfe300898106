"""Computes the usual figures of a log before cleaning, after it, and for the jobs of each flag, from its blocks.

A long log is counted a block at a time. Equal values are counted, so that medians are exact and memory does not grow
with the number of jobs.
"""

from collections import Counter
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
class SelectionCounts:
    """What a row of EFFECT is computed from."""

    n_jobs: int = 0
    work_s: float = 0.0
    users: set[str] = field(default_factory=set)
    runtime_s: Counter[float] = field(default_factory=Counter)
    procs: Counter[float] = field(default_factory=Counter)
    days: Counter[float] = field(default_factory=Counter)
    """Of submits, days since 1970."""

    def add(self, arrays: JobArrays, chosen: Bools) -> None:
        """Count the chosen jobs of a block."""
        runtime_s, procs, submit_s = (values[chosen] for values in (arrays.runtime_s, arrays.procs, arrays.submit_s))
        codes, names = arrays.codes("user")
        self.n_jobs += int(chosen.sum())
        self.work_s += float(arrays.proc_s[chosen].sum())
        self.users |= {names[code] for code in np.unique(codes[chosen]) if code >= 0}
        self.runtime_s.update(_counted(runtime_s[runtime_s > 0]))
        self.procs.update(_counted(procs[~np.isnan(procs)]))
        self.days.update(_counted(np.floor(submit_s[~np.isnan(submit_s)] / DAY_S)))


def _counted(values: Floats) -> dict[float, int]:
    """How often each value occurs."""
    distinct, counts = np.unique(values, return_counts=True)
    return dict(zip(distinct.tolist(), counts.tolist(), strict=True))


def _middle(counts: Counter[float]) -> tuple[float | None, float | None]:
    """Mean and median of counted values; None without values."""
    if not counts:
        return None, None
    values = np.array(sorted(counts))
    times = np.array([counts[value] for value in values.tolist()])
    until = np.cumsum(times)
    middle = np.searchsorted(until, [(until[-1] - 1) // 2, until[-1] // 2], "right")
    return float(values @ times / until[-1]), float(values[middle].mean())


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
    days = counted[BEFORE].days or {0.0: 0}
    first_day, last_day = int(min(days)), int(max(days))
    names = [name for name in (BEFORE, AFTER, *map(str, Flag)) if name in counted]
    rows = [_row(name, counted[name], first_day, last_day, site) for name in names]
    return EFFECT.build(**{name: [row[name] for row in rows] for name in rows[0]})


def _row(name: str, counted: SelectionCounts, first_day: int, last_day: int, site: SiteSettings) -> dict[str, object]:
    per_day = np.array([counted.days[day] for day in range(first_day, last_day + 1)])
    runtime_mean_s, runtime_median_s = _middle(counted.runtime_s)
    procs_mean, procs_median = _middle(counted.procs)
    machine_s = (site.max_procs or 0) * len(per_day) * DAY_S
    return {
        "selection": name,
        "n_jobs": counted.n_jobs,
        "n_users": len(counted.users),
        "proc_hours": counted.work_s / 3600,
        "runtime_s_mean": runtime_mean_s,
        "runtime_s_median": runtime_median_s,
        "procs_mean": procs_mean,
        "procs_median": procs_median,
        "jobs_per_day_mean": float(per_day.mean()),
        "jobs_per_day_median": float(np.median(per_day)),
        "load": counted.work_s / machine_s if machine_s else None,
    }
