"""How many jobs all other users submit in a usual week, for each user of a log that may be read in blocks."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pipeline.core.arrays import Floats, Ints

DAY_S = 86_400
WEEK_S = 7 * DAY_S

SHORT_LOG_WEEKS = 8
"""A shorter log has too few weeks for a median; jobs are then counted by day."""


@dataclass(frozen=True, slots=True)
class SubmitRates:
    """By user with enough jobs, the jobs that all other such users submit in a median week."""

    rest_per_week: dict[str, float]


class Submits(Protocol):
    """Jobs of a log in any order: their submits, s since 1970 (NaN: unknown), and their users (code -1: unknown)."""

    @property
    def submit_s(self) -> Floats:
        """Submit time of each job."""

    @property
    def users(self) -> tuple[Ints, list[str]]:
        """Code of each job's user, and the users' names."""


def submit_rates(blocks: Iterable[Submits], min_jobs: int) -> SubmitRates:
    """The rates of a log from its blocks, which are iterated twice; none for fewer than two users with `min_jobs`."""
    active, ends_s = _active_users(blocks, min_jobs)
    if len(active) < 2:
        return SubmitRates({})
    own, unit_s = _counts(blocks, active, ends_s)
    totals = own.sum(axis=0)
    # Weeks without any job do not count: the machine was down, or the log holds a stray date.
    others = (totals - own)[:, totals > 0]
    # Where most weeks are empty, the mean replaces the median.
    typical = np.where((median := np.median(others, axis=1)) > 0, median, others.mean(axis=1))
    return SubmitRates(dict(zip(active, (typical * WEEK_S / unit_s).tolist(), strict=True)))


def _known(block: Submits) -> tuple[Ints, Floats]:
    """Users and submits of the jobs that have both."""
    codes, submit_s = block.users[0], block.submit_s
    known = (codes >= 0) & ~np.isnan(submit_s)
    return codes[known], submit_s[known]


def _active_users(blocks: Iterable[Submits], min_jobs: int) -> tuple[list[str], tuple[float, float]]:
    """The users with enough jobs, in order of name; first and last submit of any of these, s since 1970."""
    n_jobs: dict[str, int] = {}
    spans_s: dict[str, tuple[float, float]] = {}
    for block in blocks:
        codes, submit_s = _known(block)
        names = block.users[1]
        first_s, last_s = np.full(len(names), np.inf), np.full(len(names), -np.inf)
        np.minimum.at(first_s, codes, submit_s)
        np.maximum.at(last_s, codes, submit_s)
        for name, n, low, high in zip(names, np.bincount(codes, minlength=len(names)), first_s, last_s, strict=True):
            before = spans_s.get(name, (np.inf, -np.inf))
            n_jobs[name] = n_jobs.get(name, 0) + int(n)
            spans_s[name] = min(before[0], float(low)), max(before[1], float(high))
    active = sorted(name for name, n in n_jobs.items() if n >= min_jobs)
    spans = [spans_s[name] for name in active]
    return active, (min((low for low, _ in spans), default=np.nan), max((high for _, high in spans), default=np.nan))


def _counts(blocks: Iterable[Submits], active: list[str], ends_s: tuple[float, float]) -> tuple[Ints, int]:
    """Jobs per active user and week (day in a short log), from the first such job on; the length of the unit, s."""
    first_s, last_s = ends_s
    unit_s = WEEK_S if last_s - first_s >= SHORT_LOG_WEEKS * WEEK_S else DAY_S
    n_bins = int((last_s - first_s) // unit_s) + 1
    place_of = {name: place for place, name in enumerate(active)}
    counts = np.zeros(len(active) * n_bins, np.int64)
    for block in blocks:
        codes, submit_s = _known(block)
        place = np.array([place_of.get(name, -1) for name in block.users[1]], np.int64)[codes]
        bins = ((submit_s[place >= 0] - first_s) // unit_s).astype(np.int64)
        counts += np.bincount(place[place >= 0] * n_bins + bins, minlength=counts.size)
    return counts.reshape(len(active), n_bins), unit_s
