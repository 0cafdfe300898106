"""No estimator of the registry looks ahead, and one that does is caught; the same seed tells the same bytes."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pipeline.arrays import Floats
from pipeline.estimate.history import History, history
from pipeline.evaluate import check_no_look_ahead
from pipeline.evaluate.methods import ESTIMATORS, LookAheadError
from tests.unit.evaluate.estimators import log

pytestmark = pytest.mark.slow


PAST = history(log(1500))
CENSORED = replace(PAST, is_lower_bound=np.arange(len(PAST)) % 7 == 0)
NEVER_RAN = np.arange(len(PAST)) % 5 == 2
CANCELLED = replace(
    PAST, start_s=np.where(NEVER_RAN, np.inf, PAST.start_s), runtime_s=np.where(NEVER_RAN, np.nan, PAST.runtime_s)
)


@pytest.mark.parametrize("past", [PAST, CENSORED, CANCELLED], ids=["known", "censored", "cancelled"])
@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_what_has_not_happened_changes_nothing_said_before(name: str, past: History) -> None:
    check_no_look_ahead(ESTIMATORS[name], past, n_times=2)


def with_own_runtime(past: History) -> Floats:
    return np.where(np.arange(len(past))[:, None] % 50 == 0, past.runtime_s[:, None], ESTIMATORS["walltime"](past))


def with_unfinished_jobs(past: History) -> Floats:
    """Every job's runtime known a second after its submit: what a forgotten end looks like."""
    return ESTIMATORS["last_two"](replace(past, end_s=past.submit_s + 1))


@pytest.mark.parametrize("leaking", [with_own_runtime, with_unfinished_jobs])
def test_a_planted_leak_is_caught(leaking: Callable[[History], Floats]) -> None:
    with pytest.raises(LookAheadError):
        check_no_look_ahead(leaking, PAST, n_times=4)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_the_same_seed_tells_the_same_bytes(name: str) -> None:
    assert ESTIMATORS[name](PAST).tobytes() == ESTIMATORS[name](PAST).tobytes()


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_quantiles_ascend_and_the_estimate_is_no_longer_than_the_request(name: str) -> None:
    told = ESTIMATORS[name](PAST)
    assert told.shape == (len(PAST), 6)
    assert not np.any(np.diff(told, axis=1) < 0)
    assert np.all((told[:, 1] <= PAST.requested_s * (1 + 1e-9)) | np.isnan(told[:, 1]))
    assert np.all((told[:, 1] > 0) | np.isnan(told[:, 1]))


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_a_log_without_jobs_or_with_one_has_answers_of_the_right_shape(name: str) -> None:
    for n_jobs in (0, 1):
        table = log(20).slice(0, n_jobs)
        assert ESTIMATORS[name](history(table)).shape == (n_jobs, 6)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_unknown_users_and_requests_are_no_fault(name: str) -> None:
    past = replace(
        PAST,
        requested_s=np.full(len(PAST), np.nan),
        codes={key: np.full(len(PAST), -1) for key in PAST.codes},
    )
    assert ESTIMATORS[name](past).shape == (len(PAST), 6)
    if name == "walltime":
        assert not np.isnan(ESTIMATORS[name](past)[PAST.ended > 0]).any()
