"""Passes the jobs of one table on, a batch at a time, where they stand as ingest writes them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.arrays import proc_seconds
from pipeline.core.buffers import integers, unknown
from pipeline.core.report import Tally
from pipeline.core.tables import JOBS, SET_LATER
from pipeline.ingest.assemble.merge import follows

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
    """A hash of each job's id and restart."""
    import pandas as pd  # noqa: PLC0415  (a start of a second that reading a log does without)

    ids = jobs["job_id"].to_numpy().astype(object)
    restart = integers(jobs["restart"])[0].astype(np.uint64)
    hashed: Hashes = pd.util.hash_array(ids, categorize=False) ^ (restart * _SPREAD)
    return hashed


def as_read(jobs: pa.Table) -> pa.Table:
    """The jobs without what later steps have set."""
    for name in SET_LATER:
        field = JOBS.schema().field(name)
        jobs = jobs.set_column(jobs.column_names.index(name), field, unknown(jobs.num_rows, field.type))
    return jobs


def tally_of(jobs: pa.Table) -> Tally:
    return Tally(jobs.num_rows, float(proc_seconds(jobs).sum()))
