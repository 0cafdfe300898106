"""Masks that need only the record of the job: it never ran, is impossible, or has not finished."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.clean.censoring import STILL_RUNNING
from pipeline.clean.job_arrays import JobArrays
from pipeline.core.arrays import Bools
from pipeline.core.clean_settings import CleanSettings

NOT_ENDED = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING", "STOPPED")


def partial_execution(arrays: JobArrays, _settings: CleanSettings) -> Bools:
    """True for a partial execution whose job also has a summary record (SWF 2.2, field 11, codes 2 to 4)."""
    parts = arrays.state_is("PARTIAL")
    if not parts.any():
        return parts
    ids = pc.binary_join_element_wise(arrays.jobs.column("site").cast(pa.string()), arrays.jobs.column("job_id"), "\0")
    has_whole: Bools = pc.is_in(ids, ids.filter(pa.array(~parts)).combine_chunks()).to_numpy()
    return parts & has_whole


def unfinished(arrays: JobArrays, _settings: CleanSettings) -> Bools:
    """True for a job in an unfinished state, and for a job with a start, no runtime, and a state other than CANCELLED.

    False for a running job with a known runtime so far, which is a lower bound (censoring.py).
    """
    started = ~np.isnan(arrays.start_s) & np.isnan(arrays.runtime_s)
    has_runtime = arrays.state_is(*STILL_RUNNING) & (arrays.runtime_s > 0)
    return (arrays.state_is(*NOT_ENDED) & ~has_runtime) | (started & ~arrays.state_is("CANCELLED"))


def cancelled_before_start(arrays: JobArrays, _settings: CleanSettings) -> Bools:
    """True for a cancelled job without a positive runtime."""
    return arrays.state_is("CANCELLED") & ~(arrays.runtime_s > 0)


def never_ran(arrays: JobArrays, _settings: CleanSettings) -> Bools:
    """True for a runtime of zero or less, and where neither start nor runtime is known."""
    unknown = np.isnan(arrays.runtime_s) & np.isnan(arrays.start_s)
    idle: Bools = (arrays.runtime_s <= 0) | unknown
    return idle


def impossible_times(arrays: JobArrays, _settings: CleanSettings) -> Bools:
    """True where the submit time is unknown, or submit, start and end are out of order."""
    submit_s, start_s, end_s = arrays.submit_s, arrays.start_s, arrays.end_s
    wrong: Bools = np.isnan(submit_s) | (start_s < submit_s) | (end_s < start_s) | (end_s < submit_s)
    return wrong


def no_procs(arrays: JobArrays, _settings: CleanSettings) -> Bools:
    """True where neither allocated nor requested processors are known and positive."""
    return np.isnan(arrays.procs)


def elapsed_disagrees(arrays: JobArrays, settings: CleanSettings) -> Bools:
    """True where the recorded runtime and end minus start differ by more than suspension explains.

    A batch system measures the runtime apart from start and end, so that a clock that was set, or a number that was
    damaged, shows in their difference. Suspension may stand in the runtime or be left out of it. Unknown values are
    never held against a job.
    """
    missing_s = arrays.end_s - arrays.start_s - arrays.runtime_s
    tolerance_s = np.maximum(settings.elapsed.tolerance_s, settings.elapsed.tolerance_share * arrays.runtime_s)
    disagrees: Bools = (missing_s < -tolerance_s) | (missing_s > np.nan_to_num(arrays.suspended_s) + tolerance_s)
    return disagrees
