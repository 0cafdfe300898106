"""One pass over jobs in order of time: the kernel's input, and the state after it."""

from dataclasses import replace
from functools import partial

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.estimate_rules import TableRules
from pipeline.estimate.history import History
from pipeline.estimate.nightly.as_of_kernel import FIRST_PRESENT, Answers, Cache, Events, LookUps, answer
from pipeline.estimate.nightly.ladder import N_RUNGS
from pipeline.estimate.nightly.memory import Facts, Memory, Weights, empty_memory, empty_sample
from pipeline.estimate.nightly.table_calibration import Calibration
from pipeline.estimate.nightly.table_state import (
    Jobs,
    TableState,
    counts_before,
    empty_state,
    jobs_of,
    joined_jobs,
    matched,
    renamed,
    with_names,
)
from pipeline.estimate.score import QUANTILES
from pipeline.workers import together

DAY_S = 86_400.0
ROWS_AT_ONCE = 1 << 14
FEEDBACK_DAYS = 1.5
"""Delay from a table to the ends of the jobs it answered, in addition to the staleness: a day of service and half
a day of running."""

UNLIKE = ("other_request", "other_procs", "other_what", "other_queue")


def midnights_s(history: History) -> Floats:
    """Per job the last midnight at or before its submit less the staleness, s."""
    stale_s = history.stale_s or 0.0
    midnights: Floats = np.floor((history.submit_s - stale_s) / DAY_S) * DAY_S
    return midnights


def answered(history: History, settings: TableRules) -> tuple[Floats, Ints]:
    """(jobs, 6) quantiles, s, of every job, and per job the number of jobs that the row behind them remembers."""
    jobs, at_s = jobs_of(history), midnights_s(history)
    look_ups = look_ups_of(jobs, np.arange(len(jobs)), at_s)
    state = empty_state(settings)
    answers = run(state, jobs, history.by_end, look_ups, -np.inf, settings, history.stale_s)[0]
    quantiles_s: Floats = answers.quantiles
    # A row in seconds, without a known ratio, may exceed the request of the job it answers.
    limit_s = np.where(jobs.requested_s > 0, jobs.requested_s, np.inf)
    quantiles_s[:, :2] = np.minimum(quantiles_s[:, :2], limit_s[:, None])
    return quantiles_s, answers.n_jobs


def learnt(state: TableState, later: History, settings: TableRules) -> TableState:
    """The state after later jobs."""
    if not len(later):
        return state
    at_s = np.maximum(midnights_s(later), state.known_s)
    given, names = with_names(jobs_of(later), later.names, state.names)
    state, is_new = met(state, given, later.is_learnt)
    jobs = joined_jobs(state.remembered, state.waiting, given.take(is_new))
    answered_at_s = np.concatenate([np.full(len(state.waiting), -np.inf), at_s[is_new]])
    look_ups = look_ups_of(jobs, np.arange(len(state.remembered), len(jobs)), answered_at_s)
    is_waiting = jobs.end_s[look_ups.job] > at_s[-1]
    look_ups = look_ups._replace(ladder=np.where(is_waiting, np.cumsum(is_waiting) - 1, -1))
    answers, memory, calibration, facts = run(
        state, jobs, ends_of(jobs, look_ups.job), look_ups, at_s[-1], settings, later.stale_s
    )
    return _left(jobs, facts, look_ups, answers, memory, calibration, float(at_s[-1]), names, settings)


def ends_of(jobs: Jobs, places: Ints) -> Ints:
    """Those of these places whose jobs have ended, in order of end."""
    ended = places[~np.isnan(jobs.runtime_s[places])]
    return ended[np.argsort(jobs.end_s[ended], kind="stable")]


def met(state: TableState, given: Jobs, is_learnt: Bools) -> tuple[TableState, Bools]:
    """The state with the ends of its waiting jobs, and which of the given jobs are new."""
    both = np.concatenate([state.remembered.end_s, state.waiting.end_s])
    until_s = both[np.isfinite(both)].max(initial=-np.inf)
    is_open = np.isinf(given.end_s)
    is_later = is_open | (given.end_s > until_s)
    here, there = np.flatnonzero(np.isinf(state.waiting.end_s)), np.flatnonzero(is_later)
    left, right = matched(state.waiting.take(here), given.take(there))
    here, there = here[left], there[right]
    end_s, runtime_s = state.waiting.end_s.copy(), state.waiting.runtime_s.copy()
    end_s[here], runtime_s[here] = given.end_s[there], given.runtime_s[there]
    is_wanted = ~np.isnan(runtime_s) | np.isinf(end_s)
    is_wanted[here] &= is_learnt[there]
    is_new = is_later & is_learnt & (is_open | ~np.isnan(given.runtime_s))
    is_new[there] = False
    return with_waiting(state, replace(state.waiting, end_s=end_s, runtime_s=runtime_s), is_wanted), is_new


