"""Learns a log from an earlier State of it, where the log still has the same jobs, instead of from its beginning.

A checkpoint is the STATE of a log at a time, with a digest of what was known of every job by that time. Where a later
log gives the same digest, going on from the checkpoint gives the State of the whole log to the bit. A record that came
late, or that cleaning judges anew, changes the digest, so that an older checkpoint is taken, or none.

The jobs are learnt a chunk at a time: besides the table of jobs only a chunk's arrays are in memory.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats, Ints
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import RUNTIME, History, Target, newest_s
from pipeline.estimate.keys import job_hashes
from pipeline.estimate.learnt_parts import empty
from pipeline.estimate.state import State, ids_of
from pipeline.estimate.state_table import arrays_in, state_in, state_table
from pipeline.estimate.walltime import continued

DAY_S = 86_400.0
CHUNK_JOBS = 100_000

AGES_DAYS = (32.0, 16.0, 8.0, 4.0, 2.0, 1.0)
"""Ages at which checkpoints are made and kept, days before the newest submit: some records come weeks late."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A STATE at a time, the digest of the jobs that it was learnt from, and how its table is had (None: damaged)."""

    as_of_s: float
    digest: str
    read: Callable[[], pa.Table | None]


@dataclass(frozen=True, slots=True)
class LogJobs:
    """The jobs of a log that the estimator can use, in order of submit."""

    jobs: pa.Table
    timezone: str
    row: Ints
    submit_s: Floats
    end_s: Floats
    """As in History: infinite where a job has not ended."""
    hashes: Ints
    """Hashes of the jobs; empty where there are no checkpoints to compare or to make."""
    target: Target

    @classmethod
    def of(cls, jobs: pa.Table, timezone: str, *, with_hashes: bool, target: Target = RUNTIME) -> "LogJobs":
        """The jobs of a table with the target's columns of JOBS."""
        starts = range(0, max(jobs.num_rows, 1), CHUNK_JOBS)
        parts = [_part(jobs, start, timezone, target, with_hashes=with_hashes) for start in starts]
        row, submit_s, end_s, hashes = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((row, submit_s))
        hashes = hashes[order] if with_hashes else hashes
        return cls(jobs, timezone, row[order], submit_s[order], end_s[order], hashes, target)

    def newest_s(self) -> float:
        """The newest submit, start or end, s; minus infinity where there is none."""
        return newest_s(self.jobs, self.row)

    def open_at(self, at_s: float) -> Ints:
        """The places of the jobs that were submitted by a time and were not over."""
        return np.flatnonzero(self.end_s[: self._count_by(at_s)] > at_s)

    def history_of(self, places: Ints) -> tuple[History, list[str], pa.Table]:
        """The history of the jobs at these places, the ids of their records, and their table."""
        own = self.jobs.take(pa.array(self.row[places]))
        past = self.target.history(own, self.timezone)
        return past, ids_of(own, past), own

    def digest_at(self, at_s: float) -> str:
        """A digest of what is known of every job by a time."""
        known, places = self.hashes[: self._count_by(at_s)].copy(), self.open_at(at_s)
        past, _, own = self.history_of(places)
        known[places] = job_hashes(own, past.known_by(at_s))
        return hashlib.sha256(known.data).hexdigest()

    def chunks(self, at_s: float, until_s: float) -> Iterator[tuple[float, Ints]]:
        """Times up to `until_s`, and at each the places of the jobs submitted since the one before or open then."""
        first, last = self._count_by(at_s), self._count_by(until_s)
        cuts = np.unique(self.submit_s[first + CHUNK_JOBS - 1 : last : CHUNK_JOBS])
        for cut_s in (*cuts[cuts < until_s].tolist(), until_s):
            new = np.arange(self._count_by(at_s), self._count_by(cut_s))
            yield cut_s, np.concatenate([self.open_at(at_s), new])
            at_s = cut_s

    def _count_by(self, at_s: float) -> int:
        return int(np.searchsorted(self.submit_s, at_s, side="right"))


def _part(
    jobs: pa.Table, start: int, timezone: str, target: Target, *, with_hashes: bool
) -> tuple[Ints, Floats, Floats, Ints]:
    own = jobs.slice(start, CHUNK_JOBS)
    past = target.history(own, timezone)
    hashes = job_hashes(own, past) if with_hashes else np.empty(0, np.int64)
    return past.row + start, past.submit_s, past.end_s, hashes


def learnt(
    log: LogJobs, settings: EstimateRules, stops_s: Sequence[float], start: Checkpoint | None = None
) -> Iterator[tuple[float, State]]:
    """The State at each of some ascending times, from a checkpoint or from nothing."""
    at_s, state = -np.inf, empty()
    if start and (found := start.read()) is not None:
        at_s, state = start.as_of_s, state_in(arrays_in(found), "a checkpoint")[0]
        del found
    for stop_s in stops_s:
        for cut_s, places in log.chunks(at_s, stop_s):
            past, ids, _ = log.history_of(places)
            state = continued(state, past, ids, settings, cut_s)
            at_s = cut_s
        yield stop_s, state


def checkpoint_of(log: LogJobs, settings: EstimateRules, at_s: float, state: State) -> Checkpoint:
    """A checkpoint of a State that `learnt` has given."""
    return Checkpoint(at_s, log.digest_at(at_s), _compressed(state_table(state, settings)))


def _compressed(table: pa.Table) -> Callable[[], pa.Table]:
    """The table, in a fifth of its memory until it is read: several are held until a run keeps them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    packed = sink.getvalue()
    return lambda: pa.ipc.open_stream(packed).read_all()


def usable(log: LogJobs, earlier: Sequence[Checkpoint], until_s: float) -> Checkpoint | None:
    """The newest checkpoint before a time whose jobs the log still has unchanged; None where there is none."""
    for one in sorted(earlier, key=lambda one: -one.as_of_s):
        if one.as_of_s < until_s and one.digest == log.digest_at(one.as_of_s) and one.read() is not None:
            return one
    return None


def checkpoint_times(log: LogJobs, start_s: float, until_s: float) -> list[float]:
    """When to make checkpoints: at the ages of AGES_DAYS that lie between two times, the oldest first."""
    if not len(log.submit_s):
        return []
    newest_s = float(log.submit_s[-1])
    times = [newest_s - DAY_S * age for age in AGES_DAYS]
    return [at_s for at_s in times if max(start_s, float(log.submit_s[0])) < at_s < until_s]


def kept(checkpoints: Sequence[Checkpoint], newest_s: float) -> list[Checkpoint]:
    """Those to keep: the oldest one between any two of the ages, so that the next nights find one of every age."""
    by_age: dict[int, Checkpoint] = {}
    for one in sorted(checkpoints, key=lambda one: -one.as_of_s):
        age = (newest_s - one.as_of_s) / DAY_S
        if age < 2 * AGES_DAYS[0]:
            by_age[int(np.floor(np.log2(max(age, 0.5))))] = one
    return sorted(by_age.values(), key=lambda one: one.as_of_s)
