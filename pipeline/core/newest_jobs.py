"""The newest part of a long log: what a step learns from, so that its time and memory do not grow with the log.

The part begins with a job whose number in the log is a multiple of half the least size. Nights between two such jobs
begin with the same job, so that each of them can go on from what an earlier one has learnt.
"""

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import floats, proc_seconds
from pipeline.core.report import Tally

OLDER = "before_newest"
"""The reason in a Report for jobs that are older than the newest ones."""


def newest_jobs(jobs: pa.Table, least_jobs: int, until_s: float = np.inf) -> tuple[pa.Table, Tally]:
    """At least the newest `least_jobs` jobs by submit, and less than half as many more.

    Parameters
    ----------
    jobs : pa.Table
        JOBS; those without a submit are kept.
    least_jobs : int
        Least number of jobs with a submit up to `until_s`, where there are as many.
    until_s : float
        Jobs submitted later do not count, but are kept; s since 1970.

    Returns
    -------
    jobs : pa.Table
        JOBS; all of them where there are less than half as many more than `least_jobs`.
    older : Tally
        The jobs that are left out.
    """
    submit_s = floats(jobs, "submit_s")
    counted = submit_s[submit_s <= until_s]
    step = max(least_jobs // 2, 1)
    n_older = (counted.size - least_jobs) // step * step
    if n_older <= 0:
        return jobs, Tally()
    is_older = submit_s < np.partition(counted, n_older)[n_older]
    older = Tally(int(is_older.sum()), float(proc_seconds(jobs)[is_older].sum()))
    return jobs.filter(pa.array(~is_older)), older
