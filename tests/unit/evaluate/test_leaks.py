"""A planted leak is caught, an honest estimator is not accused."""

import numpy as np
import pytest

from pipeline.core.arrays import Floats
from pipeline.core.settings import RunSettings
from pipeline.estimate.history import History
from pipeline.evaluate import check_no_look_ahead
from pipeline.evaluate.backtest import Estimator, past_of
from pipeline.evaluate.leaks import LookAheadError, with_another_future
from tests.unit.evaluate.estimators import last_two, log, nobody, oracle, request

PAST = past_of(log(400), RunSettings())


def ends_are_known_at_the_start(past: History) -> Floats:
    """The leak that is easiest to write: the user's last jobs by submit, ended or not."""
    found = np.full((len(past), 5), np.nan)
    last: dict[int, float] = {}
    for job, user in enumerate(past.codes["user"]):
        found[job, 1] = last.get(int(user), np.nan)
        last[int(user)] = float(past.runtime_s[job])
    return found


def scaled_by_the_whole_log(past: History) -> Floats:
    """A subtle one: an honest estimate times a constant learnt from all jobs."""
    return last_two(past) * (past.runtime_s.mean() / np.median(past.runtime_s))


def knows_later_submits(past: History) -> Floats:
    """One that uses no runtime ahead, but the next job's request."""
    found = np.full((len(past), 5), np.nan)
    found[:-1, 1] = past.requested_s[1:]
    return found


def elapsed(past: History) -> Floats:
    """Honest: how long running jobs have run by each submit is known."""
    found = np.full((len(past), 5), np.nan)
    for job, at_s in enumerate(past.submit_s):
        start_s = past.end_s - past.runtime_s
        running = (start_s <= at_s) & (past.end_s > at_s)
        found[job, 1] = (at_s - start_s[running]).sum()
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
    known = PAST.end_s <= at_s
    assert (other.runtime_s[known] == PAST.runtime_s[known]).all() and (other.end_s[~known] > at_s).all()
    assert (other.runtime_s[~known] != PAST.runtime_s[~known]).all()
    start_s, same_s = PAST.end_s - PAST.runtime_s, other.end_s - other.runtime_s
    assert (start_s == same_s)[start_s <= at_s].all()
    assert (other.ended[:201] == PAST.ended[:201]).all()
    n_known = int(known.sum())
    assert (other.by_end[:n_known] == PAST.by_end[:n_known]).all()
