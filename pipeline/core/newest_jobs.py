"""The newest part of a long log: what a step learns from, so that its time and memory do not grow with the log.

The part begins with a job whose number in the log is a multiple of half the least size. Nights between two such jobs
begin with the same job, so that each of them can go on from what an earlier one has learnt.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import floats, proc_seconds
from pipeline.core.report import Tally, total
from pipeline.core.stored_table import LargeTable, StoredTable, columns_of, parts_of

OLDER = "before_newest"
"""The reason in a Report for jobs that are older than the newest ones."""

PART_ROWS = 1 << 20
_WORK = ("procs", "requested_procs", "runtime_s")


def newest_jobs(
    jobs: LargeTable, columns: Sequence[str], least_jobs: int, until_s: float = np.inf
) -> tuple[pa.Table, Tally]:
    """At least the newest `least_jobs` jobs by submit, and less than half as many more.

    Parameters
    ----------
    jobs : pa.Table or StoredTable
        JOBS; those without a submit are kept. A stored table is in order of submit.
    columns : sequence of str
        The columns that are wanted.
    least_jobs : int
        Least number of jobs with a submit up to `until_s`, where there are as many.
    until_s : float
        Jobs submitted later do not count, but are kept; s since 1970.

    Returns
    -------
    jobs : pa.Table
        The columns; of all jobs where there are less than half as many more than `least_jobs`.
    older : Tally
        The jobs that are left out.
    """
    if isinstance(jobs, StoredTable):
        return _newest_stored(jobs, columns, least_jobs, until_s)
    submit_s = floats(jobs, "submit_s")
    counted = submit_s[submit_s <= until_s]
    n_older = _n_older(counted.size, least_jobs)
    if n_older <= 0:
        return jobs.select(list(columns)), Tally()
    is_older = submit_s < np.partition(counted, n_older)[n_older]
    older = Tally(int(is_older.sum()), float(proc_seconds(jobs)[is_older].sum()))
    return jobs.select(list(columns)).filter(pa.array(~is_older)), older


def _n_older(n_counted: int, least_jobs: int) -> int:
    step = max(least_jobs // 2, 1)
    return (n_counted - least_jobs) // step * step


def _newest_stored(
    jobs: StoredTable, columns: Sequence[str], least_jobs: int, until_s: float
) -> tuple[pa.Table, Tally]:
    counts = (int((floats(part, "submit_s") <= until_s).sum()) for part in parts_of(jobs, PART_ROWS, ["submit_s"]))
    first = _first_of_second(jobs, _n_older(sum(counts), least_jobs))
    work = (columns_of(jobs, _WORK, at, min(at + PART_ROWS, first)) for at in range(0, first, PART_ROWS))
    older = total(Tally(part.num_rows, float(proc_seconds(part).sum())) for part in work)
    return columns_of(jobs, columns, first), older


def _first_of_second(jobs: StoredTable, row: int) -> int:
    """The first row with the submit of this row, in a table in order of submit; 0 for a row before the table."""
    if row <= 0:
        return 0
    submit_s = floats(columns_of(jobs, ["submit_s"], row, row + 1), "submit_s")[0]
    while row > 0:
        begin = max(row - PART_ROWS, 0)
        before = floats(columns_of(jobs, ["submit_s"], begin, row), "submit_s")
        row = begin + int(np.searchsorted(before, submit_s))
        if row > begin:
            return row
    return 0