def with_waiting(state: TableState, waiting: Jobs, is_wanted: Bools) -> TableState:
    """The state with the wanted ones of these waiting jobs."""
    return replace(
        state,
        waiting=waiting.take(is_wanted),
        class_=state.class_[is_wanted],
        n_jobs=state.n_jobs[is_wanted],
        quantiles_s=state.quantiles_s[is_wanted],
        ladder_s=state.ladder_s[is_wanted],
    )


def look_ups_of(jobs: Jobs, places: Ints, at_s: Floats) -> LookUps:
    """Look-ups of the first row present, for the jobs at these places."""
    n = len(places)
    return LookUps(places, at_s, np.full(n, FIRST_PRESENT), jobs.requested_s[places], np.full(n, -1))


def run(
    state: TableState, jobs: Jobs, events: Ints, look_ups: LookUps, until_s: float, settings: TableRules,
    stale_s: float | None,
) -> tuple[Answers, Memory, Calibration, Facts]:  # fmt: skip
    """The kernel's answers; the jobs begin with the state's remembered ones, the asks with its waiting ones."""
    weights, facts = weights_of(settings, stale_s), facts_of(jobs)
    memory = empty_memory(facts, weights, settings.rank_scale, settings.rank_power)
    memory.burst_jobs[: len(state.burst_jobs)] = state.burst_jobs
    memory.size[1] = len(state.burst_jobs)
    calibration = Calibration(*(values.copy() for values in state.calibration))
    answers, n_waiting = _answers(state, look_ups), len(state.waiting)
    look_up_of_job = np.full(len(jobs), -1)
    look_up_of_job[look_ups.job] = np.arange(len(look_ups.job))
    look_up_of_job[len(state.remembered) : len(state.remembered) + n_waiting] = np.arange(n_waiting)
    at_once = int(np.unique(look_ups.at_s, return_counts=True)[1].max(initial=0)) + 1
    answer(
        facts, state.burst, Events(events, look_up_of_job), look_ups, n_waiting, until_s, np.array(QUANTILES), weights,
        memory, calibration, empty_sample(weights), _cache(facts, at_once), answers,
    )  # fmt: skip
    return answers, memory, calibration, facts


