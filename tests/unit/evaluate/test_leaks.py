"""A planted leak is caught, an honest estimator is not accused."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.arrays import Floats
from pipeline.estimate.history import History
from pipeline.evaluate import check_no_look_ahead
from pipeline.evaluate.backtest import past_of
from pipeline.evaluate.methods import Estimator, LookAheadError, with_another_future
from pipeline.settings import RunSettings
from tests.unit.evaluate.estimators import last_two, log, nobody, oracle, request

PAST = past_of(log(400), RunSettings())


def ends_are_known_at_the_start(past: History) -> Floats:
    """The leak that is easiest to write: the user's last jobs by submit, ended or not."""
    found = np.full((len(past), 6), np.nan)
    last: dict[int, float] = {}
    for job, user in enumerate(past.codes["who"]):
        found[job, 1] = last.get(int(user), np.nan)
        last[int(user)] = float(past.runtime_s[job])
    return found


def scaled_by_the_whole_log(past: History) -> Floats:
    """A subtle one: an honest estimate times a constant learnt from all jobs."""
    return last_two(past) * (np.nanmean(past.runtime_s) / np.nanmedian(past.runtime_s))


def knows_later_submits(past: History) -> Floats:
    """One that uses no runtime ahead, but the next job's request."""
    found = np.full((len(past), 6), np.nan)
    found[:-1, 1] = past.requested_s[1:]
    return found


def elapsed(past: History) -> Floats:
    """Honest: how long running jobs have run by each submit is known."""
    found = np.full((len(past), 6), np.nan)
    for job, at_s in enumerate(past.submit_s):
        running = (past.start_s <= at_s) & (past.end_s > at_s)
        found[job, 1] = (at_s - past.start_s[running]).sum()
    return found


@pytest.mark.parametrize("leaking", [oracle, ends_are_known_at_the_start, scaled_by_the_whole_log, knows_later_submits])
def test_a_planted_leak_is_caught(leaking: Estimator) -> None:
    with pytest.raises(LookAheadError, match="looks ahead"):
        check_no_look_ahead(leaking, PAST)


@pytest.mark.parametrize("honest", [request, last_two, nobody, elapsed])
def test_an_honest_estimator_is_not_accused(honest: Estimator) -> None:
    check_no_look_ahead(honest, PAST, n_times=10)


def test_another_future_leaves_what_was_known_as_it_was() -> None:
    at_s = float(PAST.submit_s[200])
    other = with_another_future(PAST, at_s, np.random.default_rng(0))
    seen = slice(0, 201)
    known = PAST.end_s[seen] <= at_s
    assert (other.submit_s[seen] == PAST.submit_s[seen]).all() and len(other) < len(PAST)
    assert (other.runtime_s[seen][known] == PAST.runtime_s[seen][known]).all()
    assert (other.end_s[seen][~known] > at_s).all()
    assert (other.runtime_s[seen][~known] != PAST.runtime_s[seen][~known]).all()
    has_started = PAST.start_s[seen] <= at_s
    assert (other.start_s[seen] == PAST.start_s[seen])[has_started].all()
    assert (other.ended[seen] == PAST.ended[seen]).all()


def test_a_job_cancelled_in_the_queue_is_part_of_another_future() -> None:
    waiting = replace(PAST, start_s=PAST.submit_s + 5e6, end_s=PAST.submit_s + 5e6 + PAST.runtime_s)
    other = with_another_future(waiting, float(PAST.submit_s[300]), np.random.default_rng(0))
    assert 20 < (~other.has_run[:301]).sum() < 180


def knows_that_a_job_will_run(past: History) -> Floats:
    """A leak by absence: who never runs is left out of the queue."""
    n_before = np.cumsum(past.has_run) - past.has_run
    return np.repeat((1.0 + n_before)[:, None], 6, axis=1)


def test_leaving_out_jobs_that_never_run_is_caught() -> None:
    waiting = replace(PAST, start_s=PAST.submit_s + 5e6, end_s=PAST.submit_s + 5e6 + PAST.runtime_s)
    with pytest.raises(LookAheadError):
        check_no_look_ahead(knows_that_a_job_will_run, waiting)
