"""The newest part of a long log: what a step learns from, so that its time and memory do not grow with the log.

The part begins with a quarter of a year. Nights of the same quarter begin with the same job, so that each of them can
go on from what an earlier one has learnt.
"""

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import floats, proc_seconds
from pipeline.core.report import Tally

_QUARTER_MONTHS = 3


def newest_jobs(jobs: pa.Table, least_jobs: int, until_s: float = np.inf) -> tuple[pa.Table, Tally]:
    """The jobs submitted since the newest quarter (UTC) that has at least `least_jobs` records after its beginning.

    Parameters
    ----------
    jobs : pa.Table
        JOBS; those without a submit are kept.
    least_jobs : int
        Smallest number of records submitted from the beginning of the quarter to `until_s`.
    until_s : float
        Records submitted later do not count, but are kept; s since 1970.

    Returns
    -------
    jobs : pa.Table
        JOBS; all of them where there are no more than `least_jobs`.
    older : Tally
        The jobs that are left out.
    """
    submit_s = floats(jobs, "submit_s")
    counted = submit_s[submit_s <= until_s]
    if counted.size <= least_jobs:
        return jobs, Tally()
    place = counted.size - least_jobs
    is_older = submit_s < _quarter_s(float(np.partition(counted, place)[place]))
    older = Tally(int(is_older.sum()), float(proc_seconds(jobs)[is_older].sum()))
    return jobs.filter(pa.array(~is_older)), older


def _quarter_s(instant_s: float) -> float:
    """The beginning of the quarter of an instant, s since 1970."""
    month = int(np.datetime64(int(np.floor(instant_s)), "s").astype("datetime64[M]").astype(np.int64))
    first = np.datetime64(month - month % _QUARTER_MONTHS, "M")
    return float(first.astype("datetime64[s]").astype(np.int64))
