"""An earlier JOBS table that is brought up to date: the rows that new records may change, and those that stay.

A record changes only rows whose job ids have the same leading digits. The other rows of a table in order are passed
on as they are, so that a few new records cost one reading and one writing of the table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.arrays import Bools
from pipeline.core.store import read_older_batches, schema_names
from pipeline.core.tables import JOBS
from pipeline.ingest.assemble.combine import Combined
from pipeline.ingest.assemble.ingest_report import Account
from pipeline.ingest.assemble.merge import follows
from pipeline.ingest.assemble.spill import id_keys
from pipeline.ingest.assemble.update import FATE, Fate

Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class EarlierTable:
    """The table's file, the hashes of the ids of the new records in order, and the site that is read."""

    path: Path
    new_ids: Keys
    site: str
    is_in_order: bool

    @classmethod
    def of(cls, path: Path, new_ids: Keys, site: str) -> "EarlierTable":
        """The table at a path; InputError where it is none."""
        return cls(path, new_ids, site, _is_in_order(path))

    def counted(self, account: Account) -> Iterator[pa.Table]:
        """The rows that new records may change, after all rows have been counted."""
        there = schema_names(self.path, JOBS)
        account.earlier_lacks = tuple(name for name in JOBS.schema().names if name not in there)
        for table in read_older_batches(self.path, JOBS):
            account.n_earlier += table.num_rows
            stays = self._stays(table)
            own = table.filter(pa.array(stays))
            account.settle(Combined(own, JOBS.empty(), _n_reused(own, self.site)))
            yield table.filter(pa.array(~stays))

    def unchanged(self) -> Iterator[pa.Table]:
        """The other rows in order, with a column FATE."""
        for table in read_older_batches(self.path, JOBS) if self.is_in_order else ():
            own = table.filter(pa.array(self._stays(table)))
            here = pc.equal(own["site"].cast(pa.string()), self.site)
            fate = pc.if_else(here, pa.scalar(Fate.EARLIER_ONLY, FATE.type), pa.scalar(Fate.ELSEWHERE, FATE.type))
            yield own.append_column(FATE, fate)

    def _stays(self, table: pa.Table) -> Bools:
        if not self.is_in_order:
            return np.zeros(table.num_rows, bool)
        keys = id_keys(table["job_id"])
        if not self.new_ids.size:
            return np.ones(table.num_rows, bool)
        place = np.minimum(np.searchsorted(self.new_ids, keys), self.new_ids.size - 1)
        stays: Bools = self.new_ids[place] != keys
        return stays


def _is_in_order(path: Path) -> bool:
    """Whether the rows stand in the order in which ingest writes them."""
    last = JOBS.empty()
    for table in read_older_batches(path, JOBS):
        if not follows(last, table):
            return False
        last = table if table.num_rows else last
    return True


def _n_reused(jobs: pa.Table, site: str) -> int:
    """How many ids several whole jobs of the site bear: the second one of each has restart 1."""
    is_second = pc.and_(pc.equal(jobs["restart"], 1), pc.equal(jobs["site"].cast(pa.string()), site))
    is_part = pc.fill_null(pc.equal(jobs["state"].cast(pa.string()), "PARTIAL"), False)
    return int(pc.sum(pc.and_not(is_second, is_part)).as_py() or 0)
