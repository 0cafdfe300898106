"""Reads every source of a run once: keeps the jobs, the partial records and the unreadable lines, and counts them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.core.errors import InputError
from pipeline.core.report import Report
from pipeline.core.settings import IngestSettings, SiteSettings
from pipeline.core.tables import JOBS
from pipeline.core.text import printable
from pipeline.core.work_counts import count_done
from pipeline.ingest.assemble.derived_columns import ColumnDeriver, finished_schema
from pipeline.ingest.assemble.earlier_table import EarlierTable
from pipeline.ingest.assemble.ingest_report import Account, report
from pipeline.ingest.assemble.spill import PartitionedRows, Room, SpooledTables, id_keys, partitions_for
from pipeline.ingest.assemble.update import Fates
from pipeline.ingest.reader import EXTRAS, Chunk, Reader
from pipeline.ingest.sources import Source, check_is_text, find_sources, head

EARLIER = "earlier"


@dataclass(frozen=True, slots=True)
class SourceRows:
    """What was read: the readers used, the rows by partition, the unreadable lines, and the counts of both."""

    readers: tuple[Reader, ...]
    rows: PartitionedRows
    unreadable: SpooledTables
    account: Account
    earlier: EarlierTable | None = None
    """The table to bring up to date; `rows` holds those of its rows that the logs may change."""

    def report(self, site: SiteSettings, settings: IngestSettings, fates: Fates | None = None) -> Report:
        """The report, after assemble_jobs has run; InputError where there is no job."""
        if not self.account.n_jobs:
            where = ", ".join(printable(label) for label in sorted(self.account.labels)[:3])
            expected = "; or ".join(reader.expects for reader in self.readers)
            found = f"no job in {self.account.n_lines} lines"
            is_open = any(reason == "no_line_end" for _, reason in self.account.unreadable)
            do = "check that the export ran"
            if is_open:
                found += ", and a last line without a line end"
                do = 'read the log again when it is whole, or set ingest.last_line = "take" if it is'
            raise InputError(where, found, expected, do)
        return report(self.account, site, settings, fates)


def read_all(
    paths: Sequence[Path | Source],
    readers: Mapping[str, Reader],
    site: SiteSettings,
    settings: IngestSettings,
    *,
    scratch: Path | None,
    earlier: Path | None,
    room: Room | None = None,
) -> SourceRows:
    """Read every source. Rows stay in memory without `scratch`, else they go there when they are many."""
    deriver = ColumnDeriver(site, settings)
    account = Account(site.anonymise)
    known = with_readers(find_sources(paths), readers, settings, account)
    names = {reader.name for _, reader in known}
    used = tuple(readers[name] for name in readers if name in names)
    account.readers |= {reader.name: reader for reader in used}
    n_bytes = sum(_size(source.path) for source, _ in known)
    rows = PartitionedRows(scratch / "jobs" if scratch else None, room=room or Room())
    unreadable = SpooledTables(scratch / "unreadable.arrow" if scratch else None)
    for reader in used:
        rows.declare(jobs_kind(reader), finished_schema(pa.schema([*JOBS.schema(), *EXTRAS])))
        if reader.parts is not None:
            rows.declare(parts_kind(reader), finished_schema(reader.parts))
    ids = [np.empty(0, np.uint64)]
    for source, reader in known:
        for chunk in reader.read(source, site, settings):
            if not rows.is_spilled and account.n_bytes:
                # Rows so far tell how many are to come.
                rows.n_partitions = partitions_for(rows.n_rows * max(1.0, n_bytes / account.n_bytes), rows.room)
            tables = _add(chunk, source, reader, deriver, rows, unreadable, account)
            ids += [np.unique(id_keys(table["job_id"])) for table in tables if earlier]
    table = EarlierTable.of(earlier, np.unique(np.concatenate(ids)), site.name) if earlier else None
    if table:
        rows.declare(EARLIER, JOBS.schema())
        for part in table.counted(account):
            rows.add(EARLIER, part)
    return SourceRows(used, rows, unreadable, account, table)


def jobs_kind(reader: Reader) -> str:
    """The kind under which PartitionedRows keeps a format's jobs."""
    return f"{reader.name} jobs"


def parts_kind(reader: Reader) -> str:
    """The kind under which PartitionedRows keeps a format's partial records."""
    return f"{reader.name} parts"


def with_readers(
    sources: Sequence[Source], readers: Mapping[str, Reader], settings: IngestSettings, account: Account
) -> list[tuple[Source, Reader]]:
    """The sources a reader knows, each with its reader."""
    name: str = settings.format
    candidates = readers if name == "auto" else {name: readers[name]}
    known = []
    for source in sources:
        reader = reader_of(source, candidates)
        if reader is not None:
            known.append((source, reader))
        else:
            account.passed_over.append(f"{printable(source.label)} is no log of a known format and is passed over")
    if not known:
        where = ", ".join(printable(source.label) for source in sources[:3])
        raise InputError(where, "no file of a known format", _expected(candidates), "check the path")
    return known


def reader_of(source: Source, candidates: Mapping[str, Reader]) -> Reader | None:
    """The reader whose format a source's first bytes show; for a named source with one candidate, that one.

    A named source goes to the only candidate unseen, because a reader says best what is wrong with its own format.
    """
    start = head(source, is_empty_ok=not source.is_named)
    if source.is_named:
        check_is_text(source, start)
    if source.is_named and len(candidates) == 1:
        return next(iter(candidates.values()))
    reader = next((reader for reader in candidates.values() if start and reader.looks_right(start)), None)
    if reader is None and source.is_named:
        first = printable(start.lstrip().split(b"\n")[0].decode("utf-8", "backslashreplace"), 60)
        raise InputError(f"{printable(source.label)}, line 1", f"'{first}'", _expected(candidates))
    return reader


def _add(
    chunk: Chunk, source: Source, reader: Reader, deriver: ColumnDeriver, rows: PartitionedRows,
    unreadable: SpooledTables, account: Account,
) -> list[pa.Table]:  # fmt: skip
    """Take in a chunk; its jobs and its partial records."""
    bad = deriver.unreadable(chunk.unreadable)
    account.add(source, reader, chunk, bad)
    count_done("lines", chunk.n_lines)
    unreadable.add(bad)
    tables = [deriver.table(chunk.jobs), *([] if chunk.parts is None else [deriver.table(chunk.parts)])]
    for kind, table in zip((jobs_kind(reader), parts_kind(reader)), tables, strict=False):
        rows.add(kind, table)
    return tables


def _expected(candidates: Mapping[str, Reader]) -> str:
    return "; or ".join(reader.expects for reader in candidates.values())


def _size(path: Path) -> int:
    """Bytes of text a file may hold: compressed ones some eight times their size."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            is_packed = file.read(4)[:2] in (b"\x1f\x8b", b"\xfd7", b"BZ", b"\x28\xb5", b"PA")
    except OSError:
        return 0
    return 8 * size if is_packed else size
