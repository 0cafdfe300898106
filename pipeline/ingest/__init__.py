"""Raw logs to JOBS. A new format is one new file that makes a Reader, and one line in READERS."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from pipeline.core.errors import InputError
from pipeline.core.report import Report
from pipeline.core.settings import IngestSettings, SiteSettings
from pipeline.core.tables import JOBS
from pipeline.core.text import printable
from pipeline.ingest.account import Account, report
from pipeline.ingest.combine import combine
from pipeline.ingest.pbs import PBS
from pipeline.ingest.reader import Chunk, Reader
from pipeline.ingest.sacct import SACCT
from pipeline.ingest.sacct_json import SACCT_JSON
from pipeline.ingest.sources import Source, find_sources, head
from pipeline.ingest.swf import SWF

READERS: Mapping[str, Reader] = {reader.name: reader for reader in (SWF, PBS, SACCT_JSON, SACCT)}
"""Every log format, by the name `ingest.format` gives it; `auto` asks them in this order."""

__all__ = ["READERS", "Chunk", "Reader", "Source", "ingest"]


def ingest(
    paths: Sequence[Path | Source], site: SiteSettings, settings: IngestSettings
) -> tuple[pa.Table, pa.Table, Report]:
    """The JOBS of some logs, the lines that could not be read (UNREADABLE), and the account of both.

    paths: logs, folders or globs, all of one format. JOBS is sorted by submit, job id and restart; apart from
    source_file and source_line it depends neither on the order of rows nor on how they were split into files. A file
    of a folder or glob that no reader knows is passed over with a note; one given by name is an error. The report
    counts lines: jobs, comments, blanks, superseded and unreadable ones, by reason. InputError where a log is missing,
    empty, damaged, of no known format, or where there is no job at all; ConfigError for settings that cannot be used.
    """
    account = Account()
    sources, reader = _recognised(find_sources(paths), settings, account)
    for source in sources:
        for chunk in reader.read(source, site, settings):
            account.add(source, chunk)
    settled = reader.settle(account.all_jobs(), account.remarks, settings)
    if not settled.num_rows:
        where = ", ".join(printable(source.label) for source in sources[:3])
        raise InputError(where, f"no job in {account.n_lines} lines", reader.expects, "check that the export ran")
    combined = combine(settled, reader.same_record)
    jobs, unreadable = JOBS.check(combined.jobs), account.all_unreadable()
    told = report(
        account, reader, jobs, combined.superseded, unreadable, combined.n_reused_ids, site=site, settings=settings
    )
    return jobs, unreadable, told


def _recognised(sources: list[Source], settings: IngestSettings, account: Account) -> tuple[list[Source], Reader]:
    """The sources a reader knows, and the one reader they share."""
    candidates = list(READERS.values()) if settings.format == "auto" else [READERS[settings.format]]
    known: dict[str, list[Source]] = {}
    for source in sources:
        reader = _reader_of(source, candidates)
        if reader is not None:
            known.setdefault(reader.name, []).append(source)
        else:
            account.passed_over.append(f"{printable(source.label)} is no log of a known format and is passed over")
    if not known:
        where = ", ".join(printable(source.label) for source in sources[:3])
        raise InputError(where, "no file of a known format", _expected(candidates), "check the path")
    if len(known) > 1:
        raise InputError("the list of logs", f"formats {', '.join(known)}", "one format", "set ingest.format")
    ((name, found),) = known.items()
    return found, READERS[name]


def _reader_of(source: Source, candidates: list[Reader]) -> Reader | None:
    """The reader whose format a source's first bytes show; for a named source with one candidate, that one.

    A named source goes to the only candidate unseen, because a reader says best what is wrong with its own format.
    """
    start = head(source, is_empty_ok=not source.is_named)
    if source.is_named and len(candidates) == 1:
        return candidates[0]
    reader = next((reader for reader in candidates if start and reader.looks_right(start)), None)
    if reader is None and source.is_named:
        first = printable(start.lstrip().split(b"\n")[0].decode("utf-8", "backslashreplace"), 60)
        raise InputError(f"{printable(source.label)}, line 1", f"'{first}'", _expected(candidates))
    return reader


def _expected(candidates: list[Reader]) -> str:
    return "; or ".join(reader.expects for reader in candidates)
