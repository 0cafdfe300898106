"""The verdict on two versions: what was planted is found, and no difference is not called one."""

import numpy as np
import pytest

from pipeline.evaluate.later_scores import FEWEST_USER_DAYS, error_change


@pytest.mark.parametrize(("factor", "verdict"), [(0.7, "better"), (1.0, "no difference"), (1.4, "worse")])
def test_a_planted_change_of_errors_is_found(factor: float, verdict: str) -> None:
    random = np.random.default_rng(3)
    user_days = np.repeat(np.arange(200), 10)
    first_s = random.exponential(600.0, 2_000)
    found = error_change(first_s, first_s * factor * random.uniform(0.9, 1.1, 2_000), user_days, 1)
    assert found["verdict"] == verdict and found["lo95"] <= found["change"] <= found["hi95"]
    assert found["change"] == pytest.approx(factor - 1, abs=0.03)


def test_one_day_of_one_user_decides_nothing() -> None:
    """By job the change would be certain: 1,000 jobs of a campaign improve. By user-day it is one case of many."""
    first_s = np.full(2_000, 600.0)
    user_days = np.concatenate([np.zeros(1_000, int), np.arange(1, 1_001) % 100 + 1])
    second_s = np.where(user_days == 0, 300.0, 660.0)
    assert error_change(first_s, second_s, user_days, 1)["verdict"] == "no difference"


def test_the_seed_gives_the_interval_and_too_few_days_give_no_verdict() -> None:
    random = np.random.default_rng(5)
    first_s, second_s, days = random.exponential(9.0, 500), random.exponential(9.0, 500), np.arange(500) % 50
    assert error_change(first_s, second_s, days, 7) == error_change(first_s, second_s, days, 7)
    assert error_change(first_s, second_s, days, 7)["lo95"] != error_change(first_s, second_s, days, 8)["lo95"]
    assert error_change(first_s, second_s, days % (FEWEST_USER_DAYS - 1), 7)["verdict"] is None
