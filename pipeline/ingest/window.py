"""Leaves out the jobs outside a window of time, as for a rerun over some months of a long log."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Bools, floats, proc_seconds
from pipeline.core.errors import InputError
from pipeline.core.report import Report, Tally
from pipeline.core.stored_table import LargeTable, parts_of, stored
from pipeline.core.tables import JOBS

Window = tuple[int | None, int | None]
"""Begin and end, UTC epoch seconds; None: open."""

OUTSIDE = "outside_window"
PART_ROWS = 1 << 20


def within_window(
    jobs: LargeTable, unreadable: pa.Table, report: Report, window_s: Window, folder: Path | None = None
) -> tuple[LargeTable, pa.Table, Report]:
    """The result of ingest with only the jobs submitted in the window that had also ended by its end.

    These are the jobs that a run at the end of the window would have known. A job without an end counts with its
    submit plus its runtime. The others are counted as `outside_window`. With a folder the jobs are written to a file
    there. InputError where no job is left.
    """
    if window_s == (None, None):
        return jobs, unreadable, report
    chosen = _Chosen(window_s)
    kept = stored(map(chosen.part, parts_of(jobs, PART_ROWS)), JOBS, folder, "jobs_read")
    if not chosen.n_jobs:
        begin, end = (_utc(value) for value in window_s)
        found = f"{jobs.num_rows:,} jobs, none of them submitted and ended from {begin} to {end}"
        raise InputError("the logs", found, "jobs in this window", "choose another --from or --to")
    tally = Tally(chosen.n_jobs, report.kept.proc_s - chosen.outside.proc_s)
    ends = {"first_submit_s": int(chosen.first_s), "last_submit_s": int(chosen.last_s)}
    facts = dict(report.facts) | {"jobs": tally.rows} | ends
    changed = replace(report, kept=tally, set_aside={**report.set_aside, OUTSIDE: chosen.outside}, facts=facts)
    return kept, unreadable, changed.check()


@dataclass(slots=True)
class _Chosen:
    """The jobs of a window so far: how many, their first and last submit (s), and the jobs outside it."""

    window_s: Window
    n_jobs: int = 0
    first_s: float = np.inf
    last_s: float = -np.inf
    outside: Tally = field(default_factory=Tally)

    def part(self, jobs: pa.Table) -> pa.Table:
        chosen = _in_window(jobs, self.window_s)
        submit_s = floats(jobs, "submit_s")[chosen]
        self.n_jobs += len(submit_s)
        self.first_s = min(self.first_s, float(submit_s.min(initial=np.inf)))
        self.last_s = max(self.last_s, float(submit_s.max(initial=-np.inf)))
        self.outside += Tally(int((~chosen).sum()), float(proc_seconds(jobs)[~chosen].sum()))
        return jobs.filter(pa.array(chosen))


def _in_window(jobs: pa.Table, window_s: Window) -> Bools:
    """Jobs without a known submit are outside every window."""
    begin_s, end_s = window_s
    submit_s, ended_s, runtime_s = (floats(jobs, name) for name in ("submit_s", "end_s", "runtime_s"))
    known_s = np.where(np.isnan(ended_s), submit_s + np.nan_to_num(runtime_s), ended_s)
    chosen: Bools = np.isfinite(submit_s)
    if begin_s is not None:
        chosen &= submit_s >= begin_s
    if end_s is not None:
        chosen &= (submit_s < end_s) & (known_s < end_s)
    return chosen


def _utc(seconds: int | None) -> str:
    return "any time" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%MZ}"
