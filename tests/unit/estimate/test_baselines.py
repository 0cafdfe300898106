"""Each simple method of a backtest on jobs few enough to check by hand."""

from pipeline.estimate import baselines
from pipeline.estimate.history import History, history
from tests.rows import jobs_of


def past(*jobs: tuple[str, int, float, float], **fixed: object) -> History:
    """Jobs given as (user, submit, runtime, request); each starts at its submit."""
    return history(jobs_of([
        {
            "user": user, "submit_s": submit, "start_s": submit, "end_s": int(submit + runtime), "runtime_s": runtime,
            "requested_s": request, "procs": 4,
        } | fixed
        for user, submit, runtime, request in jobs
    ]))  # fmt: skip


def median_of_last(name: str, log: History) -> float:
    return float(getattr(baselines, name)(log)[-1, 1])


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


def test_the_median_of_three_forgets_the_fourth() -> None:
    log = past(("a", 0, 9.0, 99.0), *((("a", k * 100, 10.0 * k, 99.0)) for k in range(1, 5)))
    assert median_of_last("recent_median", log) == 20


def test_quantiles_of_the_last_fifty_and_of_everybody() -> None:
    log = past(*(("a", k * 1000, 10.0 + k, 500.0) for k in range(60)), ("a", 90_000, 1.0, 500.0))
    assert baselines.recent_50(log)[-1].tolist() == [24, 44, 59, 64, 67, 69]
    others = past(*(("b", k * 1000, 10.0 + k, 500.0) for k in range(60)), ("a", 90_000, 1.0, 500.0))
    assert baselines.everybody(others)[-1, 1] == 39


def test_the_rules_of_schedulers_take_the_largest_share_of_the_request() -> None:
    shares = [("a", k * 5000, 10.0 * (k + 1), 1000.0) for k in range(16)]
    log = past(*shares, ("a", 100_000, 1.0, 2000.0))
    assert median_of_last("largest_of_5", log) == 320 and median_of_last("largest_of_15", log) == 320 + 900
