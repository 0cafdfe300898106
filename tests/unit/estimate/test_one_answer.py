"""A job of a size or a request that its group never had is answered by what the group's own record shows."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.arrays import Floats
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import History, history
from pipeline.estimate.walltime import learn, walltime
from tests.rows import jobs_of

SETTINGS = EstimateRules()
KEEPS, FOLLOWS = 0.0, 1.0
YEAR_S = 3.15e7


def log(power: float, elasticity: float, bend: float = 0.0, n_jobs: int = 400, seed: int = 0) -> History:
    """One user's jobs of one program; log runtime is linear in log request and, but for the bend, in log processors."""
    generator = np.random.default_rng(seed)
    procs = 2.0 ** generator.choice([0, 1, 2, 4, 5], n_jobs)
    requested_s = 3600.0 * 2.0 ** generator.integers(3, 6, n_jobs)
    noise = np.exp(generator.normal(0, 0.02, n_jobs))
    runtime_s = runtime_of(procs, requested_s, power, elasticity, bend) * noise
    submit_s = np.arange(n_jobs) * 40_000
    return history(jobs_of([
        {
            "user": "ada", "application": "solver", "submit_s": int(submit), "start_s": int(submit),
            "end_s": int(submit + runtime), "runtime_s": float(runtime), "requested_s": float(asked),
            "procs": int(size),
        }
        for submit, runtime, asked, size in zip(submit_s, runtime_s, requested_s, procs, strict=True)
    ]))  # fmt: skip


def runtime_of(procs: Floats, requested_s: Floats, power: float, elasticity: float, bend: float = 0.0) -> Floats:
    return 28_800.0 * procs**power * np.exp(bend * np.log(procs) ** 2) * (requested_s / 57_600.0) ** elasticity


def with_last(past: History, procs: float, requested_s: float) -> Floats:
    """What the last job is answered if it has this size and this request."""
    sizes, asked_s = past.procs.copy(), past.requested_s.copy()
    sizes[-1], asked_s[-1] = procs, requested_s
    return walltime(replace(past, procs=sizes, requested_s=asked_s), SETTINGS)[-1]


@pytest.mark.parametrize(("power", "bend"), [(-0.8, 0.0), (-0.9, 0.1), (0.3, 0.0), (0.0, 0.0)])
def test_a_size_never_run_lies_on_the_group_s_curve(power: float, bend: float) -> None:
    """Eight processors between runs on four and sixteen; bigger jobs may take longer, too."""
    expected_s = runtime_of(np.array([8.0]), np.array([57_600.0]), power, KEEPS, bend)[0]
    found = with_last(log(power, KEEPS, bend), 8.0, 57_600.0)
    assert abs(np.log(found[1] / expected_s)) < 0.1


@pytest.mark.parametrize(("elasticity", "least", "most"), [(KEEPS, -0.1, 0.1), (FOLLOWS, 0.5, 1.1)])
def test_a_request_counts_as_far_as_the_group_s_runtimes_follow_requests(
    elasticity: float, least: float, most: float
) -> None:
    past = log(-0.5, elasticity)
    usual, more = (with_last(past, 4.0, asked_s)[1] for asked_s in (57_600.0, 4 * 57_600.0))
    assert least < np.log(more / usual) / np.log(4) < most


def test_no_answer_runs_away_by_a_request_that_tells_nothing() -> None:
    past = log(-0.5, KEEPS)
    assert with_last(past, 4.0, YEAR_S)[5] <= 2 * np.nanmax(past.runtime_s)


def test_a_default_that_many_jobs_carry_is_no_request() -> None:
    past = log(-0.5, FOLLOWS)
    is_default = np.random.default_rng(1).random(len(past)) < 0.4
    year, none = (
        walltime(replace(past, requested_s=np.where(is_default, asked_s, past.requested_s)), SETTINGS)
        for asked_s in (YEAR_S, np.nan)
    )
    later = np.arange(len(past)) >= 200
    apart = np.abs(np.log(year[later, 1] / none[later, 1]))
    assert np.median(apart) < 0.01 and apart.max() < 0.7


