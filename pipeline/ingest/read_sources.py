"""Reads every log of a run once, and makes one table of jobs of them: the one way that a line of a log walks.

each chunk of a reader -> derive.py, privacy.py -> rows in memory or in files (records.py)
rows of whole job ids -> the reader's fold and settle -> each record once (records.py)
    -> an earlier table (jobs_tables.py)
all of them in order (records.py) -> JOBS, UNREADABLE and the report of both (ingest_report.py)
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from pipeline.arrays import texts
from pipeline.errors import ConservationError, InputError, printable
from pipeline.ingest.archives import with_members
from pipeline.ingest.derive import ColumnDeriver, finished_schema
from pipeline.ingest.ingest_report import Account, check_account, report
from pipeline.ingest.jobs_tables import EarlierTable, OnDisk
from pipeline.ingest.reader import EXTRAS, FORMATS, Reader, Remarks, chunks_of, reader_named
from pipeline.ingest.records import (
    FOUND,
    HOLD_BYTES,
    Records,
    distinct,
    inserted,
    leading_digits,
    marked,
    with_sorted_categories,
)
from pipeline.ingest.sources import ARROW, PARQUET, Source, check_is_text, head
from pipeline.large_tables import LargeTable, StoredTable
from pipeline.report import Report, count_done
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.storage import row_groups
from pipeline.tables import JOBS, UNREADABLE

EARLIER = "earlier"
FOUND_JOBS = "found"
"""Kinds of rows beside those of the readers and UNREADABLE."""


def read_logs(
    sources: Sequence[Source],
    site: SiteSettings,
    settings: IngestSettings,
    earlier: Path | None,
    to: OnDisk | None,
) -> tuple[LargeTable, LargeTable, Report]:
    """JOBS, UNREADABLE and the report of some logs, as `ingest` gives them; to: with a scratch folder."""
    account, deriver = Account(site), ColumnDeriver(site, settings)
    sources, account.passed_over = with_members(sources)
    known = _with_readers(sources, candidates_of(settings), account)
    account.readers |= {name: reader_named(name) for name in FORMATS if any(reader.name == name for _, reader in known)}
    readers, of_jobs = account.readers.values(), finished_schema(pa.schema([*JOBS.schema(), *EXTRAS]))
    schemas = {EARLIER: JOBS.schema(), UNREADABLE.name: UNREADABLE.schema(), FOUND_JOBS: FOUND}
    schemas |= {_jobs(reader): of_jobs for reader in readers}
    schemas |= {_parts(reader): finished_schema(reader.parts) for reader in readers if reader.parts is not None}
    rows = Records(schemas, to.scratch if to else None, to.hold_bytes if to else HOLD_BYTES)
    same_record = [reader.same_record for reader in readers]
    # The lines of every source become typed rows of jobs and of parts of jobs, or are unreadable.
    ids = [texts([])]
    for source, reader in known:
        for chunk in chunks_of(reader, source, site, settings):
            unreadable = deriver.unreadable(chunk.unreadable)
            account.add(source, reader, chunk, unreadable)
            count_done("lines", chunk.n_lines)
            rows.add(UNREADABLE.name, unreadable)
            for kind, table in ((_jobs(reader), chunk.jobs), (_parts(reader), chunk.parts)):
                if table is not None:
                    rows.add(kind, deriver.table(table))
                    ids += [leading_digits(table["job_id"]).unique()] if earlier else []
    # The rows of an earlier table that these may change come to them.
    older = EarlierTable(earlier, pa.concat_arrays(ids).unique(), site.name) if earlier else None
    if older:
        account.n_earlier, account.earlier_lacks = older.n_rows, older.lacks
        for table in older.changing():
            rows.add(EARLIER, table)
    # Of each record one reading is kept, and all are put in order.
    remarks = {name: Remarks(of_format) for name, of_format in account.remarks.items()}
    for tables in rows.batches([kind for kind in rows.schemas if kind not in (UNREADABLE.name, FOUND_JOBS)]):
        new = _settled(tables, account, remarks, site, settings)
        found, lost = distinct(new, same_record)
        if older:
            found, again = older.updated(found, tables[EARLIER], same_record)
            lost = pa.concat_tables([lost, again])
        account.settle(found, lost)
        rows.add(FOUND_JOBS, found)
    if older and rows.is_spilled:
        for table in older.unchanged(account):
            rows.add(FOUND_JOBS, table)
    check_account(account, settings.max_damaged or 1.0)
    unreadable = _stored_lines(rows, account, to)

    def told() -> Report:
        return report(account, settings, *((older.facts(), older.notes()) if older else ()))

    def jobs() -> Iterator[pa.Table]:
        found = rows.ordered(FOUND_JOBS)
        for part in inserted(next(found), older.unchanged(account)) if older and not rows.is_spilled else found:
            if older:
                older.count(part)
            yield JOBS.check(part.select(JOBS.schema().names))
        # Where a record is lost this is an error, before the file takes its place.
        told()

    if to is None:
        return with_sorted_categories(pa.concat_tables(jobs())), unreadable, told()
    written = to.write(to.jobs, jobs(), JOBS, deriver.hasher.mark)
    return StoredTable(written, JOBS), unreadable, told()


def _stored_lines(rows: Records, account: Account, to: OnDisk | None) -> LargeTable:
    """UNREADABLE in its file, if it has one and any row, else in memory."""
    lines = rows.tables(UNREADABLE.name)
    if to and to.unreadable and account.unreadable:
        checked = map(UNREADABLE.check, row_groups(lines))
        return StoredTable(to.write(to.unreadable, checked, UNREADABLE, {}), UNREADABLE)
    if to and to.unreadable:
        to.unreadable.unlink(missing_ok=True)
    return UNREADABLE.check(pa.concat_tables([*lines, UNREADABLE.empty()]))


def _jobs(reader: Reader) -> str:
    return f"{reader.name} jobs"


def _parts(reader: Reader) -> str:
    return f"{reader.name} parts"


def _settled(
    tables: dict[str, pa.Table], account: Account, remarks: Mapping[str, Remarks], site: SiteSettings,
    settings: IngestSettings,
) -> pa.Table:  # fmt: skip
    """The jobs that these rows are, which hold all records of their ids: folded, and final but for repeats."""
    settled = []
    for place, reader in enumerate(account.readers.values()):
        jobs = tables[_jobs(reader)]
        if reader.fold is not None and reader.parts is not None:
            n_in = jobs.num_rows + tables[_parts(reader)].num_rows
            folded = reader.fold(jobs, tables[_parts(reader)], site, settings)
            n_out = folded.jobs.num_rows + sum(folded.lines.values())
            if n_in != n_out:
                raise ConservationError(f"reader {reader.name}: found {n_out} records after folding, expected {n_in}.")
            account.fold(reader, folded)
            jobs = folded.jobs
        jobs, marks = jobs.select(JOBS.schema().names), {"format": place, "is_new": True}
        if reader.settle:
            settled.append(marked(reader.settle(jobs, remarks[reader.name], settings), **marks))
        else:
            settled.append(marked(jobs, part=0, **marks))
    return settled[0] if len(settled) == 1 else pa.concat_tables(settled).unify_dictionaries()


def candidates_of(settings: IngestSettings) -> Sequence[str]:
    """The formats that a source may be of; columns named by the settings are those of a table."""
    if settings.format != "auto":
        return [settings.format]
    is_table = any(not isinstance(said, int) for said in settings.columns.values())
    return ["table"] if is_table else list(FORMATS)


def _with_readers(
    sources: Sequence[Source], candidates: Sequence[str], account: Account
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
        expected = "; or ".join(reader_named(name).expects for name in candidates)
        raise InputError(where, "no file of a known format", expected, "check the path")
    return known


_MAIN = frozenset({"submit_s", "start_s", "end_s", "runtime_s", "procs", "requested_procs", "nodes"})
"""What a format has to tell of a job: of two that first bytes may be of, the one that tells more of it is theirs."""


def reader_of(source: Source, candidates: Sequence[str]) -> Reader | None:
    """The reader whose format a source's first bytes show; for a named source with one candidate, that one.

    A named source goes to the only candidate unseen, because a reader says best what is wrong with its own format.
    """
    start = head(source, is_empty_ok=not source.is_named)
    if source.is_named and not start.startswith((PARQUET, ARROW)):
        check_is_text(source, start)
    if source.is_named and len(candidates) == 1:
        return reader_named(candidates[0])
    reader, most = None, -1
    for other in map(reader_named, candidates if start else ()):
        if other.looks_right(start):
            told = other.told(start) if other.told else None
            if told is None and reader is None:
                return other
            n_told = len(_MAIN.intersection(told or ()))
            reader, most = (other, n_told) if n_told >= most else (reader, most)
    if reader is None and source.is_named:
        readers = [reader_named(name) for name in candidates]
        for other in readers:
            if other.refusal and (refused := other.refusal(source, start)):
                raise refused
        first = printable(start.lstrip().split(b"\n")[0].decode("utf-8", "backslashreplace"), 60)
        do = "if it is a table with a row for each job, --format table says what it lacks"
        expected = "; or ".join(other.expects for other in readers)
        raise InputError(f"{printable(source.label)}, line 1", f"'{first}'", expected, do)
    return reader
