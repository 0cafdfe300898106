"""What the quantiles promise holds on drawn logs: of new users, at every age, and where requests say nothing."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.arrays import Bools, Floats
from pipeline.estimate.history import History, history
from pipeline.estimate.score import CALIBRATED, scores
from pipeline.estimate.state import AGES_S, estimate, learn, walltime
from tests.rows import jobs_of
from tests.unit.estimate.states import DAY_S, plain
from tests.unit.evaluate.estimators import log


def drawn(n: int, n_users: int, log_sd: float, gap_s: float = 1800.0, seed: int = 5, **columns: object) -> History:
    """Log-normal runtimes; each user has a median of its own."""
    random = np.random.default_rng(seed)
    user = random.integers(0, n_users, n)
    median_s = 3600 * np.exp(random.normal(0, 1.0, n_users))
    runtime_s = np.round(median_s[user] * np.exp(random.normal(0, log_sd, n)), 1) + 1
    return history(jobs_of(plain(runtime_s, gap_s, user=[f"u{k}" for k in user], **columns)))


def held(past: History, quantiles_s: Floats, chosen: Bools) -> list[float]:
    """The shares of the chosen jobs in the 80% interval, and below the 95% quantile."""
    figures = scores(past.runtime_s, quantiles_s[:, :6], chosen & past.has_run)
    return [figures["coverage_80"], figures["coverage_q95"]]


def test_a_log_that_nobody_tuned_on() -> None:
    past = history(log(4000, seed=3, requested_s=1_000_000.0))
    found, later = walltime(past), np.arange(4000) >= 1000
    figures = scores(past.runtime_s, found, later)
    assert 0.77 <= figures["coverage_80"] <= 0.84 and 0.93 <= figures["coverage_q95"] <= 0.97
    everybody_s = np.abs(past.runtime_s - np.median(past.runtime_s))[later].mean()
    assert figures["mae_s"] < 0.5 * everybody_s


def test_new_users_have_the_interval_of_new_users() -> None:
    """Each of 600 users has five jobs: nothing but other users' first jobs says how far a new one is off."""
    random, n = np.random.default_rng(8), 3000
    user = np.arange(n) // 5 + random.integers(0, 40, n) % 2
    median_s = 3600 * np.exp(random.normal(0, 1.5, user.max() + 1))
    runtime_s = median_s[user] * np.exp(random.normal(0, 0.2, n)) + 1
    past = history(jobs_of(plain(runtime_s, 20_000.0, user=[f"u{k}" for k in user])))
    found, _, nth = walltime(past), *np.unique(user, return_index=True)
    is_first = np.zeros(n, np.bool_)
    is_first[nth] = True
    for chosen in (is_first, ~is_first):
        share_80, share_95 = held(past, found, chosen & (np.arange(n) >= 500))
        assert 0.72 <= share_80 <= 0.88 and 0.90 <= share_95 <= 0.99
    width = np.log(found[:, 3] / found[:, 0])[500:]
    assert np.median(width[is_first[500:]]) > 1.5 * np.median(width[~is_first[500:]])


@pytest.mark.parametrize("requested_s", [None, 30.0 * DAY_S])
def test_the_top_quantiles_hold_where_requests_do_not_bind(requested_s: float | None) -> None:
    past = drawn(4000, 10, 1.0, requested_s=requested_s)
    shares = (past.runtime_s[:, None] <= walltime(past))[1500:].mean(axis=0)
    assert 0.93 < shares[4] < 0.97 and 0.98 < shares[5] < 0.998


def test_both_ends_of_a_95_percent_interval_hold() -> None:
    past, found = drawn(4000, 10, 0.7), dict[float, list[Floats]]()
    learn(past, found=found)
    live = np.concatenate(found[0.0])[1500:]
    shares = (past.runtime_s[1500:, None] <= live).mean(axis=0)
    assert np.abs(shares - CALIBRATED).max() < 0.025


@pytest.mark.parametrize("age_s", AGES_S)
@pytest.mark.parametrize("log_sd", [0.3, 1.2])
def test_intervals_hold_at_every_age_also_where_levels_change_by_the_week(age_s: float, log_sd: float) -> None:
    """A user's level changes each week by more than runs differ within it: what was known then is what counts."""
    random, n = np.random.default_rng(9), 6000
    user, week = np.arange(n) % 4, np.arange(n) // 100
    level = random.normal(0, 0.5, (4, week.max() + 1))[user, week]
    runtime_s = np.round(600 * 3.0**user * np.exp(level + random.normal(0, log_sd, n)), 1) + 1
    past = history(jobs_of(plain(runtime_s, 7 * DAY_S / 100, user=[f"u{k}" for k in user])))
    found: dict[float, list[Floats]] = {}
    learn(past, found=found)
    share_80, share_95 = held(past, np.concatenate(found[age_s]), np.arange(n) >= 2000)
    assert 0.77 <= share_80 <= 0.83 and 0.93 <= share_95 <= 0.97


