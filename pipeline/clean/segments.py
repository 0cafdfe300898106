"""Finds all maximal scoring segments of each user's submits in linear time (Ruzzo & Tompa 1999, section 2)."""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel


def maximal_segments(times_s: Floats, starts: Ints, rates: Floats, min_jobs: int) -> tuple[Ints, Ints, Floats]:
    """First and last index (both included) and score of each user's segments of at least `min_jobs` jobs.

    `times_s` ascends within the slice `starts[u]:starts[u + 1]` of user u. Each job scores 1 and each second subtracts
    `rates[u]`. Users with an infinite rate are skipped.
    """
    first, last = np.empty(len(times_s), np.int64), np.empty(len(times_s), np.int64)
    score = np.empty(len(times_s))
    n = _all_users(times_s, starts, rates, min_jobs, first, last, score)
    return first[:n].copy(), last[:n].copy(), score[:n].copy()


@kernel
def _one_user(
    times_s: Floats, begin: int, end: int, rate: float,
    first: Ints, last: Ints, left: Floats, right: Floats, lower: Ints,
) -> int:  # fmt: skip
    n, total = 0, 0.0
    for i in range(begin, end):
        if i > begin:
            total -= rate * (times_s[i] - times_s[i - 1])
        low, start, j = total, i, n - 1
        total += 1.0
        while True:
            # `lower` links to the last earlier segment with a lower start, so that all between are skipped at once.
            while j >= 0 and left[j] >= low:
                j = lower[j]
            if j < 0 or right[j] >= total:
                first[n], last[n], left[n], right[n], lower[n] = start, i, low, total, j
                n += 1
                break
            start, low, n, j = first[j], left[j], j, lower[j]
    return n


@entry_kernel
def _all_users(
    times_s: Floats, starts: Ints, rates: Floats, min_jobs: int, first: Ints, last: Ints, score: Floats
) -> int:
    longest = 0
    for user in range(len(starts) - 1):
        longest = max(longest, starts[user + 1] - starts[user])
    begins, ends = np.empty(longest, np.int64), np.empty(longest, np.int64)
    left, right, lower = np.empty(longest), np.empty(longest), np.empty(longest, np.int64)
    n_found = 0
    for user in range(len(starts) - 1):
        if starts[user + 1] - starts[user] < min_jobs or not np.isfinite(rates[user]):
            continue
        n = _one_user(times_s, starts[user], starts[user + 1], rates[user], begins, ends, left, right, lower)
        for k in range(n):
            if ends[k] - begins[k] + 1 >= min_jobs:
                first[n_found], last[n_found], score[n_found] = begins[k], ends[k], right[k] - left[k]
                n_found += 1
    return n_found
