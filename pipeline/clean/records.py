"""Masks that judge a job by its own record alone: it never ran, it cannot be, it is not finished."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.arrays import Bools, floats, job_procs

_NOT_ENDED = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING", "STOPPED")


def partial_execution(jobs: pa.Table) -> Bools:
    """True for a partial execution whose job has a record of the whole (SWF 2.2, field 11, codes 2 to 4)."""
    parts = _state_is(jobs, "PARTIAL")
    if not parts.any():
        return parts
    ids = pc.binary_join_element_wise(jobs.column("site").cast(pa.string()), jobs.column("job_id"), "\0")
    has_whole: Bools = pc.is_in(ids, ids.filter(pa.array(~parts)).combine_chunks()).to_numpy()
    return parts & has_whole


def unfinished(jobs: pa.Table) -> Bools:
    """True where the state says so, or a start is known and no runtime, and nothing says it was cancelled."""
    started = ~np.isnan(floats(jobs, "start_s")) & np.isnan(floats(jobs, "runtime_s"))
    return _state_is(jobs, *_NOT_ENDED) | (started & ~_state_is(jobs, "CANCELLED"))


def cancelled_before_start(jobs: pa.Table) -> Bools:
    """True for a cancelled job without a positive runtime."""
    return _state_is(jobs, "CANCELLED") & ~(floats(jobs, "runtime_s") > 0)


def never_ran(jobs: pa.Table) -> Bools:
    """True for a runtime of zero or less, and where neither start nor runtime is known."""
    runtime_s = floats(jobs, "runtime_s")
    unknown = np.isnan(runtime_s) & np.isnan(floats(jobs, "start_s"))
    idle: Bools = (runtime_s <= 0) | unknown
    return idle


def impossible_times(jobs: pa.Table) -> Bools:
    """True where the submit time is unknown, or submit, start and end are out of order."""
    submit_s, start_s, end_s = (floats(jobs, name) for name in ("submit_s", "start_s", "end_s"))
    wrong: Bools = np.isnan(submit_s) | (start_s < submit_s) | (end_s < start_s) | (end_s < submit_s)
    return wrong


def no_procs(jobs: pa.Table) -> Bools:
    """True where neither allocated nor requested processors are known and positive."""
    return np.isnan(job_procs(jobs))


def _state_is(jobs: pa.Table, *states: str) -> Bools:
    known = jobs.column("state").cast(pa.string())
    found: Bools = pc.fill_null(pc.is_in(known, pa.array(states)), False).to_numpy()
    return found
