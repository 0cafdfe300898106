"""A made log with everything that the table has to bear: bursts, missing users, queues, applications and requests."""

from dataclasses import replace

import numpy as np

from pipeline.arrays import Floats
from pipeline.estimate.history import History, history
from pipeline.estimate.state import State, learn
from tests.rows import jobs_of

DAY_S = 86_400


def made_log(n_jobs: int = 2000, seed: int = 0, stale_days: float = 0.0, days: int = 120) -> History:
    """Jobs of twelve users, at most as long as requested; one in ten has no request."""
    random = np.random.default_rng(seed)
    bursts = np.sort(random.integers(0, days * DAY_S, n_jobs // 2))
    submit_s = np.sort(np.concatenate([bursts, random.choice(bursts[:50], n_jobs - len(bursts))]))
    user, application = random.integers(0, 12, n_jobs), random.integers(0, 3, n_jobs)
    requested_s = 3600.0 * 2 ** random.integers(0, 5, n_jobs)
    runtime_s = np.round(requested_s / (2.0 + user) * (1 + application) * random.lognormal(0, 0.7, n_jobs), 1) + 1
    runtime_s = np.minimum(runtime_s, requested_s)
    wait_s = random.integers(0, 6 * 3600, n_jobs)
    rows = [
        {
            "user": None if user[i] == 11 else f"u{user[i]}",
            "application": None if application[i] == 2 else f"a{application[i]}",
            "queue": (None, "short", "long")[i % 3],
            "submit_s": int(submit_s[i]),
            "start_s": int(submit_s[i] + wait_s[i]),
            "end_s": int(submit_s[i] + wait_s[i] + runtime_s[i]),
            "runtime_s": float(runtime_s[i]),
            "procs": int(2 ** (i % 4)),
            "requested_s": None if i % 10 == 0 else float(requested_s[i]),
        }
        for i in range(n_jobs)
    ]
    return replace(history(jobs_of(rows)), stale_s=stale_days * DAY_S)


def state_at(log: History, at_s: float | None = None) -> State:
    """The State of a log at a time, by default that of its last end."""
    return learn(replace(log, stale_s=None), float(log.end_s.max(initial=0.0)) if at_s is None else at_s)


def midnight_s(log: History) -> Floats:
    """Per job the midnight whose table answers."""
    return np.floor((log.submit_s - (log.stale_s or 0.0)) / DAY_S) * DAY_S
