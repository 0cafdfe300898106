"""What has been learnt of a log: `learn`, `update` and `estimate` are one pass, so that their answers are the same.

A State has a Memory for each age at which answers are read. What is learnt for an age lags by that age: a table that is
read a day after it was made is answered by what was known a day before, and its errors are learnt from such answers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Array, Bools, Floats, Ints, list_values, lists
from pipeline.errors import InputError
from pipeline.estimate.history import History
from pipeline.estimate.answer import (
    END,
    FIRST_PLACES,
    LEVELS,
    LOG_RUNTIME,
    N_CHOICES,
    N_ESTIMATES,
    N_TRAITS,
    PROCS,
    RUNTIME,
    START,
    SUBMIT,
    WHO,
    WIDTHS,
    Answers,
    Jobs,
    Keys,
    Memory,
    Ring,
    Rings,
    advance,
    new_room,
)
from pipeline.estimate.jobs import Names, Numbered, grown, hashes_of_names, jobs_of, no_names, set_bursts, texts
from pipeline.estimate.score import N_QUANTILES
from pipeline.tables import JOBS, STATE

DAY_S = 86_400.0
AGES_S = (0.0, DAY_S, 7 * DAY_S)
"""Ages of answers: at the submit, of a table of the night before, of one that is a week old."""
PART_JOBS = 50_000
"""Submits processed at a time: the memory of a pass grows with this, not with the log."""

KEY_OF_RING = {name: "user" if name in ("ended", "running") else name for name in Rings._fields}


class Age(NamedTuple):
    """One age: what it remembers, its answers to jobs, and which jobs' starts and ends it has learnt."""

    memory: Memory
    answers: Answers
    has_begun: Bools
    is_over: Bools


def _n_keys(names: Names) -> dict[str, int]:
    """How many keys of each kind there are; requests also have the key of any."""
    return {name: len(names.keys[name]) + (name == "request") for name in Keys._fields}


class Record(NamedTuple):
    """The latest ended jobs: runtimes, s, and what was answered at the submit; processors."""

    runtime_s: Floats
    quantiles_s: Floats
    procs: Floats


RECORD_JOBS = 20_000
RECOGNISED_S = 30 * DAY_S
"""Time after a job's end for which its id is kept, so that a repeated record is not learnt twice."""


@dataclass(frozen=True, slots=True)
class State:
    """The result of `learn`: arrays and texts."""

    names: Names
    jobs: Jobs
    array: Ints
    """Per job the hash of its array's id, 0 for none."""
    ids: Array
    """Per job the id of its record."""
    last: Ints
    """Per user the place of the last submit."""
    over: Ints
    """Hashes of the ids of jobs that ended within RECOGNISED_S."""
    over_s: Floats
    """When they ended."""
    ages: dict[float, Age]
    record: Record
    as_of_s: float = -np.inf
    site: dict[str, str] = field(default_factory=dict)


def no_state(ages_s: Sequence[float] = AGES_S) -> State:
    """Nothing learnt."""
    none = np.empty(0, np.int64)
    jobs = Jobs(
        np.empty((0, WHO + 1)), np.empty((0, N_TRAITS), np.int32), np.empty(0, np.bool_), np.empty(0, np.bool_), none,
        np.empty(0), none, Keys(*[none] * len(Keys._fields)),
    )  # fmt: skip
    return State(
        no_names(), jobs, none, np.empty(0, object), np.full(1, -1), none, np.empty(0), {age_s: _no_age() for age_s in ages_s},
        Record(np.empty(0), np.empty((0, len(LEVELS))), np.empty(0)),
    )  # fmt: skip


def _no_age() -> Age:
    blank, nothing = np.full(1, -1, np.int64), np.zeros(1, np.int64)
    rings = Rings(*(
        Ring(blank.copy(), nothing.copy(), blank.copy(), np.empty((0, WIDTHS[name]), np.int32), nothing.copy())
        for name in Rings._fields
    ))  # fmt: skip
    places = np.vstack([FIRST_PLACES, np.zeros((2, len(LEVELS)))])
    memory = Memory(
        rings, np.zeros((1, N_ESTIMATES + N_CHOICES)), np.zeros(1), places, np.zeros((N_TRAITS + 1, 2)),
        np.zeros((1, 2)), np.zeros((1, 2)), nothing.copy(), np.zeros(4),
    )  # fmt: skip
    no_answers = Answers(np.empty((0, len(LEVELS))), np.empty((0, N_ESTIMATES + N_CHOICES)), np.empty((0, 3)))
    return Age(memory, no_answers, np.empty(0, np.bool_), np.empty(0, np.bool_))