def test_an_answer_that_is_read_later_is_wider() -> None:
    random, n = np.random.default_rng(9), 6000
    level = random.normal(0, 0.7, n // 100 + 1)[np.arange(n) // 100]
    runtime_s = np.round(600 * np.exp(level + random.normal(0, 0.2, n)), 1) + 1
    past = history(jobs_of(plain(runtime_s, 7 * DAY_S / 100)))
    at_s = float(past.submit_s[-1])
    asked = past.take(np.array([0, 1, 2])).as_submitted()
    asked = replace(asked, submit_s=at_s + np.array([0.0, 0.5, 3.0]) * DAY_S)
    found = estimate(learn(past, at_s), asked)
    width = np.log(found[:, 3] / found[:, 0])
    assert width[0] < width[2] and width[1] < 1.05 * width[2]


@pytest.mark.parametrize("stale_days", [1.0, 7.0])
def test_intervals_hold_for_a_table_that_is_read_late(stale_days: float) -> None:
    past = drawn(4000, 6, 0.8, gap_s=3000.0)
    found = walltime(replace(past, stale_s=stale_days * DAY_S))
    share_80, share_95 = held(past, found, (np.arange(4000) >= 1500) & ~np.isnan(found[:, 1]))
    assert 0.77 <= share_80 <= 0.83 and 0.93 <= share_95 <= 0.97


def test_rare_requests_of_a_steady_user_hold_as_well() -> None:
    """Three jobs in four are one steady kind; the others, of which a request comes about four times, spread wide."""
    random, n = np.random.default_rng(3), 8000
    is_rare, kind = random.random(n) < 0.25, random.permutation(n) // 16
    requested_s = np.where(is_rare, 40_000.0 + 60 * kind, 864_000.0)
    runtime_s = np.clip(np.exp(random.normal(8.0, np.where(is_rare, 1.5, 0.1))), 1.0, requested_s)
    past = history(jobs_of(plain(runtime_s, 4000.0, requested_s=requested_s)))
    found, later = walltime(past), np.arange(n) >= n // 3
    assert held(past, found, later & is_rare)[1] >= 0.86
    assert 0.93 <= held(past, found, later)[1] <= 0.97


def test_a_fifth_of_the_jobs_stopped_at_their_limit_is_within_the_intervals() -> None:
    random, n = np.random.default_rng(4), 4000
    requested_s = 3600.0 * 2.0 ** random.integers(0, 4, n)
    full_s = 3600 * np.exp(random.normal(0, 1.2, n))
    runtime_s = np.minimum(full_s, requested_s)
    is_stopped = full_s > requested_s
    assert 0.15 < is_stopped.mean() < 0.3
    past = history(jobs_of(plain(runtime_s, 2000.0, requested_s=requested_s, is_lower_bound=is_stopped)))
    found, later = walltime(past), np.arange(n) >= n // 3
    share_80, share_95 = held(past, found, later)
    assert 0.77 <= share_80 <= 0.92 and 0.93 <= share_95 <= 1
    median_s = np.minimum(3600, requested_s)
    assert np.median(np.abs(np.log(found[later, 1] / median_s[later]))) < 0.5


def test_jobs_of_nobody_are_not_answered_by_the_last_burst() -> None:
    """Of a log without users that comes in bursts, each of one runtime, the typical runtime errs less than the last."""
    rng, n = np.random.default_rng(3), 6000
    burst = np.arange(n) // 60
    runtime_s = np.round(np.exp(rng.normal(6.0, 1.5, n // 60))[burst] * rng.lognormal(0, 0.1, n)) + 1
    past = history(jobs_of(plain(runtime_s, submit_s=1_600_000_000 + 3600 * burst, user=None, procs=1)))
    found, later = walltime(past)[:, 1], np.arange(n) >= n // 3
    constant = np.abs(np.median(runtime_s[~later]) - runtime_s)[later].mean()
    assert np.abs(found - runtime_s)[later].mean() < 1.1 * constant
