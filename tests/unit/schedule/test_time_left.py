"""Time left of running jobs: never none, the median within the limit, ends that do not move back, no look-ahead."""

import numpy as np
import pytest

from pipeline.arrays import Floats
from pipeline.schedule.time_left import UNCALIBRATED, Outcomes, calibration, outcomes_of, time_left

ESTIMATE_S = np.array([[600.0, 1800.0, 3000.0, 3400.0, 3700.0, 3700.0]])
LIMIT_S = np.array([3600.0])


def jobs(n: int = 3000, seed: int = 1) -> tuple[Floats, Floats, Floats, Floats]:
    """Estimates, runtimes, limits and ends of jobs whose runtimes are twice as spread as their estimates say."""
    random = np.random.default_rng(seed)
    runtime_s = np.minimum(np.exp(random.normal(np.log(1800), 1.0, n)), 3630.0)
    return np.tile(ESTIMATE_S, (n, 1)), runtime_s, np.full(n, 3600.0), np.arange(n) * 60.0


def test_the_end_told_never_moves_to_an_earlier_time_and_something_is_always_left() -> None:
    known = calibration(outcomes_of(*jobs()), np.inf)
    elapsed_s = np.arange(0.0, 5000.0, 7.0)
    n = len(elapsed_s)
    left_s = time_left(np.tile(ESTIMATE_S, (n, 1)), elapsed_s, np.repeat(LIMIT_S, n), known)
    assert (left_s >= 1.0).all()
    assert (np.diff(left_s, axis=1) >= 0).all()
    assert (np.diff(left_s + elapsed_s[:, None], axis=0) >= -1e-6).all()


def test_the_median_ends_at_the_limit_and_others_within_the_grace() -> None:
    known = calibration(outcomes_of(*jobs()), np.inf)
    assert known.grace_s == pytest.approx(30.0)
    for elapsed_s in (0.0, 1800.0, 3500.0):
        left_s = time_left(ESTIMATE_S, np.array([elapsed_s]), LIMIT_S, known)[0]
        assert left_s[1] <= 3600.0 - elapsed_s
        assert left_s[-1] <= 3630.0 - elapsed_s + 1e-6


def test_without_a_limit_or_an_estimate() -> None:
    no_limit_s = np.array([np.nan])
    assert (time_left(ESTIMATE_S, np.array([9000.0]), no_limit_s, UNCALIBRATED) >= 1.0).all()
    assert np.isnan(time_left(np.full((1, 6), np.nan), np.array([60.0]), LIMIT_S, UNCALIBRATED)).all()
    assert np.isnan(time_left(ESTIMATE_S, np.array([np.nan]), LIMIT_S, UNCALIBRATED)).all()


@pytest.mark.parametrize("first_s", [0.0, 2880.0])
def test_calibrated_intervals_hold_what_they_promise_where_estimates_are_too_narrow(first_s: float) -> None:
    estimate_s = np.array([[1200.0, 1800.0, 2200.0, 2500.0, 2700.0, 3000.0]])
    runtime_s = np.exp(np.random.default_rng(1).normal(np.log(1800), 0.6, 16_000))
    limit_s, end_s = np.full(16_000, 7200.0), np.arange(16_000.0)
    early = slice(0, 8000)
    outcomes = outcomes_of(np.tile(estimate_s, (8000, 1)), runtime_s[early], limit_s[early], end_s[early])
    asked_s = first_s + np.random.default_rng(2).uniform(0, 1440, 8000)
    runs = runtime_s[8000:] > asked_s
    later, elapsed_s = runtime_s[8000:][runs], asked_s[runs]
    told = (np.tile(estimate_s, (len(later), 1)), elapsed_s, np.full(len(later), 7200.0))
    held = []
    for known in (calibration(outcomes, np.inf), UNCALIBRATED):
        left_s = time_left(*told, known, (0.1, 0.5, 0.9))
        held.append(np.mean((later - elapsed_s >= left_s[:, 0]) & (later - elapsed_s <= left_s[:, 2])))
    assert abs(held[0] - 0.8) < 0.05
    assert abs(held[0] - 0.8) < abs(held[1] - 0.8)


def test_jobs_that_end_later_change_nothing() -> None:
    estimates_s, runtime_s, limit_s, end_s = jobs()
    planted_s = np.where(end_s > 60_000.0, 1.0, runtime_s)
    before = calibration(outcomes_of(estimates_s, runtime_s, limit_s, end_s), 60_000.0)
    after = calibration(outcomes_of(estimates_s, planted_s, limit_s, end_s), 60_000.0)
    assert all(np.array_equal(*pair) for pair in zip(before.positions, after.positions, strict=True))
    assert before.grace_s == after.grace_s


def test_no_outcomes_leave_the_shares_as_they_are() -> None:
    nothing = calibration(Outcomes(np.empty(0), np.empty((0, 5)), np.empty(0)), np.inf)
    asked = ESTIMATE_S, np.array([60.0]), LIMIT_S
    assert np.array_equal(time_left(*asked, nothing), time_left(*asked, UNCALIBRATED))
