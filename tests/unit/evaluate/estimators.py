"""Estimators small enough to check by hand, honest ones and one that looks ahead; and a log to try them on."""

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats
from pipeline.estimate.history import History
from tests.rows import jobs_of

DAY_S = 86_400


def request(past: History) -> Floats:
    """The request, whatever the share."""
    return np.repeat(past.requested_s[:, None], 6, axis=1)


def last_two(past: History) -> Floats:
    """The mean of the user's last two jobs that had ended; a median and no other quantile."""
    found, known = np.full((len(past), 6), np.nan), 0
    ended: dict[int, list[float]] = {}
    for job in range(len(past)):
        for other in past.by_end[known : past.ended[job]]:
            ended.setdefault(int(past.codes["who"][other]), []).append(float(past.runtime_s[other]))
        known = int(past.ended[job])
        own = ended.get(int(past.codes["who"][job]), [])
        if len(own) >= 2:
            found[job, 1] = np.mean(own[-2:])
    return found


def oracle(past: History) -> Floats:
    """Each job's own runtime."""
    return np.repeat(past.runtime_s[:, None], 6, axis=1)


def nobody(past: History) -> Floats:
    """No answer."""
    return np.full((len(past), 6), np.nan)


def log(n_jobs: int = 300, seed: int = 0, **fixed: object) -> pa.Table:
    """Jobs of five users over half a year that wait, overlap, and take what their user's jobs take, more or less."""
    generator = np.random.default_rng(seed)
    submit_s = np.sort(generator.integers(0, 180 * DAY_S, n_jobs))
    users = generator.integers(0, 5, n_jobs)
    runtime_s = np.round(600 * 4.0**users * generator.lognormal(0, 0.5, n_jobs), 1)
    wait_s = generator.integers(0, 3600, n_jobs)
    rows = [
        {
            "user": f"u{user}", "submit_s": int(submit), "start_s": int(submit + wait),
            "end_s": int(submit + wait + runtime), "runtime_s": float(runtime), "procs": int(procs),
            "requested_s": float(runtime * 3),
        } | fixed
        for user, submit, runtime, wait, procs in zip(
            users, submit_s, runtime_s, wait_s, 2 ** generator.integers(0, 5, n_jobs), strict=True
        )
    ]  # fmt: skip
    return jobs_of(rows)
