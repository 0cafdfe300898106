"""The estimator's state: the jobs it remembers, and the state of each of its parts."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate import chains, group_record, similar_jobs
from pipeline.estimate.blend import Errors, no_errors
from pipeline.estimate.chains import Chain, no_chain
from pipeline.estimate.group_record import Evidence
from pipeline.estimate.history import History
from pipeline.estimate.keys import MASK, Keys, grown, no_keys
from pipeline.estimate.law_curves import LawCurves, no_curves
from pipeline.estimate.nightly.rows import N_CLASSES, N_READ, Rows, no_rows
from pipeline.estimate.similar_jobs import Memory
from pipeline.estimate.submits import ATTRIBUTES, TRAITS, Events, Jobs, LastSubmits, Use, no_submits, no_use, part
from pipeline.tables import JOBS

N = TypeVar("N", bound=NamedTuple)

QUEUED, RUNNING, OVER = range(3)

LEARNT = ("live", "served", "choice")
"""Names of what is learnt of answers: at the submit, of rows of the table, of the choices of the ensemble."""


class Outputs(NamedTuple):
    """Per job the outputs of the parts at its submit; they are needed again when the job ends."""

    method_s: Floats
    """(jobs, methods) the estimates that are combined."""
    rung_s: Floats
    """(jobs, quantiles) positions of the calibrated quantiles on the ladder."""
    quantiles_s: Floats
    """(jobs, quantiles) the estimate; (jobs, columns x quantiles) what the rows read said."""
    kinds: Floats
    """(jobs, kinds) 1 where a job is of a kind whose quantiles are calibrated apart, else 0; (jobs, columns) the
    class of each row read; NaN: no row."""


class Learnt(NamedTuple):
    """What is learnt of answers: errors of the methods, positions of the quantiles, outputs of the jobs."""

    errors: Errors
    rungs: Floats
    """(kinds, quantiles); of rows (classes, quantiles + 1): positions, what those on few jobs add, jobs learnt from."""
    outputs: Outputs


RECORD_JOBS = 20_000
"""Latest ended jobs that a Record has."""


class Record(NamedTuple):
    """The latest ended jobs: runtimes and the quantiles estimated at their submit, s; processors."""

    runtime_s: Floats
    quantiles_s: Floats
    procs: Floats


class Over(NamedTuple):
    """Jobs, or arrays with tasks, that ended shortly before the state's time: a hash of each id, ascending, and its
    (last) end, s."""

    digest: Ints
    end_s: Floats


@dataclass(frozen=True, slots=True)
class State:
    """The result of `learn`: only arrays and texts, so that it can be stored as a table (state_table.py)."""

    names: dict[str, dict[str, int]]
    """Per attribute the code of each text, in order of code."""
    requests: Keys
    groups: Keys
    sizes: Keys
    jobs: Jobs
    """The jobs remembered, in order of submit."""
    ids: list[str]
    """Per job, the id of its record."""
    progress: Ints
    """Per job: QUEUED, RUNNING or OVER."""
    live: Learnt
    """Of answers at the submit."""
    served: Learnt
    """Of answers of rows of the table, as old as they are when they are read."""
    choice: Learnt
    """Of the choices of the ensemble: their errors alone."""
    rows: Rows
    last_submits: LastSubmits
    use: Use
    memory: Memory
    evidence: Evidence
    laws: LawCurves
    chain: Chain
    record: Record
    over: Over
    arrays: Over
    n_submits: int = 0
    as_of_s: float = -np.inf
    """The time up to which events are part of the state, s."""
    site: dict[str, str] = field(default_factory=dict)
    """Facts about the log's site, by name."""


def no_state(n_methods: int, n_choices: int, first_rungs: Floats) -> State:
    """Nothing learnt yet."""
    none, (n_kinds, n_quantiles) = np.empty(0, np.int64), first_rungs.shape

    widths = live_widths(n_methods, n_quantiles, n_kinds)
    live = Learnt(no_errors(n_methods), first_rungs.copy(), no_outputs(0, widths))
    rungs = np.zeros((N_CLASSES, n_quantiles + 1))
    rungs[::2, :-1] = first_rungs[0]
    served = Learnt(no_errors(n_methods), rungs, no_outputs(0, (n_methods, 0, N_READ * n_quantiles, N_READ)))
    choice = Learnt(no_errors(n_choices), np.zeros((0, n_quantiles)), no_outputs(0, (n_choices, 0, 0, 0)))
    return State(
        names={name: {} for name in NAMED}, requests=no_keys(), groups=no_keys(), sizes=no_keys(),
        jobs=no_jobs(), ids=[], progress=none, live=live, served=served, choice=choice,
        rows=no_rows(n_methods, n_quantiles),
        last_submits=no_submits(), use=no_use(), memory=similar_jobs.no_memory(), evidence=group_record.no_evidence(),
        laws=no_curves(), chain=no_chain(),
        record=Record(np.empty(0), np.empty((0, n_quantiles)), np.empty(0)), over=Over(none, np.empty(0)),
        arrays=Over(none, np.empty(0)),
    )  # fmt: skip


NAMED = ("who", *ATTRIBUTES)
"""Attributes whose values the estimator compares."""

_CODES = {"who", "what", "request", "group", "size", "burst", "session", "array"}
_FLAGS = {"is_lower_bound", "is_learnt"}


