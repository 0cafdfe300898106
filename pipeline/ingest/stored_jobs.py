"""Reads the logs of a run into a table of jobs on disk, with a part of the jobs in memory at a time."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from pipeline.core.report import Report
from pipeline.core.settings import IngestSettings, SiteSettings
from pipeline.core.store import read_table, write_batches
from pipeline.core.stored_table import LargeTable, StoredTable
from pipeline.core.table_kind import TableKind
from pipeline.core.tables import JOBS, UNREADABLE
from pipeline.core.version import code_version
from pipeline.ingest import ingest, ingest_to
from pipeline.ingest.assemble.spill import WIDE
from pipeline.ingest.jobs_tables import is_table, write_jobs_table
from pipeline.ingest.sources import find_sources
from pipeline.ingest.window import Window, within_window

JOBS_READ = "jobs_read"
ROOM = WIDE


def ingest_stored(
    paths: Sequence[Path], site: SiteSettings, settings: IngestSettings, window_s: Window, folder: Path | None
) -> tuple[LargeTable, pa.Table, Report]:
    """What `ingest` and then `within_window` give; with a folder the jobs are in its file `jobs_read.parquet`.

    Parameters
    ----------
    paths : sequence of Path
        Logs or tables JOBS, as of `ingest`.
    site : SiteSettings
        Name, time zone and other facts about the site.
    settings : IngestSettings
        Format, rules and privacy.
    window_s : Window
        Begin and end of the submits that are used, s since 1970; None where it is open.
    folder : Path or None
        Where the jobs are written; None: they stay in memory.

    Returns
    -------
    jobs : pa.Table or StoredTable
        JOBS in order of submit.
    unreadable : pa.Table
        UNREADABLE.
    report : Report
        Lines by outcome.
    """
    if folder is None:
        return within_window(*ingest(paths, site, settings), window_s)
    if window_s == (None, None):
        return _stored(paths, site, settings, folder)
    with TemporaryDirectory(prefix=".all.", dir=folder) as scratch:
        return within_window(*_stored(paths, site, settings, Path(scratch)), window_s, folder)


def _stored(
    paths: Sequence[Path], site: SiteSettings, settings: IngestSettings, folder: Path
) -> tuple[LargeTable, pa.Table, Report]:
    sources, out = find_sources(paths), folder / f"{JOBS_READ}.parquet"
    if len(sources) == 1 and is_table(sources[0]):
        found = write_jobs_table(sources[0], site, out, lambda path, batches: _write(path, batches, JOBS, {}))
        if found:
            return StoredTable(out, JOBS), *found
    if any(map(is_table, sources)):
        jobs, unreadable, report = ingest(paths, site, settings)
        _write(out, [jobs], JOBS, {})
        return StoredTable(out, JOBS), unreadable, report
    with TemporaryDirectory(prefix=".spill.", dir=folder) as scratch:
        beside = Path(scratch) / f"{UNREADABLE.name}.parquet"
        report = ingest_to(paths, site, settings, out, beside, Path(scratch) / "rows", write=_write, room=ROOM)
        unreadable = read_table(beside, UNREADABLE) if beside.exists() else UNREADABLE.empty()
    return StoredTable(out, JOBS), unreadable, report


def _write(path: Path, batches: Iterable[pa.Table], kind: TableKind, _facts: Mapping[str, str]) -> Path:
    """Tables between the steps of a run say only which code wrote them."""
    return write_batches(path, batches, kind, {"code": code_version()})
