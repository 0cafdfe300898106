"""Finds every burst of the log and assigns each job to at most one of them.

Screens run in a fixed order: probes, timers, flurries (largest lead first), slow flurries. A job belongs to the first
burst that contains it. The rest of a later burst is listed if it is still large enough to be one.
"""

import hashlib
from collections.abc import Collection, Container, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from pipeline.arrays import DAY_S, Floats, Ints
from pipeline.clean.flurries import BurstRules, find_segments
from pipeline.clean.job_arrays import JobArrays
from pipeline.errors import printable
from pipeline.tables import BURSTS

# Least number of jobs of one user in one hour of local time.
TIMER_MIN_JOBS = 500

# Least share of the user's jobs in that hour.
TIMER_HOUR_SHARE = 0.8

# Least share of the days of a timer's span on which such a job was submitted.
TIMER_ACTIVE_DAYS = 0.5

# Least number of days from a timer's first to its last job.
TIMER_MIN_SPAN_DAYS = 14.0


def find_probes(arrays: JobArrays, rules: BurstRules) -> list[Ints]:
    """Rows of each class (user, processors, application) that is a probe, each in order of submit."""
    needed = max(rules.probe_min_jobs, rules.probe_log_share * arrays.jobs.num_rows)
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


def _classes(rows: Ints, codes: Ints, needed: float) -> list[Ints]:
    """The rows of each code with at least `needed` rows; classes in order of their first row."""
    _, place, counts = np.unique(codes, return_inverse=True, return_counts=True)
    large = np.flatnonzero(counts[place] >= needed)
    order = large[np.argsort(place[large], kind="stable")]
    found = np.split(order, np.flatnonzero(np.diff(place[order])) + 1) if len(order) else []
    return [rows[places] for places in sorted(found, key=lambda places: int(places[0]))]


