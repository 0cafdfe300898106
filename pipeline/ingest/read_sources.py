"""Reads every source of a run once: keeps the jobs, the partial records and the unreadable lines, and counts them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.arrays import arrow
from pipeline.errors import ConservationError, InputError, printable
from pipeline.ingest.combine import FORMAT, combine
from pipeline.ingest.derive import ColumnDeriver, finished_schema
from pipeline.ingest.ingest_report import Account, report
from pipeline.ingest.merge import joined, merged, write_run
from pipeline.ingest.reader import EXTRAS, PART, Chunk, Reader, Remarks
from pipeline.ingest.sources import Source, check_is_text, find_sources, head
from pipeline.ingest.spill import PartitionedRows, Room, SpooledTables, id_keys, partitions_for
from pipeline.ingest.update import FATE, EarlierTable, Fates, updated
from pipeline.report import Report, count_done
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.tables import JOBS

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
        account.earlier_lacks = table.lacks
        for changing, staying in table.split():
            account.n_earlier += changing.num_rows + staying.jobs.num_rows
            account.settle(staying)
            rows.add(EARLIER, changing)
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


def assemble_jobs(
    taken: SourceRows, site: SiteSettings, settings: IngestSettings, scratch: Path | None, fates: Fates | None
) -> Iterator[pa.Table]:
    """Yields the final JOBS in order, checked, in one or more tables; the account is complete before the first."""
    at_first = {name: Remarks(remarks) for name, remarks in taken.account.remarks.items()}
    schema = pa.schema([*JOBS.schema(), FATE]) if fates else JOBS.schema()
    runs: list[Path] = []
    alone = pa.table([pa.nulls(0, f.type) for f in schema], schema=schema)
    for tables in taken.rows.partitions():
        jobs = _combined(tables, taken, at_first, site, settings, fates)
        if not taken.rows.is_spilled or scratch is None:
            alone = jobs
        elif jobs.num_rows:
            runs.append(scratch / "runs" / f"{len(runs)}.arrow")
            write_run(runs[-1], jobs, taken.rows.n_partitions, taken.rows.room)
    found = merged(runs, schema, taken.rows.room) if runs else iter([alone])
    if taken.earlier and taken.earlier.is_in_order:
        found = joined([found, taken.earlier.unchanged()], schema, taken.rows.room)
    for jobs in found:
        if fates:
            fates.count(jobs)
        yield JOBS.check(jobs.select(JOBS.schema().names))


def _combined(
    tables: dict[str, pa.Table],
    taken: SourceRows,
    remarks: dict[str, Remarks],
    site: SiteSettings,
    settings: IngestSettings,
    fates: Fates | None,
) -> pa.Table:
    """One partition's jobs, in order."""
    settled = []
    for place, reader in enumerate(taken.readers):
        jobs = _folded(tables, reader, taken.account, site, settings)
        jobs = reader.settle(jobs, remarks[reader.name], settings).select([*JOBS.schema().names, PART.name])
        if len(taken.readers) > 1:
            jobs = jobs.append_column(FORMAT, arrow(np.full(jobs.num_rows, place, np.int32)))
        settled.append(jobs)
    same_record = [reader.same_record for reader in taken.readers]
    together = settled[0] if len(settled) == 1 else pa.concat_tables(settled).unify_dictionaries()
    combined = combine(together, *same_record)
    if fates:
        fates.count_new(combined.jobs)
        combined = updated(combined, tables[EARLIER], site.name, same_record)
    taken.account.settle(combined)
    return combined.jobs.drop_columns([n for n in (FORMAT.name,) if n in combined.jobs.column_names])


def _folded(
    tables: dict[str, pa.Table], reader: Reader, account: Account, site: SiteSettings, settings: IngestSettings
) -> pa.Table:
    jobs = tables[jobs_kind(reader)]
    if reader.fold is None or reader.parts is None:
        return jobs.select(JOBS.schema().names)
    parts = tables[parts_kind(reader)]
    folded = reader.fold(jobs, parts, site, settings)
    n_in, n_out = jobs.num_rows + parts.num_rows, folded.jobs.num_rows + sum(folded.lines.values())
    if n_in != n_out:
        raise ConservationError(f"reader {reader.name}: found {n_out} records after folding, expected {n_in}.")
    account.fold(reader, folded)
    return folded.jobs.select(JOBS.schema().names)
