"""Reads every log of a run once, and makes one table of jobs of them: the one way that a line of a log walks.

each chunk of a reader -> derive.py, privacy.py -> rows by job id (spill.py)
each partition of rows -> the reader's fold and settle -> combine.py -> update.py
all partitions in order (merge.py) -> JOBS, UNREADABLE and the report of both (ingest_report.py)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.arrays import arrow
from pipeline.errors import ConservationError, InputError, printable
from pipeline.ingest.archives import with_members
from pipeline.ingest.combine import FORMAT, combine, with_sorted_categories
from pipeline.ingest.derive import ColumnDeriver, finished_schema
from pipeline.ingest.ingest_report import Account, check_damage, report
from pipeline.ingest.jobs_tables import OnDisk
from pipeline.ingest.merge import joined, merged, write_run
from pipeline.ingest.reader import EXTRAS, PART, READ_AGAIN, Chunk, Reader, Remarks, chunks_of
from pipeline.ingest.sources import ARROW, PARQUET, Source, check_is_text, head
from pipeline.ingest.spill import PartitionedRows, Room, SpooledTables, id_keys, partitions_for
from pipeline.ingest.update import FATE, EarlierTable, Fates, updated
from pipeline.large_tables import LargeTable, StoredTable
from pipeline.report import Report, count_done
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.storage import row_groups
from pipeline.tables import JOBS, UNREADABLE

Formats = Mapping[str, Callable[[], Reader]]
"""By name, how the Reader of a format is imported."""

EARLIER = "earlier"
_LINES = UNREADABLE.schema()


def read_logs(
    sources: Sequence[Source],
    formats: Formats,
    site: SiteSettings,
    settings: IngestSettings,
    earlier: Path | None,
    to: OnDisk | None,
) -> tuple[LargeTable, LargeTable, Report]:
    """JOBS, UNREADABLE and the report of some logs, as `ingest` gives them; to: with a scratch folder."""
    logs = _Logs.read(sources, formats, site, settings, earlier, to)
    tables = logs.jobs(to.scratch if to else None)
    first = next(tables)
    # Before anything is written: where there is no job this is an error.
    found = logs.report()
    lines = logs.unreadable.tables(_LINES)
    if to is None:
        return with_sorted_categories(first), _all_lines(lines), found
    if to.unreadable is None or not logs.account.unreadable:
        unreadable = _all_lines(lines)
        if to.unreadable:
            to.unreadable.unlink(missing_ok=True)
    else:
        written = to.write(to.unreadable, map(UNREADABLE.check, row_groups(lines)), UNREADABLE, {})
        unreadable = StoredTable(written, UNREADABLE)
    jobs = StoredTable(to.write(to.jobs, chain([first], tables), JOBS, logs.deriver.hasher.mark), JOBS)
    return jobs, unreadable, logs.report()


def _all_lines(lines: Iterator[pa.Table]) -> LargeTable:
    return UNREADABLE.check(pa.concat_tables([*lines, UNREADABLE.empty()]))


@dataclass(slots=True)
class _Logs:
    """What was read: the rows by partition, the unreadable lines, and the counts of both.

    earlier: the table to bring up to date; `rows` holds those of its rows that the logs may change.
    """

    readers: tuple[Reader, ...]
    site: SiteSettings
    settings: IngestSettings
    rows: PartitionedRows
    unreadable: SpooledTables
    account: Account
    deriver: ColumnDeriver
    earlier: EarlierTable | None = None
    fates: Fates | None = None
    ids: list[np.ndarray[tuple[int], np.dtype[np.uint64]]] = field(default_factory=lambda: [np.empty(0, np.uint64)])

    @classmethod
    def read(
        cls, sources: Sequence[Source], formats: Formats, site: SiteSettings, settings: IngestSettings,
        earlier: Path | None, to: OnDisk | None,
    ) -> "_Logs":  # fmt: skip
        """Read every source. Rows stay in memory without `to`, else many of them go to its scratch folder."""
        account = Account(site.anonymise)
        sources, account.passed_over = with_members(sources)
        known = with_readers(sources, candidates_of(formats, settings), account)
        by_name = {reader.name: reader for _, reader in known}
        account.readers |= {name: by_name[name] for name in formats if name in by_name}
        used = tuple(account.readers.values())
        scratch = to.scratch if to else None
        rows = PartitionedRows(scratch and scratch / "jobs", room=to.room if to else Room())
        unreadable = SpooledTables(scratch and scratch / "unreadable.arrow")
        logs = cls(used, site, settings, rows, unreadable, account, ColumnDeriver(site, settings))
        for reader in used:
            rows.declare(jobs_kind(reader), finished_schema(pa.schema([*JOBS.schema(), *EXTRAS])))
            if reader.parts is not None:
                rows.declare(parts_kind(reader), finished_schema(reader.parts))
        n_bytes = sum(map(_size, {source.path for source, _ in known}))
        for source, reader in known:
            for chunk in chunks_of(reader, source, site, settings):
                if not rows.is_spilled and account.n_bytes:
                    # Rows so far tell how many are to come.
                    rows.n_partitions = partitions_for(rows.n_rows * max(1.0, n_bytes / account.n_bytes), rows.room)
                logs._add(chunk, source, reader, keeps_ids=earlier is not None)
        if earlier:
            logs._add_earlier(earlier)
        return logs

    def _add(self, chunk: Chunk, source: Source, reader: Reader, *, keeps_ids: bool) -> None:
        bad = self.deriver.unreadable(chunk.unreadable)
        self.account.add(source, reader, chunk, bad)
        count_done("lines", chunk.n_lines)
        self.unreadable.add(bad)
        for kind, table in ((jobs_kind(reader), chunk.jobs), (parts_kind(reader), chunk.parts)):
            if table is not None:
                self.rows.add(kind, self.deriver.table(table))
                self.ids += [np.unique(id_keys(table["job_id"]))] if keeps_ids else []

    def _add_earlier(self, path: Path) -> None:
        self.fates = Fates(self.site.name)
        self.earlier = EarlierTable.of(path, np.unique(np.concatenate(self.ids)), self.site.name)
        self.rows.declare(EARLIER, JOBS.schema())
        self.account.earlier_lacks = self.earlier.lacks
        for changing, staying in self.earlier.split():
            self.account.n_earlier += changing.num_rows + staying.jobs.num_rows
            self.account.settle(staying)
            self.rows.add(EARLIER, changing)

    def report(self) -> Report:
        """The report, after `jobs` has begun; InputError where there is no job, or too much is damaged."""
        account = self.account
        if not account.n_jobs:
            where = ", ".join(printable(label) for label in sorted(account.labels)[:3])
            found, do = f"no job in {account.n_lines} lines", "check that the export ran"
            if any(reason == "no_line_end" for _, reason in account.unreadable):
                found += ", and a last line without a line end"
                do = READ_AGAIN
            raise InputError(where, found, "; or ".join(reader.expects for reader in self.readers), do)
        check_damage(account, self.settings.max_damaged or 1.0)
        return report(account, self.site, self.settings, self.fates)

    def jobs(self, scratch: Path | None) -> Iterator[pa.Table]:
        """Yields the final JOBS in order, checked, in one or more tables; the account is complete before the first."""
        remarks = {name: Remarks(of_format) for name, of_format in self.account.remarks.items()}
        schema = pa.schema([*JOBS.schema(), FATE]) if self.fates else JOBS.schema()
        rows, runs = self.rows, list[Path]()
        alone = pa.table([pa.nulls(0, f.type) for f in schema], schema=schema)
        for tables in rows.partitions():
            jobs = self._combined(tables, remarks)
            if not rows.is_spilled or scratch is None:
                alone = jobs
            elif jobs.num_rows:
                runs.append(scratch / "runs" / f"{len(runs)}.arrow")
                write_run(runs[-1], jobs, rows.n_partitions, rows.room)
        found = merged(runs, schema, rows.room) if runs else iter([alone])
        if self.earlier and self.earlier.is_in_order:
            found = joined([found, self.earlier.unchanged()], schema, rows.room)
        for jobs in found:
            if self.fates:
                self.fates.count(jobs)
            yield JOBS.check(jobs.select(JOBS.schema().names))

    def _combined(self, tables: dict[str, pa.Table], remarks: dict[str, Remarks]) -> pa.Table:
        """One partition's jobs, in order."""
        settled = []
        for place, reader in enumerate(self.readers):
            jobs = reader.settle(self._folded(tables, reader), remarks[reader.name], self.settings)
            jobs = jobs.select([*JOBS.schema().names, PART.name])
            if len(self.readers) > 1:
                jobs = jobs.append_column(FORMAT, arrow(np.full(jobs.num_rows, place, np.int32)))
            settled.append(jobs)
        same_record = [reader.same_record for reader in self.readers]
        together = settled[0] if len(settled) == 1 else pa.concat_tables(settled).unify_dictionaries()
        combined = combine(together, *same_record)
        if self.fates:
            self.fates.count_new(combined.jobs)
            combined = updated(combined, tables[EARLIER], self.site.name, same_record)
        self.account.settle(combined)
        return combined.jobs.drop_columns([name for name in (FORMAT.name,) if name in combined.jobs.column_names])

    def _folded(self, tables: dict[str, pa.Table], reader: Reader) -> pa.Table:
        jobs = tables[jobs_kind(reader)]
        if reader.fold is None or reader.parts is None:
            return jobs.select(JOBS.schema().names)
        parts = tables[parts_kind(reader)]
        folded = reader.fold(jobs, parts, self.site, self.settings)
        n_in, n_out = jobs.num_rows + parts.num_rows, folded.jobs.num_rows + sum(folded.lines.values())
        if n_in != n_out:
            raise ConservationError(f"reader {reader.name}: found {n_out} records after folding, expected {n_in}.")
        self.account.fold(reader, folded)
        return folded.jobs.select(JOBS.schema().names)


