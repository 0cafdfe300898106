"""Finds every burst of the log and assigns each job to at most one of them.

Screens run in a fixed order: probes, timers, flurries (largest lead first), slow flurries. A job belongs to the first
burst that contains it. The rest of a later burst is listed if it is still large enough to be one.
"""

import hashlib
from collections.abc import Callable, Collection, Container, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from pipeline.arrays import DAY_S, Floats, Ints
from pipeline.clean.flurries import FLURRY_RULES, FlurryRules, find_segments
from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.routine import PROBE_RULES, ProbeRules, find_probes, find_timers
from pipeline.errors import printable
from pipeline.tables import BURSTS

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


@dataclass(frozen=True, slots=True)
class BurstRow:
    """A row of BURSTS."""

    burst_id: str
    tier: str
    screen: str
    user: str
    n_jobs: int
    first_submit_s: int
    last_submit_s: int
    span_days: float
    share_of_span: float | None
    machine_weeks: float | None
    alike_procs: float | None
    alike_application: float | None
    runtime_spread: float | None
    runtime_s_q25: float | None
    runtime_s_median: float | None
    runtime_s_q75: float | None
    proc_hours: float
    why: str


def describe_burst(
    arrays: JobArrays, rules: FlurryRules, burst: Burst, rows: Ints, taken: Container[str]
) -> BurstRow:
    """The row of BURSTS for a burst's own jobs (at least one, in order of submit), with an id that is not `taken`."""
    user = arrays.users[1][arrays.users[0][rows[0]]]
    first_s, last_s = int(arrays.submit_s[rows[0]]), int(arrays.submit_s[rows[-1]])
    applications = arrays.applications[0][rows]
    alike_procs = _alike(arrays.procs[rows])
    alike_application = _alike(np.where(applications < 0, np.nan, applications))
    spread = _spread(arrays.runtime_s[rows], rules.spread_floor_s)
    keep_reason = _reason_to_keep(burst, alike_procs, alike_application, spread, rules)
    quartiles = _quartiles(arrays.runtime_s[rows])
    why = _submitted(arrays, user, rows) + _why(burst, quartiles[2], spread)
    return BurstRow(
        burst_id=_burst_id(burst.screen, user, first_s, taken),
        tier=str(Tier.SUSPECT if keep_reason else Tier.REMOVE),
        screen=str(burst.screen),
        user=user,
        n_jobs=len(rows),
        first_submit_s=first_s,
        last_submit_s=last_s,
        span_days=(last_s - first_s) / DAY_S,
        share_of_span=burst.share,
        machine_weeks=burst.machine_weeks,
        alike_procs=alike_procs,
        alike_application=alike_application,
        runtime_spread=spread,
        runtime_s_q25=quartiles[0],
        runtime_s_median=quartiles[1],
        runtime_s_q75=quartiles[2],
        proc_hours=float(arrays.proc_s[rows].sum() / 3600),
        why=why + (f" The jobs are kept: {keep_reason}." if keep_reason else ""),
    )


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
    rows: dict[str, BurstRow] = {}
    for burst in (one for screen in SCREENS.values() for one in screen(arrays, rules)):
        own = burst.rows[place[burst.rows] < 0]
        # Without the jobs of earlier bursts this one may be too small.
        if len(own) < min(rules.flurry.min_jobs, len(burst.rows)):
            continue
        place[own] = len(rows)
        one = describe_burst(arrays, rules.flurry, burst, own, taken={*taken, *rows})
        rows[one.burst_id] = one
    columns = {column.name: [getattr(one, column.name) for one in rows.values()] for column in BURSTS.columns}
    return BURSTS.build(**columns), place


def _probes(arrays: JobArrays, rules: BurstRules) -> Iterator[Burst]:
    return (Burst(Screen.PROBE, rows) for rows in find_probes(arrays, rules.probe))


def _timers(arrays: JobArrays, _rules: BurstRules) -> Iterator[Burst]:
    return (Burst(Screen.CRON, rows) for rows in find_timers(arrays))


def _flurries(arrays: JobArrays, rules: BurstRules) -> Iterator[Burst]:
    return _segments(arrays, rules.flurry, Screen.FLURRY, 1.0, rules.flurry.suspect_weeks)


def _slow(arrays: JobArrays, rules: BurstRules) -> Iterator[Burst]:
    return _segments(arrays, rules.flurry, Screen.SLOW, rules.flurry.slow_pace, rules.flurry.slow_weeks)


SCREENS: dict[Screen, Callable[[JobArrays, BurstRules], Iterator[Burst]]] = {
    Screen.PROBE: _probes,
    Screen.CRON: _timers,
    Screen.FLURRY: _flurries,
    Screen.SLOW: _slow,
}


def _segments(arrays: JobArrays, rules: FlurryRules, screen: Screen, pace: float, weeks: float) -> Iterator[Burst]:
    found = find_segments(arrays, rules, pace, weeks)
    for k in np.lexsort((found.first, -found.machine_weeks)):
        rows = arrays.by_user[found.first[k] : found.last[k] + 1]
        yield Burst(screen, rows, float(found.machine_weeks[k]), float(found.share[k]))
