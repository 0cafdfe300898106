"""Memory as a second target of the estimator: jobs with memory in place of time, and what to ask for.

Memory is in KiB per processor throughout, as in JOBS. Whether a job on more processors needs as much on each of them,
or less, is answered by the hypotheses of group_record.py, as for runtimes.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Floats, floats
from pipeline.estimate.history import READ, History, Target, history
from pipeline.estimate.limit_harm import PROMISED_BEYOND
from pipeline.estimate.score import at_share

OUT_OF_MEMORY = "OUT_OF_MEMORY"
"""The state of jobs that were stopped because they needed more memory than they had."""

PROMISE = 1.0 - PROMISED_BEYOND
"""The share of jobs that stay under the memory that is recommended."""

MIB_KIB = 1024.0
"""Recommendations are whole MiB: Slurm takes no less."""


def memory_history(jobs: pa.Table, timezone: str = "UTC", *, without_flagged: bool = False) -> History:
    """The same jobs with memory in place of time: what estimates and limits runtimes then does so for memory.

    Parameters
    ----------
    jobs : pa.Table
        JOBS, n rows in any order.
    timezone : str
        IANA name of the site's time zone.
    without_flagged : bool
        Whether jobs with a flag are left out of learning.

    Returns
    -------
    History
        `runtime_s` and `requested_s` are memory used and asked for, KiB per processor; NaN unknown. A job that ended
        OUT_OF_MEMORY needed more than it asked for, whatever was measured: a lower bound. `start_s` is infinite: the
        time for which a job has run says nothing about its memory, and what it uses is known at its end.

    Examples
    --------
    >>> log = memory_history(tables["jobs"])
    >>> used_kib = log.runtime_s[log.has_run]
    >>> bool((used_kib > 0).all()), bool(np.isinf(log.start_s).all())
    (True, True)
    """
    past = history(jobs, timezone, without_flagged=without_flagged)
    used_kib, asked_kib = floats(jobs, "used_mem_kib")[past.row], past.requested_mem_kib
    ran_out = pc.fill_null(pc.equal(jobs.column("state").cast(pa.string()), OUT_OF_MEMORY), False).to_numpy()[past.row]
    used_kib = np.where(ran_out, np.fmax(used_kib, asked_kib), used_kib)
    return replace(
        past,
        start_s=np.full(len(past), np.inf),
        runtime_s=np.where(past.has_run & (used_kib > 0), used_kib, np.nan),
        requested_s=np.where(asked_kib > 0, asked_kib, np.nan),
        requested_mem_kib=np.full(len(past), np.nan),
        is_lower_bound=ran_out & past.has_run & (used_kib > 0),
    )


MEMORY = Target((*READ, "used_mem_kib"), memory_history)


def recommended_kib(quantiles_kib: Floats, promise: float = PROMISE) -> Floats:
    """(jobs,) the memory that the promised share of such jobs stay under, KiB per processor, in whole MiB.

    Parameters
    ----------
    quantiles_kib : Floats
        float64[n, 6], quantiles of the memory used, as the estimator gives them of a `memory_history`.
    promise : float
        The share of jobs.

    Returns
    -------
    Floats
        float64[n], KiB per processor; NaN where there is no answer.

    Examples
    --------
    >>> recommended_kib(np.array([[900.0, 1000.0, 1500.0, 2000.0, 2040.0, 2040.0]]))
    array([2048.])
    """
    found: Floats = np.ceil(at_share(quantiles_kib, promise) / MIB_KIB) * MIB_KIB
    return found