def learn(
    history: History, as_of_s: float = np.inf, ids: Sequence[str] | None = None, ages_s: Sequence[float] = AGES_S,
    found: dict[float, list[Floats]] | None = None,
) -> State:  # fmt: skip
    """The State of a log at a time; `found` gets, by age, the (jobs, 7) quantiles, s, that each job was answered with."""
    return update(no_state(ages_s), history, ids, as_of_s, found)


def update(
    state: State, later: History, ids: Sequence[str] | None = None, as_of_s: float = np.inf,
    found: dict[float, list[Floats]] | None = None,
) -> State:  # fmt: skip
    """The State after jobs that were submitted later, and later records of jobs that were open; see FATES.

    It equals what `learn` makes of the whole log, to the bit, where every record came in time.
    """
    known = later.known_by(as_of_s) if np.isfinite(as_of_s) else later
    named = texts(str(row) for row in known.row) if ids is None else texts(ids[: len(known)])
    fate, place = fates_of(state, known, named)
    # The kernels work in place, and the State that is continued stays as it is.
    state = replace(state, last=state.last.copy(), ages={age_s: _copied(age) for age_s, age in state.ages.items()})
    state = _with_events(state, known, place)
    fresh = np.flatnonzero(fate >= LATE)
    known, named = known.take(fresh), named[fresh]
    # A job that was reported late counts as submitted now: what it would have changed has been answered.
    known = replace(known, submit_s=np.maximum(known.submit_s, state.as_of_s))
    for start in range(0, max(len(known), 1), PART_JOBS):
        rows = np.arange(start, min(start + PART_JOBS, len(known)))
        is_last = len(known) <= start + PART_JOBS
        until_s = as_of_s if is_last else float(known.submit_s[rows[-1]])
        state = compacted(_extended(state, known.take(rows), named[rows], until_s, found))
    return state


KNOWN, TOO_LATE, OPEN, LATE, NEW = range(5)
"""FATES of a record: of a job that was over; of one that ended too long ago for its id to be kept; of one that was
open; submitted by the State's time and not reported by then; submitted since."""


def fates_of(state: State, records: History, ids: Array) -> tuple[Ints, Ints]:
    """Per record its fate, and the place of its open job in the State (-1: none)."""
    is_open = np.flatnonzero(~state.ages[0.0].is_over)
    places = dict(zip(state.ids[is_open].tolist(), is_open.tolist(), strict=True))
    place = np.array([places.get(name, -1) for name in ids], np.int64)
    is_known = np.isin(hashes_of_names(ids.tolist())[:-1], state.over)
    fate = np.where(records.submit_s > state.as_of_s, NEW, LATE)
    fate[records.end_s <= state.as_of_s - RECOGNISED_S] = TOO_LATE
    fate[(fate == LATE) & is_known] = KNOWN
    fate[place >= 0] = OPEN
    return fate, place


def ids_of(jobs: pa.Table, past: History) -> list[str]:
    """Per job of the history the id of its record: the key of JOBS, without a cluster that the log does not name."""
    rows = pa.array(past.row)
    keys = [jobs.column(name).cast(pa.string()).take(rows) for name in JOBS.key]
    ids: list[str] = pc.binary_join_element_wise(*keys, "\0", null_handling="skip").to_pylist()
    return ids


