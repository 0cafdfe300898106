"""Whether an estimator looks ahead: what had not happened at a time is changed, and what it said by then must stand."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.core.arrays import Bools, Floats
from pipeline.core.errors import WalltimeError
from pipeline.estimate.history import History

SAME = 1e-9
"""Relative difference that is arithmetic, not knowledge."""


class LookAheadError(WalltimeError):
    """An estimator that used what nobody could know at a job's submit: a fault of that estimator."""


def check_no_look_ahead(estimator: Callable[[History], Floats], past: History, n_times: int = 6, seed: int = 0) -> None:
    """LookAheadError where estimates of jobs submitted by a time change with what happened after it.

    At each of `n_times` submits drawn at random, runtimes and ends of jobs that had not ended by then are drawn anew
    (a running job keeps its start), and who submits what afterwards is shuffled.
    """
    if not len(past):
        return
    generator = np.random.default_rng(seed)
    told = estimator(past)
    for place in np.sort(generator.choice(len(past), min(n_times, len(past)), replace=False)):
        at_s = float(past.submit_s[place])
        n_seen = int(np.searchsorted(past.submit_s, at_s, side="right"))
        again = estimator(with_another_future(past, at_s, generator))
        changed = ~np.isclose(told[:n_seen], again[:n_seen], rtol=SAME, atol=0.0, equal_nan=True)
        if changed.any():
            raise LookAheadError(_sentence(int(changed.any(axis=1).sum()), at_s))


def _sentence(n_jobs: int, at_s: float) -> str:
    return (
        f"it looks ahead: {n_jobs} of its estimates for jobs submitted by {at_s:.0f} s changed with runtimes of jobs "
        "that had not ended by then; this is a fault of the estimator."
    )


def with_another_future(past: History, at_s: float, generator: np.random.Generator) -> History:
    """The same log up to a time, and another one after it."""
    is_open, is_later = past.end_s > at_s, past.submit_s > at_s
    start_s = past.end_s - past.runtime_s
    # Whole seconds: a start that moved by a rounding error would be another past.
    drawn_s = np.ceil(np.maximum(at_s - start_s, 0.0) + 1.0 + past.runtime_s * generator.exponential(2.0, len(past)))
    runtime_s = np.where(is_open, drawn_s, past.runtime_s)
    end_s = np.where(is_open, start_s + runtime_s, past.end_s)
    by_end = np.argsort(end_s, kind="stable")
    shuffled = _shuffled(is_later, generator)
    return replace(
        past,
        runtime_s=runtime_s,
        end_s=end_s,
        is_lower_bound=np.where(is_open, generator.random(len(past)) < 0.5, past.is_lower_bound),
        by_end=by_end,
        ended=np.searchsorted(end_s[by_end], past.submit_s, side="right"),
        requested_s=past.requested_s[shuffled],
        requested_mem_kib=past.requested_mem_kib[shuffled],
        procs=past.procs[shuffled],
        codes={name: codes[shuffled] for name, codes in past.codes.items()},
    )


def _shuffled(chosen: Bools, generator: np.random.Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
    places = np.arange(len(chosen))
    places[chosen] = generator.permutation(places[chosen])
    return places
