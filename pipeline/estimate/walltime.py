"""The estimator: several methods blended by their recent errors, with calibrated quantiles.

`learn` processes a log in order of submit and returns a State; its estimates on the way are the as-of pass that a
backtest scores. `estimate` answers queries from a State, and `update` continues from one. All three run the same code
over the same arrays, so that their estimates are the same to the bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.ensemble import answered, centers
from pipeline.estimate.history import History
from pipeline.estimate.law_curves import (
    ABOVE,
    BELOW,
    CURVE_ERROR,
    ESTIMATE_ERROR,
    FARTHEST,
    LOG_S,
    judged,
    shifted,
    with_laws,
)
from pipeline.estimate.learnt_parts import Part, empty, gaps_s, learnt_parts, recoded, views_now, with_numbers
from pipeline.estimate.nightly.serving import later_quantiles
from pipeline.estimate.score import N_QUANTILES, QUANTILES
from pipeline.estimate.state import LATE, State, fates_of, over_by
from pipeline.estimate.submits import Events, Jobs, jobs_of, with_known_programs, with_meant_requests, with_sessions

if TYPE_CHECKING:
    from pipeline.estimate.estimate_rules import EstimateRules

PART_JOBS = 20_000
"""Submits processed at a time: the memory of a pass grows with this, not with the log."""


def walltime(history: History, settings: EstimateRules) -> Floats:
    """(jobs, 6) quantiles, s, each as of the job's submit; the median is at most the request.

    Where the history is stale, each job is answered by the State of the midnight that is known to it.

    Parameters
    ----------
    history : History
        n jobs in order of submit.
    settings : EstimateRules
        Settings of the estimator.

    Returns
    -------
    Floats
        float64[n, 6], s: quantiles at 10, 50, 80, 90, 95 and 99%, ascending in each row.

    Examples
    --------
    >>> from pipeline.estimate.estimate_rules import ESTIMATE_RULES
    >>> from pipeline.estimate.history import history as history_of
    >>> log = history_of(tables["jobs"])
    >>> quantiles_s = walltime(log, ESTIMATE_RULES)
    >>> quantiles_s.shape == (len(log), 6), bool((np.diff(quantiles_s, axis=1) >= 0).all())
    (True, True)
    """
    if history.stale_s is not None:
        return _stale(history, settings)
    parts = [part.quantiles_s for part in learnt_parts(history, settings, np.inf, PART_JOBS, rows_days=None)]
    return np.concatenate([*parts, np.empty((0, len(QUANTILES)))])


def _stale(history: History, settings: EstimateRules) -> Floats:
    found, at_s = np.full((len(history), len(QUANTILES)), np.nan), history.known_s
    state, n_learnt = empty(), 0
    for cut_s in np.unique(at_s):
        n_known = int(np.searchsorted(history.submit_s, cut_s, side="right"))
        later = replace(history.take(np.arange(n_learnt, n_known)), stale_s=None)
        state = _last_state(learnt_parts(later, settings, float(cut_s), PART_JOBS, state, rows_days=None))
        n_learnt, asking = n_known, np.flatnonzero(at_s == cut_s)
        found[asking] = estimate(state, history.take(asking), settings)
    return found


def learn(
    history: History, settings: EstimateRules, as_of_s: float, part_jobs: int = PART_JOBS,
    ids: list[str] | None = None,
) -> State:  # fmt: skip
    """The State of a log at a time: jobs submitted by then, and what had happened to them by then.

    `ids` names each job's record; without it, its row does.

    Parameters
    ----------
    history : History
        A log's jobs.
    settings : EstimateRules
        Settings of the estimator.
    as_of_s : float
        Time up to which events are learnt, s since 1970.
    part_jobs : int
        Jobs processed at a time; the result does not depend on it.
    ids : list of str, optional
        Id of each job's record.

    Returns
    -------
    State
        The state at `as_of_s`.

    Examples
    --------
    >>> from pipeline.estimate.estimate_rules import ESTIMATE_RULES
    >>> from pipeline.estimate.history import history as history_of
    >>> log = history_of(tables["jobs"])
    >>> state = learn(log, ESTIMATE_RULES, as_of_s=float(log.submit_s[-1]))
    >>> state.n_submits == len(log)
    True
    """
    known = history.known_by(as_of_s)
    ids = [str(row) for row in known.row] if ids is None else ids[: len(known)]
    state = _last_state(learnt_parts(known, settings, as_of_s, part_jobs, ids=ids))
    return replace(state, as_of_s=as_of_s, over=over_by(state.over, known, ids, as_of_s))


def _last_state(parts: Iterator[Part]) -> State:
    """The State after the last part; no part is kept longer than its turn, because it has all rows of a large site."""
    last: State = deque(map(attrgetter("state"), parts), maxlen=1)[0]
    return last


class Answers(NamedTuple):
    """Per question quantiles, s, at CALIBRATED, and what is judged of its group's law (columns of law_curves.py)."""

    quantiles_s: Floats
    law: Floats

    def take(self, rows: Ints) -> Answers:
        """The answers to these questions."""
        return Answers(self.quantiles_s[rows], self.law[rows])


