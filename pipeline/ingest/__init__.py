"""Reads raw logs into JOBS. A new format is one file that makes a Reader, and one line in FORMATS (reader.py).

sources.py finds and opens the logs; formats/ holds one folder a log format, which turns bytes into typed rows with
values.py. `read_logs` is the one way that a line of a log walks:

    each chunk of a reader -> derive.py, privacy.py -> rows in memory or in files (records.py)
    rows of an earlier table (jobs_tables.py) -> the same rows
    rows of whole job ids -> the reader's fold and settle -> each record once (records.py)
    all of them in order (records.py) -> JOBS, UNREADABLE and the report of both (ingest_report.py)

Tables of jobs are read as they are (jobs_tables.py). `inspect` looks at the beginning of each log.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, arrow, floats, proc_seconds, tally, texts
from pipeline.errors import ConservationError, InputError, printable
from pipeline.ingest.derive import ColumnDeriver, finished_schema
from pipeline.ingest.ingest_report import Account, check_account, report
from pipeline.ingest.jobs_tables import OWN_TABLE, EarlierTable, OnDisk, read_jobs_tables
from pipeline.ingest.privacy import check_same_names, discreet, hasher_of, unquoted
from pipeline.ingest.reader import EXTRAS, FORMATS, Chunk, Layout, Reader, Remarks, chunks_of, reader_named
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
    beginning,
    check_is_text,
    compression_of,
    find_sources,
    head,
    is_table,
    with_members,
)  # fmt: skip
from pipeline.large_tables import LargeTable, StoredTable
from pipeline.report import Report, Tally, count_done, total
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.storage import row_groups
from pipeline.tables import JOBS, SET_LATER, UNREADABLE

__all__ = ["FORMATS", "OPEN", "Chunk", "Inspection", "OnDisk", "Reader", "Source", "Window", "ingest", "inspect"]

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
    with TemporaryDirectory(prefix=".spill.", dir=to.jobs.parent) if to else nullcontext() as folder:
        records_of = partial(
            Records, folder=Path(folder) if folder else None, hold_bytes=to.hold_bytes if to else HOLD_BYTES
        )
        try:
            sources = find_sources(paths)
            if any(map(is_table, sources)) and not earlier:
                parts, unreadable, report = read_jobs_tables(sources, site, records_of)
            else:
                if earlier:
                    check_same_names(earlier, hasher_of(site))
                parts, unreadable, report = read_logs(sources, site, settings, earlier, to, records_of)
            parts, report = within_window(parts, report, window_s)
            if to is None:
                jobs: LargeTable = with_sorted_categories(pa.concat_tables(parts))
            else:
                jobs = StoredTable(to.write(to.jobs, parts, JOBS, hasher_of(site).mark), JOBS)
            return jobs, unreadable, report()
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
    records_of: Callable[[Mapping[str, pa.Schema]], Records],
) -> tuple[Iterator[pa.Table], LargeTable, Callable[[], Report]]:
    """JOBS of some logs in parts, UNREADABLE, and what makes the report of both when the parts have been read."""
    account, deriver = Account(site), ColumnDeriver(site, settings)
    rows = records_of({EARLIER: JOBS.schema(), UNREADABLE.name: UNREADABLE.schema(), FOUND_JOBS: FOUND})
    # The lines of every source become typed rows of jobs and of parts of jobs, or are unreadable.
    ids = [texts([])]
    for source, reader in _with_readers(sources, candidates_of(settings), account):
        if reader.name not in account.readers:
            account.readers[reader.name] = reader
            rows.schemas[_jobs(reader)] = finished_schema(pa.schema([*JOBS.schema(), *EXTRAS]))
            if reader.parts is not None:
                rows.schemas[_parts(reader)] = finished_schema(reader.parts)
        for chunk in chunks_of(reader, source, site, settings):
            unreadable = deriver.unreadable(chunk.unreadable)
            account.add(source, reader, chunk, unreadable)
            count_done("lines", chunk.n_lines)
            rows.add(UNREADABLE.name, unreadable)
            for kind, table in ((_jobs(reader), chunk.jobs), (_parts(reader), chunk.parts)):
                if table is not None:
                    rows.add(kind, deriver.table(table))
                    ids += [leading_digits(table["job_id"]).unique()] if earlier else []
    account.readers = {name: account.readers[name] for name in FORMATS if name in account.readers}
    same_record = [reader.same_record for reader in account.readers.values()]
    # The rows of an earlier table that these may change come to them; the others are final.
    if earlier:
        account.earlier = EarlierTable(earlier, site.name)
        for changing, others in account.earlier.rows(pa.concat_arrays(ids).unique()):
            rows.add(EARLIER, changing)
            account.settle(others, JOBS.empty())
            rows.add(FOUND_JOBS, others)
    # Of each record one reading is kept, and all are put in order.
    remarks = {name: Remarks(of_format) for name, of_format in account.remarks.items()}
    for tables in rows.batches([kind for kind in rows.schemas if kind not in (UNREADABLE.name, FOUND_JOBS)]):
        new = _settled(tables, account, remarks, site, settings)
        found, lost = distinct(new, same_record)
        if account.earlier:
            found, again = account.earlier.updated(found, tables[EARLIER], same_record)
            lost = pa.concat_tables([lost, again])
        account.settle(found, lost)
        rows.add(FOUND_JOBS, found)
    check_account(account, settings.max_damaged or 1.0)
    unreadable = _stored_lines(rows, account, to)

    def jobs() -> Iterator[pa.Table]:
        for part in rows.ordered(FOUND_JOBS):
            if account.earlier:
                account.earlier.count(part)
            yield JOBS.check(part.select(JOBS.schema().names))
        # Where a record is lost this is an error, before the file takes its place.
        report(account, settings)

    return jobs(), unreadable, partial(report, account, settings)


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
) -> Iterator[tuple[Source, Reader]]:
    """The sources a reader knows, each with its reader, to be read before the next is asked for."""
    labels, is_known = list[str](), False
    for source in with_members(sources, account.passed_over):
        labels.append(printable(source.label))
        if reader := reader_of(source, candidates):
            is_known = True
            yield source, reader
        else:
            account.passed_over.append(f"{labels[-1]} is no log of a known format and is passed over")
    if not is_known:
        expected = "; or ".join(reader_named(name).expects for name in candidates)
        raise InputError(", ".join(labels[:3]), "no file of a known format", expected, "check the path")


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
    parts: Iterator[pa.Table], report: Callable[[], Report], window_s: Window
) -> tuple[Iterator[pa.Table], Callable[[], Report]]:
    """Of jobs in parts those submitted in the window that were over by its end, and what makes the report of them.

    A job is over when the last instant that its record tells has passed: its end, else its start or submit plus its
    runtime. A record without a submit is in no window. So the rows until an instant are those of the log with only the
    records of jobs that were over then. The others are counted as `outside_window`. InputError where no job is left.
    """
    if window_s == OPEN:
        return parts, report
    n_kept, left_out, submits_s = list[int](), list[Tally](), list[int]()

    def chosen() -> Iterator[pa.Table]:
        for part in parts:
            is_in = is_in_window(part, window_s)
            left_out.append(tally(proc_seconds(part), ~is_in))
            kept = part.filter(arrow(is_in))
            n_kept.append(kept.num_rows)
            submits_s.extend(s for s in pc.min_max(kept["submit_s"]).as_py().values() if s is not None)
            yield with_sorted_categories(kept)
        if not any(n_kept):
            begin, end = (
                "any time" if s is None else f"{datetime.fromtimestamp(s, UTC):%Y-%m-%dT%H:%MZ}" for s in window_s
            )
            found = f"{total(left_out).rows:,} jobs, none of them submitted and ended from {begin} to {end}"
            raise InputError("the logs", found, "jobs in this window", "choose another --from or --to")

    def narrowed() -> Report:
        whole, outside, n_jobs = report(), total(left_out), sum(n_kept)
        ends_s = {"first_submit_s": min(submits_s, default=None), "last_submit_s": max(submits_s, default=None)}
        return replace(
            whole, kept=Tally(n_jobs, whole.kept.proc_s - outside.proc_s),
            set_aside={**whole.set_aside, OUTSIDE: outside}, facts={**whole.facts, "jobs": n_jobs, **ends_s},
        ).check()  # fmt: skip

    return chosen(), narrowed


def is_in_window(jobs: pa.Table, window_s: Window) -> Bools:
    """Which jobs are in a window as `within_window` says."""
    begin_s, end_s = window_s
    submit_s, start_s, ended_s, runtime_s = (floats(jobs, n) for n in ("submit_s", "start_s", "end_s", "runtime_s"))
    began_s = np.fmax(submit_s, start_s)
    over_s = np.fmax(began_s, np.where(np.isnan(ended_s), began_s + np.nan_to_num(runtime_s), ended_s))
    # A submit that is unknown is not above any instant.
    return (submit_s >= (-np.inf if begin_s is None else begin_s)) & (over_s < (np.inf if end_s is None else end_s))


# ---------------- looking at logs before they are read

CUT_BY_BOUND = ("cut_off",)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is known of one source.

    format, report: None where no reader knows it, and `error` says why. layout: the log's own columns. filled, empty:
    columns of JOBS that get a value from what was read, and that get none. is_whole: whether that was all of it.
    """

    label: str
    compression: str
    format: str | None
    is_whole: bool
    timezone: str
    layout: Layout
    jobs: pa.Table
    unreadable: pa.Table
    report: Report | None
    error: str | None = None

    @property
    def filled(self) -> list[str]:
        """Columns of JOBS with a value in any row."""
        return [name for name in self.jobs.column_names if self.jobs.column(name).null_count < self.jobs.num_rows]

    @property
    def empty(self) -> list[str]:
        """Columns of JOBS without one, but for those that later stages fill."""
        return [name for name in self.jobs.column_names if name not in {*self.filled, *SET_LATER}]


