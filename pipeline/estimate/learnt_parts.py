"""One pass over a log in parts: each part's estimates, and the State after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.estimate import chains
from pipeline.estimate.ensemble import CHOICES, FIRST_RUNGS, METHODS, Views, answered, centers, views_of
from pipeline.estimate.history import History
from pipeline.estimate.keys import mixed, numbers, with_new
from pipeline.estimate.nightly.rows import (
    AGES_DAYS,
    SERVED_DAYS,
    Rows,
    as_asked,
    distinct,
    pruned,
    questions_of_rows,
    ratio_base_s,
    read_each,
    taken,
    touched,
)
from pipeline.estimate.nightly.serving import reading_of, serve
from pipeline.estimate.score import N_QUANTILES, QUANTILES
from pipeline.estimate.state import (
    NAMED,
    OVER,
    QUEUED,
    RECORD_JOBS,
    RUNNING,
    Outputs,
    Record,
    State,
    compacted,
    firsts_of_arrays,
    no_state,
    progressed,
    with_rows,
)
from pipeline.estimate.submits import (
    MEMORY,
    PROBLEM_SIZE,
    Events,
    Jobs,
    capped,
    events_of,
    jobs_of,
    joined,
    part,
    programs,
    sizes,
    with_known_programs,
    with_meant_requests,
    with_sessions,
)
from pipeline.report import count_done
from pipeline.workers import return_free_memory

if TYPE_CHECKING:
    from pipeline.estimate.estimate_rules import EstimateRules


def empty() -> State:
    """The State of no log."""
    return no_state(len(METHODS), len(CHOICES), FIRST_RUNGS)


def with_new_names(history: History, names: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """The codes in `names`, followed by codes for the history's new texts."""
    found = {name: dict(names[name]) for name in NAMED}
    for name, codes in found.items():
        for text in history.names[name]:
            codes.setdefault(text, len(codes))
    return found


def recoded(history: History, names: dict[str, dict[str, int]]) -> History:
    """The history with codes as in `names`; all other texts have the code after the last one."""
    codes = dict(history.codes)
    for name in NAMED:
        texts, own = history.names[name], history.codes[name].tolist()
        known = {code: names[name].get(texts[code], len(names[name])) if code >= 0 else -1 for code in set(own)}
        codes[name] = np.array([known[code] for code in own], np.int64)
    return replace(history, codes=codes)


class Part(NamedTuple):
    """The submits' quantiles, s, the rows of the table that they can read, and the State after the part."""

    quantiles_s: Floats
    rows: Rows
    state: State


def learnt_parts(
    history: History, settings: EstimateRules, until_s: float, part_jobs: int, state: State | None = None,
    ids: list[str] | None = None, *, rows_days: float | None = max(AGES_DAYS),
) -> Iterator[Part]:  # fmt: skip
    """The parts, of which there is at least one; the last one ends at `until_s`.

    `rows_days`: age at which rows of the table are read at most; None: no rows are made.
    """
    state = state or empty()
    names = with_new_names(history, state.names)
    history = recoded(history, names)
    names_known = {name: len(texts) for name, texts in state.names.items()}
    edges = [*range(0, len(history), part_jobs), len(history)] if len(history) else [0, 0]
    for start, stop in pairwise(edges):
        own, n_programs = history.take(np.arange(start, stop)), names_known["what"]
        for name in NAMED:
            names_known[name] = max(names_known[name], int(own.codes[name].max(initial=-1)) + 1)
        state = replace(state, names={name: dict(islice(names[name].items(), n)) for name, n in names_known.items()})
        part_until_s = until_s if stop == len(history) else float(own.submit_s[-1])
        own_ids = [str(row) for row in own.row] if ids is None else ids[start:stop]
        found, n_entries = _extended(state, n_programs, own, own_ids, part_until_s, settings, rows_days)
        state = compacted(found.state, n_entries)
        count_done("jobs learnt", len(own))
        yield found._replace(state=state)
        # The next part needs the room of this one.
        del found
        return_free_memory()