def _with_events(state: State, records: History, place: Ints) -> State:
    """The State with the starts and ends of its open jobs."""
    rows = np.flatnonzero(place >= 0)
    at, jobs = place[rows], Jobs(*(one if isinstance(one, Keys) else one.copy() for one in state.jobs))
    runtime_s = np.where(records.runtime_s > 0, records.runtime_s, np.nan)[rows]
    for column, values in ((START, records.start_s[rows]), (END, records.end_s[rows]), (RUNTIME, runtime_s)):
        jobs.values[at, column] = values
    jobs.values[at, LOG_RUNTIME] = np.log(runtime_s)
    jobs.is_stopped[at] = records.is_lower_bound[rows]
    jobs.is_learnt[at] = records.is_learnt[rows] & ~np.isnan(runtime_s)
    return replace(state, jobs=jobs)


def _extended(
    state: State, history: History, ids: Array, until_s: float, found: dict[float, list[Floats]] | None
) -> State:
    """The State after the submits, and all starts and ends until a time."""
    fresh, names = jobs_of(history, state.names, registers=True)
    first, n = len(state.jobs.values), len(state.jobs.values) + len(history)
    jobs = _joined(state.jobs, fresh)
    array = np.concatenate([state.array, hashes_of_names(history.names["array_id"])[history.codes["array_id"]]])
    n_keys = _n_keys(names)
    last = grown(state.last, n_keys["user"])
    set_bursts(jobs, last, first, array, True)
    asked, room = np.arange(first, n), new_room(n)
    has_end = np.isfinite(jobs.values[:, END]) & ~np.isnan(jobs.values[:, RUNTIME])
    starts_s = np.maximum(jobs.values[:, START], jobs.values[:, SUBMIT] + 1.0)
    ages, record = {}, state.record
    for age_s, age in state.ages.items():
        age = _with_room(age, n, n_keys)
        by_start = _in_order(starts_s, np.isfinite(starts_s) & ~age.has_begun, until_s - age_s)
        by_end = _in_order(jobs.values[:, END], has_end & ~age.is_over, until_s - age_s)
        memory = _with_rows(age.memory, len(by_start), len(by_end))
        advance(jobs, memory, age.answers, room, asked, by_start, by_end, age_s, until_s - age_s)
        age.has_begun[by_start], age.is_over[by_end] = True, True
        # Jobs that left the queue unstarted are over.
        age.is_over[jobs.values[:, END] <= until_s - age_s] = True
        ages[age_s] = age._replace(memory=memory)
        room.seen[:] = -1
        if age_s == 0:
            record = _recorded(record, jobs, age.answers, by_end[jobs.is_learnt[by_end]])
        if found is not None:
            found.setdefault(age_s, []).append(age.answers.quantiles_s[first:].copy())
    return replace(
        state, names=names, jobs=jobs, array=array, ids=np.concatenate([state.ids, ids]), last=last, ages=ages,
        record=record, as_of_s=max(until_s, state.as_of_s),
    )


def _recorded(record: Record, jobs: Jobs, answers: Answers, over: Ints) -> Record:
    newer = Record(jobs.values[over, RUNTIME], answers.quantiles_s[over], jobs.values[over, PROCS])
    return Record(*(np.concatenate(both)[-RECORD_JOBS:] for both in zip(record, newer, strict=True)))


def _in_order(times_s: Floats, chosen: Bools, until_s: float) -> Ints:
    places = np.flatnonzero(chosen & (times_s <= until_s))
    return places[np.argsort(times_s[places], kind="stable")]


def _joined(first: Any, second: Any) -> Any:
    """Both, column by column."""
    return type(first)(*(
        _joined(one, two) if isinstance(one, tuple) else np.concatenate([one, two])
        for one, two in zip(first, second, strict=True)
    ))  # fmt: skip


def _with_room(age: Age, n_jobs: int, n_keys: dict[str, int]) -> Age:
    """The age with a row for each job, and for each user and kind."""
    n_new = n_jobs - len(age.is_over)
    answers = Answers(*(
        np.concatenate([column, np.zeros((n_new, column.shape[1]))]) for column in age.answers
    ))  # fmt: skip
    more, held = np.zeros(n_new, np.bool_), age.memory
    rings = Rings(*(
        ring._replace(**{part: grown(getattr(ring, part), n_keys[KEY_OF_RING[name]]) for part in ("newest", "count", "row")})
        for name, ring in held.rings._asdict().items()
    ))  # fmt: skip
    users = {name: _grown(getattr(held, name), n_keys["user"]) for name in ("errors", "n_errors", "follows", "n_ended")}
    memory = held._replace(rings=rings, follows_of_kind=_grown(held.follows_of_kind, n_keys["kind"]), **users)
    begun, over = (np.concatenate([one, more]) for one in (age.has_begun, age.is_over))
    return Age(memory, answers, begun, over)


