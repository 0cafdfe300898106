"""Brings an earlier JOBS table up to date with a newer reading of the logs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Ints, arrow, integers, nulls, replaced, row_codes, texts
from pipeline.errors import printable
from pipeline.ingest.combine import (
    SUPPLEMENTED,
    Combined,
    follows,
    in_order,
    order_of,
    ran_at_other_times,
    ranked,
    restarts,
    same_as_next,
    value_sources,
    with_identity,
    with_known_clusters,
)
from pipeline.ingest.reader import PART
from pipeline.ingest.spill import id_keys
from pipeline.report import Fact
from pipeline.storage import read_older_batches, schema_names
from pipeline.tables import JOBS, SET_LATER

SHOWN_IDS = 20
_PLACEHOLDER = r"^\d+_\["

FATE = pa.field("fate", pa.int8())
_NOT_CONTENT = ("source_file", "source_line", "restart", *SET_LATER, "fate", "part", "is_new", "format")
_OPEN_STATES = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING", "REQUEUE_HOLD")


class Fate(IntEnum):
    """What became of a row of the updated table."""

    NEW = 0
    EARLIER_ONLY = 1
    UNCHANGED = 2
    COMPLETED = 3
    CHANGED = 4
    EARLIER_IS_NEWER = 5
    ELSEWHERE = 6


def updated(new: Combined, earlier: pa.Table, site: str, same_record: Sequence[Sequence[str]]) -> Combined:
    """The rows of both tables, each record once, restarts numbered anew, with a FATE column, in order.

    A record in both is the newer table's, unless only the earlier one is final, or neither is and the earlier one ends
    later; what it does not tell comes from the other one (SUPPLEMENTED). Jobs of other sites stay as they are.
    """
    fresh = new.jobs if "format" in new.jobs.column_names else _with(new.jobs, "format", np.int32(0))
    fresh = _with(fresh, "is_new", np.int8(1))
    here = pc.equal(earlier["site"].cast(pa.string()), texts([site])[0])
    elsewhere = _with(earlier.filter(pc.invert(here)), FATE.name, np.int8(Fate.ELSEWHERE))
    known = _with(earlier.filter(here), "format", np.int32(0))
    both = pa.concat_tables([fresh, _with(known, "is_new", np.int8(0)).select(fresh.column_names)])
    both = with_known_clusters(both.unify_dictionaries().combine_chunks())
    merged, superseded, n_reused = _merged(both, same_record)
    names = [*JOBS.schema().names, FATE.name]
    jobs = in_order(pa.concat_tables([merged.select(names), elsewhere.select(names)]))
    return Combined(jobs, pa.concat_tables([new.superseded, superseded]), max(n_reused, new.n_reused_ids))


def _merged(both: pa.Table, same_record: Sequence[Sequence[str]]) -> tuple[pa.Table, pa.Table, int]:
    if not both.num_rows:
        return _with(both, FATE.name, np.int8(0)), both.select(JOBS.schema().names), 0
    is_part = _is_state(both, ("PARTIAL",)).astype(np.int32)
    ranks = ranked(both.drop(["format"])) | {PART.name: is_part.astype(np.int64)}
    content = [name for name in ranks if name not in _NOT_CONTENT]
    own, ranks = with_identity(ranks, both, same_record)
    identity = ["job_id", PART.name, *own]
    is_shared = _is_shared(ranks, identity)
    # A scheduler corrects what it has recorded: of two final records of a job the one that was read last is right.
    ranks["is_final"] = (~_is_open(both) & ~is_shared).astype(np.int64)
    ranks["corrects"] = ranks["is_final"] * ranks["is_new"]
    order = order_of(
        ranks, [*identity, "is_final", "corrects", "end_s", "runtime_s", "is_new", *content, "restart"]
    )  # fmt: skip
    is_last = ~same_as_next(ranks, order, identity, content)
    is_last |= ran_at_other_times(ranks, order) & is_shared[order]
    kept, fates = order[is_last], _fates(both, ranks, order, is_last, content)
    taken_from = value_sources(ranks, order, is_last)
    stays = ~_is_outrun(both)[kept]
    lost = np.concatenate([order[~is_last], kept[~stays]])
    kept, fates = kept[stays], fates[stays]
    restart, n_reused = restarts({name: rank[kept] for name, rank in ranks.items()}, ["restart", *content])
    jobs = both.take(arrow(kept)).append_column(FATE, arrow(fates))
    for name, row in taken_from.items():
        jobs = replaced(jobs, name, both[name].take(arrow(row[stays])))
    jobs = replaced(jobs, "restart", arrow(restart))
    return jobs, both.take(arrow(lost)).select(JOBS.schema().names), n_reused


def _is_outrun(both: pa.Table) -> Bools:
    """The earlier table's placeholders of tasks yet to start (`12_[8-99]`) whose array the new logs know.

    A start takes a task out of the placeholder's name, so the same one never comes again: the logs name the tasks that
    started and those still waiting instead.
    """
    is_new = integers(both["is_new"])[0] == 1
    rows = np.flatnonzero(~is_new & nulls(both["start_s"]) & _is_state(both, ("PENDING",)))
    ids = both["job_id"].take(arrow(rows))
    rows = rows[integers(pc.match_substring_regex(ids, _PLACEHOLDER).cast(pa.int64()))[0] == 1]
    known = both["array_id"].cast(pa.string())
    found = pc.is_in(known.take(arrow(rows)), value_set=known.filter(arrow(is_new)).drop_null())
    is_again = pc.is_in(both["job_id"].take(arrow(rows)), value_set=both["job_id"].filter(arrow(is_new)))
    is_outrun: Bools = np.zeros(len(is_new), np.bool_)
    is_outrun[rows] = integers(pc.and_not(found, is_again).cast(pa.int64()))[0] == 1
    return is_outrun


def _is_shared(ranks: dict[str, Ints], identity: Sequence[str]) -> Bools:
    """Whether each row shares its identity with another row of its own table.

    Only then do two times mean two jobs; a record that is alone in both tables has changed.
    """
    codes = row_codes(*(ranks[name] for name in identity if name in ranks))
    n_all, n_new = np.bincount(codes), np.bincount(codes, weights=ranks["is_new"])
    is_shared: Bools = (np.maximum(n_new, n_all - n_new) > 1)[codes]
    return is_shared


def _fates(both: pa.Table, ranks: dict[str, Ints], order: Ints, is_last: Bools, content: Sequence[str]) -> Ints:
    """The fate of each kept record, from the record before it of the same job: the earlier table's, if there is one."""
    is_new = integers(both["is_new"])[0] == 1
    is_open = _is_open(both)
    kept = np.flatnonzero(is_last)
    row, before = order[kept], order[np.maximum(kept - 1, 0)]
    has_before = np.diff(kept, prepend=-1) > 1
    # What is supplemented is as it was.
    is_equal = np.logical_and.reduce(
        [
            (ranks[name][row] == ranks[name][before]) | ((ranks[name][row] < 0) & (name in SUPPLEMENTED))
            for name in content
        ]
    )
    met = np.select(
        [~is_new[row], is_equal, is_open[before] & ~is_open[row]],
        [Fate.EARLIER_IS_NEWER, Fate.UNCHANGED, Fate.COMPLETED],
        Fate.CHANGED,
    )
    alone = np.where(is_new[row], Fate.NEW, Fate.EARLIER_ONLY)
    return np.where(has_before & (is_new[row] != is_new[before]), met, alone).astype(np.int8)