def inspect(
    paths: Sequence[Path | Source], site: SiteSettings, settings: IngestSettings, *, is_all: bool = False
) -> Iterator[Inspection]:
    """Each source behind the paths, by label; InputError where a path leads to none."""
    for source in find_sources(paths):
        try:
            for member in with_members([source], []):
                yield _inspected(member, site, settings, is_all=is_all)
        except InputError as error:
            yield _failed(_unseen(source, site), error, site)


def _unseen(source: Source, site: SiteSettings) -> Inspection:
    nothing = (JOBS.empty(), UNREADABLE.empty(), None)
    return Inspection(source.label, compression_of(source), None, True, site.timezone, Layout(), *nothing)


def _failed(seen: Inspection, error: InputError, site: SiteSettings) -> Inspection:
    return replace(seen, error=unquoted(str(error)) if site.anonymise else str(error))


def _inspected(source: Source, site: SiteSettings, settings: IngestSettings, *, is_all: bool) -> Inspection:
    seen = _unseen(source, site)
    try:
        if is_table(source):
            raise InputError(printable(source.label), "a table of Walltime, not a log", "a log", OWN_TABLE)
        reader = reader_of(replace(source, is_named=True), candidates_of(settings))
        assert reader is not None  # nosec B101 # for the type checker
        shown, is_whole = _bounded(source, settings)
        layout = reader.layout(shown, site, settings) if reader.layout else Layout()
        shown, is_whole = (source, True) if is_all else (shown, is_whole)
        seen = replace(seen, format=reader.name, is_whole=is_whole, layout=layout)
        alone = settings.model_copy(update={"format": reader.name, "max_damaged": settings.max_damaged and 1.0})
        jobs, lines, report = ingest([shown], site, alone)
        if not is_whole:
            lines = lines.filter(pa.array([r not in CUT_BY_BOUND for r in lines["reason"].to_pylist()], pa.bool_()))
        return replace(seen, jobs=jobs, unreadable=lines, report=report)
    except InputError as error:
        return _failed(seen, error, site)


def _bounded(source: Source, settings: IngestSettings) -> tuple[Source, bool]:
    """The source's first bytes, up to the end of a line, or of a table the first rows; whether they are all."""
    if not head(source).startswith((PARQUET, ARROW)):
        return beginning(source)
    from pipeline.ingest.formats.table import names_of, read_parts  # noqa: PLC0415  (kernels that text does without)

    names = names_of(source, settings)
    rows = list(islice(read_parts(source, names, names, settings), 2))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows[0].rows.schema) as file:
        file.write(rows[0].rows)
    data = sink.getvalue().to_pybytes()
    return replace(source, opened=lambda: io.BytesIO(data)), len(rows) < 2
