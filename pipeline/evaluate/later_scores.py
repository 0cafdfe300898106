"""Scores the PREDICTIONS of past nights of a log on the jobs that came after each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import DAY_S, Bools, Floats, floats
from pipeline.group import assign_groups, choose_template, with_chosen
from pipeline.large_tables import rows_of
from pipeline.run import tables_of
from pipeline.settings import GroupSettings, RunSettings

NUMBERS = ("runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95")
N_NIGHTS = 12
HORIZONS = (1.0, 7.0)
ROUNDING = 1e-9
"""Runs of one length have an interval of this length, but for rounding."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A row per later job that a published row answers: its runtime (s), columns of that row.

    `is_seen`: its group had run on its count by the night; `age_days`: its submit after the night.
    """

    actual_s: Floats
    numbers: dict[str, Floats]
    is_ok: Bools
    is_seen: Bools
    age_days: Floats

    def take(self, rows: Bools) -> "Scored":
        """The jobs of these rows."""
        numbers = {name: values[rows] for name, values in self.numbers.items()}
        rest = (getattr(self, name)[rows] for name in ("is_ok", "is_seen", "age_days"))
        return Scored(self.actual_s[rows], numbers, *rest)


def figures(scored: Scored) -> dict[str, Any]:
    """Jobs; shares inside 80% and 95%; median width (hi over lo of 80%); median error; share of jobs on ok rows."""
    if not scored.actual_s.size:
        return {"jobs": 0}
    numbers, actual_s = scored.numbers, scored.actual_s
    ends = {share: [numbers[f"runtime_s_{end}{share}"] for end in ("lo", "hi")] for share in ("80", "95")}
    inside = {
        share: float(((low <= actual_s * (1 + ROUNDING)) & (actual_s * (1 - ROUNDING) <= high)).mean())
        for share, (low, high) in ends.items()
    }
    return {
        "jobs": actual_s.size,
        **{f"in_{share}": value for share, value in inside.items()},
        "width_80": float(np.median(numbers["runtime_s_hi80"] / numbers["runtime_s_lo80"])),
        "median_error": float(np.median(np.abs(numbers["runtime_s"] / actual_s - 1))),
        "ok_share": float(scored.is_ok.mean()),
    }


def later_scores(
    jobs: pa.Table,
    settings: RunSettings,
    shares: tuple[float, float] = (2 / 3, 0.98),
    horizons: Sequence[float] = HORIZONS,
    n_nights: int = N_NIGHTS,
) -> dict[float, Scored]:
    """Per horizon (days), the jobs submitted within it after each night, with the predictions of that night.

    `jobs` are flagged JOBS. The nights are evenly spaced between two shares of the jobs by submit. What ends after a
    night is not known at it; the template of a night is the previous one of the next.
    """
    submit_s = floats(jobs, "submit_s")
    parts, previous = list[Scored](), ""
    first_s, last_s = np.quantile(submit_s[np.isfinite(submit_s)], shares)
    for night_s in np.linspace(first_s, last_s, n_nights):
        table, group = published(jobs, settings, float(night_s), previous)
        previous = "+".join(group.columns)
        parts.append(_scored(table, assign_groups(jobs, group)[0], float(night_s), max(horizons)))
    every = _joined(parts)
    return {days: every.take(every.age_days <= days) for days in horizons if (every.age_days <= days).any()}


def published(
    jobs: pa.Table, settings: RunSettings, night_s: float, previous: str = ""
) -> tuple[pa.Table, GroupSettings]:
    """PREDICTIONS as a run at a time publishes them, and how it groups; `jobs` are flagged JOBS of any time."""
    known = jobs.filter(pa.array(_ends(jobs) <= night_s))
    templates, _ = choose_template(known, settings.group, previous)
    given = {"jobs_flagged": known, "templates": templates}
    table = rows_of(tables_of(settings, given, "predictions")["predictions"])
    return table, with_chosen(settings.group, templates)


def _scored(table: pa.Table, grouped: pa.Table, night_s: float, days: float) -> Scored:
    """The later jobs of a night that a row answers."""
    age_days = (floats(grouped, "submit_s") - night_s) / DAY_S
    is_later = (age_days > 0) & (age_days <= days) & (floats(grouped, "runtime_s") > 0)
    is_known = pc.is_valid(grouped.column("group_id")).to_numpy() & (_ends(grouped) <= night_s)
    ran = set(keys_of(grouped.filter(pa.array(is_known))))
    rows = {key: row for row, key in enumerate(keys_of(table))}
    later = grouped.filter(pa.array(is_later))
    keys = keys_of(later)
    place = np.array([rows.get(key, -1) for key in keys], np.int64)
    numbers = {name: floats(table, name)[place] for name in NUMBERS} if table.num_rows else {}
    is_ok = np.append(pc.equal(table.column("reliability").cast(pa.string()), "ok").to_numpy(), False)[place]
    is_seen = np.array([key in ran for key in keys], np.bool_)
    numbers = numbers or {name: np.full(place.size, np.nan) for name in NUMBERS}
    return Scored(floats(later, "runtime_s"), numbers, is_ok, is_seen, age_days[is_later]).take(place >= 0)


def keys_of(table: pa.Table) -> list[tuple[str, int]]:
    """Group and count of each row."""
    return list(zip(table.column("group_id").to_pylist(), table.column("procs").to_pylist(), strict=True))


def _joined(parts: Sequence[Scored]) -> Scored:
    numbers = {name: np.concatenate([part.numbers[name] for part in parts]) for name in NUMBERS}
    rest = (np.concatenate([getattr(part, name) for part in parts]) for name in ("is_ok", "is_seen", "age_days"))
    return Scored(np.concatenate([part.actual_s for part in parts]), numbers, *rest)


def _ends(jobs: pa.Table) -> Floats:
    end_s = floats(jobs, "end_s")
    return np.where(np.isnan(end_s), floats(jobs, "submit_s") + floats(jobs, "runtime_s"), end_s)
