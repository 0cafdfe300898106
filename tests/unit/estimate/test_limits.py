"""Recommended limits keep their promise on simulated users, ask no risk of new ones, and know nothing of the future."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.arrays import Floats, Ints
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import History, history
from pipeline.estimate.limit_choice import SHARES, LimitSettings, exceedance
from pipeline.estimate.limits import chosen_limits, limits, recommend
from pipeline.estimate.score import QUANTILES
from pipeline.evaluate import check_no_look_ahead
from pipeline.evaluate.limit_advice import limit_figures, outcomes, second_half
from tests.rows import jobs_of

SETTINGS = EstimateRules()
REQUEST_S = 10_000.0
N_USERS = 12


def log_of(runtime_s: Floats, user: Ints, gap_s: float = 300.0) -> History:
    """Jobs submitted every `gap_s`, which start at once; each requests REQUEST_S on four processors."""
    rows = [
        {
            "user": f"u{who}", "submit_s": int(gap_s * place), "start_s": int(gap_s * place),
            "end_s": int(gap_s * place + run_s), "runtime_s": float(run_s), "requested_s": REQUEST_S, "procs": 4,
        }
        for place, (who, run_s) in enumerate(zip(user, runtime_s, strict=True))
    ]  # fmt: skip
    return history(jobs_of(rows))


def simulated(n: int, seed: int, change: float = 1.0) -> tuple[History, Floats]:
    """Users with runtimes of their own, which change in the middle of the log; and the true quantiles before that."""
    generator = np.random.default_rng(seed)
    user = generator.integers(0, N_USERS, n)
    median_s = 300.0 * 1.35**user
    spread = 0.2 + 0.05 * (user % 4)
    drift = np.where(np.arange(n) < n // 2, 1.0, change)
    runtime_s = np.minimum(np.ceil(median_s * drift * np.exp(spread * generator.standard_normal(n))), REQUEST_S)
    normal = np.array([-1.2816, 0.0, 0.8416, 1.2816, 1.6449, 2.3263])
    return log_of(runtime_s, user), median_s[:, None] * np.exp(spread[:, None] * normal)


@pytest.mark.parametrize("share", [0.03, 0.10])
@pytest.mark.parametrize("change", [1.0, 1.6])
def test_the_promise_holds_on_simulated_users(share: float, change: float) -> None:
    past, quantiles_s = simulated(6000, 1, change)
    limit_s = chosen_limits(past, quantiles_s, SETTINGS, LimitSettings(share=share))
    figures = limit_figures(past, limit_s, second_half(past))
    assert figures["share_beyond"] <= share
    assert figures["worst_share"] <= 3 * share
    assert figures["removed_share"] > 0.3


def test_less_is_promised_and_more_removed() -> None:
    past, quantiles_s = simulated(4000, 2)
    removed = [
        limit_figures(past, chosen_limits(past, quantiles_s, SETTINGS, LimitSettings(share=share)))["removed_share"]
        for share in (0.01, 0.03, 0.10)
    ]
    assert removed == sorted(removed) and removed[0] < removed[-1]


def test_one_user_who_becomes_slow_is_harmed_within_the_bound() -> None:
    past, quantiles_s = simulated(6000, 3)
    slow = (past.codes["who"] == 0) & (np.arange(len(past)) > 3000)
    runtime_s = np.where(slow, REQUEST_S, past.runtime_s)
    changed = replace(past, runtime_s=runtime_s, end_s=past.start_s + runtime_s)
    limit_s = chosen_limits(changed, quantiles_s, SETTINGS, LimitSettings())
    own = outcomes(changed, limit_s, 3000).is_beyond[changed.codes["who"][3000:] == 0]
    assert len(own) > 200 and 0 < own.mean() <= 0.09


def test_a_new_user_with_few_jobs_gets_the_request() -> None:
    past, quantiles_s = simulated(3000, 4)
    who = past.codes["who"].copy()
    who[-9:] = N_USERS
    limit_s = chosen_limits(replace(past, codes=past.codes | {"who": who}), quantiles_s, SETTINGS, LimitSettings())
    assert (limit_s[-9:] == REQUEST_S).all()
    assert (limit_s[-500:-9] < REQUEST_S).mean() > 0.5


def test_a_burst_does_not_use_more_than_the_credit_of_its_user() -> None:
    past, quantiles_s = simulated(3000, 5)
    burst = np.arange(len(past)) >= 2500
    runtime_s, at_s = np.where(burst, REQUEST_S, past.runtime_s), past.submit_s[2500]
    start_s = np.where(burst, at_s, past.start_s)
    sudden = replace(
        past, submit_s=np.minimum(past.submit_s, at_s), start_s=start_s, runtime_s=runtime_s, end_s=start_s + runtime_s,
        codes=past.codes | {"who": np.where(burst, 3, past.codes["who"])},
    )  # fmt: skip
    limit_s = chosen_limits(sudden, quantiles_s, SETTINGS, LimitSettings())
    assert 0 < outcomes(sudden, limit_s, 2500).is_beyond.sum() <= 60


def test_jobs_without_a_request_get_no_limit() -> None:
    past, quantiles_s = simulated(300, 6)
    requested_s = np.where(np.arange(300) % 3 == 0, np.nan, past.requested_s)
    limit_s = chosen_limits(replace(past, requested_s=requested_s), quantiles_s, SETTINGS, LimitSettings())
    assert np.isnan(limit_s[::3]).all() and not np.isnan(limit_s[1::3]).any()


def test_planted_futures_change_nothing() -> None:
    past, _ = simulated(900, 7)
    assert (limits(past, SETTINGS)[:, 1] < past.requested_s).sum() > 100
    check_no_look_ahead(lambda log: limits(log, SETTINGS), past, n_times=3)


def test_the_chance_to_exceed_is_that_of_the_quantiles() -> None:
    quantiles_s = np.array([[100.0, 200.0, 300.0, 400.0, 500.0, 950.0], [np.nan] * 6])
    found = exceedance(quantiles_s, np.array([1000.0, 1000.0]))
    at = {share: found[0, place] for place, share in enumerate(SHARES.tolist())}
    for share, chance in ((0.1, 0.9), (0.2, 0.5), (0.3, 0.2), (0.4, 0.1), (0.5, 0.05), (0.95, 0.01)):
        assert at[share] == pytest.approx(chance), share
    assert (np.diff(found[0]) <= 0).all() and np.isnan(found[1]).all() and QUANTILES[1] == 0.5


def test_recommendations_for_the_next_job_are_those_of_an_estimate_at_the_log_s_end() -> None:
    past, _ = simulated(900, 8)
    found = recommend(past, SETTINGS, LimitSettings(), np.array([880, 890]))
    assert np.array_equal(found.limit_s, limits(past, SETTINGS)[:, 1])
    assert (found.next_s > 0).all() and (found.next_s <= REQUEST_S).all()


def test_figures_of_limits_on_jobs_to_check_by_hand() -> None:
    past = log_of(np.array([1000.0, 6000.0, 9000.0]), np.array([0, 0, 1]), 20_000.0)
    figures = limit_figures(past, np.array([2000.0, 5000.0, np.nan]), many_jobs=2)
    assert figures["n_beyond"] == 1 and figures["worst_share"] == 0.5 and figures["n_submitters"] == 1
    assert figures["removed_share"] == pytest.approx(8000 / (9000 + 4000 + 1000))
    assert figures["lost_share"] == pytest.approx(5000 / 16_000)
