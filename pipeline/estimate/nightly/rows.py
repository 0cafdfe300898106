"""Rows of the look-up table as the State keeps them: what the estimator answers to a key at the midnights it changed.

A row asks as if the newest ended job of its key were submitted again. A job that is submitted later reads the row that
stood at an earlier midnight: its errors are those of estimates of that age.
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.estimate.keys import mixed
from pipeline.estimate.submits import TRAITS, Events, Jobs, derived, part

ROW_KEYS = ("uaqrp", "uarp", "urp", "uar", "ur", "up", "u", "r", "all")
"""Keys of rows in order of look-up: u who, a what, q queue, r requested runtime, p processors."""

UAQRP, UARP, URP, UAR, UR, UP, U, R, ALL = range(len(ROW_KEYS))
WITH_APPLICATION = (UAQRP, UARP, UAR)
WITHOUT_REQUEST = (UP, U, ALL)
"""Kinds whose rows also have ratios to the request."""

DAY_S = 86_400.0
AGES_DAYS = (0.0, 1.0, 7.0)
"""Ages at which a published table is read (days): in the night, after a day of service, after a week."""

SERVED_DAYS = AGES_DAYS[1]

FEW_JOBS = 5
"""A row of fewer ended jobs has upper quantiles of its own."""

KEPT_DAYS = 1095.0
"""Time after which a key without an ended job has no row (days)."""

QUEUE = TRAITS.index("queue")


class Rows(NamedTuple):
    """In order of key and midnight; values of the newest ended job of the key by then."""

    key: Ints
    """Hash of the kind and the key's values."""
    kind: Ints
    at_s: Floats
    """The midnight at which the row is asked, the first one after an end; later than the State's time: not yet."""
    who: Ints
    """-1 in rows of anyone."""
    traits: Ints
    limit_s: Floats
    procs: Floats
    local_s: Ints
    newest_end_s: Floats
    n_jobs: Ints
    """Ended jobs of the key."""
    method_s: Floats
    quantiles_s: Floats
    follows: Floats
    """Chance that runtimes follow the request."""
    n_effective: Floats
    """Effective number of jobs behind the answer."""


def no_rows(n_methods: int, n_quantiles: int) -> Rows:
    """No row."""
    none, some = np.empty(0, np.int64), np.empty(0)
    traits = np.empty((0, len(TRAITS)), np.int64)
    return Rows(
        none, none, some, none, traits, some, some, none, some, none,
        np.empty((0, n_methods)), np.empty((0, n_quantiles)), some, some,
    )  # fmt: skip


def taken(rows: Rows, places: Ints) -> Rows:
    """The rows at these places."""
    return Rows._make(column[places] for column in rows)


def keys_of(jobs: Jobs) -> Ints:
    """(kinds, jobs) hashes of the jobs' keys; -1 where a value is unknown. No request is a value."""
    values = {"u": jobs.who, "a": jobs.traits[:, 0], "q": jobs.traits[:, QUEUE], "r": jobs.limit_s, "p": jobs.procs}
    found = []
    for kind, letters in enumerate(ROW_KEYS):
        columns = [np.ascontiguousarray(values[letter]) for letter in letters] if kind != ALL else []
        codes = [column for column in columns if column.dtype == np.int64]
        is_known = np.min([np.zeros(len(jobs.who), np.int64), *codes], axis=0) >= 0
        found.append(np.where(is_known, mixed(np.full(len(jobs.who), kind), *columns), -1))
    return np.stack(found)


def touched(rows: Rows, past: Jobs, events: Events, as_of_s: float) -> Rows:
    """The rows, and those of the keys of jobs that end now, to be asked at the next midnight."""
    over = events.by_end[past.is_learnt[events.by_end]]
    keys = keys_of(part(past, over))
    kind, nth = np.nonzero(keys >= 0)
    job, n_new = over[nth], len(nth)
    first_s = (np.floor(as_of_s / DAY_S) + 1) * DAY_S
    at_s = np.maximum(np.ceil(past.end_s[job] / DAY_S) * DAY_S, first_s)
    before = np.append(0, rows.n_jobs[:-1]) * (np.append(-1, rows.key[:-1]) == rows.key)
    more = np.concatenate([rows.n_jobs - before, np.ones(n_new, np.int64)])
    fresh = Rows(
        keys[kind, nth], kind, at_s, np.where(kind < R, past.who[job], -1), past.traits[job], past.limit_s[job],
        past.procs[job], past.local_s[job], past.end_s[job], np.zeros(n_new, np.int64),
        np.full((n_new, rows.method_s.shape[1]), np.nan), np.full((n_new, rows.quantiles_s.shape[1]), np.nan),
        np.full(n_new, np.nan), np.full(n_new, np.nan),
    )  # fmt: skip
    both = Rows(*(np.concatenate(columns) for columns in zip(rows, fresh, strict=True)))
    order = np.lexsort((both.at_s, both.key))
    both, total = taken(both, order), np.cumsum(more[order])
    is_first = np.append(True, both.key[1:] != both.key[:-1])[: len(order)]
    start = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    both = both._replace(n_jobs=total - (total - more[order])[start])
    is_last = np.append((both.key[1:] != both.key[:-1]) | (both.at_s[1:] != both.at_s[:-1]), True)[: len(order)]
    return taken(both, np.flatnonzero(is_last))


