"""Reads tables JOBS that walltime ingest has written, as if their logs were read: at once, or a batch at a time."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import integers, replaced, tally_of, unknown
from pipeline.errors import ConfigError, InputError, TableError, printable
from pipeline.ingest.combine import follows, in_order, with_sorted_categories
from pipeline.ingest.privacy import ANONYMISED, hasher_of
from pipeline.ingest.sources import Source, is_table
from pipeline.ingest.spill import NARROW, WIDE, Room
from pipeline.large_tables import LargeTable, StoredTable
from pipeline.report import Fact, Report, Tally
from pipeline.schema import TableKind
from pipeline.settings import SiteSettings
from pipeline.storage import read_metadata, read_older_batches, read_table, schema_names, write_batches
from pipeline.tables import JOB, JOBS, SET_LATER, UNREADABLE
from pipeline.version import code_version

Hashes = npt.NDArray[np.uint64]
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class NotInOrderError(Exception):
    """The jobs of a table are not in the order in which ingest writes them."""


@dataclass(slots=True)
class PassedJobs:
    """The jobs of a table that have been passed on: how many, and their first and last submit."""

    site: str
    seen: Tally = field(default_factory=Tally)
    kept: Tally = field(default_factory=Tally)
    span_s: dict[str, int | None] = field(default_factory=lambda: {"min": None, "max": None})
    is_as_read: bool = True
    """Whether all jobs are of the site, and later steps have set nothing."""
    _keys: list[Hashes] = field(default_factory=list)

    def batches(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The jobs of the site, checked; NotInOrderError where two are not in order."""
        last = JOBS.empty()
        for batch in batches:
            self.seen += tally_of(batch)
            own = as_read(batch.filter(pc.equal(batch["site"], self.site)))
            is_set = any(batch[name].null_count < batch.num_rows for name in SET_LATER)
            self.is_as_read &= own.num_rows == batch.num_rows and not is_set
            self._keys.append(_hashes(own))
            if not follows(last, own):
                raise NotInOrderError
            self.kept += tally_of(own)
            span = pc.min_max(own["submit_s"]).as_py()
            if span["min"] is not None:
                first = self.span_s["min"]
                self.span_s = {"min": span["min"] if first is None else first, "max": span["max"]}
            last = own if own.num_rows else last
            yield own

    def repeats(self) -> bool:
        """Whether a job may be there twice, also far apart: two keys have the same hash."""
        keys = np.sort(np.concatenate(self._keys))
        return bool((keys[1:] == keys[:-1]).any())


def _hashes(jobs: pa.Table) -> Hashes:
    """A hash of each job's cluster, id and restart."""
    import pandas as pd  # noqa: PLC0415  (a start of a second that reading a log does without)

    names = (jobs[name].cast(pa.string()) for name in JOB)
    ids = pc.binary_join_element_wise(*names, "\0", null_handling="skip").to_numpy().astype(object)
    restart = integers(jobs["restart"])[0].astype(np.uint64)
    hashed: Hashes = pd.util.hash_array(ids, categorize=False) ^ (restart * _SPREAD)
    return hashed


def as_read(jobs: pa.Table) -> pa.Table:
    """The jobs without what later steps have set."""
    for name in SET_LATER:
        jobs = replaced(jobs, name, unknown(jobs.num_rows, JOBS.schema().field(name).type))
    return jobs


Write = Callable[[Path, Iterable[pa.Table], TableKind, Mapping[str, str]], Path]
"""Writes tables of one kind, one after another, as one file with these facts in its metadata."""

OTHER_SITE = "other_site"
OWN_TABLE = "walltime run, backtest and clean take a table of jobs that walltime ingest wrote"


def _write_between_steps(path: Path, batches: Iterable[pa.Table], kind: TableKind, _facts: Mapping[str, str]) -> Path:
    """Tables between the steps of a run say only which code wrote them."""
    return write_batches(path, batches, kind, {"code": code_version()})


