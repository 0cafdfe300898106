"""Shaken arrivals, the plans of estimates, and what-if tables over both."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.estimate.score import QUANTILES
from pipeline.limits.soft import SoftRules, extensions_of, medians_left, next_limits
from pipeline.schedule.engine import EASY_PLUS_PLUS, Policy, replay
from pipeline.schedule.what_if import (
    AGEING_S,
    TODAY,
    Case,
    Estimates,
    Subject,
    aged,
    bounded_slowdown,
    cases,
    plan,
    scored,
    soft_limits,
    what_if,
)
from pipeline.schedule.workload import Convention, Shakes, Workload, shaken, workload
from pipeline.tables import REPLAY

N = 400
SHAKES = Shakes(n=5, seed=3, jitter_s=600)
SJBF_PERFECT = Case(Policy.EASY_SJBF, Estimates.PERFECT)


def busy(seed: int = 1) -> Workload:
    """Users who ask for ten times what they need, on a machine that is too small for them."""
    random = np.random.default_rng(seed)
    run_s = random.integers(20, 4000, N)
    procs = random.integers(1, 7, N)
    submit_s = np.sort(random.integers(0, 100_000, N))
    user = random.integers(-1, 4, N)
    return workload(submit_s, run_s, 10 * run_s, procs, procs, user, capacity=10)


def subject(work: Workload) -> Subject:
    return Subject("here", work, np.empty((0, 6)), ["a", "b", "c", "d"], Convention.NATURAL)


def rows_of(work: Workload, chosen: list[Case], shakes: Shakes = SHAKES) -> list[dict]:
    return REPLAY.check(what_if(subject(work), chosen, shakes)).to_pylist()


def test_a_shake_moves_each_submit_a_little_and_keeps_every_users_order() -> None:
    work = busy()
    moved, places = shaken(work, SHAKES, 0)
    assert sorted(places) == list(range(N)) and (np.diff(moved.submit_s) >= 0).all()
    shift_s = moved.submit_s - work.submit_s[places]
    assert 0 < np.abs(shift_s).max() <= SHAKES.jitter_s and len(np.unique(shift_s)) > N / 4
    for name in ("row", "run_s", "request_s", "procs", "user"):
        assert (getattr(moved, name) == getattr(work, name)[places]).all()
    for user in range(4):
        assert (np.diff(places[moved.user == user]) > 0).all()
    assert (np.diff(places[moved.user == -1]) < 0).any()


def test_a_shake_is_set_by_its_seed_and_number_alone() -> None:
    work = busy()
    first = shaken(work, SHAKES, 1)[0].submit_s
    assert (first == shaken(work, replace(SHAKES, n=50), 1)[0].submit_s).all()
    assert (first != shaken(work, SHAKES, 2)[0].submit_s).any()
    assert (first != shaken(work, replace(SHAKES, seed=4), 1)[0].submit_s).any()


def test_today_comes_first_and_easy_plus_plus_is_as_published() -> None:
    found = cases([Policy.FCFS, Policy.EASY, Policy.EASY_SJBF], [Estimates.REQUEST, Estimates.LAST_TWO])
    assert found[0] == TODAY
    assert [(one.policy, one.estimates) for one in found[1:]] == [
        (Policy.FCFS, Estimates.REQUEST),
        (Policy.EASY, Estimates.LAST_TWO),
        (Policy.EASY_SJBF, Estimates.REQUEST),
        (Policy.EASY_SJBF, Estimates.LAST_TWO),
    ]
    assert found[-1].options() == EASY_PLUS_PLUS


def test_limits_are_raised_under_a_head_alone_and_the_order_is_one_of_easy_sjbf() -> None:
    found = cases(list(Policy), [Estimates.ORDER, Estimates.SOFT_50])
    assert [one.name for one in found] == [
        "easy, request", "fcfs, request", "easy, soft-50", "easy-sjbf, order", "easy-sjbf, soft-50",
    ]  # fmt: skip


def test_a_job_without_an_answer_keeps_its_request() -> None:
    work = workload([0.0, 1.0], [900, 900], [36_000, 36_000], [1, 1], [1, 1], [0, 0], capacity=4)
    quantiles_s = np.array([[600, 4000, 9000, 12_000, 15_000, 30_000], [np.nan] * 6])
    limits_s, key_s = plan(Estimates.SOFT_50, work, quantiles_s)
    assert limits_s[0, 0] == 4020 and (limits_s[1] == 36_000).all() and limits_s[0, -1] == 36_000
    assert key_s.tolist() == [4000, 36_000]
    limits_s, order_s = plan(Estimates.ORDER, work, quantiles_s)
    assert limits_s is None and order_s.tolist() == key_s.tolist()


def test_a_limit_is_raised_as_the_guard_raises_it() -> None:
    """By the time that half of the jobs take which reach the limit, and where that is not known by the increments."""
    quantiles_s, request_s, rules = np.array([[60.0, 120, 600, 1200, 3600, 20_000]]), np.array([86_400.0]), SoftRules()
    limits_s = soft_limits(quantiles_s, request_s, rules)[0]
    expected_s, limit_s = [1800.0], np.array([1800.0])
    while limit_s[0] < request_s[0]:
        left_s = medians_left(quantiles_s, QUANTILES, limit_s)
        limit_s = next_limits(limit_s, request_s, extensions_of(limit_s, np.array([1800.0]), rules), left_s, rules)
        expected_s.append(limit_s[0])
    assert limits_s[: len(expected_s)].tolist() == expected_s and expected_s[1] > 2700


def test_waiting_makes_up_for_a_long_estimate() -> None:
    work = workload([0.0, AGEING_S], [1, 1], [1e5, 1e5], [1, 1], [1, 1], [0, 0], capacity=1)
    order = aged(np.array([np.e * 1000, 1000]), work)
    assert order[0] == pytest.approx(order[1])


def test_without_shakes_a_case_is_one_replay_of_the_log_as_it_is() -> None:
    work = busy()
    (own,) = [row for row in rows_of(work, [SJBF_PERFECT], Shakes(n=0)) if row["part"] == "all"][1:]
    done = replay(work, SJBF_PERFECT.options(), work.run_s, aged(work.run_s, work))
    chosen = scored(work, done, Convention.NATURAL)
    assert own["statistic"] == "single" and own["n_shakes"] == 0
    assert own["slowdown_mean"] == pytest.approx(bounded_slowdown(work, done)[chosen].mean())
    assert own["wait_longest_s"] == (done.start_s - work.submit_s)[chosen].max()


def test_changes_are_paired_and_statistics_are_over_the_shakes() -> None:
    work = busy()
    rows = [row for row in rows_of(work, [SJBF_PERFECT]) if row["part"] == "all"]
    today = [row for row in rows if row["policy"] == "easy"]
    own = {row["statistic"]: row for row in rows if row["policy"] == "easy-sjbf"}
    assert {row["slowdown_change"] for row in today} == {0.0}
    changes, slowdowns = [], []
    for nth in range(SHAKES.n):
        moved, _ = shaken(work, SHAKES, nth)
        perfect = replay(moved, SJBF_PERFECT.options(), moved.run_s, aged(moved.run_s, moved))
        pair = [replay(moved, TODAY.options()), perfect]
        # The same jobs are scored in every shake: those after the first 1% of the log as it is.
        chosen = np.isin(moved.row, work.row[N // 100 :])
        before, after = (bounded_slowdown(moved, done)[chosen].mean() for done in pair)
        changes.append(after / before - 1)
        slowdowns.append(after)
    assert own["median"]["slowdown_change"] == pytest.approx(np.median(changes))
    assert own["q25"]["slowdown_mean"] == pytest.approx(np.quantile(slowdowns, 0.25))
    assert own["q75"]["slowdown_change"] < 0


@pytest.mark.parametrize("part", ["size", "user"])
def test_the_parts_add_up(part: str) -> None:
    rows = [row for row in rows_of(busy(), []) if row["statistic"] == "median"]
    (whole,) = [row for row in rows if row["part"] == "all"]
    parts = [row for row in rows if row["part"] == part]
    assert sum(row["n_jobs"] for row in parts) == whole["n_jobs"] == N - N // 100
    if part == "user":
        assert {row["part_value"] for row in parts} == {"a", "b", "c", "d", None}


def test_only_jobs_submitted_in_the_window_are_scored() -> None:
    work = busy()
    since_s = float(work.submit_s[N // 2])
    table = what_if(replace(subject(work), since_s=since_s), [], SHAKES)
    assert {row["n_jobs"] for row in table.to_pylist() if row["part"] == "all"} == {
        int((work.submit_s >= since_s).sum())
    }
