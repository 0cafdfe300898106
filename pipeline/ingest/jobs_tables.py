"""Reads tables JOBS that walltime ingest has written: as if their logs were read, or to bring one up to date."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import code_version
from pipeline.arrays import Bools, arrow, floats, integers, one_piece, tally_of
from pipeline.errors import ConfigError, InputError, TableError, printable
from pipeline.ingest.privacy import ANONYMISED, hasher_of
from pipeline.ingest.records import (
    FATE,
    FATES,
    FOUND,
    HOLD_BYTES,
    PARTIAL,
    Records,
    distinct,
    leading_digits,
    marked,
    under_schema,
)
from pipeline.ingest.sources import Source, is_table
from pipeline.large_tables import StoredTable
from pipeline.report import Fact, Report, Tally
from pipeline.schema import TableKind
from pipeline.settings import SiteSettings
from pipeline.storage import read_metadata, read_older_batches, read_table, schema_names, write_batches
from pipeline.tables import JOBS, SET_LATER, UNREADABLE

Write = Callable[[Path, Iterable[pa.Table], TableKind, Mapping[str, str]], Path]
"""Writes tables of one kind, one after another, as one file with these facts in its metadata."""

OTHER_SITE = "other_site"
OWN_TABLE = "walltime run, backtest and clean take a table of jobs that walltime ingest wrote"


@dataclass(frozen=True, slots=True)
class OnDisk:
    """The files in which ingest writes its tables, each replaced in one step.

    unreadable: removed where every line could be read; None: UNREADABLE stays in memory. hold_bytes: rows stay in
    memory up to this size, beyond it in files of a folder beside `jobs`; no byte of the tables depends on it.
    """

    jobs: Path
    unreadable: Path | None = None
    write: Write = write_batches
    hold_bytes: int = HOLD_BYTES

    @classmethod
    def between_steps(cls, folder: Path) -> "OnDisk":
        """The file of a run's jobs in the folder of its large tables, which say only which code wrote them."""

        def write(path: Path, batches: Iterable[pa.Table], kind: TableKind, _facts: Mapping[str, str]) -> Path:
            return write_batches(path, batches, kind, {"code": code_version()})

        return cls(folder / "jobs_read.parquet", write=write)


def names_key(sources: Sequence[Source], site: SiteSettings) -> str:
    """A digest of the key that hashes names, from the settings or from the tables; empty where names are plain.

    ConfigError where the site anonymises, and a table has plain names or names hashed under another key.
    """
    would = hasher_of(site).mark.get(ANONYMISED, "")
    marks = {read_metadata(source.path).get(ANONYMISED, "") if is_table(source) else would for source in sources}
    if marks in ({would}, set()):
        return would
    if would or len(marks) > 1:
        where = ", ".join(printable(source.label) for source in sources[:3])
        expected = "names hashed under the site's key" if would else "names under one key"
        raise ConfigError(where, "names that are plain or hashed under another key", expected, "ingest the logs anew")
    return marks.pop()


def read_jobs_tables(
    sources: Sequence[Source], site: SiteSettings, records_of: Callable[[Mapping[str, pa.Schema]], Records]
) -> tuple[Iterator[pa.Table], pa.Table, Callable[[], Report]]:
    """The JOBS of the site in some tables, in parts, UNREADABLE of the logs they come from, and the report of both.

    The jobs are as ingest wrote them: what cleaning and grouping have set is unknown again. InputError where a file is
    no table of jobs, where two tables have the same job, or where there is no job of the site.
    """
    if log := next((source for source in sources if not is_table(source)), None):
        beside = f"a log beside {printable(next(s.label for s in sources if is_table(s)))}, a table of jobs"
        raise InputError(printable(log.label), beside, "logs or tables", "add it with walltime ingest --update")
    names_key(sources, site)
    rows = records_of({JOBS.name: JOBS.schema()})
    seen, kept, sites, submits_s = Tally(), Tally(), set[str](), list[int]()
    for source in sources:
        named = read_metadata(source.path).get("table", "another")
        if named != JOBS.name:
            expected = "a table of jobs, as walltime ingest writes it"
            raise InputError(printable(source.label), f"{printable(named, 40)} table", expected, OWN_TABLE)
        for batch in read_older_batches(source.path, JOBS):
            own = batch.filter(pc.equal(batch["site"].cast(pa.string()), site.name)).drop_columns(SET_LATER)
            own = under_schema([own], JOBS.schema())
            rows.add(JOBS.name, own)
            seen, kept = seen + tally_of(batch), kept + tally_of(own)
            sites |= {str(name) for name in batch["site"].unique().to_pylist()}
            submits_s += [value for value in pc.min_max(own["submit_s"]).as_py().values() if value is not None]
    where = ", ".join(printable(source.label) for source in sources[:3])
    if not kept.rows:
        shown = printable(", ".join(sorted(sites)[:5]), 100)
        instead, do = (f"only jobs of {shown}", "set site.name to theirs") if sites else ("no job", "")
        raise InputError(where, instead, f"jobs of {printable(site.name, 60)}", do)

    def jobs() -> Iterator[pa.Table]:
        try:
            rows.check_key(JOBS)
            yield from map(JOBS.check, rows.ordered(JOBS.name))
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
    # What could not be read of the logs stands beside the tables of their jobs.
    paths = [source.path.with_name(f"{source.path.stem}.{UNREADABLE.name}{source.path.suffix}") for source in sources]
    lines = [read_table(path, UNREADABLE) for path in paths if path.is_file()]
    return jobs(), UNREADABLE.check(pa.concat_tables([UNREADABLE.empty(), *lines])), lambda: report


# ---------------- an earlier table
# Brings an earlier JOBS table up to date with new records.

