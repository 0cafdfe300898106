"""Brings an earlier JOBS table up to date with new records."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, arrow, floats, integers, one_piece
from pipeline.errors import printable
from pipeline.ingest.ingest_report import Account
from pipeline.ingest.records import FATE, FOUND, PARTIAL, Fate, distinct, follows, leading_digits, marked
from pipeline.large_tables import StoredTable
from pipeline.report import Fact
from pipeline.storage import read_older_batches, schema_names
from pipeline.tables import JOBS

SHOWN_IDS = 20
_PLACEHOLDER = r"^\d+_\["


class EarlierTable:
    """A table JOBS that is brought up to date, and what became of its rows.

    It is read twice: the rows that new records may change, then the others in their order. site: whose jobs are read.
    """

    def __init__(self, path: Path, new_ids: pa.Array, site: str) -> None:
        """new_ids: what the ids of the new records begin with."""
        self.path, self.site, self.is_in_order = path, site, True
        self.counts, self.first_ids = Counter[str](), dict[str, list[str]]()
        self._new_ids = new_ids
        self._submits_s: list[int] = []
        self._ends_s: list[int] = []

    @property
    def n_rows(self) -> int:
        """All rows."""
        return StoredTable(self.path, JOBS).num_rows

    @property
    def lacks(self) -> tuple[str, ...]:
        """Columns of JOBS that the table does not have."""
        there = schema_names(self.path, JOBS)
        return tuple(name for name in JOBS.schema().names if name not in there)

    def changing(self) -> Iterator[pa.Table]:
        """The rows of the new records' jobs; all rows, where the table is not in the order in which it is written."""
        last = JOBS.empty()
        for table in read_older_batches(self.path, JOBS):
            self.is_in_order = self.is_in_order and follows(last, table)
            last = table if table.num_rows else last
            yield table.filter(self._may_change(table))
        if not self.is_in_order:
            for table in read_older_batches(self.path, JOBS):
                yield table.filter(pc.invert(self._may_change(table)))

    def unchanged(self, account: Account) -> Iterator[pa.Table]:
        """The other rows as FOUND, in order; the account takes them in as they pass."""
        for table in read_older_batches(self.path, JOBS) if self.is_in_order else ():
            found = self._with_fate(table.filter(pc.invert(self._may_change(table))))
            account.settle(found, JOBS.empty())
            yield found

    def updated(
        self, new: pa.Table, earlier: pa.Table, same_record: Sequence[Sequence[str]]
    ) -> tuple[pa.Table, pa.Table]:
        """New records and earlier ones, each once, with restarts numbered anew, and the readings that were not kept.

        new: what `distinct` has left of the new records. Jobs of other sites stay as they are.
        """
        for name, instants in (("submit_s", self._submits_s), ("end_s", self._ends_s)):
            instants += [value for value in pc.min_max(new[name]).as_py().values() if value is not None]
        is_here = pc.equal(earlier["site"].cast(pa.string()), self.site)
        known, elsewhere = earlier.filter(is_here), earlier.filter(pc.invert(is_here))
        is_outrun = _is_outrun(new, known)
        outrun, known = known.filter(is_outrun), known.filter(pc.invert(is_outrun))
        rows = [
            marked(new, part=_is_part(new), is_new=True),
            marked(known, part=_is_part(known), format=0, is_new=False),
        ]
        found, lost = distinct(pa.concat_tables(rows).unify_dictionaries(), same_record)
        return pa.concat_tables([found, self._with_fate(elsewhere)]), pa.concat_tables([lost, outrun])

    def _may_change(self, table: pa.Table) -> pa.ChunkedArray:
        return pc.is_in(leading_digits(table["job_id"]), value_set=self._new_ids)

    def _with_fate(self, jobs: pa.Table) -> pa.Table:
        """FOUND of rows that no new record meets."""
        is_here = pc.equal(jobs["site"].cast(pa.string()), self.site)
        fate = pc.if_else(is_here, pa.scalar(Fate.EARLIER_ONLY, FATE.type), pa.scalar(Fate.ELSEWHERE, FATE.type))
        return pa.table([*jobs.columns, arrow(np.zeros(jobs.num_rows, np.int32)), fate], schema=FOUND)

    def count(self, jobs: pa.Table) -> None:
        """Count the fates of rows; the vanished are those only the earlier table has, though the new logs cover them.

        Covered is a job submitted from the first to the last submit of the new records, that had not ended before any
        of them had.
        """
        fate = integers(jobs[FATE.name])[0]
        submit_s, end_s = floats(jobs, "submit_s"), floats(jobs, "end_s")
        first_s, last_s = min(self._submits_s, default=np.nan), max(self._submits_s, default=np.nan)
        is_covered = (submit_s >= first_s) & (submit_s <= last_s) & ~(end_s < min(self._ends_s, default=first_s))
        for name, rows in (
            ("new", fate == Fate.NEW),
            ("unchanged", fate == Fate.UNCHANGED),
            ("completed", fate == Fate.COMPLETED),
            ("changed", fate == Fate.CHANGED),
            ("newer_in_earlier", fate == Fate.EARLIER_IS_NEWER),
            ("other_sites", fate == Fate.ELSEWHERE),
            ("vanished", (fate == Fate.EARLIER_ONLY) & is_covered),
        ):
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
        return [
            f"{self.counts[name]} jobs of the earlier table {told}: {self._shown(name)}"
            for name, told in said.items()
            if self.counts[name]
        ]

    def _shown(self, name: str) -> str:
        more = ", ..." if self.counts[name] > len(self.first_ids[name]) else ""
        return ", ".join(printable(job_id, 60) for job_id in self.first_ids[name]) + more


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