@dataclass(frozen=True, slots=True)
class OnDisk:
    """The files in which ingest writes its tables, each replaced in one step; no byte of them depends on the room.

    unreadable: removed where every line could be read; None: UNREADABLE stays in memory. scratch: an empty folder for
    spill files, which the caller removes; None: one beside `jobs`, which ingest removes.
    """

    jobs: Path
    unreadable: Path | None = None
    scratch: Path | None = None
    write: Write = write_batches
    room: Room = NARROW

    @classmethod
    def between_steps(cls, folder: Path) -> "OnDisk":
        """The file of a run's jobs in the folder of its large tables."""
        return cls(folder / "jobs_read.parquet", write=_write_between_steps, room=WIDE)


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
    if to is not None and len(sources) == 1 and (report := _passed_on(sources[0], site, to)) is not None:
        return StoredTable(to.jobs, JOBS), _unreadable(sources), report
    batches = [batch for source in sources for batch in _batches(source)]
    whole = _joined(batches, sources)
    is_own = pc.equal(whole["site"], site.name)
    # A copy would hold every column, also those without values.
    jobs = whole if pc.all(is_own).as_py() else whole.filter(is_own)
    if not jobs.num_rows:
        raise _no_job(whole, sources, site)
    jobs = with_sorted_categories(in_order(jobs))
    report = _report(tally_of(whole), tally_of(jobs), pc.min_max(jobs["submit_s"]).as_py(), sources)
    kept = jobs if to is None else StoredTable(to.write(to.jobs, [jobs], JOBS, {}), JOBS)
    return kept, _unreadable(sources), report


def _check_tables(sources: Sequence[Source], site: SiteSettings) -> None:
    """InputError where a source is a log, ConfigError where names are hashed otherwise than the site says."""
    logs = [source for source in sources if not is_table(source)]
    if logs:
        found = f"a log beside {printable(next(s.label for s in sources if is_table(s)))}, a table of jobs"
        raise InputError(printable(logs[0].label), found, "logs or tables", "add it with walltime ingest --update")
    names_key(sources, site)


def _passed_on(source: Source, site: SiteSettings, to: OnDisk) -> Report | None:
    """Put the jobs of the site in one table into a file, a batch at a time.

    A table that holds just these jobs as ingest writes them is copied. None, and no file, where the jobs are not in
    order or one may be there twice.
    """
    passed = PassedJobs(site.name)
    try:
        for _ in passed.batches(_batches(source)):
            pass
        if not passed.kept.rows or passed.repeats():
            return None
        if passed.is_as_read and schema_names(source.path, JOBS) == JOBS.schema().names:
            # Not linked: whoever writes the table again may write into the same file.
            shutil.copyfile(source.path, to.jobs)
        else:
            to.write(to.jobs, PassedJobs(site.name).batches(_batches(source)), JOBS, {})
    except NotInOrderError:
        return None
    return _report(passed.seen, passed.kept, passed.span_s, [source])


def _batches(source: Source) -> Iterator[pa.Table]:
    named = read_metadata(source.path).get("table", "another")
    if named != JOBS.name:
        found = f"{printable(named, 40)} table"
        raise InputError(printable(source.label), found, "a table of jobs, as walltime ingest writes it", OWN_TABLE)
    return read_older_batches(source.path, JOBS)


def _joined(batches: Sequence[pa.Table], sources: Sequence[Source]) -> pa.Table:
    whole = pa.concat_tables([JOBS.empty(), *batches]).unify_dictionaries()
    try:
        return JOBS.check(as_read(whole))
    except TableError as error:
        where = ", ".join(printable(source.label) for source in sources[:3])
        found = f"jobs that cannot stand in one table ({printable(str(error), 160).rstrip('.')})"
        raise InputError(where, found, "each job once", "join the logs with walltime ingest") from None


def _no_job(whole: pa.Table, sources: Sequence[Source], site: SiteSettings) -> InputError:
    where = ", ".join(printable(source.label) for source in sources[:3])
    sites = sorted(map(str, whole["site"].unique().to_pylist()))
    shown = printable(", ".join(sites[:5]), 100)
    found = f"only jobs of {shown}" if sites else "no job"
    return InputError(where, found, f"jobs of {printable(site.name, 60)}", "set site.name to theirs" if sites else "")


def _unreadable(sources: Sequence[Source]) -> pa.Table:
    """What could not be read of the logs, from the tables that stand beside those of the jobs."""
    beside = [path.with_name(f"{path.stem}.{UNREADABLE.name}{path.suffix}") for path in (s.path for s in sources)]
    found = [read_table(path, UNREADABLE) for path in beside if path.is_file()]
    return UNREADABLE.check(pa.concat_tables([UNREADABLE.empty(), *found]))


def _report(seen: Tally, kept: Tally, span_s: Mapping[str, int | None], sources: Sequence[Source]) -> Report:
    other = Tally(seen.rows - kept.rows, seen.proc_s - kept.proc_s)
    facts: dict[str, Fact] = {
        "format": JOBS.name, "files": len(sources), "bytes": sum(source.path.stat().st_size for source in sources),
        "jobs": kept.rows, "first_submit_s": span_s["min"], "last_submit_s": span_s["max"],
    }  # fmt: skip
    return Report("ingest", "job", seen, kept, {OTHER_SITE: other} if other.rows else {}, facts).check()
