"""Rows of the look-up table as the State keeps them: what the estimator answers to a key at the midnights it changed.

A row asks as if the newest ended job of its key were submitted again. A job that is submitted later reads the row that
stood at an earlier midnight: its errors are those of estimates of that age.

Beside these stand rows of groups, as PREDICTIONS answer them: what the newest jobs differ in is unknown. They are in no
table. They are asked at some midnights only, and a later job reads the last one before it.
"""

from collections.abc import Container
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.keys import mixed
from pipeline.estimate.submits import GPU_TYPE, MEMORY, PROBLEM_SIZE, TRAITS, Jobs, derived, part, typed_sizes

ROW_KEYS = ("uaqrp", "uarp", "urp", "uar", "ur", "up", "u", "r", "all")
"""Keys of rows in order of look-up: u who, a what, q queue, r requested runtime, p processors, GPUs and their type."""

UAQRP, UARP, URP, UAR, UR, UP, U, R, ALL = range(len(ROW_KEYS))
WITH_APPLICATION = (UAQRP, UARP, UAR)
GROUP_KEYS = ("uamsp", "urp", "up")
"""Keys of rows of groups: m memory, s problem size. PREDICTIONS have one of them, by how jobs are grouped."""

GROUP = len(ROW_KEYS)
"""The first kind of these rows."""

WITHOUT_REQUEST = (UP, U, ALL)
"""Kinds whose rows also have ratios to the request."""

DAY_S = 86_400.0
AGES_DAYS = (0.0, 1.0, 7.0)
"""Ages at which a published table is read (days): in the night, after a day of service, after a week."""

SERVED_DAYS = AGES_DAYS[1]

GROUP_DAYS = AGES_DAYS[-1]
"""Every how many days rows of groups are asked: a later job reads them at any age up to this."""

FEW_JOBS = 5
"""A row of fewer ended jobs has upper quantiles of its own."""

NEWEST = 5
"""Where so many newest jobs of a group differ in a value, the next one's is unknown."""

KEPT_DAYS = 1095.0
"""Time after which a key without an ended job has no row (days)."""

QUEUE = TRAITS.index("queue")
SHARED = (0, QUEUE, MEMORY, PROBLEM_SIZE, GPU_TYPE)
"""The traits that a question of a group has where its newest jobs share them."""


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
    gpus: Floats
    newest_end_s: Floats
    longest_s: Floats
    """Longest runtime of the ended jobs of the key, where a lower bound counts as such."""
    n_jobs: Ints
    """Ended jobs of the key. Of a job array the first task to end counts, also where it had another key."""
    n_same: Ints
    """(rows, values) newest ended jobs of the key, one after another, with one request, and with one of SHARED."""
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
        none, none, some, none, traits, some, some, some, some, some, none, np.empty((0, 1 + len(SHARED)), np.int64),
        np.empty((0, n_methods)), np.empty((0, n_quantiles)), some, some,
    )  # fmt: skip


def taken(rows: Rows, places: Ints) -> Rows:
    """The rows at these places."""
    return Rows._make(column[places] for column in rows)


def keys_of(jobs: Jobs) -> Ints:
    """(kinds, jobs) hashes of the jobs' keys; -1 where a value is unknown. No request is a value, no GPU too.

    In a group an unknown value is one too, except for its submitter.
    """
    values = {
        "u": jobs.who, "a": jobs.traits[:, 0], "q": jobs.traits[:, QUEUE], "r": jobs.limit_s, "p": typed_sizes(jobs),
        "m": jobs.traits[:, MEMORY], "s": jobs.traits[:, PROBLEM_SIZE],
    }  # fmt: skip
    found = []
    for kind, letters in enumerate((*ROW_KEYS, *GROUP_KEYS)):
        columns = [np.ascontiguousarray(values[letter]) for letter in letters] if kind != ALL else []
        codes = [column for column in columns if column.dtype == np.int64] if kind < GROUP else [jobs.who]
        is_known = np.min([np.zeros(len(jobs.who), np.int64), *codes], axis=0) >= 0
        found.append(np.where(is_known, mixed(np.full(len(jobs.who), kind), *columns), -1))
    return np.stack(found)


def touched(rows: Rows, past: Jobs, over: Ints, is_apart: Bools, as_of_s: float) -> Rows:
    """The rows, and those of the keys of jobs that end now (`over`), to be asked at the next midnight.

    `is_apart`: which of these jobs count, being in no array or the first of theirs to end.
    """
    keys = keys_of(part(past, over))
    is_touched = np.isin(rows.key, keys)
    # Kind by kind, and column by column below: the rows of a large site are most of the memory of a pass.
    changed = [
        _changed(
            taken(rows, np.flatnonzero(is_touched & (rows.kind == kind))),
            _fresh(kind, own[own >= 0], past, over[own >= 0], rows, as_of_s), is_apart[own >= 0],
        )
        for kind, own in enumerate(keys)
    ]  # fmt: skip
    stay = np.flatnonzero(~is_touched)
    order = np.argsort(np.concatenate([rows.key[stay], *(one.key for one in changed)]), kind="stable")
    columns = zip(rows, *changed, strict=True)
    return Rows(*(np.concatenate([held[stay], *others])[order] for held, *others in columns))


