"""Reads raw logs into JOBS. A new format is one file that makes a Reader (reader.py) and one line in registry.py.

sources.py finds the logs and log_files.py opens them; formats/ holds one folder a log format, which turns bytes into
typed rows with spans/; privacy.py hashes what names a person.

    paths -> read_sources.py (each chunk: derive.py, privacy.py; rows kept by spill.py)
          -> the reader's own fold; combine.py, update.py, merge.py
          -> JOBS, UNREADABLE and the report of both (ingest_report.py)
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import overload

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.ingest.combine import with_sorted_categories
from pipeline.ingest.jobs_tables import OnDisk, is_table, read_jobs_tables
from pipeline.ingest.privacy import check_same_names, discreet, hasher_of
from pipeline.ingest.read_sources import assemble_jobs, read_all
from pipeline.ingest.reader import Chunk, Reader
from pipeline.ingest.registry import READERS
from pipeline.ingest.sources import Source, find_sources
from pipeline.ingest.update import Fates
from pipeline.ingest.window import OPEN, Window, within_window
from pipeline.large_tables import LargeTable, StoredTable
from pipeline.report import Report
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.storage import row_groups
from pipeline.tables import JOBS, UNREADABLE

__all__ = ["READERS", "Chunk", "OnDisk", "Reader", "Source", "ingest"]

_LINES = UNREADABLE.schema()


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
    with _discreet(site), _scratch_of(to) as scratch:
        sources = find_sources(paths)
        if any(map(is_table, sources)) and not earlier:
            found = read_jobs_tables(sources, site, to)
        else:
            found = _read_logs(sources, site, settings, earlier, to, scratch)
        return within_window(*found, window_s, to.jobs if to else None)


def _read_logs(
    sources: Sequence[Source],
    site: SiteSettings,
    settings: IngestSettings,
    earlier: Path | None,
    to: OnDisk | None,
    scratch: Path | None,
) -> tuple[LargeTable, LargeTable, Report]:
    if earlier:
        check_same_names(earlier, hasher_of(site))
    rows = read_all(sources, READERS, site, settings, scratch=scratch, earlier=earlier, room=to.room if to else None)
    fates = Fates(site.name) if earlier else None
    tables = assemble_jobs(rows, site, settings, scratch, fates)
    first = next(tables)
    # Before anything is written: where there is no job this is an error.
    report = rows.report(site, settings, fates)
    if to is None or to.unreadable is None:
        unreadable = UNREADABLE.check(pa.concat_tables([*rows.unreadable.tables(_LINES), UNREADABLE.empty()]))
    elif rows.account.unreadable:
        lines = map(UNREADABLE.check, row_groups(rows.unreadable.tables(_LINES)))
        unreadable = StoredTable(to.write(to.unreadable, lines, UNREADABLE, {}), UNREADABLE)
    else:
        to.unreadable.unlink(missing_ok=True)
        unreadable = UNREADABLE.empty()
    if to is None:
        return with_sorted_categories(first), unreadable, report
    jobs = StoredTable(to.write(to.jobs, chain([first], tables), JOBS, hasher_of(site).mark), JOBS)
    return jobs, unreadable, rows.report(site, settings, fates)


@contextmanager
def _scratch_of(to: OnDisk | None) -> Iterator[Path | None]:
    if to is None or to.scratch is not None:
        yield to.scratch if to else None
        return
    with TemporaryDirectory(prefix=".spill.", dir=to.jobs.parent) as scratch:
        yield Path(scratch)


@contextmanager
def _discreet(site: SiteSettings) -> Iterator[None]:
    """Where the site anonymises, an error that leaves here quotes nothing of a log."""
    try:
        yield
    except InputError as error:
        if not site.anonymise:
            raise
        raise discreet(error) from None
