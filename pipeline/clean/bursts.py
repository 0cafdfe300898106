"""Finds every burst of the log and assigns each job to at most one of them.

Screens run in a fixed order: probes, timers, flurries (largest lead first), slow flurries. A job belongs to the first
burst that contains it. The rest of a later burst is listed if it is still large enough to be one.
"""

import hashlib
from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from pipeline.arrays import DAY_S, Floats, Ints
from pipeline.clean.flurries import FLURRY_RULES, FlurryRules, find_segments
from pipeline.clean.job_arrays import JobArrays
from pipeline.errors import printable
from pipeline.tables import BURSTS


@dataclass(frozen=True, slots=True)
class ProbeRules:
    """Probes: many short jobs throughout the log with which staff or a monitor test whether the machine responds.

    Each threshold, halved or raised by half, finds the same probes in NASA's log.
    """

    # Least number of jobs of one user, size and application.
    min_jobs: int = 500
    # Least share in the jobs of the log.
    log_share: float = 0.1
    # Least share of the days of its span on which such a job was submitted.
    active_days: float = 0.5
    # Least number of days from its first to its last job.
    min_span_days: float = 14.0
    # Largest 75% quantile of its runtimes (s).
    max_runtime_s: float = 60.0
    # Largest ratio of its share of processor-seconds to its share of jobs.
    work_share: float = 0.1


PROBE_RULES = ProbeRules()

# Least number of jobs of one user in one hour of local time.
TIMER_MIN_JOBS = 500

# Least share of the user's jobs in that hour.
TIMER_HOUR_SHARE = 0.8

# Least share of the days of a timer's span on which such a job was submitted.
TIMER_ACTIVE_DAYS = 0.5

# Least number of days from a timer's first to its last job.
TIMER_MIN_SPAN_DAYS = 14.0


def find_probes(arrays: JobArrays, rules: ProbeRules) -> list[Ints]:
    """Rows of each class (user, processors, application) that is a probe, each in order of submit."""
    needed = max(rules.min_jobs, rules.log_share * arrays.jobs.num_rows)
    rows = arrays.by_submit
    # A class has at most as many jobs as its user, so most users are excluded before sorting.
    rows = rows[(np.diff(arrays.user_starts) >= needed)[arrays.codes("user")[0][rows]]]
    work = arrays.proc_s.sum()
    return [one for one in _classes(rows, arrays.similar_codes(rows), needed) if _is_probe(arrays, one, rules, work)]


def find_timers(arrays: JobArrays) -> list[Ints]:
    """Rows of each user and hour of local time that hold nearly all jobs of the user, as a timer submits them."""
    rows, per_user = arrays.by_submit, np.diff(arrays.user_starts)
    codes = arrays.codes("user")[0][rows] * 24 + arrays.local_s[rows] // 3600 % 24
    needed = np.maximum(TIMER_MIN_JOBS, TIMER_HOUR_SHARE * np.repeat(per_user, 24))
    is_timed = (np.bincount(codes, minlength=len(needed)) >= needed)[codes]
    found = _classes(rows[is_timed], codes[is_timed], TIMER_MIN_JOBS)
    return [one for one in found if _is_routine(arrays, one, TIMER_ACTIVE_DAYS, TIMER_MIN_SPAN_DAYS)]


