"""The methods that can be backtested, and the test that none of them looks ahead. A new one is a line here."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.arrays import Bools, Floats
from pipeline.errors import WalltimeError
from pipeline.estimate.baselines import (
    everybody,
    largest_of_5,
    largest_of_15,
    last_two,
    last_two_chain,
    recent_50,
    recent_median,
    request,
)
from pipeline.estimate.history import History
from pipeline.estimate.state import walltime
from pipeline.evaluate.table_reading import table
from pipeline.inputs.log_models import as_of_quantiles
from pipeline.run import submitted_runs
from pipeline.settings import RunSettings

Estimator = Callable[[History], Floats]
"""(jobs, 6) runtimes, s, at QUANTILES, as of each job's submit; NaN: no answer. Some know the median alone.

The History defines what is known: `known_s`, `ended`. `walltime` is published as a State, `table` as ESTIMATES.
"""

ESTIMATORS: dict[str, Estimator] = {
    "request": request,
    "last_two": last_two,
    "last_two_chain": last_two_chain,
    "largest_of_15": largest_of_15,
    "largest_of_5": largest_of_5,
    "recent_median": recent_median,
    "recent_50": recent_50,
    "everybody": everybody,
    "table": table,
    "walltime": walltime,
}

AT_MIDNIGHT = tuple(ESTIMATORS)
"""Methods that can answer with what was known at an earlier midnight."""


def inputs_else_walltime(past: History, settings: RunSettings) -> Floats:
    """(jobs, 6) quantiles, s, as of each submit: what a query would answer from tables of that moment.

    Without rules of inputs, or where no model has beaten its rivals, these are the quantiles of `walltime`.
    """
    instead = walltime(past)
    found = as_of_quantiles(submitted_runs(past, instead[:, 1]), settings.inputs)
    return np.where(np.isnan(found[:, 1:2]), instead, found)


INPUTS = "inputs"

METHODS = (*ESTIMATORS, INPUTS)
STALE_METHODS = (*AT_MIDNIGHT, INPUTS)


def method_with_settings(method: str, settings: RunSettings) -> Estimator:
    """A function from a log's history to estimates; only models over inputs have settings."""
    return (lambda past: inputs_else_walltime(past, settings)) if method == INPUTS else ESTIMATORS[method]


SAME = 1e-9
"""Relative difference that rounding may cause."""


class LookAheadError(WalltimeError):
    """Raised for an estimator that used events after a job's submit: a fault of that estimator."""


def check_no_look_ahead(estimator: Estimator, past: History, n_times: int = 6, seed: int = 0) -> None:
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
    seed : int
        Seed of the random numbers.

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
    generator = np.random.default_rng(seed)
    before = estimator(past)
    for place in np.sort(generator.choice(len(past), min(n_times, len(past)), replace=False)):
        at_s = float(past.submit_s[place])
        n_seen = int(np.searchsorted(past.submit_s, at_s, side="right"))
        again = estimator(with_another_future(past, at_s, generator))
        changed = ~np.isclose(before[:n_seen], again[:n_seen], rtol=SAME, atol=0.0, equal_nan=True)
        if changed.any():
            raise LookAheadError(_sentence(int(changed.any(axis=1).sum()), at_s))


def _sentence(n_jobs: int, at_s: float) -> str:
    return (
        f"it looks ahead: {n_jobs} of its estimates for jobs submitted by {at_s:.0f} s changed with runtimes of jobs "
        "that had not ended by then; this is a fault of the estimator."
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
    shuffled = _shuffled(is_later, generator)
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


def _shuffled(chosen: Bools, generator: np.random.Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
    places = np.arange(len(chosen))
    places[chosen] = generator.permutation(places[chosen])
    return places
