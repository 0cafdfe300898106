"""Reads raw logs into JOBS. A new format is one file that makes a Reader, and one line in FORMATS (reader.py).

sources.py finds and opens the logs; formats/ holds one folder a log format, which turns bytes into typed rows with
values.py. `read_logs` is the one way that a line of a log walks:

    each chunk of a reader -> derive.py, privacy.py -> rows in memory or in files (records.py)
    rows of whole job ids -> the reader's fold and settle -> each record once (records.py)
        -> an earlier table (jobs_tables.py)
    all of them in order (records.py) -> JOBS, UNREADABLE and the report of both (ingest_report.py)

Tables of jobs are read as they are (jobs_tables.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, floats, proc_seconds, tally, texts
from pipeline.errors import ConservationError, InputError, printable
from pipeline.ingest.derive import ColumnDeriver, finished_schema
from pipeline.ingest.ingest_report import Account, check_account, report
from pipeline.ingest.jobs_tables import EarlierTable, OnDisk, read_jobs_tables
from pipeline.ingest.privacy import check_same_names, discreet, hasher_of
from pipeline.ingest.reader import EXTRAS, FORMATS, Chunk, Reader, Remarks, chunks_of, reader_named
from pipeline.ingest.records import (
    FOUND,
    HOLD_BYTES,
    Records,
    distinct,
    leading_digits,
    marked,
    with_sorted_categories,
)
from pipeline.ingest.sources import (
    ARROW,
    PARQUET,
    Source,
    check_is_text,
    find_sources,
    head,
    is_table,
    with_members,
)  # fmt: skip
from pipeline.large_tables import LargeTable, StoredTable, parts_of, stored
from pipeline.report import Report, Tally, count_done, total
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.storage import row_groups
from pipeline.tables import JOBS, UNREADABLE

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
    check_account(account, settings.max_damaged or 1.0)
    unreadable = _stored_lines(rows, account, to)

    def told() -> Report:
        return report(account, settings, *((older.facts(), older.notes()) if older else ()))

    def jobs() -> Iterator[pa.Table]:
        first_s = account.first_submit_s if older and older.is_in_order else None
        others = (older.unchanged(account), older.names, -np.inf if first_s is None else first_s) if older else ()
        for part in rows.ordered(FOUND_JOBS, *others):
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
    if to and to.unreadable and account.first_unreadable:
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


# ---------------- the jobs of a window


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
        begin, end = (
            "any time" if s is None else f"{datetime.fromtimestamp(s, UTC):%Y-%m-%dT%H:%MZ}" for s in window_s
        )
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
