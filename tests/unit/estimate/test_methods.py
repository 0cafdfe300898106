"""Each simple method on jobs few enough to check by hand."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.estimate.baselines import whole_log
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import History, history
from pipeline.estimate.registry import ESTIMATORS
from pipeline.estimate.walltime import walltime
from tests.rows import jobs_of

SETTINGS = EstimateRules()


def past(*jobs: tuple[str, int, float, float], **fixed: object) -> History:
    """Jobs given as (user, submit, runtime, request); each starts at its submit."""
    rows = [
        {
            "user": user, "submit_s": submit, "start_s": submit, "end_s": int(submit + runtime), "runtime_s": runtime,
            "requested_s": request, "procs": 4,
        } | fixed
        for user, submit, runtime, request in jobs
    ]  # fmt: skip
    return history(jobs_of(rows))


def median_of_last(name: str, log: History) -> float:
    return float(ESTIMATORS[name](log, SETTINGS)[-1, 1])


THREE = (("a", 0, 100.0, 1000.0), ("a", 200, 300.0, 1000.0), ("a", 600, 800.0, 1000.0))


def test_the_request_is_the_estimate() -> None:
    assert median_of_last("request", past(*THREE)) == 1000


def test_the_last_two_are_averaged_once_two_have_ended() -> None:
    assert median_of_last("last_two", past(*THREE)) == 200
    assert median_of_last("last_two", past(*THREE[:2])) == 1000


def test_an_estimate_is_at_most_the_request() -> None:
    assert median_of_last("last_two", past(*THREE[:2], ("a", 600, 50.0, 60.0))) == 60


def test_a_job_still_running_is_not_known() -> None:
    assert median_of_last("last_two", past(THREE[0], THREE[1], ("a", 400, 9.0, 1000.0))) == 1000


def test_jobs_alike_come_before_the_user_s_others() -> None:
    log = past(*THREE[:2], ("a", 600, 7.0, 50.0), ("a", 700, 9.0, 50.0), ("a", 800, 1.0, 1000.0))
    assert median_of_last("last_two", log) == 8
    assert median_of_last("last_two_chain", log) == 200
    assert median_of_last("longer_of_two_chain", log) == 300


def test_the_median_of_three_forgets_the_fourth() -> None:
    log = past(("a", 0, 9.0, 99.0), *((("a", k * 100, 10.0 * k, 99.0)) for k in range(1, 5)))
    assert median_of_last("recent_median", log) == 20


def test_the_session_under_way_comes_first() -> None:
    long_ago = [("a", k * 10_000, 5.0, 99.0) for k in range(4)]
    log = past(*long_ago, ("a", 100_000, 50.0, 99.0), ("a", 100_100, 50.0, 99.0))
    assert median_of_last("sessions", log) == 50
    assert list(whole_log(log, SETTINGS).jobs.session) == [0, 1, 2, 3, 4, 4]


def test_neighbours_are_the_nearest_by_request() -> None:
    near = [("a", k * 100, 10.0, 100.0) for k in range(5)]
    far = [("a", 1000 + k * 100, 90.0, 9000.0) for k in range(5)]
    assert median_of_last("neighbours", past(*near, *far, ("a", 5000, 1.0, 100.0))) == 10


def test_recent_quantiles_take_a_stopped_job_for_longer_than_the_request() -> None:
    jobs = [("a", k * 1000, 10.0 + k, 500.0) for k in range(4)]
    free, stopped = past(*jobs, ("a", 9000, 1.0, 500.0)), past(*jobs, ("a", 9000, 1.0, 500.0), is_lower_bound=True)
    assert ESTIMATORS["recent_10"](free, SETTINGS)[-1, 3] == 13
    assert (ESTIMATORS["recent_10"](stopped, SETTINGS)[-1] == 500).all()


def test_a_user_never_seen_gets_what_others_who_asked_as_much_took() -> None:
    others = [("b", k * 100, 50.0, 600.0) for k in range(6)] + [("b", 1000 + k * 100, 7.0, 60.0) for k in range(6)]
    assert walltime(past(*others, ("new", 9000, 1.0, 600.0)), SETTINGS)[-1, 1] == 50


def test_censored_jobs_do_not_pull_down() -> None:
    jobs = [("a", k * 1000, 100.0 + k, 900.0) for k in range(8)]
    log = past(*jobs, ("a", 9000, 1.0, 900.0))
    stopped = replace(log, is_lower_bound=np.arange(len(log)) % 2 == 0)
    assert (walltime(stopped, SETTINGS)[-1] >= 0.9999 * walltime(log, SETTINGS)[-1]).all()


def test_jobs_long_running_count_as_longer() -> None:
    done = [("a", 0, 10.0, 900.0), ("a", 50, 10.0, 900.0)]
    quiet = past(*done, ("a", 800, 1.0, 900.0))
    busy = past(*done, *(("a", 100 + k, 850.0, 900.0) for k in range(20)), ("a", 800, 1.0, 900.0))
    assert walltime(quiet, SETTINGS)[-1, 1] < 20
    assert walltime(busy, SETTINGS)[-1, 1] > 400


@pytest.mark.parametrize("name", ["walltime"])
def test_quantiles_are_known_as_soon_as_one_job_has_ended(name: str) -> None:
    told = ESTIMATORS[name](past(*THREE), SETTINGS)
    assert not np.isnan(told[1:]).any()