def _extended(
    state: State,
    n_programs: int,
    history: History,
    ids: list[str],
    until_s: float,
    settings: EstimateRules,
    rows_days: float | None,
) -> tuple[Part, int]:
    """The submits' estimates and the State after all events until a time, and the entries of its chain in use."""
    first, nth = len(state.jobs.who), state.n_submits + 1 + np.arange(len(ids))
    n_names = np.maximum.accumulate(np.append(n_programs - 1, history.codes["what"]))[1:] + 1
    jobs = with_known_programs(jobs_of(history), n_names, nth)
    state = replace(
        state, requests=with_new(state.requests, request_digests(jobs)),
        groups=with_new(state.groups, group_digests(jobs)), sizes=with_new(state.sizes, size_digests(jobs)),
    )  # fmt: skip
    state = with_rows(state, first + len(ids))
    jobs = with_numbers(jobs, state)
    jobs = with_sessions(jobs, state.last_submits, state.n_submits, gaps_s(settings), registers=True)
    past = joined(state.jobs, jobs)
    progress = np.concatenate([state.progress, np.full(len(ids), QUEUED, np.int64)])
    events = events_of(past, first, history.known_s, until_s, progress == OVER, progress >= RUNNING)
    over = events.by_end[past.is_learnt[events.by_end]]
    is_apart, arrays = firsts_of_arrays(past.array[over], past.end_s[over], state.arrays, until_s)
    rows = state.rows if rows_days is None else touched(state.rows, past, over, is_apart, state.as_of_s)
    asked = _asked(rows, jobs, past, events, state, until_s)
    asked = asked._replace(jobs=with_meant_requests(asked.jobs, past, asked.events, state.use, settings))
    jobs = part(asked.jobs, asked.submits)
    past = joined(state.jobs, jobs)
    digests = chains.digests_of(past)
    digests[:, progress == OVER] = -1
    n_entries = len(state.chain.latest.before)
    room = len(chains.LOOK_BACK) * len(events.by_end)
    chain = chains.with_keys(state.chain, digests, past.session, room)
    codes = chains.numbered(chain, digests)
    state = replace(state, chain=chain, ids=[*state.ids, *ids], progress=progress, jobs=past)
    own_codes = chains.numbered(chain, chains.digests_of(asked.jobs))
    views = views_of(state, asked.jobs, past, asked.events, (own_codes, codes), settings)
    live = views.take(asked.submits)
    state.live.outputs.method_s[first:] = live.method_s
    center_s = centers(views, state, asked.jobs, past, asked.events, asked.submits)
    outputs = answered(live, center_s[asked.submits], state.live, jobs, past, events, settings)
    past.answered_s[first:] = outputs.quantiles_s[:, QUANTILES.index(0.5)]
    if rows_days is not None:
        _serve(rows, asked, views, center_s, past, first, state, settings)
        state = replace(state, rows=pruned(rows, until_s, max(rows_days, *AGES_DAYS)))
    state = replace(
        state, progress=progressed(state, events), n_submits=state.n_submits + len(ids), arrays=arrays,
        record=_recorded(state.record, past, events, state.live.outputs), as_of_s=max(until_s, state.as_of_s),
    )  # fmt: skip
    used = n_entries + int((codes[:, events.by_end[past.is_learnt[events.by_end]]] >= 0).sum())
    return Part(outputs.quantiles_s[:, :N_QUANTILES], rows, state), used


class Asked(NamedTuple):
    """The questions of a part in order of what they know: its submits, and rows at midnights."""

    jobs: Jobs
    events: Events
    submits: Ints
    """Places of the submits among the questions."""
    questions: Ints
    """Per row that is asked, the place of its question, and which row it is."""
    rows: Ints


