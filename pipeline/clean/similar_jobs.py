"""Jobs alike (one user's, of one size and application) and how their runtimes lie, on the log scale.

What is typical is read off the jobs that ran to their end or to their limit, or whose end the log does not tell; so
failed and cancelled jobs are judged by it without moving it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel

Narrow = npt.NDArray[np.int32]

LEAST_JOBS = 5
"""Fewer jobs have no quartiles worth the name: nothing is computed of such a group."""

NORMAL_MAD = 1.4826
"""A normal standard deviation over its median absolute deviation."""


@dataclass(frozen=True, slots=True)
class SimilarJobs:
    """Per job its group (-1: none); per group its jobs, those it is judged by, and their log runtimes (log s).

    `log_sd` is the normal standard deviation with their median absolute deviation; NaN under LEAST_JOBS jobs.
    """

    group: Narrow
    n_jobs: Ints
    n_typical: Ints
    log_median: Floats
    log_sd: Floats
    log_q25: Floats
    log_q75: Floats


def find_similar_jobs(
    by_user: Ints, user_starts: Ints, runtime_s: Floats, procs: Floats, applications: Ints, is_typical: Bools
) -> SimilarJobs:
    """Groups of the jobs whose user, size and positive runtime are known; an application not known is one like another.

    `by_user` holds rows in order of user, `user_starts` where each user's begin (and the end).
    """
    group = np.full(len(runtime_s), -1, np.int32)
    n_groups = _group(by_user, user_starts, runtime_s, procs, applications, group)
    n_jobs = np.bincount(group[group >= 0], minlength=n_groups)
    shape = np.full((4, n_groups), np.nan)
    n_typical = np.zeros(n_groups, np.int64)
    ends = np.cumsum(n_jobs)
    _describe(group, runtime_s, is_typical, ends, n_jobs, n_typical, shape)
    return SimilarJobs(group, n_jobs, n_typical, shape[0], shape[1] * NORMAL_MAD, shape[2], shape[3])


@kernel
def _slot(table: Narrow, mask: int, procs: float, application: int, held: Any, rows: Any) -> Any:
    """Where this size and application stand in an open-addressing table of groups, or may be put."""
    place = (np.int64(procs) * 0x9E3779B1 + application * 0x85EBCA6B) & mask
    while table[place] >= 0:
        row = rows[table[place]]
        if held[0][row] == procs and held[1][row] == application:
            return place
        place = (place + 1) & mask
    return place


@entry_kernel
def _group(
    by_user: Ints, user_starts: Ints, runtime_s: Floats, procs: Floats, applications: Ints, group: Narrow
) -> int:
    longest = 1
    for user in range(len(user_starts) - 1):
        longest = max(longest, user_starts[user + 1] - user_starts[user])
    capacity = 2
    while capacity < 2 * longest:
        capacity *= 2
    table, first_rows = np.full(capacity, -1, np.int32), np.empty(len(by_user), np.int64)
    n_groups, held = 0, (procs, applications)
    for user in range(len(user_starts) - 1):
        begin, end = user_starts[user], user_starts[user + 1]
        # The part of the table a user needs stays in the cache, and only that part is wiped.
        size = 2
        while size < 2 * (end - begin):
            size *= 2
        table[:size] = -1
        for i in range(begin, end):
            row = by_user[i]
            if not (runtime_s[row] > 0 and procs[row] > 0):
                continue
            place = _slot(table, size - 1, procs[row], applications[row], held, first_rows)
            if table[place] < 0:
                table[place], first_rows[n_groups] = n_groups, row
                n_groups += 1
            group[row] = table[place]
    return n_groups


@entry_kernel
def _describe(
    group: Narrow, runtime_s: Floats, is_typical: Bools, ends: Ints, n_jobs: Ints, n_typical: Ints, shape: Floats
) -> None:
    typical = np.empty(ends[-1] if len(ends) else 0)
    for row in range(len(group)):
        g = group[row]
        if g >= 0 and is_typical[row] and n_jobs[g] >= LEAST_JOBS:
            typical[ends[g] - n_jobs[g] + n_typical[g]] = runtime_s[row]
            n_typical[g] += 1
    for g in range(len(ends)):
        if n_typical[g] < LEAST_JOBS:
            continue
        begin = ends[g] - n_jobs[g]
        logs = np.log(np.sort(typical[begin : begin + n_typical[g]]))
        shape[0, g] = _quantile(logs, 0.5)
        shape[1, g] = np.median(np.abs(logs - shape[0, g]))
        shape[2, g] = _quantile(logs, 0.25)
        shape[3, g] = _quantile(logs, 0.75)


@kernel
def _quantile(ordered: Floats, share: float) -> Any:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
