"""Reads raw logs into JOBS. A new format is one file that makes a Reader (reader.py) and one line in registry.py.

sources.py finds the logs and log_files.py opens them; formats/ holds one folder a log format, which turns bytes into
typed rows with spans/; privacy.py hashes what names a person.

    paths -> sources.py -> read_sources.py -> JOBS, UNREADABLE and the report of both
          tables of jobs -> jobs_tables.py -> the same
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import overload

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.ingest.jobs_tables import OnDisk, is_table, read_jobs_tables
from pipeline.ingest.privacy import check_same_names, discreet, hasher_of
from pipeline.ingest.read_sources import read_logs
from pipeline.ingest.reader import Chunk, Reader
from pipeline.ingest.registry import READERS
from pipeline.ingest.sources import Source, find_sources
from pipeline.ingest.window import OPEN, Window, within_window
from pipeline.large_tables import LargeTable
from pipeline.report import Report
from pipeline.settings import IngestSettings, SiteSettings

__all__ = ["READERS", "Chunk", "OnDisk", "Reader", "Source", "ingest"]


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
        JOBS table that is brought up to date (update.py).
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
    with _discreet(site), _with_scratch(to) as place:
        sources = find_sources(paths)
        if any(map(is_table, sources)) and not earlier:
            found = read_jobs_tables(sources, site, place)
        else:
            if earlier:
                check_same_names(earlier, hasher_of(site))
            found = read_logs(sources, READERS, site, settings, earlier, place)
        return within_window(*found, window_s, to.jobs if to else None)


@contextmanager
def _with_scratch(to: OnDisk | None) -> Iterator[OnDisk | None]:
    if to is None or to.scratch is not None:
        yield to
        return
    with TemporaryDirectory(prefix=".spill.", dir=to.jobs.parent) as scratch:
        yield replace(to, scratch=Path(scratch))


@contextmanager
def _discreet(site: SiteSettings) -> Iterator[None]:
    """Where the site anonymises, an error that leaves here quotes nothing of a log."""
    try:
        yield
    except InputError as error:
        if not site.anonymise:
            raise
        raise discreet(error) from None