def row_answers(facts: Facts, look_ups: LookUps, weights: Weights, memory: Memory, calibration: Calibration) -> Answers:
    """The answers of rows of a table, none of which teaches anything; they are made on several threads."""

    def made(first: int) -> Answers:
        part = LookUps._make(column[first : first + ROWS_AT_ONCE] for column in look_ups)
        room, sample = _room(len(part.job), 0), empty_sample(weights)
        no_jobs = np.empty(0, np.int64)
        answer(
            facts, no_jobs, Events(no_jobs, no_jobs), part, 0, -np.inf, np.array(QUANTILES), weights, memory,
            calibration, sample, _cache(facts, 1), room,
        )  # fmt: skip
        return room

    parts = together([partial(made, first) for first in range(0, max(len(look_ups.job), 1), ROWS_AT_ONCE)])
    return Answers(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _answers(state: TableState, look_ups: LookUps) -> Answers:
    """Room for an answer to each ask, those of the waiting jobs filled."""
    n, n_waiting, n_kept = len(look_ups.job), len(state.waiting), int(look_ups.ladder.max(initial=-1)) + 1
    found = _room(n, n_kept)
    found.class_[:n_waiting], found.n_jobs[:n_waiting] = state.class_, state.n_jobs
    found.quantiles[:n_waiting] = state.quantiles_s
    runtime_s = state.waiting.runtime_s[:, None]
    found.positions[:n_waiting, 0] = (state.ladder_s < runtime_s).sum(axis=1)
    found.positions[:n_waiting, 1] = (state.ladder_s <= runtime_s).sum(axis=1)
    kept = look_ups.ladder[:n_waiting]
    found.ladders[kept[kept >= 0]] = state.ladder_s[kept >= 0]
    return found


def _room(n: int, n_ladders: int) -> Answers:
    return Answers(
        np.full((n, len(QUANTILES)), np.nan), np.full(n, -1), np.full((n, 2), -1), np.zeros(n, np.int64), np.zeros(n),
        np.full(n, -np.inf), np.full(n, -1), np.full((n_ladders, N_RUNGS), np.nan),
    )  # fmt: skip


def _cache(facts: Facts, at_once: int) -> Cache:
    """Room for the latest answer to each key, and for as many ladders as one midnight has answers."""
    n_keys = int(facts.keys.max(initial=-1)) + 1
    none = np.zeros(n_keys, np.int64)
    return Cache(np.full(n_keys, np.nan), none, none.copy(), np.empty((at_once, N_RUNGS)))


def _left(
    jobs: Jobs, facts: Facts, look_ups: LookUps, answers: Answers, memory: Memory, calibration: Calibration,
    known_s: float, names: dict[str, list[str]], settings: TableRules,
) -> TableState:  # fmt: skip
    """The state for the next pass."""
    learnt_jobs = memory.order[: memory.size[0]]
    kept = learnt_jobs[is_kept(learnt_jobs, facts, settings)]
    burst, burst_codes = _renumbered(memory.burst[kept])
    is_waiting = (look_ups.ladder >= 0) & (jobs.submit_s[look_ups.job] >= known_s - DAY_S * settings.kept_days)
    remembered, waiting, used = renamed(jobs.take(kept), jobs.take(look_ups.job[is_waiting]), names)
    return TableState(
        remembered=remembered,
        burst=burst,
        burst_jobs=memory.burst_jobs[burst_codes],
        waiting=waiting,
        class_=answers.class_[is_waiting],
        n_jobs=answers.n_jobs[is_waiting],
        quantiles_s=answers.quantiles[is_waiting],
        ladder_s=answers.ladders[look_ups.ladder[is_waiting]],
        calibration=calibration,
        known_s=known_s,
        names=used,
    )


def is_kept(jobs: Ints, facts: Facts, settings: TableRules) -> Bools:
    """Of jobs in order of end, those among the latest of their who, key, request or of all, and not too old."""
    who, end_s = facts.who[jobs], facts.end_s[jobs]
    of_who = (later_ones(who) < settings.of_who) & (who >= 0)
    of_key = later_ones(facts.keys[jobs, 0]) < settings.of_key
    of_request = later_ones(facts.request_code[jobs]) < settings.of_request
    of_all = np.arange(len(jobs))[::-1] < settings.of_request
    is_young = end_s >= end_s.max(initial=-np.inf) - DAY_S * settings.kept_days
    kept: Bools = (of_who | of_key | of_request | of_all) & is_young
    return kept


def later_ones(codes: Ints) -> Ints:
    """Per place, how many later ones have the same code."""
    return counts_before(codes[::-1])[::-1]


def _renumbered(codes: Ints) -> tuple[Ints, Ints]:
    """Codes in order of first use, and the old code of each."""
    used, first, places = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    number = np.empty(len(used), np.int64)
    number[order] = np.arange(len(used))
    return number[places], used[order]


def facts_of(jobs: Jobs) -> Facts:
    """Jobs as kernels take them."""
    r, p = (np.unique(values, return_inverse=True)[1] for values in (jobs.requested_s, jobs.procs))
    u, a, q = jobs.who, jobs.what, jobs.queue
    unknown = np.full(len(u), -1)
    stacks = ((u, u, u), (a, a, unknown), (q, unknown, unknown), (r,) * 3, (p,) * 3)
    keys = _codes([np.concatenate(columns) for columns in stacks])
    row_keys = ((u, a, q, r, p), (u, a, r, p), (u, r, p), (u, a, r), (u, r), (u, p), (u,), (r,), (np.zeros_like(u),))
    with np.errstate(divide="ignore"):
        log_requested = np.log(jobs.requested_s)
    return Facts(
        jobs.submit_s, jobs.end_s, np.nan_to_num(jobs.runtime_s), jobs.requested_s, jobs.procs, log_requested,
        np.log(jobs.procs), u, a, q, r, np.ascontiguousarray(keys.reshape(3, -1).T), _codes([u, r, p]),
        _stacked([np.where(np.min(key, axis=0, initial=0) < 0, -1, _codes(list(key))) for key in row_keys]),
    )  # fmt: skip


def _codes(columns: list[Ints]) -> Ints:
    """One code a combination of codes, unknown ones (-1) matching."""
    code = columns[0] + 1
    for column in columns[1:]:
        mixed = code * (int(column.max(initial=-1)) + 2) + column + 1
        code = np.unique(mixed, return_inverse=True)[1]
    return np.unique(code, return_inverse=True)[1]


def _stacked(row_codes: list[Ints]) -> Ints:
    """(jobs, kinds) with disjoint codes for the kinds."""
    first, columns = 0, []
    for codes in row_codes:
        columns.append(np.where(codes < 0, -1, codes + first))
        first += int(codes.max(initial=-1)) + 1
    return np.stack(columns, axis=1)


def weights_of(settings: TableRules, stale_s: float | None) -> Weights:
    """Settings as kernels take them."""
    logs = {name: float(np.log(getattr(settings, name))) for name in UNLIKE}
    return Weights(
        of_who=settings.of_who,
        of_key=settings.of_key,
        of_request=settings.of_request,
        burst_gap_s=60.0 * settings.burst_gap_min,
        burst_rank_power=settings.burst_rank_power,
        burst_weight_power=settings.burst_weight_power,
        age_s=DAY_S * settings.age_days,
        kept_s=DAY_S * settings.kept_days,
        log_other_request=logs["other_request"],
        request_power=settings.request_power,
        log_other_procs=logs["other_procs"],
        procs_power=settings.procs_power,
        log_other_what=logs["other_what"],
        log_other_queue=logs["other_queue"],
        others=settings.others,
        others_scale=settings.others_scale,
        half_life_days=settings.half_life_days,
        pseudo_jobs=settings.pseudo_jobs,
        level_half_life_days=settings.level_half_life_days,
        level_gain=settings.level_gain,
        level_jobs=settings.level_jobs,
        level_speed=settings.level_speed,
        delay_days=(stale_s or 0.0) / DAY_S + FEEDBACK_DAYS,
    )