def _is_routine(arrays: JobArrays, rows: Ints, days_share: float, min_span_days: float) -> bool:
    """Whether jobs in order of submit span so many days, with a job on this share of the site's days at least."""
    span_s = arrays.submit_s[rows[-1]] - arrays.submit_s[rows[0]]
    days = np.unique(arrays.local_s[rows] // DAY_S)
    return bool(span_s >= min_span_days * DAY_S and len(days) / (days[-1] - days[0] + 1) >= days_share)


def _is_probe(arrays: JobArrays, rows: Ints, rules: BurstRules, work: float) -> bool:
    runtimes_s = arrays.runtime_s[rows]
    runtimes_s = runtimes_s[~np.isnan(runtimes_s)]
    return bool(
        len(runtimes_s)
        and np.quantile(runtimes_s, 0.75) <= rules.probe_max_runtime_s
        and arrays.proc_s[rows].sum() <= rules.probe_work_share * len(rows) / arrays.jobs.num_rows * work
        and _is_routine(arrays, rows, rules.probe_active_days, rules.probe_min_span_days)
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


Lead = tuple[float | None, float | None]
"""Machine-weeks by which a user's jobs lead over those of all others, and their share in all; None: not measured."""


def describe_burst(
    arrays: JobArrays, rules: BurstRules, screen: Screen, rows: Ints, lead: Lead, taken: Container[str]
) -> dict[str, Any]:
    """The row of BURSTS for a burst's own jobs (at least one, in order of submit), with an id that is not `taken`."""
    user = arrays.codes("user")[1][arrays.codes("user")[0][rows[0]]]
    first_s, last_s = int(arrays.submit_s[rows[0]]), int(arrays.submit_s[rows[-1]])
    applications = arrays.codes("application")[0][rows]
    runtimes_s = arrays.runtime_s[rows]
    known_s = runtimes_s[~np.isnan(runtimes_s)]
    row = {
        "burst_id": _burst_id(screen, user, first_s, taken),
        "screen": str(screen),
        "user": user,
        "n_jobs": len(rows),
        "first_submit_s": first_s,
        "last_submit_s": last_s,
        "span_days": (last_s - first_s) / DAY_S,
        "share_of_span": lead[1],
        "machine_weeks": lead[0],
        "alike_procs": _alike(arrays.procs[rows]),
        "alike_application": _alike(np.where(applications < 0, np.nan, applications)),
        "runtime_spread": _spread(runtimes_s, rules.spread_floor_s),
        "proc_hours": float(arrays.proc_s[rows].sum() / 3600),
    }
    for share in (25, 50, 75):
        name = "runtime_s_median" if share == 50 else f"runtime_s_q{share}"
        row[name] = float(np.quantile(known_s, share / 100)) if len(known_s) else None
    keep_reason = _reason_to_keep(row, rules)
    row["tier"] = str(Tier.SUSPECT if keep_reason else Tier.REMOVE)
    row["why"] = _why(row, arrays.site.timezone) + (f" The jobs are kept: {keep_reason}." if keep_reason else "")
    return row


def _alike(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.unique(known, return_counts=True)[1].max() / len(known)) if len(known) else None


def _spread(runtimes_s: Floats, floor_s: float) -> float | None:
    """75% over 25% quantile of the positive runtimes, at least `floor_s` each; None: too few of them are known."""
    known = runtimes_s[runtimes_s > 0]
    if not len(known) or len(known) < MIN_KNOWN_SHARE * len(runtimes_s):
        return None
    low, high = np.quantile(np.maximum(known, floor_s), (0.25, 0.75)).tolist()
    return float(high / low)


def _reason_to_keep(row: Mapping[str, Any], rules: BurstRules) -> str:
    """The reason not to set the burst's jobs aside, in words; empty where there is none."""
    alike, spread, weeks, share = (
        row[name] for name in ("alike_procs", "runtime_spread", "machine_weeks", "share_of_span")
    )
    if row["screen"] == Screen.PROBE and row["alike_application"] is None:
        return "the log does not name their application, so they may be ordinary work"
    if weeks is None or share is None:
        return ""
    # An unknown size or runtime is evidence neither for a burst nor against it.
    reasons = (
        (row["screen"] == Screen.SLOW,
         f"its rate is over {rules.slow_pace:g} times that of all others together, but not higher than theirs"),
        (weeks < rules.remove_weeks, f"{weeks:.2g} machine-weeks are fewer than {rules.remove_weeks:g}"),
        (share < rules.remove_share, f"its share of {share:.0%} is below {rules.remove_share:.0%}"),
        (alike is not None and alike < rules.remove_alike,
         f"only {alike or 0:.0%} of its jobs share a size, less than {rules.remove_alike:.0%}"),
        (spread is not None and spread > rules.remove_spread,
         f"its runtimes' quartiles differ by a factor of {spread or 0:.3g}, more than {rules.remove_spread:g}"),
    )  # fmt: skip
    return next((words for holds, words in reasons if holds), "")


def _burst_id(screen: Screen, user: str, first_s: int, taken: Container[str]) -> str:
    """The screen and 8 hex digits of a hash of user and first submit, so that a burst keeps its id as the log grows."""
    named = (f"{screen}\0{user}\0{first_s}\0{again}".encode("utf-8", "surrogatepass") for again in count())
    ids = (f"{screen}-{hashlib.sha256(name).hexdigest()[:8]}" for name in named)
    return next(burst_id for burst_id in ids if burst_id not in taken)


def _why(row: Mapping[str, Any], zone: str) -> str:
    """What a burst is, as a sentence."""
    since = datetime.fromtimestamp(row["first_submit_s"], ZoneInfo(zone))
    days, spread = row["span_days"], row["runtime_spread"]
    span = f"{days:.1f} days" if days >= 1 else f"{days * 24:.1f} hours"
    begins = f"{printable(row['user'])} submitted {row['n_jobs']:,} jobs in {span} from {since:%Y-%m-%d %H:%M}"
    if row["screen"] == Screen.PROBE:
        return f"{begins}, spread over the whole log; 75% of them ran {row['runtime_s_q75'] or 0:.0f} s or less."
    if row["screen"] == Screen.CRON:
        return f"{begins}, nearly all of the user's jobs, always in the same hour of the day."
    lead = f"{row['share_of_span']:.0%} of all jobs in that time, a lead of {row['machine_weeks']:.2g} machine-weeks."
    apart = "" if spread is None else f" The quartiles of their runtimes differ by a factor of {spread:.3g}."
    return f"{begins}: {lead}{apart}"


def find_bursts(arrays: JobArrays, rules: BurstRules, taken: Collection[str] = ()) -> tuple[pa.Table, Ints]:
    """BURSTS with ids that are not `taken`, and for each job the row of its burst there (-1: none)."""
    place = np.full(arrays.jobs.num_rows, -1, np.int64)
    rows: dict[str, dict[str, Any]] = {}
    for screen, found, lead in _found(arrays, rules):
        own = found[place[found] < 0]
        # Without the jobs of earlier bursts this one may be too small.
        if len(own) < min(rules.min_jobs, len(found)):
            continue
        place[own] = len(rows)
        one = describe_burst(arrays, rules, screen, own, lead, taken={*taken, *rows})
        rows[one["burst_id"]] = one
    columns = {column.name: [one[column.name] for one in rows.values()] for column in BURSTS.columns}
    return BURSTS.build(**columns), place


def _found(arrays: JobArrays, rules: BurstRules) -> Iterator[tuple[Screen, Ints, Lead]]:
    """What each screen finds, in the order of the screens: rows in order of submit, and their lead."""
    yield from ((Screen.PROBE, rows, (None, None)) for rows in find_probes(arrays, rules))
    yield from ((Screen.CRON, rows, (None, None)) for rows in find_timers(arrays))
    for screen, pace, weeks in (
        (Screen.FLURRY, 1.0, rules.suspect_weeks),
        (Screen.SLOW, rules.slow_pace, rules.slow_weeks),
    ):
        found = find_segments(arrays, rules, pace, weeks)
        yield from ((screen, rows, (lead, share)) for rows, lead, share in found)
