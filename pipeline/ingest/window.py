"""Leaves out the jobs outside a window of time, as for a rerun over some months of a long log."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Bools, floats, proc_seconds
from pipeline.core.errors import InputError
from pipeline.core.report import Report, Tally

Window = tuple[int | None, int | None]
"""Begin and end, UTC epoch seconds; None: open."""

OUTSIDE = "outside_window"


def within_window(
    jobs: pa.Table, unreadable: pa.Table, report: Report, window_s: Window
) -> tuple[pa.Table, pa.Table, Report]:
    """The result of ingest with only the jobs submitted in the window that had also ended by its end.

    These are the jobs that a run at the end of the window would have known. A job without an end counts with its
    submit plus its runtime. The others are counted as `outside_window`. InputError where no job is left.
    """
    if window_s == (None, None):
        return jobs, unreadable, report
    chosen = _in_window(jobs, window_s)
    if not chosen.any():
        begin, end = (_utc(value) for value in window_s)
        found = f"{jobs.num_rows:,} jobs, none of them submitted and ended from {begin} to {end}"
        raise InputError("the logs", found, "jobs in this window", "choose another --from or --to")
    outside = Tally(int((~chosen).sum()), float(proc_seconds(jobs)[~chosen].sum()))
    kept = Tally(int(chosen.sum()), report.kept.proc_s - outside.proc_s)
    submit_s = floats(jobs, "submit_s")[chosen]
    ends = {"first_submit_s": int(np.nanmin(submit_s)), "last_submit_s": int(np.nanmax(submit_s))}
    facts = dict(report.facts) | {"jobs": kept.rows} | ends
    changed = replace(report, kept=kept, set_aside={**report.set_aside, OUTSIDE: outside}, facts=facts)
    return jobs.filter(pa.array(chosen)), unreadable, changed.check()


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
