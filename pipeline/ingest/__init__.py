"""Reads raw logs into JOBS. A new format is one file that makes a Reader, and one line in FORMATS (reader.py).

sources.py finds and opens the logs; formats/ holds one folder a log format, which turns bytes into typed rows with
values.py; privacy.py hashes what names a person.

    paths -> sources.py -> read_sources.py -> JOBS, UNREADABLE and the report of both
          tables of jobs -> jobs_tables.py -> the same
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, floats, proc_seconds, tally
from pipeline.errors import InputError
from pipeline.ingest.jobs_tables import OnDisk, read_jobs_tables
from pipeline.ingest.privacy import check_same_names, discreet, hasher_of
from pipeline.ingest.read_sources import read_logs
from pipeline.ingest.reader import FORMATS, Chunk, Reader
from pipeline.ingest.records import with_sorted_categories
from pipeline.ingest.sources import Source, find_sources, is_table
from pipeline.large_tables import LargeTable, parts_of, stored
from pipeline.report import Report, Tally, total
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.tables import JOBS

__all__ = ["FORMATS", "OPEN", "Chunk", "OnDisk", "Reader", "Source", "Window", "ingest"]

Window = tuple[int | None, int | None]
"""Begin and end, UTC epoch seconds; None: open."""

OPEN: Window = (None, None)
OUTSIDE = "outside_window"


@overload
def ingest(
    paths: Sequence[Path | Source], site: SiteSettings, settings: IngestSettings, earlier: Path | None = None, *,
    window_s: Window = OPEN,
) -> tuple[pa.Table, pa.Table, Report]: ...  # fmt: skip
@overload
def ingest(
    paths: Sequence[Path | Source], site: SiteSettings, settings: IngestSettings, earlier: Path | None = None, *,
    to: OnDisk | None, window_s: Window = OPEN,
) -> tuple[LargeTable, LargeTable, Report]: ...  # fmt: skip
def ingest(
    paths: Sequence[Path | Source], site: SiteSettings, settings: IngestSettings, earlier: Path | None = None, *,
    to: OnDisk | None = None, window_s: Window = OPEN,
) -> tuple[LargeTable, LargeTable, Report]:  # fmt: skip
    """The JOBS of some logs, the lines that could not be read (UNREADABLE), and the account of both.

    JOBS is sorted by submit, job id and restart; apart from source_file and source_line it depends neither on the order
    of rows nor on how they were split into files (but what SWF's status means is decided for each file, unless it is
    set). A file of a folder or glob that no reader knows is passed over with a note; one given by name is an error. The
    report counts lines (and the earlier table's rows): jobs, comments, blanks, steps, superseded and unreadable ones,
    by reason.

    Parameters
    ----------
    paths : sequence of Path or Source
        Logs, folders or globs, of any formats, of one site, whose job ids are one space whatever the format; or tables
        JOBS, whose jobs of the site are given as they were ingested.
    site : SiteSettings
        Name, time zone and other facts about the site.
    settings : IngestSettings
        Format, rules and privacy.
    earlier : Path, optional
        JOBS table that is brought up to date.
    to : OnDisk, optional
        Where the tables are written, with a bounded part of the rows in memory; by default they stay there.
    window_s : Window, optional
        Begin and end of the submits that are used, s since 1970; None where it is open.

    Returns
    -------
    jobs : pa.Table or StoredTable
        JOBS; times in s since 1970, durations in s.
    unreadable : pa.Table or StoredTable
        UNREADABLE: lines that could not be read, with the reason.
    report : Report
        Lines by outcome.

    Raises
    ------
    InputError
        If a log is missing, empty, damaged, or of no known format, or if there is no job. Nothing is written then.
    ConfigError
        If the settings cannot be used.

    Examples
    --------
    >>> jobs, unreadable, report = ingest([log], settings.site, settings.ingest)
    >>> jobs.num_rows == report.kept.rows, unreadable.num_rows == tables["unreadable"].num_rows
    (True, True)
    """
    is_own = to is not None and to.scratch is None
    folder = TemporaryDirectory(prefix=".spill.", dir=to.jobs.parent) if to and is_own else nullcontext()
    with folder as scratch:
        place = replace(to, scratch=Path(scratch)) if to and scratch else to
        try:
            sources = find_sources(paths)
            if any(map(is_table, sources)) and not earlier:
                found = read_jobs_tables(sources, site, place)
            else:
                if earlier:
                    check_same_names(earlier, hasher_of(site))
                found = read_logs(sources, site, settings, earlier, place)
            return within_window(*found, window_s, to.jobs if to else None)
        except InputError as error:
            # Where the site anonymises, an error that leaves here quotes nothing of a log.
            raise discreet(error) if site.anonymise else error from None


def within_window(
    jobs: LargeTable, unreadable: LargeTable, report: Report, window_s: Window, out: Path | None = None
) -> tuple[LargeTable, LargeTable, Report]:
    """The result of ingest with only the jobs submitted in the window that were over by its end.

    A job is over when the last instant that its record tells has passed: its end, else its start or submit plus its
    runtime. A record without a submit is in no window. So the rows until an instant are those of the log with only the
    records of jobs that were over then. The others are counted as `outside_window`.
    With `out` the jobs are written to that file, which may be the one they are in.
    InputError, and no file, where no job is left.
    """
    if window_s == OPEN:
        return jobs, unreadable, report
    n_jobs, left_out = jobs.num_rows, list[Tally]()

    def chosen() -> Iterator[pa.Table]:
        for part, is_in in in_window(jobs, window_s):
            left_out.append(tally(proc_seconds(part), ~is_in))
            yield with_sorted_categories(part.filter(pa.array(is_in)))

    kept = stored(chosen(), JOBS, out and out.parent, out.stem if out else "")
    if not kept.num_rows:
        if out:
            out.unlink()
        begin, end = (_utc(value) for value in window_s)
        found = f"{n_jobs:,} jobs, none of them submitted and ended from {begin} to {end}"
        raise InputError("the logs", found, "jobs in this window", "choose another --from or --to")
    outside = total(left_out)
    spans_s = [pc.min_max(part["submit_s"]).as_py() for part in parts_of(kept, ["submit_s"])]
    facts = dict(report.facts) | {
        "jobs": kept.num_rows,
        "first_submit_s": min((span["min"] for span in spans_s if span["min"] is not None), default=None),
        "last_submit_s": max((span["max"] for span in spans_s if span["max"] is not None), default=None),
    }
    counted = Tally(kept.num_rows, report.kept.proc_s - outside.proc_s)
    changed = replace(report, kept=counted, set_aside={**report.set_aside, OUTSIDE: outside}, facts=facts)
    return kept, unreadable, changed.check()


_TIMES = ("submit_s", "start_s", "end_s", "runtime_s")


def in_window(jobs: LargeTable, window_s: Window) -> Iterator[tuple[pa.Table, Bools]]:
    """The jobs in parts, and which of each part are in a window as `within_window` says."""
    begin_s, end_s = window_s
    for part in parts_of(jobs):
        submit_s, start_s, ended_s, runtime_s = (floats(part, name) for name in _TIMES)
        chosen: Bools = np.ones(part.num_rows, np.bool_)
        if begin_s is not None:
            chosen &= submit_s >= begin_s
        if end_s is not None:
            began_s = np.fmax(submit_s, start_s)
            chosen &= np.fmax(began_s, np.where(np.isnan(ended_s), began_s + np.nan_to_num(runtime_s), ended_s)) < end_s
            chosen &= ~np.isnan(submit_s)
        yield part, chosen


def _utc(seconds: int | None) -> str:
    return "any time" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%MZ}"