def _asked(rows: Rows, jobs: Jobs, past: Jobs, events: Events, state: State, until_s: float) -> Asked:
    own = np.flatnonzero((rows.at_s > state.as_of_s) & (rows.at_s <= until_s))
    own_rows = as_asked(taken(rows, own))
    first, number = distinct(own_rows)
    at_s = own_rows.at_s[first]
    more = with_numbers(questions_of_rows(taken(own_rows, first), at_s), state)
    known_s = np.concatenate([events.known_s, at_s])
    order = np.argsort(known_s, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    started, ended, left = (
        np.append(np.append(of_submits[:-1], np.searchsorted(times_s[by], at_s, side="right"))[order], of_submits[-1])
        for of_submits, times_s, by in (
            (events.started, past.start_s, events.by_start), (events.ended, past.end_s, events.by_end),
            (events.left, past.end_s, events.by_leave),
        )
    )  # fmt: skip
    merged = Events(events.by_start, events.by_end, events.by_leave, started, ended, left, known_s[order], -1)
    n = len(jobs.who)
    return Asked(part(joined(jobs, more), order), merged, place[:n], place[n:][number], own)


def with_views(rows: Rows, places: Ints, views: Views) -> Rows:
    """The rows with what the views of those at these places say, but for their quantiles."""
    rows.method_s[places], rows.follows[places] = views.method_s, views.follows
    rows.n_effective[places] = views.n_effective
    return rows


def _serve(
    rows: Rows, asked: Asked, views: Views, center_s: Floats, past: Jobs, first: int, state: State,
    settings: EstimateRules,
) -> None:  # fmt: skip
    """Ask the rows at their midnights, and learn from what each submit reads; the rows and the state get it."""
    jobs = part(past, slice(first, None))
    with_views(rows, asked.rows, views.take(asked.questions))
    place = read_each(rows, jobs)
    a_day = place[:, AGES_DAYS.index(SERVED_DAYS)]
    state.served.outputs.method_s[first:] = _methods_read(rows, jobs, a_day, views.take(asked.submits))
    reading = reading_of(rows, place, jobs, first, len(asked.jobs.who), asked.submits, asked.rows, asked.questions)
    serve(views, center_s, state.served, asked.jobs, past, asked.events, reading, settings)


def _methods_read(rows: Rows, jobs: Jobs, place: Ints, instead: Views) -> Floats:
    """What the methods say in the row of each job; `instead` where there is none yet."""
    if not len(rows.key):
        return instead.method_s
    base_s = np.where(jobs.limit_s > 0, ratio_base_s(rows)[place], np.nan)
    scale = np.where(np.isnan(base_s), 1.0, jobs.limit_s / base_s)
    read_s = np.where((place >= 0)[:, None], rows.method_s[place] * scale[:, None], instead.method_s)
    return capped(read_s, jobs.requested_s)


def _recorded(record: Record, past: Jobs, events: Events, outputs: Outputs) -> Record:
    over = events.by_end[past.is_learnt[events.by_end]]
    return Record(
        np.concatenate([record.runtime_s, past.runtime_s[over]])[-RECORD_JOBS:],
        np.concatenate([record.quantiles_s, outputs.quantiles_s[over]])[-RECORD_JOBS:],
        np.concatenate([record.procs, past.procs[over]])[-RECORD_JOBS:],
    )


def request_digests(jobs: Jobs) -> Ints:
    return np.where(jobs.requested_s > 0, mixed(jobs.requested_s), -1)


def group_digests(jobs: Jobs) -> Ints:
    return mixed(jobs.who, programs(jobs), jobs.traits[:, MEMORY], jobs.traits[:, PROBLEM_SIZE])


def size_digests(jobs: Jobs) -> Ints:
    return mixed(jobs.who, programs(jobs), jobs.traits[:, MEMORY], jobs.traits[:, PROBLEM_SIZE], sizes(jobs))


def with_numbers(jobs: Jobs, state: State) -> Jobs:
    """The jobs with the numbers of their request, group and size in a State."""
    return jobs._replace(
        request=numbers(state.requests, request_digests(jobs)), group=numbers(state.groups, group_digests(jobs)),
        size=numbers(state.sizes, size_digests(jobs)),
    )  # fmt: skip


def gaps_s(settings: EstimateRules) -> tuple[float, float]:
    return 60.0 * settings.burst_gap_min, 60.0 * settings.session_gap_min


def views_now(state: State, jobs: Jobs, events: Events, settings: EstimateRules) -> Views:
    """What each method says of questions that are understood."""
    codes = chains.numbered(state.chain, chains.digests_of(jobs))
    return views_of(state, jobs, state.jobs, events, (codes, codes), settings)