def test_programs_that_no_two_jobs_share_are_unknown() -> None:
    past = log(-0.5, FOLLOWS)
    n = len(past)
    numbered = replace(
        past,
        codes=past.codes | {"what": np.arange(n)},
        names=past.names | {"what": [f"script {job}" for job in range(n)]},
    )
    nameless = replace(past, codes=past.codes | {"what": np.full(n, -1)}, names=past.names | {"what": []})
    assert len(learn(numbered, SETTINGS, np.inf).groups) < 150
    apart = np.abs(np.log(walltime(numbered, SETTINGS)[:, 1] / walltime(nameless, SETTINGS)[:, 1]))
    assert np.median(apart[200:]) < 0.05


def test_memory_tells_jobs_of_one_program_apart() -> None:
    past = log(0.0, KEEPS)
    memory = np.where(np.arange(len(past)) % 2 == 0, 1024.0, 2048.0)
    runtime_s = np.where(memory > 1024, 1, 1 / 9) * past.runtime_s
    past = replace(past, requested_mem_kib=memory, runtime_s=runtime_s, end_s=past.start_s + runtime_s)
    error = np.abs(np.log(walltime(past, SETTINGS)[200:, 1] / runtime_s[200:]))
    assert np.median(error) < 0.05 and np.quantile(error, 0.95) < 0.2


def users_log(runtime_s: Floats, submit_s: Floats, n_users: int, requested_s: float | None) -> History:
    """Jobs of users in turn, who all run one program; each starts at once."""
    return history(jobs_of([
        {
            "user": f"u{job % n_users}", "application": "solver", "submit_s": int(at), "start_s": int(at),
            "end_s": int(at + took), "runtime_s": float(took), "requested_s": requested_s, "procs": 4,
        }
        for job, (at, took) in enumerate(zip(submit_s, runtime_s, strict=True))
    ]))  # fmt: skip


def test_a_morning_when_all_jobs_die_does_not_own_the_next_day() -> None:
    """Eight users whose jobs take an hour; for a morning each one's fifty jobs die after a minute."""
    generator = np.random.default_rng(3)
    usual_s = 3600 * np.exp(generator.normal(0, 0.3, 800))
    submit_s = np.arange(800) * 3_000.0
    crash_s = submit_s[-1] + 20_000 + np.arange(400) * 30.0
    later_s = crash_s[0] + 86_400 + np.arange(80) * 600.0
    runtime_s = np.concatenate([usual_s, np.full(400, 60.0), usual_s[:80]])
    past = users_log(runtime_s, np.concatenate([submit_s, crash_s, later_s]), 8, 14_400.0)
    found = walltime(past, SETTINGS)[-80:]
    assert np.abs(np.log(np.median(found[8:, 1]) / 3600)) < np.log(2)
    assert found[:8, 3].min() > 3600, "the first jobs after it may still take their usual time"


def test_the_survivors_of_an_unfinished_burst_count() -> None:
    """Of forty jobs submitted at once ten died after a minute, and thirty have been running for two hours."""
    earlier_s = np.arange(40) * 20_000.0
    burst_s = 40 * 20_000.0 + np.arange(41)
    burst_s[-1] += 7_200
    runtime_s = np.concatenate([np.full(40, 600.0), np.where(np.arange(41) % 4 == 0, 60.0, 10_000.0)])
    past = users_log(runtime_s, np.concatenate([earlier_s, burst_s]), 1, 14_400.0)
    counted, left_out = (walltime(past, replace(SETTINGS, running=weight))[-1] for weight in (SETTINGS.running, 1e-9))
    assert counted[3] >= 7_200 > left_out[3], "the ended ones alone say little of those that are left"


@pytest.mark.parametrize("requested_s", [None, 30 * 86_400.0])
def test_the_top_quantiles_hold_where_requests_do_not_bind(requested_s: float | None) -> None:
    """Log-normal runtimes of a log without requests, and of one whose only request nobody uses."""
    generator = np.random.default_rng(5)
    runtime_s = 3600 * np.exp(generator.normal(0, 1.0, 4000))
    past = users_log(runtime_s, np.arange(4000) * 2_000.0, 10, requested_s)
    held = (runtime_s[:, None] <= walltime(past, SETTINGS))[1500:].mean(axis=0)
    assert 0.93 < held[4] < 0.97 and 0.98 < held[5] < 0.998
