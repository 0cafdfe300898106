"""What the user's jobs of one request and size tell, and how full the machine is, for boosted trees: as of the submit.

A kind is (user, request, processors): `features` tells of the user, this of the very thing submitted.
"""

from typing import NamedTuple

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel
from pipeline.estimate.history import History
from pipeline.estimate.past import Past, joined, past_of, ranks

(
    LATEST, ONE_BEFORE, SMOOTH, N_ENDED, N_RUNNING, N_QUEUED, SINCE_END, SINCE_SUBMIT, LONGEST_RUNNING,
    SHARE_STOPPED, SHARE_SHORT, ALL_RUNNING, ALL_QUEUED,
) = range(13)  # fmt: skip
N_FEATURES = ALL_QUEUED + 1
N_KIND = SINCE_SUBMIT + 1
"""The first columns are kept per kind."""

N_STARTED = 16
"""Started jobs remembered of a kind, to know which has been running longest."""

SHORT_S = 120.0
"""What ends this soon did not do its work."""

STOPPED_SHARE = 0.95
"""A job that ran for this share of its request was stopped, or nearly."""


class Kinds(NamedTuple):
    """Per kind: its columns (times of the last end and submit as they are) and the latest started jobs."""

    state: Floats
    started: Ints
    n_started: Ints


def kind_features(history: History) -> Floats:
    """(jobs, 13): logs of times and of processors, counts, shares; NaN where unknown."""
    past = past_of(history)
    kind = joined(past.user, ranks(history.requested_s), ranks(history.procs))
    n_kinds, n_users = int(kind.max(initial=-1)) + 1, int(past.user.max(initial=-1)) + 1
    state = np.full((n_kinds, N_KIND), np.nan)
    state[:, N_ENDED : N_QUEUED + 1] = 0.0
    kinds = Kinds(state, np.full((n_kinds, N_STARTED), -1, np.int64), np.zeros(n_kinds, np.int64))
    return _kind_features(past, kind, kinds, np.full((n_users, 2), np.nan))


@entry_kernel
def _kind_features(past: Past, kind: Ints, kinds: Kinds, shares: Floats) -> Floats:
    n = len(past.submit_s)
    found = np.full((n, N_FEATURES), np.nan)
    n_started = n_over = 0
    running = queued = 0.0
    for job in range(n):
        while n_started < past.started[job]:
            begun = past.by_start[n_started]
            running += past.procs[begun]
            queued -= past.procs[begun]
            _start(begun, kind[begun], kinds)
            n_started += 1
        while n_over < past.ended[job]:
            over = past.by_end[n_over]
            running -= past.procs[over]
            _end(over, kind[over], past, kinds, shares)
            n_over += 1
        told = found[job]
        told[ALL_RUNNING], told[ALL_QUEUED] = np.log1p(max(running, 0.0)), np.log1p(max(queued, 0.0))
        queued += past.procs[job]
        if kind[job] >= 0:
            _tell(job, kind[job], past, kinds, told)
            told[SHARE_STOPPED], told[SHARE_SHORT] = shares[past.user[job]]
    return found


@kernel
def _start(begun: int, key: int, kinds: Kinds) -> None:
    if key >= 0:
        kinds.state[key, N_RUNNING] += 1
        kinds.state[key, N_QUEUED] -= 1
        kinds.started[key, kinds.n_started[key] % N_STARTED] = begun
        kinds.n_started[key] += 1


@kernel
def _end(over: int, key: int, past: Past, kinds: Kinds, shares: Floats) -> None:
    if key < 0:
        return
    mine, log_s, limit_s = kinds.state[key], np.log(past.runtime_s[over]), past.requested_s[over]
    mine[N_RUNNING] -= 1
    mine[N_ENDED] += 1
    mine[ONE_BEFORE], mine[LATEST], mine[SINCE_END] = mine[LATEST], log_s, past.end_s[over]
    mine[SMOOTH] = _smoothed(mine[SMOOTH], log_s, 0.3)
    is_stopped = limit_s > 0 and past.runtime_s[over] >= STOPPED_SHARE * limit_s
    known = shares[past.user[over]]
    known[0] = _smoothed(known[0], 1.0 if is_stopped else 0.0, 0.1)
    known[1] = _smoothed(known[1], 1.0 if past.runtime_s[over] < SHORT_S else 0.0, 0.1)


@kernel
def _smoothed(old: float, new: float, share: float) -> float:
    return new if np.isnan(old) else old + share * (new - old)


@kernel
def _tell(job: int, key: int, past: Past, kinds: Kinds, told: Floats) -> None:
    """The kind as it is before this submit, which then counts."""
    mine, now_s, longest_s = kinds.state[key], past.submit_s[job], 0.0
    told[:N_KIND] = mine
    told[SINCE_END] = np.log1p(max(now_s - mine[SINCE_END], 0.0))
    told[SINCE_SUBMIT] = np.log1p(max(now_s - mine[SINCE_SUBMIT], 0.0))
    for place in range(min(kinds.n_started[key], N_STARTED)):
        begun = kinds.started[key, place]
        if past.end_s[begun] > now_s:
            longest_s = max(longest_s, now_s - past.start_s[begun])
    told[LONGEST_RUNNING] = np.log1p(longest_s)
    mine[N_QUEUED] += 1
    mine[SINCE_SUBMIT] = now_s
