"""The numbers in the plots of a cleaned log: per day, per burst, per size, over time."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from flows.services.logs.cleaning import Cleaned
from pipeline.arrays import Bools, Floats, Ints, category_codes, floats, job_procs
from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.occupancy import mean_busy, occupancy_of, sizes_at

DAY_S = 86_400
LATEST_S = 253_370_000_000
"""The end of the year 9999, where calendars end; later jobs are in the tables only."""
MAX_DAYS_DRAWN = 800
LANES = 40
LANE_BINS = 400
INTERVALS = 400

KEPT, SUSPECT, OTHER = "kept", "kept, in a suspect burst", "set aside: not usable, or for another reason"
NAMED = {
    "flurry": "set aside: flurry",
    "probe": "set aside: probe",
    "cron": "set aside: timer",
    "site_drop": "set aside: by the site's rule",
}


@dataclass(frozen=True, slots=True)
class Daily:
    """Jobs submitted per `days` days by outcome; `begins_s` are edges (s since 1970), one more than counts."""

    days: int
    begins_s: Floats
    counts: dict[str, Ints]


@dataclass(frozen=True, slots=True)
class Lane:
    """One burst and its submitted jobs in equal parts of the log's span."""

    burst: dict[str, Any]
    counts: Ints


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of all plots."""

    daily: Daily | None
    lanes: tuple[Lane, ...]
    lanes_hidden: int
    span_s: tuple[float, float]
    runtimes_s: tuple[Floats, Floats]
    procs: tuple[Floats, Floats]
    edges_s: Floats
    busy: tuple[Floats, Floats]
    machine: Floats
    """Processors of the machine in each interval, NaN where the config does not give them."""

    @property
    def machine_size(self) -> str:
        """The machine's processors as text; empty where unknown."""
        sizes = np.unique(self.machine[~np.isnan(self.machine)])
        return f"{sizes[0]:,.0f}" + (f" to {sizes[-1]:,.0f}" if len(sizes) > 1 else "") if len(sizes) else ""


def figures_of(cleaned: Cleaned) -> Figures:
    """The numbers of every plot from the jobs; empty arrays where the log has no values."""
    jobs, site = cleaned.jobs, cleaned.settings.site
    submit_s = floats(jobs, "submit_s")
    submit_s = np.where((submit_s >= 0) & (submit_s < LATEST_S), submit_s, np.nan)
    kept = jobs.column("flag").is_null().to_numpy()
    known = submit_s[~np.isnan(submit_s)]
    span_s = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    bursts = cleaned.burst_rows()
    arrays = JobArrays(jobs, site, settings=cleaned.settings.clean)
    edges_s, busy = _busy(arrays, kept)
    return Figures(
        daily=_daily(jobs, submit_s, span_s, ZoneInfo(site.timezone), bursts) if len(known) else None,
        lanes=_lanes(jobs, submit_s, span_s, bursts[:LANES]),
        lanes_hidden=max(0, len(bursts) - LANES),
        span_s=span_s,
        runtimes_s=_positive(floats(jobs, "runtime_s"), kept),
        procs=_positive(job_procs(jobs), kept),
        edges_s=edges_s,
        busy=busy,
        machine=sizes_at(arrays, edges_s[:-1]),
    )


def _positive(values: Floats, kept: Bools) -> tuple[Floats, Floats]:
    known = values > 0
    return values[known], values[known & kept]


def _daily(
    jobs: pa.Table, submit_s: Floats, span_s: tuple[float, float], zone: ZoneInfo, bursts: list[dict[str, Any]]
) -> Daily:
    midnight_s = _midnight_s(span_s[0], zone)
    days = int(np.ceil((span_s[1] - midnight_s + 1) / DAY_S / MAX_DAYS_DRAWN))
    n_bins = int((span_s[1] - midnight_s) // (days * DAY_S)) + 1
    place = np.floor((submit_s - midnight_s) / (days * DAY_S))
    drawn = ~np.isnan(place)
    outcomes, names = _outcomes(jobs, {burst["burst_id"] for burst in bursts if burst["tier"] == "suspect"})
    cells = outcomes[drawn] * n_bins + place[drawn].astype(np.int64)
    counts = np.bincount(cells, minlength=len(names) * n_bins).reshape(len(names), n_bins)
    begins_s = (midnight_s + np.arange(n_bins + 1) * float(days * DAY_S)).astype(np.float64)
    return Daily(days, begins_s, dict(zip(names, counts, strict=True)))


def _midnight_s(instant_s: float, zone: ZoneInfo) -> float:
    """The last midnight of the site's clock before an instant."""
    local = datetime.fromtimestamp(int(instant_s), zone)
    return instant_s - (local.hour * 3600 + local.minute * 60 + local.second)


def _outcomes(jobs: pa.Table, suspects: set[str]) -> tuple[Ints, list[str]]:
    """The outcome of each job as an index into the names, and the names."""
    flag_codes, flag_names = category_codes(jobs, "flag")
    burst_codes, burst_names = category_codes(jobs, "burst_id")
    names = [KEPT, SUSPECT, *NAMED.values(), OTHER]
    by_flag = np.array([*(names.index(NAMED.get(flag, OTHER)) for flag in flag_names), 0])
    is_suspect = np.array([*(name in suspects for name in burst_names), False])
    outcomes = by_flag[flag_codes]
    outcomes[(outcomes == 0) & is_suspect[burst_codes]] = 1
    return outcomes, names


def _lanes(
    jobs: pa.Table, submit_s: Floats, span_s: tuple[float, float], bursts: list[dict[str, Any]]
) -> tuple[Lane, ...]:
    codes, names = category_codes(jobs, "burst_id")
    places = np.array([*({b["burst_id"]: n for n, b in enumerate(bursts)}.get(name, -1) for name in names), -1])[codes]
    own = np.flatnonzero((places >= 0) & ~np.isnan(submit_s))
    width_s = max(span_s[1] - span_s[0], 1.0) / LANE_BINS
    bins = np.minimum((submit_s[own] - span_s[0]) // width_s, LANE_BINS - 1).astype(np.int64)
    counts = np.bincount(places[own] * LANE_BINS + bins, minlength=len(bursts) * LANE_BINS)
    return tuple(Lane(*one) for one in zip(bursts, counts.reshape(-1, LANE_BINS), strict=True))


def _busy(arrays: JobArrays, kept: Bools) -> tuple[Floats, tuple[Floats, Floats]]:
    """The edges of equal intervals, and the mean busy processors in each: of all jobs, and of kept jobs."""
    steps = occupancy_of(arrays)
    if not len(steps.busy):
        return np.empty(0), (np.empty(0), np.empty(0))
    edges_s = np.linspace(steps.times_s[0], steps.times_s[-1], INTERVALS + 1)
    return edges_s, (mean_busy(steps, edges_s), mean_busy(occupancy_of(arrays, kept), edges_s))
