"""Leaves out the jobs outside a window of time, as for a rerun over some months of a long log."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, floats, proc_seconds
from pipeline.errors import InputError
from pipeline.large_tables import LargeTable, parts_of, stored
from pipeline.report import Report, Tally
from pipeline.tables import JOBS

Window = tuple[int | None, int | None]
"""Begin and end, UTC epoch seconds; None: open."""

OPEN: Window = (None, None)
OUTSIDE = "outside_window"


def within_window(
    jobs: LargeTable, unreadable: LargeTable, report: Report, window_s: Window, out: Path | None = None
) -> tuple[LargeTable, LargeTable, Report]:
    """The result of ingest with only the jobs submitted in the window that had also ended by its end.

    These are the jobs that a run at the end of the window would have known. A job without an end counts with its
    submit plus its runtime. The others are counted as `outside_window`. With `out` the jobs are written to that file,
    which may be the one they are in. InputError, and no file, where no job is left.
    """
    if window_s == OPEN:
        return jobs, unreadable, report
    chosen, n_jobs = _Chosen(window_s), jobs.num_rows
    kept = stored(map(chosen.part, parts_of(jobs)), JOBS, out and out.parent, out.stem if out else "")
    if not chosen.n_jobs:
        if out:
            out.unlink()
        begin, end = (_utc(value) for value in window_s)
        found = f"{n_jobs:,} jobs, none of them submitted and ended from {begin} to {end}"
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
