"""The methods that can be backtested, and the test that none of them looks ahead. A new one is a line here."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pipeline.arrays import DAY_S, Floats, Ints
from pipeline.errors import WalltimeError
from pipeline.estimate import baselines
from pipeline.estimate.estimates import KEPT_DAYS, KEYS, NAMES, Rows, answers_of, digests_of
from pipeline.estimate.history import History
from pipeline.estimate.score import N_QUANTILES
from pipeline.estimate.state import nights, walltime
from pipeline.inputs.log_models import as_of_quantiles
from pipeline.run import submitted_runs
from pipeline.settings import RunSettings

Estimator = Callable[[History], Floats]
"""(jobs, 6) runtimes, s, at QUANTILES, as of each job's submit; NaN: no answer. Some know the median alone.

The History defines what is known: `known_s`, `ended`. `walltime` is published as a State, `table` as ESTIMATES.
"""


def quantiles_of_rows(rows: Rows, place: Ints, requested_s: Floats) -> Floats:
    """(jobs, 6) quantiles, s, that the rows at these places give jobs with these requests; NaN where there is none."""
    requested_s = np.where(requested_s > 0, requested_s, np.nan)
    found, known = np.full((len(place), N_QUANTILES), np.nan), place >= 0
    seconds, ratios = (np.stack([rows[f"{unit}_{name}"] for name in NAMES], axis=1) for unit in ("runtime_s", "ratio"))
    scaled_s = ratios[place[known]] * requested_s[known][:, None]
    found[known] = np.where(np.isnan(scaled_s), seconds[place[known]], scaled_s)
    found[known, :2] = np.fmin(found[known, :2], requested_s[known][:, None])
    return found


def table(history: History) -> Floats:
    """(jobs, 6) quantiles, s, that each job finds in the table of the last midnight that is `stale_s` old.

    Of a midnight's table only the rows that its jobs find are answered: each is answered by itself.
    """
    log = replace(history, stale_s=history.stale_s or 0.0)
    rank, newest = _newest_alike(log)
    found = np.full((len(log), N_QUANTILES), np.nan)
    for state, reading in nights(log, (0.0, DAY_S)):
        own = reading[rank[reading] >= 0]
        row, place = np.unique(np.stack([rank[own], newest[own]]), axis=1, return_inverse=True)
        found[own] = quantiles_of_rows(answers_of(state, log, row[1], row[0]), place.ravel(), log.requested_s[own])
    return found


def _newest_alike(log: History) -> tuple[Ints, Ints]:
    """Per job the first kind of row that the table it reads has for it, and the newest job of that row; -1: none."""
    ended = np.flatnonzero(log.has_run & log.is_learnt)
    ended = ended[np.argsort(log.end_s[ended], kind="stable")]
    n_known = np.searchsorted(log.end_s[ended], log.known_s, side="right")
    rank, newest = np.full((2, len(log)), -1)
    for kind in range(len(KEYS) if len(ended) else 0):
        digest = digests_of(log, kind)
        _, code = np.unique(digest, return_inverse=True)
        first = code * (len(ended) + 1)
        nth = first[ended] + np.arange(len(ended))
        by_key = np.argsort(nth)
        before = np.searchsorted(nth[by_key], first + n_known) - 1
        job = ended[by_key[np.maximum(before, 0)]]
        is_found = (rank < 0) & (digest >= 0) & (before >= 0) & (code[job] == code)
        is_found &= log.end_s[job] >= log.known_s - DAY_S * KEPT_DAYS
        rank[is_found], newest[is_found] = kind, job[is_found]
    return rank, newest


ESTIMATORS: dict[str, Estimator] = {
    "request": baselines.request,
    "last_two": baselines.last_two,
    "last_two_chain": baselines.last_two_chain,
    "largest_of_15": baselines.largest_of_15,
    "largest_of_5": baselines.largest_of_5,
    "recent_median": baselines.recent_median,
    "recent_50": baselines.recent_50,
    "everybody": baselines.everybody,
    "table": table,
    "walltime": walltime,
}

INPUTS = "inputs"

METHODS = (*ESTIMATORS, INPUTS)


def method_with_settings(method: str, settings: RunSettings) -> Estimator:
    """A function from a log's history to estimates; only models over inputs have settings."""

    def inputs_else_walltime(past: History) -> Floats:
        """What a query would answer from tables of that moment: `walltime` where no model has beaten its rivals."""
        instead = walltime(past)
        found = as_of_quantiles(submitted_runs(past, instead[:, 1]), settings.inputs)
        return np.where(np.isnan(found[:, 1:2]), instead, found)

    return inputs_else_walltime if method == INPUTS else ESTIMATORS[method]


