"""Runtimes of the latest jobs per key, along a chain of keys from the most to the least specific one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.estimate.keys import Keys, grown, mixed, no_keys, numbers, with_new
from pipeline.estimate.submits import MEMORY, Events, Jobs, capped, programs, sizes
from pipeline.kernels import kernel, sort_in_place, uncounted_kernel

MEAN, MAX, QUANTILE, SHARE = range(4)
"""SHARE: the largest runtime over its request, times the request."""

LOOK_BACK = (3, 50, 50, 50, 50, 50, 200)
"""Jobs kept per key of each level: a session, the five levels of the chain proper, and all users' jobs with the same
program and requested runtime."""

SESSION_LEVELS, OWN, CROWD = 1, 1, 6
"""Levels of sessions; the first level of the chain proper; the level of everybody."""


class Latest(NamedTuple):
    """Runtimes per key in order of end: the newest entry of a key, and of each entry the one before it (-1: none)."""

    newest: Ints
    n_entries: Ints
    before: Ints
    runtime_s: Floats
    bound_s: Floats
    """The same, infinite where the job was stopped at its limit."""
    share: Floats
    """The same over the request, NaN without one."""


class ChainQuery(NamedTuple):
    """A statistic of the latest jobs: range of levels, number of jobs, the statistic, and the least number of jobs."""

    level: int
    stop: int
    memory: int
    statistic: int
    least: int


class Chain(NamedTuple):
    """The keys known, of each its level and the session it belongs to (-1: none), and its runtimes."""

    keys: Keys
    level: Ints
    session: Ints
    latest: Latest


def no_chain() -> Chain:
    """Nothing known yet."""
    none, nothing = np.full(1, -1, np.int64), np.empty(0)
    latest = Latest(none, np.zeros(1, np.int64), np.empty(0, np.int64), nothing, nothing.copy(), nothing.copy())
    return Chain(no_keys(), none.copy(), none.copy(), latest)


def digests_of(jobs: Jobs, levels: Sequence[int] = range(len(LOOK_BACK))) -> Ints:
    """(levels, jobs) hashes of (session), (who, what, request, procs, memory),
    (who, what, procs, memory), (who, what, request), (who, what), (who), (what, request).

    What is the program on the job's type of GPUs, procs has its GPUs too.
    """
    who, what, asked_s, procs = jobs.who, programs(jobs), jobs.limit_s, sizes(jobs)
    level = np.ones_like(who)
    session, memory = np.where(who < 0, -1, jobs.session), jobs.traits[:, MEMORY]
    keys: tuple[tuple[Ints | Floats, ...], ...] = (
        (session, level), (who, what, asked_s, procs, memory, 2 * level),
        (who, what, procs, memory, 3 * level), (who, what, asked_s, 4 * level), (who, what, 5 * level),
        (who, 6 * level), (7 * level, what, asked_s),
    )  # fmt: skip
    return np.stack([mixed(*keys[place]) for place in levels])


def numbered(chain: Chain, digests: Ints) -> Ints:
    """(levels, jobs) numbers of the keys; those not known have the blank one's."""
    return np.stack([numbers(chain.keys, row) for row in digests])


def with_keys(chain: Chain, digests: Ints, sessions: Ints, n_entries: int) -> Chain:
    """The chain with a row for each key, and room for so many more entries."""
    # Job by job, so that numbers do not depend on how many jobs come at a time.
    keys, n_before, latest = with_new(chain.keys, digests.T.ravel()), len(chain.keys), chain.latest
    session, levels = grown(chain.session, len(keys)), grown(chain.level, len(keys))
    for level in range(len(digests)):
        own = numbers(keys, digests[level])
        is_new = own >= n_before
        levels[own[is_new]] = level
        if level < SESSION_LEVELS:
            session[own[is_new]] = sessions[is_new]
    more, room = np.full(n_entries, -1, np.int64), np.full(n_entries, np.nan)
    held = Latest(
        grown(latest.newest, len(keys)), grown(latest.n_entries, len(keys)), np.concatenate([latest.before, more]),
        *(np.concatenate([column, room]) for column in (latest.runtime_s, latest.bound_s, latest.share)),
    )  # fmt: skip
    return Chain(keys, levels, session, held)


def latest_of(
    jobs: Jobs, past: Jobs, events: Events, codes: tuple[Ints, Ints], held: Latest, n_held: int,
    questions: Sequence[ChainQuery], shares: Floats,
) -> Floats:  # fmt: skip
    """(questions, jobs, shares) runtimes, s: from the first key with `least` ended jobs, over its last ones; else NaN.

    MEAN, MAX and SHARE give one number for every share. Results are capped at the request. In quantiles a job that was
    stopped at its limit counts as longer than the request, because its full runtime is unknown. `codes`:
    the (levels, jobs) key numbers of the submits and of the past; `n_held`: entries in use.
    """
    found = np.full((len(questions), len(jobs.who), len(shares)), np.nan)
    room = np.empty(max(one.memory for one in questions))
    _latest(jobs, past, events, *codes, held, n_held, np.array(questions, np.int64), shares, room, found)
    return np.stack([capped(one, jobs.requested_s) for one in found])


