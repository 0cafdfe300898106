"""Groups of similar jobs (same user, size and application) and the distribution of their log runtimes.

The distribution is that of typical jobs: those that ran to their end or to their limit, or whose final state is
unknown. Failed and cancelled jobs are compared with it but do not enter it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel

Narrow = npt.NDArray[np.int32]

LEAST_JOBS = 5
"""A group of fewer typical jobs has no statistics: its quartiles would be too uncertain."""

NORMAL_MAD = 1.4826
"""Standard deviation over median absolute deviation of a normal distribution."""


@dataclass(frozen=True, slots=True)
class SimilarJobs:
    """Per job its group (-1: none). Per group its jobs, its typical jobs, and quantiles of log runtime.

    `log_sd` is NORMAL_MAD times the median absolute deviation. Statistics are NaN below LEAST_JOBS typical jobs.
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
    """Groups of the jobs whose user, size and positive runtime are known; an unknown application is a value of its own.

    `by_user` holds rows in order of user. `user_starts` holds where each user's rows start, and the end of the last.
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
    """The place of this size and application in an open-addressing hash table, or the free place to insert them."""
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
        # Each user uses and clears only as much of the table as needed, so that it stays in the cache.
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