def estimate(state: State, questions: History, settings: EstimateRules) -> Floats:
    """(jobs, 6) quantiles, s, of jobs submitted at or after the state's time; each is answered by itself.

    Parameters
    ----------
    state : State
        Result of `learn` or `update`.
    questions : History
        n jobs to estimate, as `questions_of` makes them.
    settings : EstimateRules
        Settings the state was learnt with.

    Returns
    -------
    Floats
        float64[n, 6], s: quantiles at 10, 50, 80, 90, 95 and 99%, ascending in each row.

    Examples
    --------
    >>> from pipeline.estimate.estimate_rules import ESTIMATE_RULES
    >>> from pipeline.estimate.history import history as history_of
    >>> from pipeline.estimate.questions import questions_of
    >>> log = history_of(tables["jobs"])
    >>> now_s = float(log.submit_s[-1])
    >>> state = learn(log, ESTIMATE_RULES, as_of_s=now_s)
    >>> job = {"user": "1", "requested_s": 3600.0, "procs": 4}
    >>> quantiles_s = estimate(state, questions_of([job], np.array([now_s]), "UTC"), ESTIMATE_RULES)
    >>> quantiles_s.shape, bool(quantiles_s[0, 1] <= 3600.0)
    ((1, 6), True)
    """
    return answers(state, questions, settings).quantiles_s[:, :N_QUANTILES]


def answers(state: State, questions: History, settings: EstimateRules, is_later: Bools | None = None) -> Answers:
    """What `estimate` gives, and what it rests on.

    Quantiles of a job that is submitted later (`is_later`), at any time of the next seven days, are those of such jobs;
    the median is the same.

    The median of a count between two that the group ran on lies between the answers to these where the group's jobs
    were answered closely, unless its law says otherwise there, as it does where a pattern of counts is established.
    Where runtimes scatter, the answers around are no better than the one between them.
    """
    later = np.zeros(len(questions), np.bool_) if is_later is None else is_later
    found = _answers(state, questions, settings, later)
    error, around = found.law[:, [CURVE_ERROR, ESTIMATE_ERROR]].min(axis=1), found.law[:, [BELOW, ABOVE]]
    rows = np.flatnonzero((error <= FARTHEST) & (around >= 0).all(axis=1))
    if len(rows):
        places, sizes = around[rows].astype(np.int64).T, state.jobs
        asked = (replace(questions.take(rows), procs=sizes.procs[at], gpus=sizes.gpus[at]) for at in places)
        ends = [_answers(state, one, settings, later[rows]) for one in asked]
        limit_s = np.nan_to_num(questions.requested_s[rows], nan=np.inf)
        found.quantiles_s[rows] = _between(found.take(rows), ends, limit_s, settings)
    return found


def _between(found: Answers, around: list[Answers], limit_s: Floats, settings: EstimateRules) -> Floats:
    """The quantiles, s, with a median between those of the answers around them; as they are where the law is not."""
    median_s, *ends_s = (one.quantiles_s[:, QUANTILES.index(0.5)] for one in (found, *around))
    log_s, *ends_log_s = (one.law[:, LOG_S] for one in (found, *around))
    is_beyond = (log_s < np.minimum(*ends_log_s)) | (log_s > np.maximum(*ends_log_s))
    within_s = np.clip(median_s, np.minimum(*ends_s), np.maximum(*ends_s))
    changed = shifted(found.quantiles_s, within_s, limit_s, 60.0 * settings.grace_min)
    return np.where(
        (is_beyond | np.isclose(within_s, median_s, rtol=1e-9, atol=0.0))[:, None], found.quantiles_s, changed
    )


