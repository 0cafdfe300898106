"""Reads tables JOBS that walltime ingest has written, as if their logs were read."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import replaced, tally_of, unknown
from pipeline.errors import ConfigError, InputError, TableError, printable
from pipeline.ingest.privacy import ANONYMISED, hasher_of
from pipeline.ingest.records import HOLD_BYTES, Records, follows, with_sorted_categories
from pipeline.ingest.sources import Source, is_table
from pipeline.large_tables import LargeTable, StoredTable
from pipeline.report import Fact, Report, Tally
from pipeline.schema import TableKind
from pipeline.settings import SiteSettings
from pipeline.storage import read_metadata, read_older_batches, read_table, write_batches
from pipeline.tables import JOBS, SET_LATER, UNREADABLE
from pipeline.version import code_version

Write = Callable[[Path, Iterable[pa.Table], TableKind, Mapping[str, str]], Path]
"""Writes tables of one kind, one after another, as one file with these facts in its metadata."""

OTHER_SITE = "other_site"
OWN_TABLE = "walltime run, backtest and clean take a table of jobs that walltime ingest wrote"


def _write_between_steps(path: Path, batches: Iterable[pa.Table], kind: TableKind, _facts: Mapping[str, str]) -> Path:
    """Tables between the steps of a run say only which code wrote them."""
    return write_batches(path, batches, kind, {"code": code_version()})


@dataclass(frozen=True, slots=True)
class OnDisk:
    """The files in which ingest writes its tables, each replaced in one step.

    unreadable: removed where every line could be read; None: UNREADABLE stays in memory. scratch: an empty folder for
    files of rows, which the caller removes; None: one beside `jobs`, which ingest removes. hold_bytes: rows stay in
    memory up to this size; no byte of the tables depends on it.
    """

    jobs: Path
    unreadable: Path | None = None
    scratch: Path | None = None
    write: Write = write_batches
    hold_bytes: int = HOLD_BYTES

    @classmethod
    def between_steps(cls, folder: Path) -> "OnDisk":
        """The file of a run's jobs in the folder of its large tables."""
        return cls(folder / "jobs_read.parquet", write=_write_between_steps)


def names_key(sources: Sequence[Source], site: SiteSettings) -> str:
    """A digest of the key that hashes names, from the settings or from the tables; empty where names are plain.

    ConfigError where the site anonymises, and a table has plain names or names hashed under another key.
    """
    would = hasher_of(site).mark.get(ANONYMISED, "")
    marks = {_mark(source.path) if is_table(source) else would for source in sources}
    if marks in ({would}, set()):
        return would
    if would or len(marks) > 1:
        where = ", ".join(printable(source.label) for source in sources[:3])
        expected = "names hashed under the site's key" if would else "names under one key"
        raise ConfigError(where, "names that are plain or hashed under another key", expected, "ingest the logs anew")
    return marks.pop()


def _mark(path: Path) -> str:
    return read_metadata(path).get(ANONYMISED, "")


def read_jobs_tables(
    sources: Sequence[Source], site: SiteSettings, to: OnDisk | None = None
) -> tuple[LargeTable, pa.Table, Report]:
    """The JOBS of the site in some tables, UNREADABLE of the logs they come from, and the report of both.

    The jobs are as ingest wrote them: what cleaning and grouping have set is unknown again. InputError where a file is
    no table of jobs, where two tables have the same job, or where there is no job of the site.
    """
    _check_tables(sources, site)
    rows = Records({JOBS.name: JOBS.schema()}, to.scratch if to else None, to.hold_bytes if to else HOLD_BYTES)
    seen, kept, sites, submits_s = Tally(), Tally(), set[str](), list[int]()
    last, is_in_order = JOBS.empty(), True
    for batch in (batch for source in sources for batch in _batches(source)):
        own = _as_read(batch.filter(pc.equal(batch["site"].cast(pa.string()), site.name)))
        rows.add(JOBS.name, own)
        is_in_order = is_in_order and follows(last, own)
        last = own if own.num_rows else last
        seen, kept = seen + tally_of(batch), kept + tally_of(own)
        sites |= {str(name) for name in batch["site"].unique().to_pylist()}
        submits_s += [value for value in pc.min_max(own["submit_s"]).as_py().values() if value is not None]
    where = ", ".join(printable(source.label) for source in sources[:3])
    if not kept.rows:
        shown = printable(", ".join(sorted(sites)[:5]), 100)
        instead, do = (f"only jobs of {shown}", "set site.name to theirs") if sites else ("no job", "")
        raise InputError(where, instead, f"jobs of {printable(site.name, 60)}", do)
    try:
        rows.check_key(JOBS)
        found = map(JOBS.check, rows.tables(JOBS.name) if is_in_order else rows.ordered(JOBS.name))
        jobs = StoredTable(to.write(to.jobs, found, JOBS, {}), JOBS) if to else with_sorted_categories(next(found))
    except TableError as error:
        instead = f"jobs that cannot stand in one table ({printable(str(error), 160).rstrip('.')})"
        raise InputError(where, instead, "each job once", "join the logs with walltime ingest") from None
    other = Tally(seen.rows - kept.rows, seen.proc_s - kept.proc_s)
    facts: dict[str, Fact] = {
        "format": JOBS.name, "files": len(sources), "bytes": sum(source.path.stat().st_size for source in sources),
        "jobs": kept.rows, "first_submit_s": min(submits_s, default=None),
        "last_submit_s": max(submits_s, default=None),
    }  # fmt: skip
    report = Report("ingest", "job", seen, kept, {OTHER_SITE: other} if other.rows else {}, facts).check()
    return jobs, _unreadable(sources), report


def _check_tables(sources: Sequence[Source], site: SiteSettings) -> None:
    """InputError where a source is a log, ConfigError where names are hashed otherwise than the site says."""
    logs = [source for source in sources if not is_table(source)]
    if logs:
        found = f"a log beside {printable(next(s.label for s in sources if is_table(s)))}, a table of jobs"
        raise InputError(printable(logs[0].label), found, "logs or tables", "add it with walltime ingest --update")
    names_key(sources, site)


def _batches(source: Source) -> Iterator[pa.Table]:
    named = read_metadata(source.path).get("table", "another")
    if named != JOBS.name:
        found = f"{printable(named, 40)} table"
        raise InputError(printable(source.label), found, "a table of jobs, as walltime ingest writes it", OWN_TABLE)
    return read_older_batches(source.path, JOBS)


def _as_read(jobs: pa.Table) -> pa.Table:
    """The jobs without what later steps have set."""
    for name in SET_LATER:
        jobs = replaced(jobs, name, unknown(jobs.num_rows, JOBS.schema().field(name).type))
    return jobs


def _unreadable(sources: Sequence[Source]) -> pa.Table:
    """What could not be read of the logs, from the tables that stand beside those of the jobs."""
    beside = [path.with_name(f"{path.stem}.{UNREADABLE.name}{path.suffix}") for path in (s.path for s in sources)]
    found = [read_table(path, UNREADABLE) for path in beside if path.is_file()]
    return UNREADABLE.check(pa.concat_tables([UNREADABLE.empty(), *found]))