def pruned(rows: Rows, as_of_s: float, age_days: float) -> Rows:
    """The rows that a later job can read at that age."""
    oldest_s = np.floor(as_of_s / DAY_S - age_days) * DAY_S
    is_replaced = np.append((rows.key[1:] == rows.key[:-1]) & (rows.at_s[1:] <= oldest_s), False)[: len(rows.key)]
    is_young = rows.newest_end_s >= oldest_s - DAY_S * KEPT_DAYS
    return taken(rows, np.flatnonzero(~is_replaced & is_young))


def newest(rows: Rows, as_of_s: float) -> Rows:
    """The last row of each key that had an ended job in the time kept."""
    is_last = np.append(rows.key[1:] != rows.key[:-1], True)[: len(rows.key)]
    return taken(rows, np.flatnonzero(is_last & (rows.newest_end_s >= as_of_s - DAY_S * KEPT_DAYS)))


def midnights_s(submit_s: Floats, age_s: float) -> Floats:
    """Per job the last midnight at or before its submit less the age, s."""
    found: Floats = np.floor((submit_s - age_s) / DAY_S) * DAY_S
    return found


def read(rows: Rows, jobs: Jobs, at_s: Floats) -> Ints:
    """Per job the place of the first row of the chain that stood at a midnight; -1: none did."""
    found = np.full(len(at_s), -1, np.int64)
    if not len(rows.key):
        return found
    days = 1 << 20
    known, number = np.unique(rows.key, return_inverse=True)
    order = number * days + (rows.at_s / DAY_S).astype(np.int64)
    wanted = np.maximum(at_s / DAY_S, 0).astype(np.int64)
    for keys in keys_of(jobs)[::-1]:
        own = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        place = np.searchsorted(order, own * days + wanted, side="right") - 1
        is_there = (place >= 0) & (known[own] == keys) & (number[place] == own)
        is_there &= rows.newest_end_s[place] >= at_s - DAY_S * KEPT_DAYS
        found = np.where(is_there, place, found)
    return found


def questions_of_rows(rows: Rows, at_s: Floats) -> Jobs:
    """The rows' jobs as if submitted half a day after the time that they know."""
    n = len(at_s)
    unset, never_s = np.full(n, -1, np.int64), np.full(n, np.inf)
    return Jobs(
        submit_s=at_s + DAY_S / 2, start_s=never_s, end_s=never_s, runtime_s=np.full(n, np.nan),
        limit_s=rows.limit_s, requested_s=rows.limit_s, procs=rows.procs, local_s=rows.local_s,
        is_lower_bound=np.zeros(n, np.bool_), is_learnt=np.ones(n, np.bool_), who=rows.who, what=rows.traits[:, 0],
        traits=rows.traits, request=unset, group=unset, size=unset, burst=unset, place=np.zeros(n), session=unset,
        answered_s=np.full(n, np.nan), array=unset, **derived(rows.limit_s, rows.procs, rows.local_s),
    )  # fmt: skip


def ratio_base_s(rows: Rows) -> Floats:
    """Per row the request that its ratios are of; NaN in rows of a request, and where runtimes do not follow it."""
    has_ratio = np.isin(rows.kind, WITHOUT_REQUEST) & (rows.limit_s > 0) & (rows.follows >= 0.5)
    return np.where(has_ratio, rows.limit_s, np.nan)


def own_jobs(rows: Rows) -> Ints:
    """Per row the ended jobs of its user, and of its application where the key has one; 0 in rows of anyone.

    `rows` are the newest ones of all keys.
    """
    has_what = np.isin(rows.kind, WITH_APPLICATION)
    owner = mixed(rows.who, np.where(has_what, rows.traits[:, 0], -1))
    counted = np.isin(rows.kind, (UAR, U))
    _, number = np.unique(owner, return_inverse=True)
    total = np.bincount(number[counted], rows.n_jobs[counted], int(number.max(initial=-1)) + 1).astype(np.int64)
    return np.where(rows.kind < R, total[number], 0)


def distinct(rows: Rows) -> tuple[Ints, Ints]:
    """Places of rows that ask each question once, and per row which of these asks its question.

    A less specific key has the newest job of a more specific one, so that most rows of a submitter ask alike.
    """
    asked = mixed(
        np.zeros(len(rows.key), np.int64), rows.at_s, rows.who, rows.limit_s, rows.procs, rows.local_s,
        *(np.ascontiguousarray(column) for column in rows.traits.T),
    )  # fmt: skip
    _, first, number = np.unique(asked, return_index=True, return_inverse=True)
    return first, number