SAME = 1e-9
"""Relative difference that rounding may cause."""


class LookAheadError(WalltimeError):
    """Raised for an estimator that used events after a job's submit: a fault of that estimator."""


def check_no_look_ahead(estimator: Estimator, past: History, n_times: int = 6) -> None:
    """Raise LookAheadError if estimates of jobs submitted by a time change with later events.

    At each of `n_times` submits drawn at random, runtimes and ends of jobs that had not ended by then are drawn anew
    (a running job keeps its start), some of those in the queue are cancelled, who submits what afterwards is shuffled,
    and a third of it is gone.

    Parameters
    ----------
    estimator : callable
        Maps a History of n jobs to float64[n, 6] quantiles, s.
    past : History
        A log's jobs in order of submit.
    n_times : int
        Number of submits at which the future is changed.

    Raises
    ------
    LookAheadError
        If an estimate depends on later events.

    Examples
    --------
    >>> from pipeline.estimate.history import history
    >>> log = history(tables["jobs"])
    >>> check_no_look_ahead(lambda past: np.tile(past.requested_s[:, None], 6), log)
    >>> check_no_look_ahead(lambda past: np.full((len(past), 6), np.nansum(past.runtime_s)), log)
    Traceback (most recent call last):
        ...
    pipeline.evaluate.methods.LookAheadError: it looks ahead: ...
    """
    if not len(past):
        return
    generator = np.random.default_rng(0)
    before = estimator(past)
    for place in np.sort(generator.choice(len(past), min(n_times, len(past)), replace=False)):
        at_s = float(past.submit_s[place])
        n_seen = int(np.searchsorted(past.submit_s, at_s, side="right"))
        again = estimator(with_another_future(past, at_s, generator))
        changed = ~np.isclose(before[:n_seen], again[:n_seen], rtol=SAME, atol=0.0, equal_nan=True)
        if changed.any():
            raise LookAheadError(
                f"it looks ahead: {int(changed.any(axis=1).sum())} of its estimates for jobs submitted by {at_s:.0f} s "
                "changed with runtimes of jobs that had not ended by then; this is a fault of the estimator."
            )


def with_another_future(past: History, at_s: float, generator: np.random.Generator) -> History:
    """The same log up to a time, with changed events after it.

    What had not ended ends at another time, or is cancelled before it starts if it stood in the queue; later submits
    are other ones, and one in three of them is gone.
    """
    n, is_later = len(past), past.submit_s > at_s
    is_queued = ~is_later & (past.start_s > at_s) & (past.end_s > at_s)
    is_running = ~is_later & (past.start_s <= at_s) & (past.end_s > at_s)
    is_open = is_later | is_queued | is_running
    wait_s = np.ceil(generator.exponential(3600.0, n))
    start_s = np.where(is_queued, at_s + 1.0 + wait_s, np.where(is_later, past.submit_s + wait_s, past.start_s))
    drawn_s = np.ceil(generator.exponential(2.0, n) * np.nan_to_num(past.runtime_s, nan=600.0)) + 1.0
    runtime_s = np.where(is_running, np.maximum(at_s - start_s, 0.0) + drawn_s, drawn_s)
    is_cancelled = is_queued & (generator.random(n) < 0.3)
    end_s = np.where(is_cancelled, at_s + 1.0 + wait_s, start_s + runtime_s)
    shuffled = np.arange(n)
    shuffled[is_later] = generator.permutation(shuffled[is_later])
    other = replace(
        past,
        start_s=np.where(is_open, np.where(is_cancelled, np.inf, start_s), past.start_s),
        end_s=np.where(is_open, end_s, past.end_s),
        runtime_s=np.where(is_open, np.where(is_cancelled, np.nan, runtime_s), past.runtime_s),
        is_lower_bound=np.where(is_open, ~is_cancelled & (generator.random(n) < 0.5), past.is_lower_bound),
        requested_s=past.requested_s[shuffled],
        requested_mem_kib=past.requested_mem_kib[shuffled],
        procs=past.procs[shuffled],
        codes={name: codes[shuffled] for name, codes in past.codes.items()},
    )
    return other.take(np.flatnonzero(~is_later | (generator.random(n) < 2 / 3)))