def _fresh(kind: int, key: Ints, past: Jobs, job: Ints, rows: Rows, as_of_s: float) -> Rows:
    """A row of a kind after each of some ended jobs; nothing is asked yet."""
    n, step_s = len(job), DAY_S if kind < GROUP else GROUP_DAYS * DAY_S
    at_s = np.maximum(np.ceil(past.end_s[job] / step_s), np.floor(as_of_s / step_s) + 1) * step_s
    who = np.full(n, -1, np.int64) if kind in (R, ALL) else past.who[job]
    return Rows(
        key, np.full(n, kind, np.int64), at_s, who, past.traits[job], past.limit_s[job], past.procs[job],
        past.gpus[job], past.end_s[job], past.runtime_s[job], np.zeros(n, np.int64),
        np.ones((n, rows.n_same.shape[1]), np.int64), np.full((n, rows.method_s.shape[1]), np.nan),
        np.full((n, rows.quantiles_s.shape[1]), np.nan), np.full(n, np.nan), np.full(n, np.nan),
    )  # fmt: skip


def _changed(held: Rows, fresh: Rows, is_apart: Bools) -> Rows:
    """The rows of keys that jobs end of: those held, and after each ended job another one; the last of a midnight."""
    before = np.append(0, held.n_jobs[:-1]) * (np.append(-1, held.key[:-1]) == held.key)
    more = np.concatenate([held.n_jobs - before, is_apart.astype(np.int64)])
    both = Rows(*(np.concatenate(columns) for columns in zip(held, fresh, strict=True)))
    order = np.lexsort((both.at_s, both.key))
    both, total = taken(both, order), np.cumsum(more[order])
    is_first = np.append(True, both.key[1:] != both.key[:-1])[: len(order)]
    start = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    both = both._replace(
        n_jobs=total - (total - more[order])[start], n_same=_alike(both, is_first | (order < len(held.key))),
        longest_s=_longest_s(both.longest_s, is_first),
    )  # fmt: skip
    is_last = np.append((both.key[1:] != both.key[:-1]) | (both.at_s[1:] != both.at_s[:-1]), True)[: len(order)]
    return taken(both, np.flatnonzero(is_last))


def _alike(rows: Rows, is_known: Bools) -> Ints:
    """`n_same` of the rows, of which some are known and the others follow from the row before."""
    values = np.column_stack([rows.limit_s.view(np.int64), rows.traits[:, SHARED]])
    goes_on = np.vstack([np.zeros((1, values.shape[1]), np.bool_), values[1:] == values[:-1]])[: len(values)]
    places = np.arange(len(values))[:, None]
    start = np.maximum.accumulate(np.where(goes_on & ~is_known[:, None], 0, places), axis=0)
    return np.take_along_axis(rows.n_same, start, axis=0) + places - start


def _longest_s(runtime_s: Floats, is_first: Bools) -> Floats:
    """The longest runtime of each row's key so far."""
    values, rank = np.unique(runtime_s, return_inverse=True)
    first = (np.cumsum(is_first) - 1) * len(values)
    found: Floats = values[np.maximum.accumulate(first + rank) - first]
    return found


def as_asked(rows: Rows) -> Rows:
    """The rows with the values that their questions have: in rows of groups those that the newest jobs share."""
    traits = np.full_like(rows.traits, -1)
    traits[:, SHARED] = np.where(_is_shared(rows, slice(1, None)), rows.traits[:, SHARED], -1)
    return rows._replace(
        limit_s=asked_limit_s(rows), traits=np.where((rows.kind < GROUP)[:, None], rows.traits, traits)
    )


def asked_limit_s(rows: Rows) -> Floats:
    """Per row the request that its question has, s."""
    return np.where((rows.kind < GROUP) | _is_shared(rows, 0), rows.limit_s, 0.0)


def _is_shared(rows: Rows, values: int | slice) -> Bools:
    """Per row, and of some values of `n_same`, whether the newest jobs share them."""
    shared_by, least = rows.n_same[:, values], np.minimum(rows.n_jobs, NEWEST)
    found: Bools = shared_by >= (least if shared_by.ndim == 1 else least[:, None])
    return found