SHOWN_IDS = 20
_PLACEHOLDER = r"^\d+_\["


class EarlierTable:
    """A table JOBS that is brought up to date, and what became of its rows. site: whose jobs are read."""

    def __init__(self, path: Path, site: str) -> None:
        """n_rows: all rows; lacks: the columns of JOBS that it lacks."""
        self.path, self.site = path, site
        self.n_rows, there = StoredTable(path, JOBS).num_rows, schema_names(path, JOBS)
        self.lacks = tuple(name for name in JOBS.schema().names if name not in there)
        self.counts, self.first_ids = Counter[str](), dict[str, list[str]]()
        self._submits_s: list[int] = []
        self._ends_s: list[int] = []

    def rows(self, new_ids: pa.Array) -> Iterator[tuple[pa.Table, pa.Table]]:
        """In parts, the rows that new records may change, and the others as FOUND.

        new_ids: what the ids of the new records begin with.
        """
        for table in read_older_batches(self.path, JOBS):
            is_here = pc.equal(table["site"].cast(pa.string()), self.site)
            may_change = pc.and_(is_here, pc.is_in(leading_digits(table["job_id"]), value_set=new_ids))
            kept, other = (pa.scalar(FATES.index(name), FATE.type) for name in ("earlier_only", "other_sites"))
            found = pa.table(
                [*table.columns, arrow(np.zeros(table.num_rows, np.int32)), pc.if_else(is_here, kept, other)],
                schema=FOUND,
            )
            yield table.filter(may_change), found.filter(pc.invert(may_change))

    def updated(
        self, new: pa.Table, earlier: pa.Table, same_record: Sequence[Sequence[str]]
    ) -> tuple[pa.Table, pa.Table]:
        """New records and earlier ones, each once, with restarts numbered anew, and the readings that were not kept.

        new: what `distinct` has left of the new records.
        """
        for name, instants in (("submit_s", self._submits_s), ("end_s", self._ends_s)):
            instants += [value for value in pc.min_max(new[name]).as_py().values() if value is not None]
        is_outrun = _is_outrun(new, earlier)
        known = earlier.filter(pc.invert(is_outrun))
        rows = [
            marked(new, part=_is_part(new), is_new=True),
            marked(known, part=_is_part(known), format=0, is_new=False),
        ]
        found, lost = distinct(pa.concat_tables(rows).unify_dictionaries(), same_record)
        return found, pa.concat_tables([lost, earlier.filter(is_outrun)])

    def count(self, jobs: pa.Table) -> None:
        """Count the fates of rows; the vanished are those only the earlier table has, though the new logs cover them.

        Covered is a job submitted from the first to the last submit of the new records, that had not ended before any
        of them had.
        """
        fate = integers(jobs[FATE.name])[0]
        submit_s, end_s = floats(jobs, "submit_s"), floats(jobs, "end_s")
        first_s, last_s = min(self._submits_s, default=np.nan), max(self._submits_s, default=np.nan)
        is_covered = (submit_s >= first_s) & (submit_s <= last_s) & ~(end_s < min(self._ends_s, default=first_s))
        told = {name: fate == place for place, name in enumerate(FATES)}
        told["vanished"] = told.pop("earlier_only") & is_covered
        for name, rows in told.items():
            places = np.flatnonzero(rows)
            self.counts[name] += len(places)
            known = self.first_ids.setdefault(name, [])
            known += jobs["job_id"].take(arrow(places[: SHOWN_IDS - len(known)])).to_pylist()

    def facts(self) -> dict[str, Fact]:
        """Counts by fate."""
        return {f"{name}_jobs": n for name, n in self.counts.items()}

    def notes(self) -> list[str]:
        """A sentence on each fate worth one, with the first ids."""
        said = {
            "completed": "have ended since",
            "changed": "read otherwise in these logs, whose word is kept",
            "newer_in_earlier": "end later there than in these logs, and stay",
            "vanished": "should be in these logs and are not; they stay",
            "other_sites": f"are of other sites than {printable(self.site, 60)}, and stay as they are",
        }
        found = list[str]()
        if self.lacks:
            lacking = f"column{'s' if len(self.lacks) > 1 else ''} {', '.join(self.lacks)}"
            found.append(f"the earlier table lacks {lacking}: unknown for its jobs that are not in these logs")
        for name, told in said.items():
            if n := self.counts[name]:
                shown = ", ".join(printable(job_id, 60) for job_id in self.first_ids[name])
                more = ", ..." if n > len(self.first_ids[name]) else ""
                found.append(f"{n} jobs of the earlier table {told}: {shown}{more}")
        return found


def _is_part(jobs: pa.Table) -> Bools:
    is_part: Bools = pc.fill_null(pc.equal(jobs["state"].cast(pa.string()), PARTIAL), False).to_numpy()
    return is_part


def _is_outrun(new: pa.Table, earlier: pa.Table) -> pa.ChunkedArray:
    """The placeholders of tasks yet to start (`12_[8-99]`) whose array the new logs know.

    A start takes a task out of the placeholder's name, so the same one never comes again: the logs name the tasks that
    started and those still waiting instead.
    """
    is_waiting = pc.and_(pc.is_null(earlier["start_s"]), pc.equal(earlier["state"].cast(pa.string()), "PENDING"))
    is_placeholder = pc.and_(is_waiting, pc.match_substring_regex(earlier["job_id"], _PLACEHOLDER))
    arrays = new["array_id"].cast(pa.string()).drop_null()
    is_known = pc.is_in(earlier["array_id"].cast(pa.string()), value_set=one_piece(arrays))
    is_again = pc.is_in(earlier["job_id"], value_set=one_piece(new["job_id"]))
    return pc.fill_null(pc.and_(is_placeholder, pc.and_not(is_known, is_again)), False)