def no_jobs() -> Jobs:
    """No job."""
    types = [np.int64 if name in _CODES else np.bool_ if name in _FLAGS else np.float64 for name in Jobs._fields]
    blank = Jobs(*(np.empty(0, dtype) for dtype in types))
    return blank._replace(traits=np.empty((0, len(TRAITS)), np.int64))


def live_widths(n_methods: int, n_quantiles: int, n_kinds: int) -> tuple[int, ...]:
    """Columns of each of the Outputs of answers at the submit."""
    return n_methods, n_quantiles, n_quantiles, n_kinds


def no_outputs(n: int, widths: Iterable[int]) -> Outputs:
    """Outputs of n jobs before any estimate: all NaN."""
    return Outputs(*(np.full((n, width), np.nan) for width in widths))


def each_learnt(state: State, change: Callable[[Learnt], Learnt]) -> State:
    """The state with what is learnt of each kind of answers changed."""
    return replace(state, live=change(state.live), served=change(state.served), choice=change(state.choice))


def with_rows(state: State, n_jobs: int) -> State:
    """The state with a row for each submitter, request, group and size, and for so many jobs."""
    n_who, n_groups = len(state.names["who"]), len(state.groups)

    def with_who(one: Learnt) -> Learnt:
        held, n_new = one.errors, n_jobs - len(one.outputs.method_s)
        more = (np.full((n_new, column.shape[1]), np.nan) for column in one.outputs)
        errors = held._replace(of_who=grown(held.of_who, n_who), n_of_who=grown(held.n_of_who, n_who))
        both = zip(one.outputs, more, strict=True)
        return one._replace(errors=errors, outputs=Outputs(*(np.concatenate(columns) for columns in both)))

    state = each_learnt(state, with_who)
    return replace(
        state,
        last_submits=LastSubmits(*(grown(column, n_who) for column in state.last_submits)),
        use=state.use._replace(of_request=grown(state.use.of_request, len(state.requests))),
        memory=similar_jobs.with_keys(state.memory, n_who, len(state.requests), n_groups, n_jobs),
        evidence=group_record.with_keys(state.evidence, len(state.sizes), n_groups, n_who),
        laws=state.laws._replace(of_group=grown(state.laws.of_group, n_groups)),
    )


def progressed(state: State, events: Events) -> Ints:
    """The progress of every job after the events."""
    progress = state.progress.copy()
    progress[events.by_start] = np.maximum(progress[events.by_start], RUNNING)
    progress[events.by_end] = OVER
    progress[events.by_leave] = OVER
    return progress


def compacted(state: State, n_entries: int) -> State:
    """The state without jobs and runtimes that no part uses any more; its estimates stay the same to the bit.

    `n_entries`: entries of the chain in use.
    """
    is_over, memory = state.progress == OVER, state.memory
    memory.running[np.append(is_over, False)[memory.running]] = -1
    is_kept = ~is_over
    for places in similar_jobs.places_of(memory):
        is_kept[places[places >= 0]] = True
    number = np.append(np.where(is_kept, np.cumsum(is_kept) - 1, -1), -1)
    for places in similar_jobs.places_of(memory):
        places[:] = number[places]
    kept = np.flatnonzero(is_kept)
    state = each_learnt(state, lambda one: one._replace(outputs=Outputs(*(column[kept] for column in one.outputs))))
    return replace(
        state,
        jobs=part(state.jobs, kept),
        ids=[state.ids[place] for place in kept],
        progress=state.progress[kept],
        memory=memory._replace(before=memory.before[kept]),
        chain=chains.compacted(state.chain, n_entries, state.last_submits.session),
    )


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


def firsts_of_arrays(array: Ints, end_s: Floats, before: Over, as_of_s: float) -> tuple[Bools, Over]:
    """Per ended job, in order of end, whether none of its array ended within RECOGNISED_S before; what is known then.

    `array`: hashes of arrays, -1 for a job in none.
    """
    own = np.flatnonzero(array >= 0)
    digest, ends_s = np.concatenate([before.digest, array[own]]), np.concatenate([before.end_s, end_s[own]])
    order = np.argsort(digest, kind="stable")
    digest, ends_s = digest[order], ends_s[order]
    goes_on = np.append(False, digest[1:] == digest[:-1])[: len(order)]
    goes_on &= np.diff(ends_s, prepend=-np.inf) < RECOGNISED_S
    found, place = np.ones(len(array), np.bool_), order - len(before.digest)
    found[own[place[place >= 0]]] = ~goes_on[place >= 0]
    is_kept = np.append(digest[1:] != digest[:-1], True)[: len(order)] & _is_recent(ends_s, as_of_s)
    return found, Over(digest[is_kept], ends_s[is_kept])


def _is_recent(end_s: np.ndarray, as_of_s: float) -> Bools:
    return (end_s <= as_of_s) & (end_s > as_of_s - RECOGNISED_S)


def _digests(names: Iterable[str]) -> Ints:
    """A 63-bit hash of each name."""
    raw = b"".join(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in names)
    return (np.frombuffer(raw, "<u8") & MASK).astype(np.int64)


def ids_of(jobs: pa.Table, past: History) -> list[str]:
    """Per job of the history the id of its record: the key of JOBS, without a cluster that the log does not name."""
    rows = pa.array(past.row)
    keys = [jobs.column(name).cast(pa.string()).take(rows) for name in JOBS.key]
    ids: list[str] = pc.binary_join_element_wise(*keys, "\0", null_handling="skip").to_pylist()
    return ids