def jobs_kind(reader: Reader) -> str:
    """The kind under which PartitionedRows keeps a format's jobs."""
    return f"{reader.name} jobs"


def parts_kind(reader: Reader) -> str:
    """The kind under which PartitionedRows keeps a format's partial records."""
    return f"{reader.name} parts"


def candidates_of(formats: Formats, settings: IngestSettings) -> Sequence[Callable[[], Reader]]:
    """The formats that a source may be of; columns named by the settings are those of a table."""
    if settings.format != "auto":
        return [formats[settings.format]]
    is_table = any(not isinstance(said, int) for said in settings.columns.values())
    return [formats["table"]] if is_table else list(formats.values())


def with_readers(
    sources: Sequence[Source], candidates: Sequence[Callable[[], Reader]], account: Account
) -> list[tuple[Source, Reader]]:
    """The sources a reader knows, each with its reader."""
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


_MAIN = frozenset({"submit_s", "start_s", "end_s", "runtime_s", "procs", "requested_procs", "nodes"})
"""What a format has to tell of a job: of two that first bytes may be of, the one that tells more of it is theirs."""


def reader_of(source: Source, candidates: Sequence[Callable[[], Reader]]) -> Reader | None:
    """The reader whose format a source's first bytes show; for a named source with one candidate, that one.

    A named source goes to the only candidate unseen, because a reader says best what is wrong with its own format.
    """
    start = head(source, is_empty_ok=not source.is_named)
    if source.is_named and not start.startswith((PARQUET, ARROW)):
        check_is_text(source, start)
    if source.is_named and len(candidates) == 1:
        return candidates[0]()
    reader, most = None, -1
    for other in (load() for load in candidates if start):
        if other.looks_right(start):
            told = other.told(start) if other.told else None
            if told is None and reader is None:
                return other
            n_told = len(_MAIN.intersection(told or ()))
            reader, most = (other, n_told) if n_told >= most else (reader, most)
    if reader is None and source.is_named:
        for other in (load() for load in candidates):
            if other.refusal and (refused := other.refusal(source, start)):
                raise refused
        first = printable(start.lstrip().split(b"\n")[0].decode("utf-8", "backslashreplace"), 60)
        do = "if it is a table with a row for each job, --format table says what it lacks"
        raise InputError(f"{printable(source.label)}, line 1", f"'{first}'", _expected(candidates), do)
    return reader


def _expected(candidates: Sequence[Callable[[], Reader]]) -> str:
    return "; or ".join(load().expects for load in candidates)


def _size(path: Path) -> int:
    """Bytes of text a file may hold: compressed ones some eight times their size."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            is_packed = file.read(4)[:2] in (b"\x1f\x8b", b"\xfd7", b"BZ", b"\x28\xb5", b"PA", b"PK")
    except OSError:
        return 0
    return 8 * size if is_packed else size
