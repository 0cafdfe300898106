"""What is said of a burst: its figures, its tier, and one sentence why it is listed."""

import hashlib
from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

import numpy as np

from pipeline.clean.job_arrays import DAY_S, JobArrays
from pipeline.core.arrays import Floats, Ints
from pipeline.core.clean_settings import CleanSettings, FlurrySettings
from pipeline.core.text import printable

MIN_KNOWN_SHARE = 0.5
"""Runtimes of fewer of a burst's jobs say nothing of the others."""


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
    """Rows of one user's jobs in order of submit, and how far ahead of everybody else they were (None: not asked)."""

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
    arrays: JobArrays, settings: CleanSettings, burst: Burst, rows: Ints, taken: Container[str]
) -> BurstRow:
    """The figures of a burst's own rows (in order of submit, at least one), under an id not yet taken."""
    user = arrays.users[1][arrays.users[0][rows[0]]]
    first_s, last_s = int(arrays.submit_s[rows[0]]), int(arrays.submit_s[rows[-1]])
    applications = arrays.applications[0][rows]
    alike_procs = _alike(arrays.procs[rows])
    alike_application = _alike(np.where(applications < 0, np.nan, applications))
    spread = _spread(arrays.runtime_s[rows], settings.flurry.spread_floor_s)
    short = _speaks_against(burst, alike_procs, alike_application, spread, settings.flurry)
    quartiles = _quartiles(arrays.runtime_s[rows])
    why = _begun(arrays, user, rows) + _why(burst, quartiles[2], spread)
    return BurstRow(
        burst_id=_burst_id(burst.screen, user, first_s, taken),
        tier=str(Tier.SUSPECT if short else Tier.REMOVE),
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
        why=why + (f" Only suspected: {short}." if short else ""),
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


def _speaks_against(
    burst: Burst,
    alike_procs: float | None,
    alike_application: float | None,
    spread: float | None,
    limits: FlurrySettings,
) -> str:
    """What speaks against setting the burst's jobs aside, in words; empty: nothing does."""
    if burst.screen is Screen.PROBE and alike_application is None:
        return "the log does not say what they ran, so that they may be work"
    if burst.machine_weeks is None or burst.share is None:
        return ""
    if burst.screen is Screen.SLOW:
        return f"more than {limits.slow_pace:g} times as fast as everybody else, but not faster"
    # A size or a runtime that the jobs do not tell speaks neither for a burst nor against it.
    unlike = alike_procs is not None and alike_procs < limits.remove_alike
    wide = spread is not None and spread > limits.remove_spread
    against = {
        f"{burst.machine_weeks:.2g} machine-weeks are under {limits.remove_weeks:g}": (
            burst.machine_weeks < limits.remove_weeks
        ),
        f"a share of {burst.share:.0%} is under {limits.remove_share:.0%}": burst.share < limits.remove_share,
        f"only {alike_procs or 0:.0%} of its jobs share a size, under {limits.remove_alike:.0%}": unlike,
        f"its runtimes' quartiles lie a factor of {spread or 0:.3g} apart, over {limits.remove_spread:g}": wide,
    }
    return next((words for words, holds in against.items() if holds), "")


def _burst_id(screen: Screen, user: str, first_s: int, taken: Container[str]) -> str:
    """Screen, and 8 hex digits over who and when: the same burst keeps its id as the log grows."""
    for again in range(1_000_000):
        named = f"{screen}\0{user}\0{first_s}\0{again}".encode("utf-8", "surrogatepass")
        burst_id = f"{screen}-{hashlib.sha256(named).hexdigest()[:8]}"
        if burst_id not in taken:
            return burst_id
    raise AssertionError("a million bursts of one user in one second")


def _begun(arrays: JobArrays, user: str, rows: Ints) -> str:
    first_s, last_s = arrays.submit_s[rows[0]], arrays.submit_s[rows[-1]]
    since = datetime.fromtimestamp(int(first_s), ZoneInfo(arrays.site.timezone))
    days = (last_s - first_s) / DAY_S
    span = f"{days:.1f} days" if days >= 1 else f"{days * 24:.1f} hours"
    return f"{printable(user)} submitted {len(rows):,} jobs in {span} from {since:%Y-%m-%d %H:%M}"


def _why(burst: Burst, runtime_s_q75: float | None, spread: float | None) -> str:
    if burst.screen is Screen.PROBE:
        return f", all through the log: three in four ran {runtime_s_q75 or 0:.0f} s or less."
    if burst.screen is Screen.CRON:
        return ", nearly all he submits, in one and the same hour of the day."
    ahead = f": {burst.share:.0%} of all in that time, {burst.machine_weeks:.2g} machine-weeks ahead of everybody else."
    return ahead + ("" if spread is None else f" Runtimes of half its jobs lie within a factor of {spread:.3g}.")
