"""Steps folded into their jobs, whatever chunk or file either stands in.

A step is an attempt's where Slurm's DBIndex says so, or, without it, where the step started while the attempt ran.
What is then left goes to the attempt of its job that started last before it, or to the only one. All records of one
attempt (overlapping dumps) share what its steps tell. So the outcome hangs on the set of rows alone, as attempts of one
job never run at one time.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import arrow, replaced
from pipeline.ingest.reader import Folded
from pipeline.large_tables import connected
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.tables import JOBS

_TOLD = ("max_rss_kib", "used_mem_kib", "energy_j", "derived_exit_code")
"""Columns of which a job has the largest value of its own and its steps'.

A step's used memory is that of all its tasks, a job's is per processor.

A job's own energy is never less than a step's: it is that of the extern step, which sees all nodes all the time, or the
sum of its steps. So the largest is the job's own where that is known.
"""

_PAIRED = """
CREATE TEMP TABLE paired AS WITH pairs AS (
    SELECT step.nr AS step, job.nr AS job, step.start_s AS step_start_s, coalesce(job.start_s, -1) AS start_s,
        coalesce(CASE WHEN step.attempt_key IS NOT NULL THEN step.attempt_key = job.attempt_key
            ELSE job.end_s IS NOT NULL AND job.start_s <= step.start_s
                AND step.start_s < greatest(job.end_s, job.start_s + 1) END, FALSE) AS is_sure,
        step.attempt_key IS NULL OR job.attempt_key IS NULL AS may_be
    FROM steps AS step JOIN jobs AS job ON step.job_id = job.job_id AND step.cluster IS NOT DISTINCT FROM job.cluster
)
SELECT step, job FROM pairs WHERE is_sure
UNION ALL
SELECT step, job FROM pairs WHERE may_be AND step NOT IN (SELECT step FROM pairs WHERE is_sure)
WINDOW own AS (PARTITION BY step)
QUALIFY coalesce(start_s = max(start_s) FILTER (start_s <= step_start_s) OVER own,
    min(start_s) OVER own = max(start_s) OVER own)
"""
"""Each step beside the attempts that it is of: those that surely are, else those of its id that started last before it,
else any, where all started at one time."""
_SHARED = """
WITH own AS (
    SELECT paired.job AS nr, max(step.max_rss_kib) AS max_rss_kib, max(step.energy_j) AS energy_j,
        max(step.derived_exit_code) AS derived_exit_code,
        max(step.used_mem_kib / CASE WHEN job.procs > 0 THEN job.procs END) AS used_mem_kib
    FROM paired JOIN steps AS step ON step.nr = paired.step JOIN jobs AS job ON job.nr = paired.job GROUP BY paired.job
), told AS (
    SELECT jobs.nr, cluster, job_id, submit_s, {largest} FROM jobs LEFT JOIN own ON own.nr = jobs.nr
)
SELECT {shared} FROM told WINDOW attempt AS (PARTITION BY cluster, job_id, submit_s) ORDER BY nr
"""
"""What each job's records and steps tell; a job and a submit are one attempt."""


def fold(jobs: pa.Table, steps: pa.Table, _site: SiteSettings, _settings: IngestSettings) -> Folded:
    """The jobs with what their steps tell; steps by whether they found a job.

    jobs: JOBS with attempt_key, all records of some job ids; steps: the STEPS of those ids.
    """
    n_found = 0
    if steps.num_rows or pc.count_distinct(jobs["job_id"]).as_py() < jobs.num_rows:
        read = ("cluster", "job_id", "submit_s", "start_s", "end_s", "attempt_key", "procs", *_TOLD)
        with connected() as database:
            database.register("jobs", _numbered(jobs.select(read)))
            database.register("steps", _numbered(steps))
            database.execute(_PAIRED)
            (n_found,) = database.sql("SELECT count(DISTINCT step) FROM paired").fetchall()[0]
            largest = ", ".join(f"greatest(jobs.{name}, own.{name}) AS {name}" for name in _TOLD)
            shared = ", ".join(f"max({name}) OVER attempt AS {name}" for name in _TOLD)
            told = database.sql(_SHARED.format(largest=largest, shared=shared)).to_arrow_table()
        for name in _TOLD:
            jobs = replaced(jobs, name, told[name])
    lines = {"step": n_found, "orphan_step": steps.num_rows - n_found}
    return Folded(jobs.select(JOBS.schema().names), {name: n for name, n in lines.items() if n})


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column("nr", arrow(np.arange(rows.num_rows)))
