"""Finds times in which the machine was reserved for few users: those the site names and those the log shows.

A log does not state reservations. A window counts as one if all of this holds: its first job starts on an empty
machine; for hours only jobs of one or two users start; and all the while jobs of several other users wait that could
have started: they fit beside the running jobs, wait in the same queues, request no more time, and are eligible where
the eligible time is known. A window reaches from its first start to its last.

Not detected: a reservation of a part of the machine, one with a queue of its own, or one begun while others' jobs ran;
one for which nobody waited, or in a log without waits or requested times; one used by more than two users, or by one
job alone. A reservation looks the same as a fault of the scheduler, or a rule of the site, that let only few users'
jobs start. A site names such times itself: `[[clean.dedicated]]`.
"""

from collections.abc import Iterator

import numpy as np

from pipeline.clean.capacity import sizes_at, sustained_procs
from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.occupancy import MOST, in_order, occupancy_of
from pipeline.clean.site_rules import epoch_s
from pipeline.core.arrays import Bools, Ints, floats
from pipeline.core.clean_settings import CleanSettings, DedicatedSettings
from pipeline.core.compiled import entry_kernel
from pipeline.core.report import Fact
from pipeline.core.text import printable

Window = tuple[float, float]


def dedicated_time(arrays: JobArrays, settings: CleanSettings) -> Bools:
    """True for a job that started in a reserved window, stated or found; without a start its submit time counts."""
    began_s = arrays.began_s
    within = np.zeros(len(began_s), bool)
    for since_s, until_s in _named(arrays, settings):
        within |= (began_s >= since_s) & (began_s < until_s)
    for since_s, until_s in found_windows(arrays, settings):
        within |= (arrays.start_s >= since_s) & (arrays.start_s <= until_s)
    return within


def dedicated_facts(arrays: JobArrays, settings: CleanSettings) -> dict[str, Fact]:
    """The number of jobs in each stated window, by its reason."""
    facts: dict[str, Fact] = {}
    began_s = arrays.began_s
    for one, (since_s, until_s) in zip(settings.dedicated, _named(arrays, settings), strict=True):
        within = int(((began_s >= since_s) & (began_s < until_s)).sum())
        facts[f"dedicated: {printable(one.reason)}"] = within
    return facts


def found_windows(arrays: JobArrays, settings: CleanSettings) -> list[Window]:
    """First and last start (s since 1970) of each window found in the log, in order."""
    limits = settings.dedicated_time
    rows = np.flatnonzero((np.abs(arrays.start_s) < MOST) & (arrays.users[0] >= 0))
    if not len(rows):
        return []
    # Also by user: the order of equal starts is unknown and must not affect the result.
    starts_s, users = in_order(arrays.start_s[rows].astype(np.int64), arrays.users[0][rows])
    # A job with an unknown or impossible end does not show whether the machine is empty.
    ran = (arrays.end_s[rows] > arrays.start_s[rows]) & (arrays.end_s[rows] < MOST)
    ends_s = np.where(ran, arrays.end_s[rows], arrays.start_s[rows]).astype(np.int64)
    ends_s.sort()
    first, last = _alone(starts_s, users, len(arrays.users[1]), ends_s, limits)
    windows = [(float(starts_s[i]), float(starts_s[j])) for i, j in zip(first, last, strict=True)]
    return [window for window in windows if _kept_others_out(arrays, settings, window)] if windows else []


def _named(arrays: JobArrays, settings: CleanSettings) -> Iterator[Window]:
    zone = arrays.site.timezone
    return ((epoch_s(one.since, zone), epoch_s(one.until, zone)) for one in settings.dedicated)


def _alone(starts_s: Ints, users: Ints, n_users: int, ends_s: Ints, limits: DedicatedSettings) -> tuple[Ints, Ints]:
    """First and last place of each long enough run of starts by few users that begins on an empty machine."""
    first, last = np.empty(len(starts_s), np.int64), np.empty(len(starts_s), np.int64)
    min_s = int(limits.min_h * 3600)
    n = _stretches(starts_s, users, n_users, ends_s, limits.max_users, min_s, limits.min_jobs, first, last)
    return first[:n], last[:n]


@entry_kernel
def _stretches(
    starts_s: Ints, users: Ints, n_users: int, ends_s: Ints, max_users: int, min_s: int, min_jobs: int,
    first: Ints, last: Ints,
) -> int:  # fmt: skip
    held = np.zeros(n_users, np.int64)
    n, n_held, until, ended, passed = 0, 0, 0, 0, 0
    for i in range(len(starts_s)):
        while until < len(starts_s) and (held[users[until]] > 0 or n_held < max_users):
            n_held += held[users[until]] == 0
            held[users[until]] += 1
            until += 1
        while ended < len(ends_s) and ends_s[ended] <= starts_s[i]:
            ended += 1
        # `until` is the first start of one user too many: all starts in the same second are left out.
        stop = until
        while until < len(starts_s) and stop > i and starts_s[stop - 1] == starts_s[until]:
            stop -= 1
        is_empty = ended >= i and (i == 0 or starts_s[i - 1] < starts_s[i])
        if i >= passed and is_empty and stop - i >= min_jobs and starts_s[stop - 1] - starts_s[i] >= min_s:
            first[n], last[n] = i, stop - 1
            n, passed = n + 1, stop
        held[users[i]] -= 1
        n_held -= held[users[i]] == 0
    return n


def _kept_others_out(arrays: JobArrays, settings: CleanSettings, window: Window) -> bool:
    since_s, until_s = window
    witnesses = (arrays.submit_s <= since_s) & (arrays.start_s > until_s) & (arrays.users[0] >= 0)
    # A job that waits for a dependency or for a time its user gave shows no reservation.
    witnesses &= ~(floats(arrays.jobs, "eligible_s") > since_s)
    few = settings.dedicated_time.min_kept_out
    if len(np.unique(arrays.users[0][witnesses])) < few:
        return False
    own = (arrays.start_s >= since_s) & (arrays.start_s <= until_s)
    witnesses &= ~np.isin(arrays.users[0], np.unique(arrays.users[0][own]))
    # Nor does a job that the opening hours of a queue or a limit on long jobs may have delayed.
    witnesses &= np.isin(arrays.queues[0], np.unique(arrays.queues[0][own]))
    witnesses &= arrays.requested_s <= np.nanmax(arrays.requested_s[own], initial=0)
    witnesses &= arrays.procs <= _size(arrays, settings, since_s) - occupancy_of(arrays, own).busy.max(initial=0)
    return len(np.unique(arrays.users[0][witnesses])) >= few


def _size(arrays: JobArrays, settings: CleanSettings, when_s: float) -> float:
    """The size of the machine as the site states it, else the sustained level of the log, which is rather too low."""
    stated = float(sizes_at(arrays, settings.capacity, np.array([when_s]))[0])
    return arrays.once("sustained", lambda: sustained_procs(occupancy_of(arrays))) if np.isnan(stated) else stated
