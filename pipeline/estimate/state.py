"""What has been learnt of a log: `learn`, `update` and `estimate` are one pass, so that their answers are the same.

A State has a Memory for each age at which answers are read. What is learnt for an age lags by that age: a table that is
read a day after it was made is answered by what was known a day before, and its errors are learnt from such answers.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import DAY_S, Array, Bools, Floats, Ints, arrays_in, arrays_of, copied, stored_arrays, tuple_of
from pipeline.errors import InputError
from pipeline.estimate import answer
from pipeline.estimate.answer import Jobs, Memory, Ring, Rings, advance, new_room
from pipeline.estimate.history import History
from pipeline.estimate.jobs import KEYS, Names, Numbered, hashes_of_names, jobs_of, no_names, set_bursts, texts
from pipeline.estimate.score import N_QUANTILES
from pipeline.kernels import compiles, interpreted
from pipeline.tables import JOBS, STATE

AGES_S = (0.0, DAY_S, 7 * DAY_S)
"""Ages of answers: at the submit, of a table of the night before, of one that is a week old."""
PART_JOBS = 50_000
"""Submits processed at a time: the memory of a pass grows with this, not with the log."""


class Age(NamedTuple):
    """One age: what it remembers, its answers to jobs, and which jobs' starts and ends it has learnt."""

    memory: Memory
    # (open jobs, N_ANSWER); what has ended has been compared.
    answers: Floats
    has_begun: Bools
    is_over: Bools


def _n_keys(names: Names) -> list[int]:
    """How many keys of each of KEYS there are; requests also have the key of any."""
    return [len(names.keys[name]) + (name == "request") for name in KEYS]


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
    # Per job the hash of its array's id, 0 for none.
    array: Ints
    # Per job the id of its record.
    ids: Array
    # Per user the place of the last submit.
    last: Ints
    # Hashes of the ids of jobs that ended within RECOGNISED_S.
    over: Ints
    # When they ended.
    over_s: Floats
    ages: dict[float, Age]
    record: Record
    as_of_s: float = -np.inf
    site: dict[str, str] = field(default_factory=dict)


def no_state(ages_s: Sequence[float] = AGES_S) -> State:
    """Nothing learnt."""
    none, jobs = np.empty(0, np.int64), Jobs(np.empty((0, answer.MEMORY + 1)), np.empty((0, answer.WHO + 1), np.int32))
    return State(
        no_names(), jobs, none, np.empty(0, object), np.full(1, -1), none, np.empty(0),
        {age_s: _no_age() for age_s in ages_s}, Record(np.empty(0), np.empty((0, len(answer.LEVELS))), np.empty(0)),
    )  # fmt: skip


def _no_age() -> Age:
    widths = [answer.WIDTHS[name] for name in Rings._fields]
    rings = Rings(*(Ring(np.array([[-1, 0, 0]], np.int32), np.empty((0, width), np.int32)) for width in widths))
    places = np.vstack([answer.FIRST_PLACES, np.zeros((1, len(answer.LEVELS)))])
    users, pairs = np.zeros((1, answer.N_OF_USER)), np.zeros((answer.N_TRAITS + 1, 2))
    memory = Memory(rings, users, np.zeros((1, 2)), places, pairs, np.zeros(4))
    return Age(memory, np.empty((0, answer.N_ANSWER)), np.empty(0, np.bool_), np.empty(0, np.bool_))


def learn(
    history: History, as_of_s: float = np.inf, ids: Sequence[str] | None = None, ages_s: Sequence[float] = AGES_S,
    found: dict[float, list[Floats]] | None = None,
) -> State:  # fmt: skip
    """The State of a log at a time; `found` gets, by age, the (jobs, 7) quantiles, s, that each job was answered with.

    Parameters
    ----------
    history : History
        n jobs in order of submit.
    as_of_s : float
        Time up to which events are learnt, s since 1970.
    ids : sequence of str, optional
        Id of each job's record.
    ages_s : sequence of float
        Ages, s, at which answers will be read.
    found : dict, optional
        Gets, by age, arrays of quantiles, s, one row a job.

    Returns
    -------
    State
        The state at `as_of_s`.

    Examples
    --------
    >>> from pipeline.estimate.history import history as history_of
    >>> log = history_of(tables["jobs"])
    >>> state = learn(log, as_of_s=float(log.submit_s[-1]))
    >>> state.names.n_submits == len(log)
    True
    """
    return update(no_state(ages_s), history, ids, as_of_s, found)