def _answers(state: State, questions: History, settings: EstimateRules, is_later: Bools) -> Answers:
    questions = recoded(questions, state.names)
    n_names = np.maximum(questions.codes["what"] + 1, len(state.names["what"]))
    jobs = with_known_programs(jobs_of(questions), n_names, np.full(len(questions), state.n_submits + 1))
    jobs = with_numbers(jobs, state)
    jobs = with_sessions(jobs, state.last_submits, state.n_submits, gaps_s(settings), registers=False)
    jobs, events = understood(state, jobs, settings)
    views = views_now(state, jobs, events, settings)
    center_s = centers(views, state, jobs, state.jobs, events)
    quantiles_s = answered(views, center_s, state.live, jobs, state.jobs, events, settings).quantiles_s
    quantiles_s = later_quantiles(state, views, center_s, quantiles_s, jobs, is_later, settings)
    law = judged(jobs, state.jobs, state.memory.newest, state.memory.before, state.laws)
    limit_s = np.where(jobs.limit_s > 0, jobs.limit_s, np.inf)
    return Answers(with_laws(quantiles_s, law, limit_s, 60.0 * settings.grace_min), law)


def understood(state: State, jobs: Jobs, settings: EstimateRules) -> tuple[Jobs, Events]:
    """Questions at the state's time as they are understood, and that nothing happens meanwhile."""
    n, none = len(jobs.who), np.empty(0, np.int64)
    nothing = np.zeros(n + 1, np.int64)
    known_s = np.minimum(jobs.submit_s, max(state.as_of_s, 0.0)) if np.isfinite(state.as_of_s) else jobs.submit_s
    events = Events(none, none, none, nothing, nothing, nothing, known_s, -1)
    return with_meant_requests(jobs, state.jobs, events, state.use, settings), events


def update(
    state: State, later: History, ids: list[str], settings: EstimateRules, as_of_s: float, part_jobs: int = PART_JOBS
) -> State:
    """The State after more of the log: jobs submitted since, and what has become of those that were not over.

    `ids` names each job's record, as in `state.ids`. The result is that of learning the whole log at once, to the bit,
    where every record came in time. A job submitted by the state's time and not known to it counts as submitted at
    that time; one that ended more than RECOGNISED_S before, or is known to be over, is left out.

    Parameters
    ----------
    state : State
        The earlier state; it is not changed.
    later : History
        Jobs submitted since, and new records of jobs that were not over.
    ids : list of str
        Id of each job's record.
    settings : EstimateRules
        Settings the state was learnt with.
    as_of_s : float
        Time up to which events are learnt, s since 1970.
    part_jobs : int
        Jobs processed at a time; the result does not depend on it.

    Returns
    -------
    State
        The state at `as_of_s`.

    Examples
    --------
    >>> from pipeline.estimate.estimate_rules import ESTIMATE_RULES
    >>> from pipeline.estimate.history import history as history_of
    >>> log = history_of(tables["jobs"])
    >>> ids = [str(row) for row in log.row]
    >>> middle_s, last_s = float(np.median(log.submit_s)), float(log.submit_s[-1])
    >>> early = learn(log, ESTIMATE_RULES, middle_s, ids=ids)
    >>> whole = learn(log, ESTIMATE_RULES, last_s, ids=ids)
    >>> bool((update(early, log, ids, ESTIMATE_RULES, last_s).live.rungs == whole.live.rungs).all())
    True
    """
    return continued(_copied(state), later, ids, settings, as_of_s, part_jobs)


def continued(
    state: State, later: History, ids: list[str], settings: EstimateRules, as_of_s: float, part_jobs: int = PART_JOBS
) -> State:
    """What `update` gives, in less memory: the earlier state is of no use any more."""
    known = later.known_by(as_of_s)
    ids = ids[: len(known)]
    fates = fates_of(state, known, ids)
    state = _brought_up_to_date(state, known, fates.place)
    rows = np.flatnonzero(fates.fate >= LATE)
    fresh = known.take(rows)
    fresh = replace(fresh, submit_s=np.maximum(fresh.submit_s, state.as_of_s))
    state = _last_state(learnt_parts(fresh, settings, as_of_s, part_jobs, state, [ids[row] for row in rows]))
    return replace(state, as_of_s=as_of_s, over=over_by(state.over, known, ids, as_of_s))


def _brought_up_to_date(state: State, known: History, place: Ints) -> State:
    """The state with the starts and ends of its open jobs; `place` is the job of each record (-1: none)."""
    found = np.flatnonzero(place >= 0)
    for column in ("start_s", "end_s", "runtime_s", "is_lower_bound", "is_learnt"):
        getattr(state.jobs, column)[place[found]] = getattr(known, column)[found]
    return state


def _copied(state: State) -> State:
    """The state with copies of its arrays, which a pass may change."""
    from pipeline.estimate.state_table import arrays_of, state_of  # noqa: PLC0415

    return state_of({name: value.copy() for name, value in arrays_of(state).items()})
