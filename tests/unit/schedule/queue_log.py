"""A simulated log: EASY with requests on one machine, so that what its queue would do is known."""

from dataclasses import replace

import numpy as np

from pipeline.estimate.history import History, history
from pipeline.schedule.engine import ReplayOptions
from pipeline.schedule.engine import replay as replayed
from pipeline.schedule.queues import Log
from pipeline.schedule.workload import Workload
from tests.rows import jobs_of

CAPACITY = 64
BEGIN_S = 1_700_000_000


def queue_history(n_jobs: int = 1800, seed: int = 4) -> History:
    """Jobs of six users that keep the machine busy and wait for minutes to days."""
    random = np.random.default_rng(seed)
    run_s = np.maximum(random.lognormal(8, 1.2, n_jobs), 30).astype(np.int64)
    procs = 2 ** random.integers(0, 6, n_jobs)
    submit_s = np.sort(random.integers(0, int((run_s * procs).sum() / CAPACITY), n_jobs)) + BEGIN_S
    request_s = np.ceil(run_s * random.choice([1.0, 2.0, 6.0], n_jobs)).astype(np.int64)
    user = random.integers(0, 6, n_jobs)
    work = Workload(np.arange(n_jobs), submit_s, run_s, request_s, procs, user, CAPACITY, {})
    start_s = replayed(work, ReplayOptions()).start_s
    columns = zip(submit_s, start_s, start_s + run_s, run_s, procs, request_s, user, strict=True)
    return history(jobs_of([
        {"submit_s": int(submit), "start_s": int(start), "end_s": int(end), "runtime_s": float(run), "user": f"u{who}",
         "procs": int(size), "requested_s": float(asked), "queue": "long" if asked > 7200 else "short"}
        for submit, start, end, run, size, asked, who in columns
    ]))  # fmt: skip


def queue_log(past: History | None = None) -> Log:
    """The log of such a history without estimates."""
    past = queue_history() if past is None else past
    n = len(past)
    unknown, pool = np.full((n, 6), np.nan), np.zeros(n, np.int64)
    return Log(past, unknown, pool, np.array([float(CAPACITY)]), past.codes["queue"])


def with_other_futures(past: History, at_s: float) -> History:
    """The history with all that happens after an instant planted anew: starts, ends, runtimes, and later jobs."""
    start_s = np.where(past.start_s > at_s, at_s + 5e6, past.start_s)
    end_s = np.where(past.end_s > at_s, np.maximum(start_s, at_s) + 7e6, past.end_s)
    runtime_s = np.where(past.end_s > at_s, 3.0, past.runtime_s)
    procs = np.where(past.submit_s > at_s, float(CAPACITY), past.procs)
    requested_s = np.where(past.submit_s > at_s, 9e5, past.requested_s)
    return replace(
        past, start_s=start_s, end_s=end_s, runtime_s=runtime_s, procs=procs, requested_s=requested_s,
    )  # fmt: skip