def update(
    state: State, later: History, ids: Sequence[str] | None = None, as_of_s: float = np.inf,
    found: dict[float, list[Floats]] | None = None,
) -> State:  # fmt: skip
    """The State after jobs that were submitted later, and later records of jobs that were open; see `fates_of`.

    It equals what `learn` makes of the whole log, to the bit, where every record came in time.

    Parameters
    ----------
    state : State
        The earlier state; it is not changed.
    later : History
        Jobs submitted since, and new records of jobs that were not over.
    ids : sequence of str, optional
        Id of each job's record.
    as_of_s : float
        Time up to which events are learnt, s since 1970.
    found : dict, optional
        Gets, by age, arrays of quantiles, s, one row a job.

    Returns
    -------
    State
        The state at `as_of_s`.

    Examples
    --------
    >>> from pipeline.estimate.history import history as history_of
    >>> log = history_of(tables["jobs"])
    >>> ids = [str(row) for row in log.row]
    >>> middle_s, last_s = float(np.median(log.submit_s)), float(log.submit_s[-1])
    >>> both, whole = update(learn(log, middle_s, ids), log, ids, last_s), learn(log, last_s, ids)
    >>> bool((both.ages[0.0].memory.users == whole.ages[0.0].memory.users).all())
    True
    """
    known = later.known_by(as_of_s) if np.isfinite(as_of_s) else later
    named = texts(str(row) for row in known.row) if ids is None else texts(ids[: len(known)])
    fate, place = fates_of(state, known, named)
    # The kernels work in place, and the State that is continued stays as it is.
    state = replace(state, last=state.last.copy(), ages={age_s: copied(age) for age_s, age in state.ages.items()})
    state = _with_events(state, known, place)
    fresh = np.flatnonzero(fate >= LATE)
    if len(fresh) < len(known):
        # A copy of a whole log takes as much memory as the log.
        known, named = known.take(fresh), named[fresh]
    # A job that was reported late counts as submitted now: what it would have changed has been answered.
    known = replace(known, submit_s=np.maximum(known.submit_s, state.as_of_s))
    n_kept = len(state.ids)
    for start in range(0, max(len(known), 1), PART_JOBS):
        rows = np.arange(start, min(start + PART_JOBS, len(known)))
        is_last = len(known) <= start + PART_JOBS
        until_s = float(as_of_s if is_last else known.submit_s[rows[-1]])
        state = _extended(state, known.take(rows), named[rows], until_s, found)
        if is_last or len(state.ids) > 2 * n_kept:
            state = compacted(state)
            n_kept = len(state.ids)
    return state


KNOWN, TOO_LATE, OPEN, LATE, NEW = range(5)
"""What `fates_of` says of a record: of a job that was over; of one that ended too long ago for its id to be kept; of a
job that was open; submitted by the State's time and not reported by then; submitted since."""


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
    at, jobs = place[rows], state.jobs._replace(values=state.jobs.values.copy())
    runtime_s = np.where(records.runtime_s > 0, records.runtime_s, np.nan)[rows]
    jobs.values[at, answer.START] = records.start_s[rows]
    jobs.values[at, answer.END] = records.end_s[rows]
    jobs.values[at, answer.RUNTIME] = runtime_s
    jobs.values[at, answer.LOG_RUNTIME] = np.log(runtime_s)
    jobs.values[at, answer.STOPPED] = records.is_lower_bound[rows]
    jobs.values[at, answer.LEARNT] = records.is_learnt[rows] & ~np.isnan(runtime_s)
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
    last = _grown(state.last, n_keys[0], -1)
    set_bursts(jobs, last, first, array, True)
    asked, room = np.arange(first, n), new_room(n)
    ages, record = {}, state.record
    for age_s, earlier in state.ages.items():
        age = _with_room(earlier, n, n_keys)
        by_start, by_end = _in_order(jobs, age, until_s - age_s)
        memory = _with_rows(age.memory, len(by_start), len(by_end))
        advance(jobs, memory, age.answers, room, asked, by_start, by_end, age_s, until_s - age_s)
        age.has_begun[by_start], age.is_over[by_end] = True, True
        # Jobs that left the queue unstarted are over.
        age.is_over[jobs.values[:, answer.END] <= until_s - age_s] = True
        ages[age_s] = age._replace(memory=memory, answers=age.answers[~age.is_over])
        room.seen[:] = -1
        if age_s == 0:
            record = _recorded(record, jobs, age.answers, by_end[jobs.values[by_end, answer.LEARNT] > 0])
        if found is not None:
            found.setdefault(age_s, []).append(age.answers[first:, : len(answer.LEVELS)].copy())
    return replace(
        state, names=names, jobs=jobs, array=array, ids=np.concatenate([state.ids, ids]), last=last, ages=ages,
        record=record, as_of_s=max(until_s, state.as_of_s),
    )  # fmt: skip


