"""Recommended limits of a log's jobs, each as of its submit, from the estimator's quantiles."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.estimate.baselines import largest_of_15, points, requests_of
from pipeline.estimate.history import ARRAYS, History
from pipeline.estimate.learnt_parts import learnt_parts
from pipeline.estimate.limit_choice import (
    SHARES,
    USER_TIMES,
    LimitJobs,
    LimitSettings,
    Pace,
    choose_limits,
    exceedance,
    no_books,
)
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.walltime import PART_JOBS, estimate, walltime

if TYPE_CHECKING:
    from pipeline.estimate.estimate_rules import EstimateRules


ESTIMATE = QUANTILES.index(0.5)


class Recommended(NamedTuple):
    """Limits of the log's jobs, and of jobs like some of them if they were submitted at the log's end; s, NaN: none.

    `quantiles_s`: (jobs, 6) the estimates as of each submit that they were chosen from.
    """

    limit_s: Floats
    next_s: Floats
    quantiles_s: Floats


def limits(history: History, settings: EstimateRules) -> Floats:
    """(jobs, 6) with the limit at a promise of 97% as the median, s, at most the request; NaN without a request.

    Parameters
    ----------
    history : History
        n jobs in order of submit.
    settings : EstimateRules
        Settings of the estimator whose quantiles the limits are chosen from.

    Returns
    -------
    Floats
        float64[n, 6], s: the limit in the second column, NaN in the others.

    Examples
    --------
    >>> from pipeline.estimate.estimate_rules import ESTIMATE_RULES
    >>> from pipeline.estimate.history import history as history_of
    >>> log = history_of(tables["jobs"])
    >>> limit_s = limits(log, ESTIMATE_RULES)[:, 1]
    >>> bool((limit_s <= log.requested_s)[log.requested_s > 0].all())
    True
    """
    return points(chosen_limits(history, walltime(history, settings), settings, LimitSettings()))


def recommend(history: History, settings: EstimateRules, chosen: LimitSettings, again: Ints) -> Recommended:
    """Limits of the log's jobs, and of the jobs at the places `again` if they were submitted anew at the log's end.

    Parameters
    ----------
    history : History
        n jobs in order of submit.
    settings : EstimateRules
        Settings of the estimator whose quantiles the limits are chosen from.
    chosen : LimitSettings
        The promise, and how it is kept.
    again : Ints
        int64[m], places of jobs that are submitted again.

    Returns
    -------
    Recommended
        float64[n], float64[m] and float64[n, 6], s.

    Examples
    --------
    >>> from pipeline.estimate.estimate_rules import ESTIMATE_RULES
    >>> from pipeline.estimate.history import history as history_of
    >>> log = history_of(tables["jobs"])
    >>> found = recommend(log, ESTIMATE_RULES, LimitSettings(), np.array([0, 1]))
    >>> found.limit_s.shape == (len(log),), found.next_s.shape
    (True, (2,))
    """
    parts = list(learnt_parts(history, settings, np.inf, PART_JOBS, rows_days=None))
    later = at_the_end(history, again)
    quantiles_s = [part.quantiles_s for part in parts]
    if len(later):
        quantiles_s.append(estimate(parts[-1].state, later, settings))
    both = joined(history, later)
    limit_s = chosen_limits(both, np.concatenate(quantiles_s), settings, chosen)
    before = np.concatenate(quantiles_s[: len(parts)])
    return Recommended(limit_s[: len(history)], limit_s[len(history) :], before)


def chosen_limits(history: History, quantiles_s: Floats, settings: EstimateRules, chosen: LimitSettings) -> Floats:
    """(jobs,) limits, s, NaN without a request, from (jobs, 6) quantiles, s, as of each submit."""
    requested_s = requests_of(history)
    rule_s = largest_of_15(history, settings)[:, ESTIMATE]
    n_who = int(history.codes["who"].max(initial=-1)) + 1
    jobs = LimitJobs(
        known_s=history.known_s, start_s=history.start_s, end_s=history.end_s,
        requested_s=np.nan_to_num(requested_s), work=history.procs * np.nan_to_num(requested_s),
        who=np.where(history.codes["who"] < 0, n_who, history.codes["who"]), is_learnt=history.is_learnt,
    )  # fmt: skip
    bound = USER_TIMES * chosen.share
    pace = Pace(chosen.user_aim * bound, (1.0 - chosen.user_aim) * bound)
    chances = exceedance(quantiles_s, requested_s)
    return choose_limits(jobs, chances, SHARES, rule_s, no_books(n_who + 1, chosen), chosen, pace)


def at_the_end(history: History, places: Ints) -> History:
    """The jobs at these places as if they were submitted when the log ends, which is its last instant."""
    found = history.take(places)
    if not len(places):
        return found
    instants = np.concatenate([history.submit_s, history.start_s, history.end_s])
    last_s, unknown = float(np.max(instants[np.isfinite(instants)])), np.full(len(places), np.inf)
    return replace(
        found, submit_s=np.full(len(places), last_s), start_s=unknown, end_s=unknown.copy(),
        runtime_s=np.full(len(places), np.nan), is_lower_bound=np.zeros(len(places), np.bool_),
        local_s=found.local_s + (last_s - found.submit_s).astype(np.int64),
    )  # fmt: skip


def joined(first: History, second: History) -> History:
    """The jobs of both, whose codes mean the same."""
    arrays: dict[str, Any] = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in ARRAYS}
    codes = {name: np.concatenate([codes, second.codes[name]]) for name, codes in first.codes.items()}
    return replace(first, **arrays, codes=codes)