def active_days(times_s: Ints) -> float:
    """Share of days with at least one of the ascending times, from the first to the last day."""
    days = np.unique(times_s // DAY_S)
    return float(len(days) / (days[-1] - days[0] + 1))


def _classes(rows: Ints, codes: Ints, needed: float) -> list[Ints]:
    """The rows of each code with at least `needed` rows; classes in order of their first row."""
    _, place, counts = np.unique(codes, return_inverse=True, return_counts=True)
    large = np.flatnonzero(counts[place] >= needed)
    order = large[np.argsort(place[large], kind="stable")]
    found = np.split(order, np.flatnonzero(np.diff(place[order])) + 1) if len(order) else []
    return [rows[places] for places in sorted(found, key=lambda places: int(places[0]))]


def _is_routine(arrays: JobArrays, rows: Ints, days_share: float, min_span_days: float) -> bool:
    span_s = arrays.submit_s[rows[-1]] - arrays.submit_s[rows[0]]
    return bool(span_s >= min_span_days * DAY_S) and active_days(arrays.local_s[rows]) >= days_share


def _is_probe(arrays: JobArrays, rows: Ints, rules: ProbeRules, work: float) -> bool:
    runtimes_s = arrays.runtime_s[rows]
    runtimes_s = runtimes_s[~np.isnan(runtimes_s)]
    return bool(
        len(runtimes_s)
        and np.quantile(runtimes_s, 0.75) <= rules.max_runtime_s
        and arrays.proc_s[rows].sum() <= rules.work_share * len(rows) / arrays.jobs.num_rows * work
        and _is_routine(arrays, rows, rules.active_days, rules.min_span_days)
    )


# Share of a burst's jobs with a known runtime, below which the spread of runtimes is unknown.
MIN_KNOWN_SHARE = 0.5


class Tier(StrEnum):
    """What becomes of a burst's jobs."""

    REMOVE = "remove"
    SUSPECT = "suspect"


class Screen(StrEnum):
    """What found a burst."""

    PROBE = "probe"
    CRON = "cron"
    FLURRY = "flurry"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class Burst:
    """Rows of one user's jobs in order of submit, and their lead over all other users (None: not measured)."""

    screen: Screen
    rows: Ints
    machine_weeks: float | None = None
    share: float | None = None


def describe_burst(
    arrays: JobArrays, rules: FlurryRules, burst: Burst, rows: Ints, taken: Container[str]
) -> dict[str, Any]:
    """The row of BURSTS for a burst's own jobs (at least one, in order of submit), with an id that is not `taken`."""
    user = arrays.codes("user")[1][arrays.codes("user")[0][rows[0]]]
    first_s, last_s = int(arrays.submit_s[rows[0]]), int(arrays.submit_s[rows[-1]])
    applications = arrays.codes("application")[0][rows]
    alike_procs = _alike(arrays.procs[rows])
    alike_application = _alike(np.where(applications < 0, np.nan, applications))
    spread = _spread(arrays.runtime_s[rows], rules.spread_floor_s)
    keep_reason = _reason_to_keep(burst, alike_procs, alike_application, spread, rules)
    quartiles = _quartiles(arrays.runtime_s[rows])
    why = _submitted(arrays, user, rows) + _why(burst, quartiles[2], spread)
    return {
        "burst_id": _burst_id(burst.screen, user, first_s, taken),
        "tier": str(Tier.SUSPECT if keep_reason else Tier.REMOVE),
        "screen": str(burst.screen),
        "user": user,
        "n_jobs": len(rows),
        "first_submit_s": first_s,
        "last_submit_s": last_s,
        "span_days": (last_s - first_s) / DAY_S,
        "share_of_span": burst.share,
        "machine_weeks": burst.machine_weeks,
        "alike_procs": alike_procs,
        "alike_application": alike_application,
        "runtime_spread": spread,
        "runtime_s_q25": quartiles[0],
        "runtime_s_median": quartiles[1],
        "runtime_s_q75": quartiles[2],
        "proc_hours": float(arrays.proc_s[rows].sum() / 3600),
        "why": why + (f" The jobs are kept: {keep_reason}." if keep_reason else ""),
    }


def _alike(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.unique(known, return_counts=True)[1].max() / len(known)) if len(known) else None


def _quartiles(runtimes_s: Floats) -> tuple[float | None, float | None, float | None]:
    known = runtimes_s[~np.isnan(runtimes_s)]
    if not len(known):
        return None, None, None
    low, middle, high = np.quantile(known, (0.25, 0.5, 0.75)).tolist()
    return low, middle, high


def _spread(runtimes_s: Floats, floor_s: float) -> float | None:
    """75% over 25% quantile of the positive runtimes, at least `floor_s` each; None: too few of them are known."""
    known = runtimes_s[runtimes_s > 0]
    if not len(known) or len(known) < MIN_KNOWN_SHARE * len(runtimes_s):
        return None
    low, high = np.quantile(np.maximum(known, floor_s), (0.25, 0.75)).tolist()
    return float(high / low)


def _reason_to_keep(
    burst: Burst,
    alike_procs: float | None,
    alike_application: float | None,
    spread: float | None,
    rules: FlurryRules,
) -> str:
    """The reason not to set the burst's jobs aside, in words; empty where there is none."""
    if burst.screen is Screen.PROBE and alike_application is None:
        return "the log does not name their application, so they may be ordinary work"
    if burst.machine_weeks is None or burst.share is None:
        return ""
    if burst.screen is Screen.SLOW:
        return f"its rate is over {rules.slow_pace:g} times that of all others together, but not higher than theirs"
    # An unknown size or runtime is evidence neither for a burst nor against it.
    unlike = alike_procs is not None and alike_procs < rules.remove_alike
    wide = spread is not None and spread > rules.remove_spread
    reasons = {
        f"{burst.machine_weeks:.2g} machine-weeks are fewer than {rules.remove_weeks:g}": (
            burst.machine_weeks < rules.remove_weeks
        ),
        f"its share of {burst.share:.0%} is below {rules.remove_share:.0%}": burst.share < rules.remove_share,
        f"only {alike_procs or 0:.0%} of its jobs share a size, less than {rules.remove_alike:.0%}": unlike,
        f"its runtimes' quartiles differ by a factor of {spread or 0:.3g}, more than {rules.remove_spread:g}": wide,
    }
    return next((words for words, holds in reasons.items() if holds), "")


def _burst_id(screen: Screen, user: str, first_s: int, taken: Container[str]) -> str:
    """The screen and 8 hex digits of a hash of user and first submit, so that a burst keeps its id as the log grows."""
    for again in range(1_000_000):
        named = f"{screen}\0{user}\0{first_s}\0{again}".encode("utf-8", "surrogatepass")
        burst_id = f"{screen}-{hashlib.sha256(named).hexdigest()[:8]}"
        if burst_id not in taken:
            return burst_id
    raise AssertionError("a million bursts of one user in one second")


def _submitted(arrays: JobArrays, user: str, rows: Ints) -> str:
    first_s, last_s = arrays.submit_s[rows[0]], arrays.submit_s[rows[-1]]
    since = datetime.fromtimestamp(int(first_s), ZoneInfo(arrays.site.timezone))
    days = (last_s - first_s) / DAY_S
    span = f"{days:.1f} days" if days >= 1 else f"{days * 24:.1f} hours"
    return f"{printable(user)} submitted {len(rows):,} jobs in {span} from {since:%Y-%m-%d %H:%M}"


def _why(burst: Burst, runtime_s_q75: float | None, spread: float | None) -> str:
    if burst.screen is Screen.PROBE:
        return f", spread over the whole log; 75% of them ran {runtime_s_q75 or 0:.0f} s or less."
    if burst.screen is Screen.CRON:
        return ", nearly all of the user's jobs, always in the same hour of the day."
    lead = f": {burst.share:.0%} of all jobs in that time, a lead of {burst.machine_weeks:.2g} machine-weeks."
    return lead + ("" if spread is None else f" The quartiles of their runtimes differ by a factor of {spread:.3g}.")


@dataclass(frozen=True, slots=True)
class BurstRules:
    """Thresholds of the screens that find bursts; a study passes others to `clean`."""

    flurry: FlurryRules = FLURRY_RULES
    probe: ProbeRules = PROBE_RULES


BURST_RULES = BurstRules()


def find_bursts(arrays: JobArrays, rules: BurstRules, taken: Collection[str] = ()) -> tuple[pa.Table, Ints]:
    """BURSTS with ids that are not `taken`, and for each job the row of its burst there (-1: none)."""
    place = np.full(arrays.jobs.num_rows, -1, np.int64)
    rows: dict[str, dict[str, Any]] = {}
    for burst in _found(arrays, rules):
        own = burst.rows[place[burst.rows] < 0]
        # Without the jobs of earlier bursts this one may be too small.
        if len(own) < min(rules.flurry.min_jobs, len(burst.rows)):
            continue
        place[own] = len(rows)
        one = describe_burst(arrays, rules.flurry, burst, own, taken={*taken, *rows})
        rows[one["burst_id"]] = one
    columns = {column.name: [one[column.name] for one in rows.values()] for column in BURSTS.columns}
    return BURSTS.build(**columns), place


def _found(arrays: JobArrays, rules: BurstRules) -> Iterator[Burst]:
    """What each screen finds, in the order of the screens."""
    flurry = rules.flurry
    yield from (Burst(Screen.PROBE, rows) for rows in find_probes(arrays, rules.probe))
    yield from (Burst(Screen.CRON, rows) for rows in find_timers(arrays))
    fast = find_segments(arrays, flurry, 1.0, flurry.suspect_weeks)
    yield from (Burst(Screen.FLURRY, *one) for one in fast)
    slow = find_segments(arrays, flurry, flurry.slow_pace, flurry.slow_weeks)
    yield from (Burst(Screen.SLOW, *one) for one in slow)
