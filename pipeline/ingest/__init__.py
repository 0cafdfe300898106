"""Reads raw logs into JOBS. A new format is one file that makes a Reader (reader.py) and one line in registry.py.

sources.py opens the logs; formats/ holds one folder a log format, which turns bytes into typed rows with spans/;
assemble/ turns the rows of all sources into one table; privacy.py hashes what names a person.

    paths -> assemble/read_sources.py (each chunk: derived_columns.py, privacy.py; rows kept by spill.py)
          -> assemble/fold_partitions.py (the reader's own fold; combine.py, update.py, merge.py)
          -> JOBS, UNREADABLE and the report of both (assemble/ingest_report.py)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pyarrow as pa

from pipeline.core.errors import InputError
from pipeline.core.report import Report
from pipeline.core.settings import IngestSettings, SiteSettings
from pipeline.core.store import row_groups, write_batches
from pipeline.core.table_kind import TableKind
from pipeline.core.tables import JOBS, UNREADABLE
from pipeline.core.text import printable
from pipeline.ingest.assemble.combine import with_sorted_categories
from pipeline.ingest.assemble.fold_partitions import assemble_jobs
from pipeline.ingest.assemble.read_sources import SourceRows, read_all
from pipeline.ingest.assemble.spill import Room
from pipeline.ingest.assemble.update import Fates
from pipeline.ingest.jobs_tables import is_table, read_jobs_tables
from pipeline.ingest.privacy import check_same_names, discreet, hasher_of
from pipeline.ingest.reader import Chunk, Reader
from pipeline.ingest.registry import READERS
from pipeline.ingest.sources import Source, find_sources

__all__ = ["READERS", "Chunk", "Reader", "Source", "ingest", "ingest_to"]

Write = Callable[[Path, Iterable[pa.Table], TableKind, Mapping[str, str]], Path]
"""Writes tables of one kind, one after another, as one file with these facts in its metadata."""


def ingest(
    paths: Sequence[Path | Source], site: SiteSettings, settings: IngestSettings, earlier: Path | None = None
) -> tuple[pa.Table, pa.Table, Report]:
    """The JOBS of some logs, the lines that could not be read (UNREADABLE), and the account of both.

    paths: logs, folders or globs, of any formats; of one site, whose job ids are one space whatever the format. JOBS is
    sorted by submit, job id and restart; apart from source_file and source_line it depends neither on the order of rows
    nor on how they were split into files (but what SWF's status means is decided for each file, unless it is set).
    A file of a folder or glob that no reader knows is passed over with a note;
    one given by name is an error. earlier: a JOBS table to bring up to date (update.py). The report counts lines (and
    the earlier table's rows): jobs, comments, blanks, steps, superseded and unreadable ones, by reason. InputError
    where a log is missing, empty, damaged, of no known format, or where there is no job at all; ConfigError for
    settings that cannot be used.

    Parameters
    ----------
    paths : sequence of Path or Source
        Logs, folders or globs; or tables JOBS, whose jobs of the site are given as they were ingested.
    site : SiteSettings
        Name, time zone and other facts about the site.
    settings : IngestSettings
        Format, rules and privacy.
    earlier : Path, optional
        JOBS table that is brought up to date.

    Returns
    -------
    jobs : pa.Table
        JOBS; times in s since 1970, durations in s.
    unreadable : pa.Table
        UNREADABLE: lines that could not be read, with the reason.
    report : Report
        Lines by outcome.

    Raises
    ------
    InputError
        If a log is missing, empty, damaged, or of no known format, or if there is no job.
    ConfigError
        If the settings cannot be used.

    Examples
    --------
    >>> jobs, unreadable, report = ingest([log], settings.site, settings.ingest)
    >>> jobs.num_rows == report.kept.rows, unreadable.num_rows == tables["unreadable"].num_rows
    (True, True)
    """
    with _discreet(site):
        sources = find_sources(paths)
        if any(map(is_table, sources)) and not earlier:
            return read_jobs_tables(sources, site)
        rows, fates = _read(sources, site, settings, None, earlier)
        (jobs,) = assemble_jobs(rows, site, settings, None, fates)
        unreadable = UNREADABLE.check(pa.concat_tables([*rows.unreadable.tables(_LINES), UNREADABLE.empty()]))
        return with_sorted_categories(jobs), unreadable, rows.report(site, settings, fates)


def ingest_to(
    paths: Sequence[Path | Source],
    site: SiteSettings,
    settings: IngestSettings,
    out: Path,
    unreadable_out: Path,
    scratch: Path,
    earlier: Path | None = None,
    write: Write = write_batches,
    room: Room | None = None,
) -> Report:
    """The same, written to two files in bounded memory; of UNREADABLE none where every line could be read.

    scratch: an empty folder for spill files, which the caller removes. The bytes do not tell how much was spilled.
    `earlier` may be `out`: it is read before and replaced in one step. Nothing is written where an error is raised.
    """
    with _discreet(site):
        sources = find_sources(paths)
        if table := next(filter(is_table, sources), None):
            do = "give the table itself to walltime run, backtest or clean"
            raise InputError(printable(table.label), "a table, not a log", "logs to make one of", do)
        rows, fates = _read(sources, site, settings, scratch, earlier, room)
        jobs = assemble_jobs(rows, site, settings, scratch, fates)
        first = next(jobs)
        report = rows.report(site, settings, fates)
        unreadable = row_groups(rows.unreadable.tables(_LINES))
        if rows.account.unreadable:
            write(unreadable_out, map(UNREADABLE.check, unreadable), UNREADABLE, {})
        else:
            unreadable_out.unlink(missing_ok=True)
        write(out, chain([first], jobs), JOBS, hasher_of(site).mark)
        return rows.report(site, settings, fates) if fates else report


_LINES = UNREADABLE.schema()


def _read(
    paths: Sequence[Path | Source],
    site: SiteSettings,
    settings: IngestSettings,
    scratch: Path | None,
    earlier: Path | None,
    room: Room | None = None,
) -> tuple[SourceRows, Fates | None]:
    if earlier:
        check_same_names(earlier, hasher_of(site))
    rows = read_all(paths, READERS, site, settings, scratch=scratch, earlier=earlier, room=room)
    return rows, Fates(site.name) if earlier else None


@contextmanager
def _discreet(site: SiteSettings) -> Iterator[None]:
    """Where the site anonymises, an error that leaves here quotes nothing of a log."""
    try:
        yield
    except InputError as error:
        if not site.anonymise:
            raise
        raise discreet(error) from None