def _grown(array: Array, n_rows: int) -> Array:
    """The array with zeros for new keys; the last row, of all jobs, stays the last."""
    more = np.zeros((n_rows + 1 - len(array), *array.shape[1:]), array.dtype)
    return np.concatenate([array[:-1], more, array[-1:]]) if len(more) else array


def _with_rows(memory: Memory, n_starts: int, n_ends: int) -> Memory:
    """The memory with a free row in each ring for each event."""
    rings = {}
    for name, ring in memory.rings._asdict().items():
        room = min(n_starts if name == "running" else n_ends, len(ring.count))
        more = np.full((max(int(ring.n_rows[0]) + room - len(ring.jobs), 0), WIDTHS[name]), -1, np.int32)
        rings[name] = ring._replace(jobs=np.concatenate([ring.jobs, more]))
    return memory._replace(rings=Rings(**rings))


def compacted(state: State) -> State:
    """The State without jobs that nothing refers to any more, and without free rows; its answers stay the same."""
    fresh = np.flatnonzero(state.ages[0.0].is_over & (state.ids != ""))
    over = np.concatenate([state.over, hashes_of_names(state.ids[fresh].tolist())[:-1]])
    over_s = np.concatenate([state.over_s, state.jobs.values[fresh, END]])
    by_id = np.argsort(over, kind="stable")
    by_id = by_id[over_s[by_id] > state.as_of_s - RECOGNISED_S]
    kept = np.zeros(len(state.jobs.values), np.bool_)
    kept[state.last[state.last >= 0]] = True
    for age in state.ages.values():
        kept |= ~age.is_over
        for ring in age.memory.rings:
            for places in (ring.newest, ring.jobs[: ring.n_rows[0]]):
                kept[places[places >= 0]] = True
    number = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
    ages = {}
    for age_s, age in state.ages.items():
        rings = Rings(*(
            ring._replace(newest=number[ring.newest], jobs=number[ring.jobs[: ring.n_rows[0]]].astype(np.int32)) for ring in age.memory.rings
        ))  # fmt: skip
        answers = Answers(*(column[kept] for column in age.answers))
        ages[age_s] = Age(age.memory._replace(rings=rings), answers, age.has_begun[kept], age.is_over[kept])
    jobs = Jobs(*(Keys(*(key[kept] for key in one)) if isinstance(one, Keys) else one[kept] for one in state.jobs))
    # Bursts and sessions are named by a job's place: by that of their first job that is kept.
    jobs = jobs._replace(burst=_renamed(jobs.burst), session=_renamed(jobs.session))
    return replace(
        state, jobs=jobs, array=state.array[kept], ids=np.where(ages[0.0].is_over, "", state.ids[kept]),
        last=number[state.last], ages=ages, over=over[by_id], over_s=over_s[by_id],
    )  # fmt: skip


def _renamed(numbers: Ints) -> Ints:
    """The same partition, each part named by the place of its first job."""
    if not len(numbers):
        return numbers
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    return first[inverse]


def walltime(history: History) -> Floats:
    """(jobs, 6) quantiles, s, each as of the job's submit; the median is at most the request.

    Where the history is stale, each job is answered by the State of the midnight that is known to it.

    Parameters
    ----------
    history : History
        n jobs in order of submit.

    Returns
    -------
    Floats
        float64[n, 6], s: quantiles at 10, 50, 80, 90, 95 and 99%, ascending in each row.

    Examples
    --------
    >>> from pipeline.estimate.history import history as history_of
    >>> log = history_of(tables["jobs"])
    >>> quantiles_s = walltime(log)
    >>> quantiles_s.shape == (len(log), 6), bool((np.diff(quantiles_s, axis=1) >= 0).all())
    (True, True)
    """
    if history.stale_s is None:
        found: dict[float, list[Floats]] = {}
        learn(history, ages_s=(0.0,), found=found)
        return np.concatenate(found[0.0])[:, :N_QUANTILES]
    quantiles_s = np.full((len(history), N_QUANTILES), np.nan)
    for state, asking in nights(history):
        quantiles_s[asking] = estimate(state, history.take(asking))[:, :N_QUANTILES]
    return quantiles_s


