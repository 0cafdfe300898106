"""Steps folded into their jobs, whatever chunk or file either stands in.

A step is an attempt's where Slurm's DBIndex says so, or, without it, where the step started while the attempt ran.
What is then left goes to the attempt of its job that started last before it, or to the only one. All records of one
attempt (overlapping dumps) share what its steps tell. So the outcome hangs on the set of rows alone, as attempts of one
job never run at one time; `fold_beside` does the sure part early, for steps that stand right after their job.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints, arrow, floats_of, integers
from pipeline.ingest.reader import Folded
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.tables import JOBS

_NEVER = np.iinfo(np.int64).min
_LARGEST = ("max_rss_kib", "energy_j")
"""Columns of which a job has the largest value of its own and its steps'."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """When attempts or steps were: Slurm's number of the attempt, start, end; each with where it is unknown."""

    key: Ints
    no_key: Bools
    start_s: Ints
    no_start: Bools
    end_s: Ints
    no_end: Bools

    @classmethod
    def of(cls, table: pa.Table) -> "Attempts":
        """Of a table of jobs, or of STEPS, whose end is not asked."""
        names = table.column_names
        end = integers(table["end_s"]) if "end_s" in names else integers(pa.nulls(table.num_rows, pa.int64()))
        key = integers(table["attempt_key"]) if "attempt_key" in names else integers(pa.nulls(len(table), pa.int64()))
        return cls(*key, *integers(table["start_s"]), *end)

    def take(self, rows: Ints) -> "Attempts":
        """Those of some rows, in their order."""
        return Attempts(
            key=self.key[rows],
            no_key=self.no_key[rows],
            start_s=self.start_s[rows],
            no_start=self.no_start[rows],
            end_s=self.end_s[rows],
            no_end=self.no_end[rows],
        )


def belongs(steps: Attempts, jobs: Attempts) -> Bools:
    """Whether each step surely is of the attempt paired with it, their job ids being equal."""
    by_key = ~jobs.no_key & (steps.key == jobs.key)
    knows_time = ~steps.no_start & ~jobs.no_start & ~jobs.no_end
    within = knows_time & (jobs.start_s <= steps.start_s) & (steps.start_s < np.maximum(jobs.end_s, jobs.start_s + 1))
    sure: Bools = np.where(steps.no_key, within, by_key)
    return sure


def fold_beside(jobs: pa.Table, steps: pa.Table, owner: Ints) -> tuple[pa.Table, pa.Table]:
    """Jobs with what surely theirs of the steps beside them tell, and the other steps.

    owner: for each step, the row of the job of its id right before it, or -1.
    """
    if not steps.num_rows:
        return jobs, steps
    step = np.flatnonzero(owner >= 0)
    job = owner[step]
    sure = belongs(Attempts.of(steps).take(step), Attempts.of(jobs).take(job))
    folded = np.zeros(steps.num_rows, np.bool_)
    folded[step[sure]] = True
    return _told(jobs, steps, step[sure], job[sure]), steps.filter(arrow(~folded))


def fold(jobs: pa.Table, steps: pa.Table, site: SiteSettings, settings: IngestSettings) -> Folded:
    """The jobs with what their steps tell; steps by whether they found a job.

    jobs: JOBS with attempt_key, all records of some job ids; steps: the STEPS of those ids.
    """
    del site, settings
    ids = _codes(jobs["job_id"], steps["job_id"])
    job_ids, step_ids = ids[: jobs.num_rows], ids[jobs.num_rows :]
    order = np.argsort(job_ids, kind="stable")
    step, job = _pairs(job_ids[order], step_ids)
    job = order[job]
    wheres, steps_at = Attempts.of(jobs), Attempts.of(steps)
    sure = belongs(steps_at.take(step), wheres.take(job))
    late_step, late_job = _leftovers(step, job, sure, steps_at, wheres)
    all_steps, all_jobs = np.concatenate([step[sure], late_step]), np.concatenate([job[sure], late_job])
    told = _shared(_told(jobs, steps, all_steps, all_jobs), job_ids)
    n_found = len(np.unique(all_steps))
    lines = {"step": n_found, "orphan_step": steps.num_rows - n_found}
    return Folded(told.select(JOBS.schema().names), {name: n for name, n in lines.items() if n})


def _codes(jobs: pa.ChunkedArray, steps: pa.ChunkedArray) -> Ints:
    """Equal numbers for equal ids, of jobs and then of steps."""
    together = pa.chunked_array([*jobs.chunks, *steps.chunks], pa.string()).combine_chunks()
    encoded = together.dictionary_encode()
    return integers(encoded.indices)[0]


def _pairs(job_ids: Ints, step_ids: Ints) -> tuple[Ints, Ints]:
    """Every step beside every job of its id; job_ids are sorted, and jobs are told by their place among them."""
    low, high = np.searchsorted(job_ids, step_ids, "left"), np.searchsorted(job_ids, step_ids, "right")
    n = high - low
    step = np.repeat(np.arange(len(step_ids)), n)
    first = np.repeat(low - np.concatenate([[0], np.cumsum(n)[:-1]]).astype(np.int64), n) if len(n) else n
    return step, first + np.arange(len(step))


def _leftovers(step: Ints, job: Ints, sure: Bools, steps: Attempts, jobs: Attempts) -> tuple[Ints, Ints]:
    """Of the steps without a sure attempt, those that find one all the same, and which.

    That is the attempt that started last, not after the step; or any, where all of the id started at one time.
    """
    is_left = ~np.isin(step, step[sure])
    at, of = steps.take(step[is_left]), jobs.take(job[is_left])
    may = at.no_key | of.no_key
    step, job = step[is_left][may], job[is_left][may]
    at, of = at.take(np.flatnonzero(may)), of.take(np.flatnonzero(may))
    start = np.where(of.no_start, _NEVER, of.start_s)
    is_before = at.no_start | (start <= at.start_s)
    n_steps = len(steps.key)
    latest, first, last = (np.full(n_steps, fill, np.int64) for fill in (_NEVER, np.iinfo(np.int64).max, _NEVER))
    np.maximum.at(latest, step[is_before], start[is_before])
    np.minimum.at(first, step, start)
    np.maximum.at(last, step, start)
    is_only = first[step] == last[step]
    has_latest = np.zeros(n_steps, np.bool_)
    has_latest[step[is_before & ~at.no_start]] = True
    fits = np.where(has_latest[step], is_before & (start == latest[step]), is_only)
    return step[fits], job[fits]


def _told(jobs: pa.Table, steps: pa.Table, step: Ints, job: Ints) -> pa.Table:
    """The jobs, with the largest memory and energy and the highest exit code of their own row and the paired steps.

    A job's own energy is never less than a step's: it is that of the extern step, which sees all nodes all the time, or
    the sum of its steps. So the largest is the job's own where that is known.
    """
    if not len(step):
        return jobs
    code, no_code = integers(jobs["derived_exit_code"])
    said, no_said = integers(steps["derived_exit_code"])
    code = np.where(no_code, -1, code)
    np.maximum.at(code, job, np.where(no_said, -1, said)[step])
    for name in _LARGEST:
        values = floats_of(jobs[name]).copy()
        np.fmax.at(values, job, floats_of(steps[name])[step])
        jobs = _replaced(jobs, name, arrow(values, np.isnan(values)))
    return _replaced(jobs, "derived_exit_code", arrow(code, code < 0))


def _shared(jobs: pa.Table, ids: Ints) -> pa.Table:
    """The jobs, all records of one attempt (one id, one submit) telling what any of them tells of its steps."""
    if len(ids) < 2:
        return jobs
    submit, no_submit = integers(jobs["submit_s"])
    submit = np.where(no_submit, _NEVER, submit)
    order = np.lexsort([submit, ids])
    is_same = (np.diff(ids[order]) == 0) & (np.diff(submit[order]) == 0)
    if not is_same.any():
        return jobs
    group = np.empty(len(ids), np.int64)
    group[order] = np.cumsum(np.concatenate([[True], ~is_same])) - 1
    code, no_code = integers(jobs["derived_exit_code"])
    codes = _highest(np.where(no_code, np.nan, code.astype(np.float64)), group)
    for name in _LARGEST:
        values = _highest(floats_of(jobs[name]), group)
        jobs = _replaced(jobs, name, arrow(values, np.isnan(values)))
    missing = np.isnan(codes)
    return _replaced(jobs, "derived_exit_code", arrow(np.where(missing, 0, codes).astype(np.int64), missing))


def _highest(values: Floats, group: Ints) -> Floats:
    """For each row the highest value of its group, NaN where none is known."""
    best = np.full(int(group.max()) + 1, np.nan)
    np.fmax.at(best, group, values)
    highest: Floats = best[group]
    return highest


def _replaced(jobs: pa.Table, name: str, values: pa.Array) -> pa.Table:
    place = jobs.column_names.index(name)
    return jobs.set_column(place, jobs.schema.field(name), values)