@uncounted_kernel
def _latest(
    jobs: Jobs, past: Jobs, events: Events, codes: Ints, past_codes: Ints, held: Latest, n_held: int,
    questions: Ints, shares: Floats, value_s: Floats, found: Floats,
) -> None:  # fmt: skip
    n, n_over = len(jobs.who), 0
    for job in range(n + 1):
        while n_over < events.ended[job]:
            over = events.by_end[n_over]
            n_over += 1
            if not past.is_learnt[over]:
                continue
            for level in range(len(past_codes)):
                key = past_codes[level, over]
                if key >= 0:
                    _enter(n_held, key, over, past, held)
                    n_held += 1
        if job == n:
            break
        for k in range(len(questions)):
            level, stop, memory, statistic, least = questions[k]
            key = _first_key(codes[level:stop, job], least, held.n_entries)
            if key >= 0:
                size = _gather(key, memory, statistic, jobs.requested_s[job], held, value_s)
                _answer(value_s[:size], statistic, shares, found[k, job])


@kernel
def _enter(entry: int, key: int, over: int, past: Jobs, held: Latest) -> None:
    is_stopped = past.is_lower_bound[over] and past.requested_s[over] > 0
    held.runtime_s[entry] = past.runtime_s[over]
    held.bound_s[entry] = np.inf if is_stopped else past.runtime_s[over]
    held.share[entry] = past.runtime_s[over] / past.requested_s[over] if past.requested_s[over] > 0 else np.nan
    held.before[entry], held.newest[key] = held.newest[key], entry
    held.n_entries[key] += 1


@kernel
def _first_key(codes: Ints, least: int, n_entries: Ints) -> int:
    for place in range(len(codes)):
        if codes[place] >= 0 and n_entries[codes[place]] >= least:
            return int(codes[place])
    return -1


@kernel
def _gather(key: int, memory: int, statistic: int, requested_s: float, held: Latest, value_s: Floats) -> int:
    size, entry = 0, held.newest[key]
    while entry >= 0 and size < memory:
        if statistic == QUANTILE:
            value_s[size] = held.bound_s[entry]
        elif statistic == SHARE:
            value_s[size] = held.share[entry] * requested_s
        else:
            value_s[size] = held.runtime_s[entry]
        size, entry = size + 1, held.before[entry]
    return size


@kernel
def _answer(value_s: Floats, statistic: int, shares: Floats, found: Floats) -> None:
    if statistic == QUANTILE:
        sort_in_place(value_s, value_s)
        for k in range(len(shares)):
            # One more job falls below the r-th of m known ones with chance r / (m + 1).
            rank = int(np.ceil(shares[k] * (len(value_s) + 1)))
            found[k] = value_s[min(max(rank, 1), len(value_s)) - 1]
        return
    total, longest = 0.0, 0.0
    for value in value_s:
        total += value
        longest = max(longest, value)
    found[:] = total / len(value_s) if statistic == MEAN else longest


def compacted(chain: Chain, n_held: int, sessions: Ints) -> Chain:
    """The chain without entries that no query reaches any more, and without keys of sessions that are over.

    Entries are in order of key, the newest of a key first. `n_held`: entries in use; `sessions`: open sessions.
    """
    keys, latest = chain.keys, chain.latest
    is_over = (chain.session >= 0) & ~np.isin(chain.session, sessions)
    owner, step = _owners(latest, n_held, np.array(LOOK_BACK)[chain.level])
    is_alive = ~is_over[keys.number]
    # Numbered by their hashes, so that the keys of sessions that came and went leave no trace.
    rows = np.append(keys.number[is_alive], len(keys))
    kept_keys = Keys(keys.digest[is_alive], np.arange(len(rows) - 1))
    number = np.empty(len(keys) + 1, np.int64)
    number[rows] = np.arange(len(rows))
    kept = np.flatnonzero((owner >= 0) & ~is_over[owner])
    kept = kept[np.lexsort((step[kept], number[owner[kept]]))]
    held = linked(
        latest.n_entries[rows], chain.level[rows], latest.runtime_s[kept], latest.bound_s[kept], latest.share[kept]
    )
    return Chain(kept_keys, chain.level[rows], chain.session[rows], held)


def linked(n_entries: Ints, level: Ints, runtime_s: Floats, bound_s: Floats, share: Floats) -> Latest:
    """Entries in order of key, the newest of a key first, of each key as many as its level remembers."""
    held = np.minimum(n_entries, np.array(LOOK_BACK)[level])
    ends = np.cumsum(held)
    before = np.arange(1, len(runtime_s) + 1)
    before[ends[held > 0] - 1] = -1
    return Latest(np.where(held > 0, ends - held, -1), n_entries, before, runtime_s, bound_s, share)


def _owners(latest: Latest, n_held: int, look_back: Ints) -> tuple[Ints, Ints]:
    """Per entry the key that reaches it, else -1, and in how many steps; one step for all keys at a time."""
    owner, steps = np.full(n_held, -1, np.int64), np.zeros(n_held, np.int64)
    keys = np.flatnonzero(latest.newest >= 0)
    entries = latest.newest[keys]
    for step in range(max(LOOK_BACK)):
        owner[entries], steps[entries] = keys, step
        entries = latest.before[entries]
        goes_on = (entries >= 0) & (look_back[keys] > step + 1)
        keys, entries = keys[goes_on], entries[goes_on]
    return owner, steps