def nights(history: History, ages_s: Sequence[float] = AGES_S) -> Iterator[tuple[State, Ints]]:
    """The State of each midnight that is known to a job, and the places of these jobs."""
    log, at_s, state = replace(history, stale_s=None), history.known_s, no_state(ages_s)
    for cut_s in np.unique(at_s).tolist():
        is_fresh = (log.submit_s > state.as_of_s) | (log.end_s > state.as_of_s)
        state = update(state, log.take(np.flatnonzero(is_fresh & (log.submit_s <= cut_s))), as_of_s=cut_s)
        yield state, np.flatnonzero(at_s == cut_s)


def estimate(state: State, questions: History) -> Floats:
    """(jobs, 7) quantiles, s, of jobs that are submitted at the State's time or later, each answered by itself.

    What is known is as old as the State: a job that is submitted a day later is answered as one was that read a table
    of the day before.
    """
    found = np.full((len(questions), len(LEVELS)), np.nan)
    of_age = np.searchsorted(sorted(state.ages), questions.submit_s - state.as_of_s - SAME_S)
    for nth, age_s in enumerate(sorted(state.ages)):
        own = np.flatnonzero(np.minimum(of_age, len(state.ages) - 1) == nth)
        if len(own):
            found[own] = _asked(state, age_s, questions.take(own))
    return found


SAME_S = 3600.0
"""A submit so long after the State's time is answered as one at it."""


def _asked(state: State, age_s: float, questions: History) -> Floats:
    jobs, age, until_s, nothing = state.jobs, _copied(state.ages[age_s]), state.as_of_s, np.empty(0, np.int64)
    starts_s = np.maximum(jobs.values[:, START], jobs.values[:, SUBMIT] + 1.0)
    has_end = np.isfinite(jobs.values[:, END]) & ~np.isnan(jobs.values[:, RUNTIME])
    by_start = _in_order(starts_s, np.isfinite(starts_s) & ~age.has_begun, until_s)
    by_end = _in_order(jobs.values[:, END], has_end & ~age.is_over, until_s)
    memory = _with_rows(age.memory, len(by_start), len(by_end))
    # Before the questions join the jobs: their number must not change what is learnt.
    advance(jobs, memory, age.answers, new_room(len(jobs.values)), nothing, by_start, by_end, 0.0, until_s)
    fresh, _ = jobs_of(questions, state.names, registers=False)
    first, n = len(jobs.values), len(jobs.values) + len(questions)
    jobs, age = _joined(jobs, fresh), _with_room(age._replace(memory=memory), n, _n_keys(state.names))
    set_bursts(jobs, state.last, first, np.concatenate([state.array, np.zeros(len(questions), np.int64)]), False)
    advance(jobs, memory, age.answers, new_room(n), np.arange(first, n), nothing, nothing, 0.0, until_s)
    return age.answers.quantiles_s[first:]


def _copied(age: Age) -> Age:
    """The age with arrays of its own."""

    def copy(value: Any) -> Any:
        return type(value)(*map(copy, value)) if isinstance(value, tuple) else value.copy()

    found: Age = copy(age)
    return found


FORMAT = 16
"""Raised when the arrays change their meaning: a State of another format is refused, and the next run learns it anew."""
AGAIN = "run again: a run learns the state from its logs"
VALUE_KINDS = {"floats": "f", "integers": "i", "flags": "b", "texts": "O"}
"""Which of numpy's kinds of values a column holds."""

PARTS: dict[Any, dict[str, Any]] = {
    State: {"jobs": Jobs, "record": Record}, Jobs: {"keys": Keys},
    Age: {"memory": Memory, "answers": Answers}, Memory: {"rings": Rings}, Rings: dict.fromkeys(Rings._fields, Ring),
}  # fmt: skip
"""By tuple, those of its fields that are tuples themselves."""
PLAIN = ("array", "ids", "last", "over", "over_s")


