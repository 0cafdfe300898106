"""What a job's submit and its user's past tell, as numbers for boosted trees: all as of the submit."""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel
from pipeline.estimate.history import History
from pipeline.estimate.past import Past, past_of

LAST = 3
"""Runtimes of the user's latest ended jobs that are features of their own."""

(
    REQUEST, PROCS, HOUR, WEEKDAY, SINCE_END, SINCE_SUBMIT, N_RUNNING, N_QUEUED, N_ENDED, SMOOTH, SMOOTH_SHARE,
    REQUEST_STEP, PROCS_STEP, SINCE_START, ALL_QUEUED, QUEUE, USER, LAST_0,
) = range(18)  # fmt: skip
N_FEATURES = LAST_0 + LAST


def features(history: History, *more: Floats) -> Floats:
    """(jobs, features): logs of times, shares and counts, NaN where unknown; further columns as given."""
    own = _features(past_of(history), history.local_s, history.codes["queue"])
    return np.column_stack([own, *more])


@entry_kernel
def _features(past: Past, local_s: Ints, queue: Ints) -> Floats:
    n, n_users = len(past.submit_s), past.user.max() + 1 if len(past.user) else 0
    found = np.full((n, N_FEATURES), np.nan)
    # Per user: the features that last from one event to the next; times of the last submit, start and end.
    state = np.full((n_users, N_FEATURES), np.nan)
    state[:, N_RUNNING] = 0.0
    state[:, N_QUEUED] = 0.0
    state[:, N_ENDED] = 0.0
    n_started = n_over = n_queued = 0
    for job in range(n):
        while n_started < past.started[job]:
            user = past.user[past.by_start[n_started]]
            if user >= 0:
                state[user, N_RUNNING] += 1
                state[user, N_QUEUED] -= 1
                state[user, SINCE_START] = past.start_s[past.by_start[n_started]]
            n_started += 1
            n_queued -= 1
        while n_over < past.ended[job]:
            over = past.by_end[n_over]
            n_over += 1
            user = past.user[over]
            if user < 0:
                continue
            mine, log_s = state[user], np.log(past.runtime_s[over])
            mine[N_RUNNING] -= 1
            mine[N_ENDED] += 1
            mine[SINCE_END] = past.end_s[over]
            for k in range(LAST - 1, 0, -1):
                mine[LAST_0 + k] = mine[LAST_0 + k - 1]
            mine[LAST_0] = log_s
            mine[SMOOTH] = log_s if np.isnan(mine[SMOOTH]) else mine[SMOOTH] + 0.1 * (log_s - mine[SMOOTH])
            if past.requested_s[over] > 0:
                share = min(past.runtime_s[over] / past.requested_s[over], 1.2)
                old = mine[SMOOTH_SHARE]
                mine[SMOOTH_SHARE] = share if np.isnan(old) else old + 0.2 * (share - old)
        user, told = past.user[job], found[job]
        if user >= 0:
            told[:] = state[user]
            for k in (SINCE_END, SINCE_SUBMIT, SINCE_START):
                told[k] = np.log1p(max(past.submit_s[job] - told[k], 0.0))
            if state[user, N_RUNNING] == 0:
                told[SINCE_START] = np.nan
        told[REQUEST] = np.log(past.requested_s[job]) if past.requested_s[job] > 0 else np.nan
        told[PROCS] = np.log(past.procs[job])
        told[HOUR], told[WEEKDAY] = (local_s[job] // 3600) % 24, (local_s[job] // 86_400 + 3) % 7
        told[ALL_QUEUED], told[QUEUE], told[USER] = n_queued, queue[job], user
        if user >= 0:
            told[REQUEST_STEP] = told[REQUEST] - state[user, REQUEST_STEP]
            told[PROCS_STEP] = told[PROCS] - state[user, PROCS_STEP]
            state[user, REQUEST_STEP], state[user, PROCS_STEP] = told[REQUEST], told[PROCS]
            state[user, SINCE_SUBMIT] = past.submit_s[job]
            state[user, N_QUEUED] += 1
        n_queued += 1
    return found
