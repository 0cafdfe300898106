"""Requested times that say nothing of the runtime: no limit at all, or a default that jobs never come near.

The estimator asks `is_unused` at each submit, of what it knows by then. Tables and replays ask a whole log.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, matching_places
from pipeline.errors import printable
from pipeline.kernels import kernel
from pipeline.large_tables import LargeTable, database_of

RUNS_OF_LOG, RUNS_OF_REQUEST = 100.0, 100.0
LONGEST_REQUEST, LEAST_USE = 4.0, 0.25
"""Runs that a judgement needs, of the log and of the request; the ratio of a request to the longest run, and the share
of a request that its longest run takes, beyond which it says nothing."""

SEEN = 4.0
"""How many times its longest run a log has to last: in a shorter one long runs have not ended yet."""

BULK = 0.5
"""A default of a queue is what so large a share of its jobs with a request asks for."""

LISTED = 5


@kernel
def is_unused(
    limit_s: float, n_of_request: float, longest_of_request_s: float, n_of_log: float, longest_of_log_s: float,
    log_s: float,
) -> bool:  # fmt: skip
    """Whether a request is over four times the log's longest run, or its hundred runs took less than a quarter.

    `log_s`: time since the log's first submit.
    """
    is_endless = n_of_log >= RUNS_OF_LOG and limit_s > LONGEST_REQUEST * longest_of_log_s
    is_default = n_of_request >= RUNS_OF_REQUEST and longest_of_request_s < LEAST_USE * limit_s
    return (is_endless and log_s > SEEN * longest_of_log_s) or (is_default and log_s > SEEN * longest_of_request_s)


class SilentRequest(NamedTuple):
    """A requested time that says nothing in a queue."""

    queue: str | None
    requested_s: float
    n_jobs: int
    longest_s: float
    """The longest run of these jobs, s."""
    is_endless: bool
    """Whether it is over four times the longest run of the log. Others bound the runtime, if far above it."""


def silent_requests(jobs: LargeTable) -> list[SilentRequest]:
    """The requests of a log that say nothing, by queue, those of most jobs first.

    A request counts where it is longer than any run explains, or where BULK of the queue's jobs share it, and it is
    unused (`is_unused`). Jobs with a flag say nothing of runtimes.
    """
    silent = []
    with database_of(jobs) as database:
        found = database.sql(_BY_REQUEST).fetchall()
    for queue, asked_s, n_jobs, n_runs, longest_s, n_of_queue, n_of_log, longest_of_log_s, log_s in found:
        # Without a share of the queue a request counts only where it is longer than any run explains.
        n_of_request = n_runs if n_jobs >= BULK * n_of_queue else 0.0
        if is_unused(asked_s, n_of_request, longest_s, n_of_log, longest_of_log_s, log_s):
            is_endless = asked_s > LONGEST_REQUEST * longest_of_log_s
            silent.append(SilentRequest(queue, asked_s, n_jobs, longest_s, is_endless))
    return sorted(silent, key=lambda one: (-one.n_jobs, one.requested_s, one.queue or ""))


_BY_REQUEST = """
SELECT queue, requested_s, count(*), count(run_s), coalesce(max(run_s), 0), sum(count(*)) OVER (PARTITION BY queue),
    sum(count(run_s)) OVER (), coalesce(max(max(run_s)) OVER (), 0),
    (SELECT coalesce(max(submit_s) - min(submit_s), 0) FROM jobs)
FROM (SELECT queue, requested_s, if(runtime_s > 0 AND flag IS NULL, runtime_s, NULL) AS run_s FROM jobs)
WHERE requested_s > 0 GROUP BY queue, requested_s
"""


def says_nothing(jobs: pa.Table, silent: Sequence[SilentRequest]) -> Bools:
    """Per job whether its request is one of these."""
    found = np.zeros(jobs.num_rows, np.bool_)
    for one in silent:
        found[matching_places(jobs, {"queue": one.queue, "requested_s": one.requested_s})] = True
    return found


def sentences(silent: Sequence[SilentRequest], *, counts_every_request: bool = False) -> list[str]:
    """What a report says of them."""
    counts = "it is still used, because of clean.flags_off" if counts_every_request else "this request is ignored"
    said = [
        f"{one.n_jobs:,} jobs{'' if one.queue is None else f' in queue {printable(one.queue, 60)}'} requested "
        f"{_time(one.requested_s)}, but none ran longer than {_time(one.longest_s)}; {counts}."
        for one in silent[:LISTED]
    ]
    if len(silent) > LISTED:
        n_jobs = sum(one.n_jobs for one in silent[LISTED:])
        said.append(f"{len(silent) - LISTED:,} more requests of {n_jobs:,} jobs are like that.")
    return said


def _time(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{round(seconds / length, 2):,g} {unit}"
    return f"{seconds:.0f} s"