def _recorded(record: Record, jobs: Jobs, answers: Floats, over: Ints) -> Record:
    values = jobs.values[over]
    newer = Record(values[:, answer.RUNTIME], answers[over, : len(answer.LEVELS)], values[:, answer.PROCS])
    return Record(*(np.concatenate(both)[-RECORD_JOBS:] for both in zip(record, newer, strict=True)))


def _in_order(jobs: Jobs, age: Age, until_s: float) -> tuple[Ints, Ints]:
    """Places of the jobs whose starts, and of those whose ends, an age has to learn until a time, in order of these."""
    starts_s = np.maximum(jobs.values[:, answer.START], jobs.values[:, answer.SUBMIT] + 1.0)
    ends_s = np.where(np.isnan(jobs.values[:, answer.RUNTIME]), np.inf, jobs.values[:, answer.END])

    def fresh(times_s: Floats, is_known: Bools) -> Ints:
        places = np.flatnonzero(np.isfinite(times_s) & (times_s <= until_s) & ~is_known)
        return places[np.argsort(times_s[places], kind="stable")]

    return fresh(starts_s, age.has_begun), fresh(ends_s, age.is_over)


def _joined(first: Jobs, second: Jobs) -> Jobs:
    return Jobs(*(np.concatenate(both) for both in zip(first, second, strict=True)))


def _with_room(age: Age, n_jobs: int, n_keys: list[int]) -> Age:
    """The age with a row for each job, and for each user and kind."""
    held, more, answers = age.memory, np.zeros(n_jobs - len(age.is_over), np.bool_), np.zeros((n_jobs, answer.N_ANSWER))
    answers[np.flatnonzero(~age.is_over)] = age.answers
    rings = (
        ring._replace(heads=_grown(ring.heads, n_keys[answer.KEY_OF_RING[name] - answer.USER], (-1, 0, -1)))
        for name, ring in held.rings._asdict().items()
    )
    users, kinds = _grown(held.users, n_keys[0]), _grown(held.kinds, n_keys[1])
    memory = held._replace(rings=Rings(*rings), users=users, kinds=kinds)
    begun, over = (np.concatenate([one, more]) for one in (age.has_begun, age.is_over))
    return Age(memory, answers, begun, over)


def _grown(array: Array, n_rows: int, blank: Any = 0) -> Array:
    """The array with rows for new keys before its last one, which stands for a key that is not known."""
    more = np.full((n_rows + 1 - len(array), *array.shape[1:]), blank, array.dtype)
    return np.concatenate([array[:-1], more, array[-1:]]) if len(more) else array


def _with_rows(memory: Memory, n_starts: int, n_ends: int) -> Memory:
    """The memory with a free row in each ring for each event."""
    rings = {}
    for name, ring in memory.rings._asdict().items():
        # An ended job is put in for its user and queue, and for its request and any.
        room = min({"running": n_starts, "ended": 2 * n_ends, "request": 2 * n_ends}.get(name, n_ends), len(ring.heads))
        n_more = max(int(ring.heads[-1, answer.ROW]) + room - len(ring.jobs), 0)
        more = np.full((n_more, ring.jobs.shape[1]), -1, np.int32)
        rings[name] = ring._replace(jobs=np.concatenate([ring.jobs, more]))
    return memory._replace(rings=Rings(**rings))


