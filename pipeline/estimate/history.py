"""A log as a scheduler lives through it: jobs in order of submit, and when each one's runtime became known.

Everything an estimator may use of a job is what its submit tells (the request, who, what, where, when) and the
runtimes of jobs whose end is not after that submit: those before `ended` in `by_end`.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.arrays import Bools, Floats, Ints, category_codes, floats, lower_bounds

RECORD_FLAGS = (
    "partial_execution", "unfinished", "cancelled_before_start", "never_ran", "impossible_times", "no_procs",
    "duplicate",
)  # fmt: skip
"""Jobs without a runtime to learn from or to score; a flurry's jobs ran, and a scheduler had to answer for them."""

ATTRIBUTES = ("user", "user_group", "account", "application", "queue", "partition", "qos", "problem_size")


@dataclass(frozen=True, slots=True)
class History:
    """Arrays of equal length, one value a job, in order of submit (ties: of job id); NaN and -1 are unknown."""

    row: Ints
    """The job's row in JOBS."""
    submit_s: Floats
    end_s: Floats
    runtime_s: Floats
    requested_s: Floats
    requested_mem_kib: Floats
    procs: Floats
    """Processors asked for (allocated ones where the log has no request)."""
    local_s: Ints
    """Submit time as the site's clock showed it, s."""
    is_lower_bound: Bools
    """Killed at its limit: it would have run longer."""
    codes: dict[str, Ints]
    """Per attribute, codes from 0; -1 unknown."""
    by_end: Ints
    """Places in order of end: the order in which runtimes become known."""
    ended: Ints
    """Per job, how many of `by_end` had ended by its submit (an end at the very second counts)."""

    def __len__(self) -> int:
        return len(self.submit_s)


def history(jobs: pa.Table, local_s: Ints | None = None) -> History:
    """The History of the jobs that ran: known submit, processors and positive runtime, no flag on their record."""
    flag = jobs.column("flag").cast(pa.string())
    unusable = pc.fill_null(pc.is_in(flag, pa.array(RECORD_FLAGS)), False).to_numpy()
    submit_s, runtime_s = floats(jobs, "submit_s"), floats(jobs, "runtime_s")
    procs = _asked_procs(jobs)
    rows = np.flatnonzero(~unusable & ~np.isnan(submit_s) & (runtime_s > 0) & ~np.isnan(procs))
    rows = rows[np.lexsort((rows, submit_s[rows]))]
    end_s = _known_s(jobs, submit_s, runtime_s)[rows]
    by_end = np.argsort(end_s, kind="stable")
    return History(
        row=rows,
        submit_s=submit_s[rows],
        end_s=end_s,
        runtime_s=runtime_s[rows],
        requested_s=floats(jobs, "requested_s")[rows],
        requested_mem_kib=floats(jobs, "requested_mem_kib")[rows],
        procs=procs[rows],
        local_s=(submit_s.astype(np.int64) if local_s is None else local_s)[rows],
        is_lower_bound=lower_bounds(jobs)[rows],
        codes={name: category_codes(jobs, name)[0][rows] for name in ATTRIBUTES},
        by_end=by_end,
        ended=np.searchsorted(end_s[by_end], submit_s[rows], side="right"),
    )


def _asked_procs(jobs: pa.Table) -> Floats:
    asked, allocated = floats(jobs, "requested_procs"), floats(jobs, "procs")
    chosen = np.where(asked > 0, asked, allocated)
    return np.where(chosen > 0, chosen, np.nan)


def _known_s(jobs: pa.Table, submit_s: Floats, runtime_s: Floats) -> Floats:
    """When the runtime is known: the end; start + runtime, or submit + runtime, where the log has none."""
    start_s, end_s = floats(jobs, "start_s"), floats(jobs, "end_s")
    begun_s = np.where(np.isnan(start_s), submit_s, start_s)
    return np.where(np.isnan(end_s), begun_s + runtime_s, np.maximum(end_s, submit_s))