def _is_open(jobs: pa.Table) -> Bools:
    return nulls(jobs["end_s"]) | _is_state(jobs, _OPEN_STATES)


def _is_state(jobs: pa.Table, states: Sequence[str]) -> Bools:
    found = pc.is_in(jobs["state"].cast(pa.string()), value_set=texts(states))
    is_found: Bools = integers(found.cast(pa.int64()))[0] == 1
    return is_found


@dataclass(slots=True)
class Fates:
    """What became of an earlier table's rows, told from the rows of the updated one as they pass.

    site: whose jobs are read; window: first and last submit of the new records; first_end_s: their first end, before
    which a log tells nothing.
    """

    site: str
    window: tuple[int | None, int | None] = (None, None)
    first_end_s: int | None = None
    counts: Counter[str] = field(default_factory=Counter)
    first_ids: dict[str, list[str]] = field(default_factory=dict)

    def count_new(self, jobs: pa.Table) -> None:
        """Note which time some of the new records cover."""
        submit, is_unknown = integers(jobs["submit_s"])
        end, is_open = integers(jobs["end_s"])
        known, ended = submit[~is_unknown], end[~is_open]
        self.window = _widened(self.window, known)
        self.first_end_s = _widened((self.first_end_s, None), ended)[0]

    def count(self, jobs: pa.Table) -> None:
        """Count the fates of rows; the vanished are those only the earlier table has, though the new logs cover them.

        Covered is a job submitted from the first to the last submit of the new records, that had not ended before any
        of them had.
        """
        fate = integers(jobs[FATE.name])[0]
        ids = jobs["job_id"]
        for name, rows in (
            ("new", fate == Fate.NEW),
            ("unchanged", fate == Fate.UNCHANGED),
            ("completed", fate == Fate.COMPLETED),
            ("changed", fate == Fate.CHANGED),
            ("newer_in_earlier", fate == Fate.EARLIER_IS_NEWER),
            ("other_sites", fate == Fate.ELSEWHERE),
            ("vanished", (fate == Fate.EARLIER_ONLY) & self._is_covered(jobs)),
        ):
            places = np.flatnonzero(rows)
            self.counts[name] += len(places)
            known = self.first_ids.setdefault(name, [])
            known += ids.take(arrow(places[: SHOWN_IDS - len(known)])).to_pylist()

    def facts(self) -> dict[str, Fact]:
        """Counts by fate."""
        return {f"{name}_jobs": n for name, n in self.counts.items()}

    def notes(self) -> list[str]:
        """A sentence on each fate worth one, with the first ids."""
        return [
            f"{self.counts[name]} jobs of the earlier table {said}: {self._shown(name)}"
            for name, said in (
                ("completed", "have ended since"),
                ("changed", "read otherwise in these logs, whose word is kept"),
                ("newer_in_earlier", "end later there than in these logs, and stay"),
                ("vanished", "should be in these logs and are not; they stay"),
                ("other_sites", f"are of other sites than {printable(self.site, 60)}, and stay as they are"),
            )
            if self.counts[name]
        ]

    def _shown(self, name: str) -> str:
        more = ", ..." if self.counts[name] > len(self.first_ids[name]) else ""
        return ", ".join(printable(job_id, 60) for job_id in self.first_ids[name]) + more

    def _is_covered(self, jobs: pa.Table) -> Bools:
        first, last = self.window
        submit, is_unknown = integers(jobs["submit_s"])
        end, is_open = integers(jobs["end_s"])
        if first is None or last is None:
            return np.zeros(len(submit), np.bool_)
        is_live = is_open | (end >= (first if self.first_end_s is None else self.first_end_s))
        return ~is_unknown & (submit >= first) & (submit <= last) & is_live


def _widened(window: tuple[int | None, int | None], values: Ints) -> tuple[int | None, int | None]:
    if not len(values):
        return window
    first, last = window
    low, high = int(values.min()), int(values.max())
    return low if first is None else min(first, low), high if last is None else max(last, high)


def _with(table: pa.Table, name: str, value: np.generic) -> pa.Table:
    """The table with a column of one value, over and over."""
    return table.append_column(name, arrow(np.full(table.num_rows, value)))


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

    @property
    def lacks(self) -> tuple[str, ...]:
        """Columns of JOBS that the table does not have."""
        there = schema_names(self.path, JOBS)
        return tuple(name for name in JOBS.schema().names if name not in there)

    def split(self) -> Iterator[tuple[pa.Table, Combined]]:
        """The rows that new records may change, and those that stay, a batch at a time."""
        for table in read_older_batches(self.path, JOBS):
            stays = self._stays(table)
            own = table.filter(pa.array(stays))
            yield table.filter(pa.array(~stays)), Combined(own, JOBS.empty(), _n_reused(own, self.site))

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