def compacted(state: State) -> State:
    """The State without jobs that nothing refers to any more, and without free rows; its answers stay the same."""
    fresh = np.flatnonzero(state.ages[0.0].is_over & (state.ids != ""))
    over = np.concatenate([state.over, hashes_of_names(state.ids[fresh].tolist())[:-1]])
    over_s = np.concatenate([state.over_s, state.jobs.values[fresh, answer.END]])
    by_id = np.argsort(over, kind="stable")
    by_id = by_id[over_s[by_id] > state.as_of_s - RECOGNISED_S]
    kept = np.zeros(len(state.jobs.values), np.bool_)
    kept[state.last[state.last >= 0]] = True
    for age in state.ages.values():
        kept |= ~age.is_over
        for ring in age.memory.rings:
            for places in (ring.heads[:, 0], ring.jobs[: ring.heads[-1, answer.ROW]]):
                kept[places[places >= 0]] = True
    number: Array = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1).astype(np.int32)
    ages = {}
    for age_s, age in state.ages.items():
        rings = Rings(*(
            Ring(np.column_stack([number[heads[:, 0]], heads[:, 1:]]), number[places[: heads[-1, answer.ROW]]])
            for heads, places in age.memory.rings
        ))  # fmt: skip
        memory = age.memory._replace(rings=rings)
        ages[age_s] = Age(memory, age.answers, age.has_begun[kept], age.is_over[kept])
    jobs = Jobs(state.jobs.values[kept], state.jobs.codes[kept])
    # Bursts and sessions are named by a job's place: by that of their first job that is kept.
    for column in (answer.BURST, answer.SESSION):
        jobs.codes[:, column] = _renamed(jobs.codes[:, column])
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

    Parameters
    ----------
    state : State
        Result of `learn` or `update`.
    questions : History
        n jobs to estimate, as `questions_of` makes them.

    Returns
    -------
    Floats
        float64[n, 7], s: quantiles at 10, 50, 80, 90, 95 and 99%, ascending in each row, and at 2.5%.

    Examples
    --------
    >>> from pipeline.estimate.history import history as history_of
    >>> from pipeline.estimate.questions import questions_of
    >>> log = history_of(tables["jobs"])
    >>> now_s = float(log.submit_s[-1])
    >>> job = {"user": "1", "requested_s": 3600.0, "procs": 4}
    >>> quantiles_s = estimate(learn(log, now_s), questions_of([job], np.array([now_s]), "UTC"))
    >>> quantiles_s.shape, bool(quantiles_s[0, 1] <= 3600.0)
    ((1, 7), True)
    """
    found = np.full((len(questions), len(answer.LEVELS)), np.nan)
    of_age = np.searchsorted(sorted(state.ages), questions.submit_s - state.as_of_s - SAME_S)
    for nth, age_s in enumerate(sorted(state.ages)):
        own = np.flatnonzero(np.minimum(of_age, len(state.ages) - 1) == nth)
        if len(own):
            found[own] = _asked(state, age_s, questions.take(own))
    return found


FEW = 20
"""So many jobs are answered by kernels that run as Python, 10 ms each, so that a query does not wait for numba."""
SAME_S = 3600.0
"""A submit so long after the State's time is answered as one at it."""


def _asked(state: State, age_s: float, questions: History) -> Floats:
    # What has happened by the State's time and has not been learnt at this age is learnt before the questions join the
    # jobs: their number must not change it.
    jobs, until_s, nothing, first = state.jobs, state.as_of_s, np.empty(0, np.int64), len(state.ids)
    age = state.ages[age_s]
    memory, (by_start, by_end) = age.memory, _in_order(jobs, age, until_s)
    n_events = len(by_start) + len(by_end)
    is_quick = not compiles() and n_events + len(questions) <= FEW
    with interpreted() if is_quick else nullcontext():
        if n_events:
            age = _with_room(copied(age), first, _n_keys(state.names))
            memory = _with_rows(age.memory, len(by_start), len(by_end))
            advance(jobs, memory, age.answers, new_room(first), nothing, by_start, by_end, 0.0, until_s)
        fresh, _ = jobs_of(questions, state.names, registers=False)
        jobs, n = _joined(jobs, fresh), first + len(questions)
        set_bursts(jobs, state.last, first, np.concatenate([state.array, np.zeros(len(questions), np.int64)]), False)
        answers = np.zeros((n, answer.N_ANSWER))
        advance(jobs, memory, answers, new_room(n), np.arange(first, n), nothing, nothing, 0.0, until_s)
    return answers[first:, : len(answer.LEVELS)]


FORMAT = 21
"""Raised when the arrays change their meaning: a State of another format is refused; the next run learns it anew."""
AGAIN = "run again: a run learns the state from its logs"
PLAIN = ("array", "ids", "last", "over", "over_s")


def state_table(state: State) -> pa.Table:
    """STATE: equal States give equal rows."""
    return STATE.build(**stored_arrays(dict(_arrays(state))))


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
    yield from arrays_of("jobs", state.jobs)
    yield from arrays_of("record", state.record)
    yield "ages_s", np.array(list(state.ages))
    for nth, age in enumerate(state.ages.values()):
        yield from arrays_of(f"age{nth}", age)


def _state(arrays: Mapping[str, Array]) -> State:
    keys = dict.fromkeys(name.split(".")[1] for name in arrays if name.startswith("keys."))
    named = {name[6:]: values for name, values in arrays.items() if name.startswith("names.")}
    known = {name: {text: code for code, text in enumerate(values)} for name, values in named.items()}
    numbered = {name: tuple_of(Numbered, f"keys.{name}", arrays) for name in keys}
    return State(
        names=Names(known, numbered, int(arrays["n_submits"][0])),
        ages={age_s: tuple_of(Age, f"age{nth}", arrays) for nth, age_s in enumerate(arrays["ages_s"].tolist())},
        as_of_s=float(arrays["as_of_s"][0]),
        site=dict(zip(arrays["site.facts"], arrays["site.values"], strict=True)),
        jobs=tuple_of(Jobs, "jobs", arrays),
        record=tuple_of(Record, "record", arrays),
        **{name: arrays[name] for name in PLAIN},
    )
