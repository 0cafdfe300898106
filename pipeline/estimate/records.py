"""Matches the records of a later log to the jobs of a State: open jobs, jobs that were over, or new jobs."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Bools, Ints
from pipeline.estimate.history import History
from pipeline.estimate.keys import MASK
from pipeline.estimate.state import OVER, Over, State

RECOGNISED_S = 30 * 86_400.0
"""Time after a job's end for which its id is kept, so that a repeated record is not learnt twice."""

OPEN, KNOWN, TOO_LATE, LATE, NEW = range(5)
"""OPEN: a job that was not over. KNOWN: a job that was over. TOO_LATE: a job that ended too long ago for its id to be
kept. LATE: submitted by the state's time, but not reported by then. NEW: submitted since."""


class Fates(NamedTuple):
    """Per record its fate, and the place of its job in the State (-1: not open there)."""

    fate: Ints
    place: Ints


def fates_of(state: State, records: History, ids: Sequence[str]) -> Fates:
    """The fate of each record of a later log; `ids` identifies the records as `state.ids` does."""
    is_open = (state.progress != OVER).tolist()
    known = {name: row for row, (name, keeps) in enumerate(zip(state.ids, is_open, strict=True)) if keeps}
    place = np.array([known.get(name, -1) for name in ids], np.int64)
    fate = np.where(records.submit_s > state.as_of_s, NEW, LATE)
    fate[records.end_s <= state.as_of_s - RECOGNISED_S] = TOO_LATE
    unmatched = np.flatnonzero((fate == LATE) & (place < 0))
    fate[unmatched[np.isin(_digests(ids[row] for row in unmatched.tolist()), state.over.digest)]] = KNOWN
    fate[place >= 0] = OPEN
    return Fates(fate, place)


def over_by(before: Over, records: History, ids: Sequence[str], as_of_s: float) -> Over:
    """The jobs that ended within RECOGNISED_S before a time: those of `before` and those of the records."""
    ended = np.flatnonzero(_is_recent(records.end_s, as_of_s))
    digest = np.concatenate([before.digest, _digests(ids[row] for row in ended.tolist())])
    end_s = np.concatenate([before.end_s, records.end_s[ended]])
    digest, first = np.unique(digest, return_index=True)
    is_kept = _is_recent(end_s[first], as_of_s)
    return Over(digest[is_kept], end_s[first][is_kept])


def _is_recent(end_s: np.ndarray, as_of_s: float) -> Bools:
    found: Bools = (end_s <= as_of_s) & (end_s > as_of_s - RECOGNISED_S)
    return found


def _digests(names: Iterable[str]) -> Ints:
    """A 63-bit hash of each name."""
    raw = b"".join(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in names)
    return (np.frombuffer(raw, "<u8") & MASK).astype(np.int64)


def ids_of(jobs: pa.Table, past: History) -> list[str]:
    """Per job of the history the id of its record: site, job id and restart."""
    rows = pa.array(past.row)
    site, job_id = (jobs.column(name).cast(pa.string()).take(rows).to_pylist() for name in ("site", "job_id"))
    restart = jobs.column("restart").take(rows).to_pylist()
    return [f"{where}\0{name}\0{number}" for where, name, number in zip(site, job_id, restart, strict=True)]
