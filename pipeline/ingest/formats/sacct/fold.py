"""Steps folded into their jobs, whatever chunk or file either stands in.

A step is an attempt's where Slurm's DBIndex says so, or, without it, where the step started while the attempt ran.
What is then left goes to the attempt of its job that started last before it, or to the only one. All records of one
attempt (overlapping dumps) share what its steps tell. So the outcome hangs on the set of rows alone, as attempts of one
job never run at one time.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Ints, dense_codes, floats, integers, replaced, row_codes
from pipeline.ingest.reader import Folded, real
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.tables import JOB, JOBS

_UNKNOWN = np.iinfo(np.int64).min
_TOLD = ("max_rss_kib", "used_mem_kib", "energy_j", "derived_exit_code")
"""Columns of which a job has the largest value of its own and its steps'.

A step's used memory is that of all its tasks, a job's is per processor.

A job's own energy is never less than a step's: it is that of the extern step, which sees all nodes all the time, or the
sum of its steps. So the largest is the job's own where that is known.
"""


class Attempts(NamedTuple):
    """When attempts or steps were: Slurm's number of the attempt, start, end; _UNKNOWN where that is not known."""

    key: Ints
    start_s: Ints
    end_s: Ints

    @classmethod
    def of(cls, table: pa.Table) -> "Attempts":
        """Of a table of jobs, or of STEPS, which have no end."""
        return cls(*(_known(table, name) for name in ("attempt_key", "start_s", "end_s")))

    def take(self, rows: Ints | Bools) -> "Attempts":
        """Those of some rows, in their order."""
        return Attempts(*(values[rows] for values in self))


def _known(table: pa.Table, name: str) -> Ints:
    if name not in table.column_names:
        return np.full(table.num_rows, _UNKNOWN)
    values, missing = integers(table[name])
    return np.where(missing, _UNKNOWN, values)


def belongs(steps: Attempts, jobs: Attempts) -> Bools:
    """Whether each step surely is of the attempt paired with it, their job ids being equal."""
    by_key = (jobs.key != _UNKNOWN) & (steps.key == jobs.key)
    knows_time = (steps.start_s != _UNKNOWN) & (jobs.start_s != _UNKNOWN) & (jobs.end_s != _UNKNOWN)
    within = knows_time & (jobs.start_s <= steps.start_s) & (steps.start_s < np.maximum(jobs.end_s, jobs.start_s + 1))
    sure: Bools = np.where(steps.key == _UNKNOWN, within, by_key)
    return sure


def fold(jobs: pa.Table, steps: pa.Table, _site: SiteSettings, _settings: IngestSettings) -> Folded:
    """The jobs with what their steps tell; steps by whether they found a job.

    jobs: JOBS with attempt_key, all records of some job ids; steps: the STEPS of those ids.
    """
    ids = _codes(jobs, steps, JOB)
    job_ids, step_ids = ids[: jobs.num_rows], ids[jobs.num_rows :]
    step, job = _pairs(job_ids, step_ids)
    attempts, at = Attempts.of(jobs), Attempts.of(steps)
    sure = belongs(at.take(step), attempts.take(job))
    late = _leftovers(step, job, sure, at, attempts)
    of_steps, of_jobs = np.concatenate([step[sure], step[late]]), np.concatenate([job[sure], job[late]])
    told = _shared(_told(jobs, steps, of_steps, of_jobs), job_ids)
    n_found = int(np.count_nonzero(np.bincount(of_steps)))
    lines = {"step": n_found, "orphan_step": steps.num_rows - n_found}
    return Folded(told.select(JOBS.schema().names), {name: n for name, n in lines.items() if n})


def _codes(jobs: pa.Table, steps: pa.Table, names: Sequence[str]) -> Ints:
    """A code for each job and then each step, equal where these columns are."""
    columns = (pa.chunked_array([*jobs[name].chunks, *steps[name].chunks], jobs[name].type) for name in names)
    return row_codes(*map(dense_codes, columns))


def _pairs(job_ids: Ints, step_ids: Ints) -> tuple[Ints, Ints]:
    """Every step beside every job of its id."""
    order = np.argsort(job_ids, kind="stable")
    low, high = (np.searchsorted(job_ids[order], step_ids, side) for side in ("left", "right"))
    n = high - low
    step = np.repeat(np.arange(len(step_ids)), n)
    return step, order[np.repeat(low - np.cumsum(n) + n, n) + np.arange(len(step))]


def _leftovers(step: Ints, job: Ints, sure: Bools, steps: Attempts, jobs: Attempts) -> Ints:
    """The pairs of the steps without a sure attempt that find one all the same.

    That is the attempt that started last, not after the step; or any, where all of the id started at one time.
    """
    may = (steps.key[step] == _UNKNOWN) | (jobs.key[job] == _UNKNOWN)
    is_sure = np.zeros(len(steps.key), np.bool_)
    is_sure[step[sure]] = True
    pairs = np.flatnonzero(~is_sure[step] & may)
    step, start, began = step[pairs], jobs.start_s[job[pairs]], steps.start_s[step[pairs]]
    is_before = (began == _UNKNOWN) | (start <= began)
    latest, first, last = (np.full(len(steps.key), fill) for fill in (_UNKNOWN, np.iinfo(np.int64).max, _UNKNOWN))
    np.maximum.at(latest, step[is_before], start[is_before])
    np.minimum.at(first, step, start)
    np.maximum.at(last, step, start)
    has_latest = np.zeros(len(steps.key), np.bool_)
    has_latest[step[is_before & (began != _UNKNOWN)]] = True
    is_only = first[step] == last[step]
    fits: Bools = np.where(has_latest[step], is_before & (start == latest[step]), is_only)
    return pairs[fits]


def _told(jobs: pa.Table, steps: pa.Table, step: Ints, job: Ints) -> pa.Table:
    """The jobs, with the largest of their own values and the paired steps'."""
    if not len(step):
        return jobs
    for name in _TOLD:
        values, told = floats(jobs, name).copy(), floats(steps, name)[step]
        if name == "used_mem_kib":
            procs = floats(jobs, "procs")
            told = told / np.where(procs > 0, procs, np.nan)[job]
        np.fmax.at(values, job, told)
        jobs = replaced(jobs, name, real(values))
    return jobs


def _shared(jobs: pa.Table, ids: Ints) -> pa.Table:
    """The jobs, all records of one attempt (one id, one submit) telling what any of them tells of its steps."""
    submit = _known(jobs, "submit_s")
    order = np.lexsort([submit, ids])
    is_same = (np.diff(ids[order]) == 0) & (np.diff(submit[order]) == 0)
    if not is_same.any():
        return jobs
    group = np.empty(len(ids), np.int64)
    group[order] = np.cumsum(np.concatenate([[True], ~is_same])) - 1
    for name in _TOLD:
        best = np.full(len(ids), np.nan)
        np.fmax.at(best, group, floats(jobs, name))
        jobs = replaced(jobs, name, real(best[group]))
    return jobs