def state_table(state: State) -> pa.Table:
    """STATE: equal States give equal rows."""
    return arrays_table(dict(_arrays(state)))


def arrays_table(arrays: Mapping[str, Array]) -> pa.Table:
    """STATE of named arrays."""
    return STATE.build(
        array=list(arrays),
        shape=lists([np.array(values.shape, np.int64) for values in arrays.values()], pa.int64()),
        **{name: _column(arrays.values(), name) for name in VALUE_KINDS},
    )


def arrays_in(table: pa.Table) -> dict[str, Array]:
    """The arrays of a STATE by name; they can be written."""
    names, shapes = table.column("array").to_pylist(), list_values(table.column("shape"))
    by_kind = zip(*(list_values(table.column(name)) for name in VALUE_KINDS), strict=True)
    held = [next(values for values in row if values is not None) for row in by_kind]
    return {name: one.reshape(shape).copy() for name, shape, one in zip(names, shapes, held, strict=True)}


def loaded_state(table: pa.Table, where: str) -> State:
    """The State of a STATE; InputError, which names the table as `where`, for another format."""
    arrays = arrays_in(table)
    try:
        found = arrays["format"].tolist()
        if found != [FORMAT]:
            raise InputError(where, f"a state of format {found[0]}", f"format {FORMAT}", AGAIN)
        return _state(arrays)
    except KeyError as missing:
        raise InputError(where, f"a state without {missing.args[0]}", f"one of format {FORMAT}", AGAIN) from None


def _arrays(state: State) -> Iterator[tuple[str, Array]]:
    yield "format", np.array([FORMAT])
    yield "as_of_s", np.array([state.as_of_s])
    yield "n_submits", np.array([state.names.n_submits])
    yield from (("site.facts", texts(state.site)), ("site.values", texts(state.site.values())))
    yield from ((f"names.{name}", texts(known)) for name, known in state.names.texts.items())
    for name, numbered in state.names.keys.items():
        yield from ((f"keys.{name}.{part}", values) for part, values in numbered._asdict().items())
    yield from ((name, getattr(state, name)) for name in PLAIN)
    yield from _flat("jobs", state.jobs)
    yield from _flat("record", state.record)
    yield "ages_s", np.array(list(state.ages))
    for nth, age in enumerate(state.ages.values()):
        yield from _flat(f"age{nth}", age)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    if isinstance(value, tuple):
        for key, one in value._asdict().items():  # type: ignore[attr-defined]
            yield from _flat(f"{name}.{key}", one)
    else:
        yield name, value


def _state(arrays: Mapping[str, Array]) -> State:
    keys = dict.fromkeys(name.split(".")[1] for name in arrays if name.startswith("keys."))
    known = {name[6:]: {text: code for code, text in enumerate(arrays[name])} for name in arrays if name[:6] == "names."}
    numbered = {name: _tuple(Numbered, f"keys.{name}", arrays) for name in keys}
    return State(
        names=Names(known, numbered, int(arrays["n_submits"][0])),
        ages={age_s: _tuple(Age, f"age{nth}", arrays) for nth, age_s in enumerate(arrays["ages_s"].tolist())},
        as_of_s=float(arrays["as_of_s"][0]),
        site=dict(zip(arrays["site.facts"], arrays["site.values"], strict=True)),
        **{name: _tuple(kind, name, arrays) for name, kind in PARTS[State].items()},
        **{name: arrays[name] for name in PLAIN},
    )


def _tuple(kind: Any, name: str, arrays: Mapping[str, Array]) -> Any:
    inner = PARTS.get(kind, {})
    return kind(*(
        _tuple(inner[key], f"{name}.{key}", arrays) if key in inner else arrays[f"{name}.{key}"] for key in kind._fields
    ))  # fmt: skip


def _column(arrays: Iterable[Array], name: str) -> pa.Array:
    """The values of the arrays that stand in a column, one row an array."""
    values = [array.ravel() if array.dtype.kind == VALUE_KINDS[name] else None for array in arrays]
    return lists(values, STATE.schema().field(name).type.value_type)