def pruned(rows: Rows, as_of_s: float, age_days: float) -> Rows:
    """The rows that a later job can read at that age."""
    oldest_s = np.floor(as_of_s / DAY_S - age_days) * DAY_S
    is_replaced = np.append((rows.key[1:] == rows.key[:-1]) & (rows.at_s[1:] <= oldest_s), False)[: len(rows.key)]
    is_young = rows.newest_end_s >= oldest_s - DAY_S * KEPT_DAYS
    return taken(rows, np.flatnonzero(~is_replaced & is_young))


def newest(rows: Rows, as_of_s: float) -> Rows:
    """The last row of each key of the table that had an ended job in the time kept."""
    is_last = np.append(rows.key[1:] != rows.key[:-1], True)[: len(rows.key)]
    is_kept = is_last & (rows.kind < GROUP) & (rows.newest_end_s >= as_of_s - DAY_S * KEPT_DAYS)
    return taken(rows, np.flatnonzero(is_kept))


def midnights_s(submit_s: Floats, age_s: float) -> Floats:
    """Per job the last midnight at or before its submit less the age, s."""
    return np.floor((submit_s - age_s) / DAY_S) * DAY_S


def read(rows: Rows, keys_of_jobs: Ints, at_s: Floats) -> Ints:
    """Per job the place of the first row with one of its keys that stood at a midnight; -1: none did."""
    found = np.full(len(at_s), -1, np.int64)
    if not len(rows.key):
        return found
    days = 1 << 20
    is_first = np.append(True, rows.key[1:] != rows.key[:-1])
    known, number = rows.key[is_first], np.cumsum(is_first) - 1
    order = number * days + (rows.at_s / DAY_S).astype(np.int64)
    wanted = np.maximum(at_s / DAY_S, 0).astype(np.int64)
    for keys in keys_of_jobs[::-1]:
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
        limit_s=rows.limit_s, requested_s=rows.limit_s, procs=rows.procs, gpus=rows.gpus,
        is_lower_bound=np.zeros(n, np.bool_), is_learnt=np.ones(n, np.bool_), who=rows.who, what=rows.traits[:, 0],
        traits=rows.traits, request=unset, group=unset, size=unset, burst=unset, place=np.zeros(n), session=unset,
        answered_s=np.full(n, np.nan), array=unset, **derived(rows.limit_s, rows.procs, rows.gpus),
    )  # fmt: skip


def read_each(rows: Rows, jobs: Jobs) -> Ints:
    """(jobs, columns) the row that each job reads at each of AGES_DAYS, and of each of GROUP_KEYS; -1: none."""
    keys, week_s = keys_of(jobs), GROUP_DAYS * DAY_S
    places = [read(rows, keys[:GROUP], midnights_s(jobs.submit_s, DAY_S * days)) for days in AGES_DAYS]
    at_s = np.floor(jobs.submit_s / week_s) * week_s
    return np.stack([*places, *(read(rows, own[None], at_s) for own in keys[GROUP:])], axis=1)


N_READ = len(AGES_DAYS) + len(GROUP_KEYS)
N_CLASSES = 2 * (1 + 2 * len(GROUP_KEYS))
"""Classes of rows whose quantiles are learnt apart: rows of the table, and rows of each of GROUP_KEYS without and with
a request; of each of these, rows on many jobs and on few."""


def classes_of(rows: Rows) -> Ints:
    """Per row its class; a row on few jobs has an odd one."""
    return class_of(np.clip(rows.kind - GROUP + 1, 0, None), asked_limit_s(rows), rows.n_jobs)


def class_of(nth: Ints, limit_s: Floats, n_jobs: Ints) -> Ints:
    """The class of questions of the nth of GROUP_KEYS, from 1 on; 0 for the table."""
    return 2 * np.where(nth > 0, 2 * nth - 1 + (limit_s > 0), 0) + (n_jobs < FEW_JOBS)


def group_classes(rows: Rows, jobs: Jobs, nth: int) -> Ints:
    """Per job the class of the row of its group, which has the nth of GROUP_KEYS."""
    last_s = np.full(len(jobs.who), rows.at_s.max(initial=0.0))
    place = read(rows, keys_of(jobs)[GROUP + nth : GROUP + nth + 1], last_s)
    return class_of(np.full(len(place), nth + 1), jobs.limit_s, np.append(rows.n_jobs, 0)[place])


def group_key(template: Container[str]) -> int:
    """Which of GROUP_KEYS is nearest to the columns of a template."""
    if "requested_s" in template:
        return GROUP_KEYS.index("urp")
    is_fine = any(name in template for name in ("application", "requested_mem_kib", "problem_size"))
    return GROUP_KEYS.index("uamsp" if is_fine else "up")


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
        np.zeros(len(rows.key), np.int64), rows.at_s, rows.who, rows.limit_s, rows.procs, rows.gpus,
        *(np.ascontiguousarray(column) for column in rows.traits.T),
    )  # fmt: skip
    _, first, number = np.unique(asked, return_index=True, return_inverse=True)
    return first, number
