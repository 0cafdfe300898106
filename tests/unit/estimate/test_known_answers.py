"""Logs whose right answers are known: what a user would expect to be told."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.arrays import Floats
from pipeline.estimate.history import history
from pipeline.estimate.questions import completed, questions_of
from pipeline.estimate.state import estimate, learn, walltime
from tests.rows import jobs_of
from tests.unit.estimate.states import DAY_S, answer_of, plain

YEAR_S = 365.0 * DAY_S


def noise(n: int, log_sd: float, seed: int = 0) -> Floats:
    return np.exp(np.random.default_rng(seed).normal(0, log_sd, n))


def told(rows: list[dict[str, object]]) -> Floats:
    """(jobs, 6) quantiles, s, of all jobs of a log, each as of its submit."""
    return walltime(history(jobs_of(rows)))


def test_equal_runtimes_are_the_answer_with_a_tight_interval() -> None:
    found = told(plain([600.0] * 60, requested_s=7200.0))
    assert (found[1:, 1] == 600).all()
    assert (found[1:, 0] <= 600).all() and (found[1:, 3] >= 600).all()
    assert (found[20:, 4] / found[20:, 0]).max() < 1.1


def test_the_first_job_of_a_log_is_answered_by_its_request_and_the_first_of_a_user_by_others() -> None:
    rows = plain([50.0] * 6, requested_s=600.0, user="bob") + plain([7.0] * 6, requested_s=60.0, user="bob")
    new = plain([1.0], submit_s=[90_000], requested_s=600.0, user="new")
    for row in rows[6:]:
        row |= {name: row[name] + 30_000 for name in ("submit_s", "start_s", "end_s")}
    found = told([*rows, *new])
    assert found[0, 1] == 600 and 7 <= found[-1, 1] <= 50


def test_two_programs_are_told_apart() -> None:
    rows = plain(np.where(np.arange(80) % 2 == 0, 60.0, 9000.0), application=["a", "b"] * 40, requested_s=86_400.0)
    for name, runtime_s in (("a", 60), ("b", 9000)):
        assert answer_of(rows, application=name, requested_s=86_400.0)[1] == pytest.approx(runtime_s, rel=0.05)


@pytest.mark.parametrize("column", ["requested_mem_kib", "gpus", "queue", "procs"])
def test_memory_gpus_queue_and_processors_tell_jobs_of_one_program_apart(column: str) -> None:
    values = {"queue": ["short", "long"]}.get(column, [2, 8])
    rows = plain(np.where(np.arange(80) % 2 == 0, 60.0, 9000.0), requested_s=86_400.0, **{column: values * 40})
    for value, runtime_s in zip(values, (60, 9000), strict=True):
        found = answer_of(rows, requested_s=86_400.0, **{column: value})
        assert found[1] == pytest.approx(runtime_s, rel=0.05)


def test_the_median_is_at_most_the_request_and_quantiles_ascend() -> None:
    random = np.random.default_rng(2)
    requested_s = 600.0 * 2.0 ** random.integers(0, 6, 500)
    found = told(plain(np.minimum(3000 * noise(500, 1.5), requested_s + 200), requested_s=requested_s))
    assert (found[:, 1] <= requested_s).all() and (np.diff(found, axis=1) >= 0).all() and (found > 0).all()


def test_runtimes_beyond_the_request_are_in_the_upper_quantiles() -> None:
    found = told(plain(7200.0 + np.arange(1500), gap_s=20_000, requested_s=3600.0))
    assert (found[1:, :2] <= 3600).all() and (found[20:, 4] > 3600).all() and (found[1200:, 4] > 8000).all()


@pytest.mark.parametrize(("power", "least", "most"), [(0.0, -0.1, 0.1), (1.0, 0.7, 1.1)])
def test_a_request_counts_as_far_as_runtimes_follow_requests(power: float, least: float, most: float) -> None:
    requested_s = 3600.0 * 2.0 ** np.random.default_rng(1).integers(0, 4, 200)
    rows = plain(500 * (requested_s / 3600) ** power * noise(200, 0.05), gap_s=40_000, requested_s=requested_s)
    usual, four_times = (answer_of(rows, requested_s=asked_s)[1] for asked_s in (14_400.0, 57_600.0))
    assert least < np.log(four_times / usual) / np.log(4) < most


@pytest.mark.parametrize("has_requests", [True, False])
def test_a_request_of_a_year_is_not_answered_by_a_year(has_requests: bool) -> None:
    requested_s = 3600.0 * 2.0 ** np.random.default_rng(1).integers(0, 4, 200)
    runtime_s = 500 * (requested_s / 3600) * noise(200, 0.05)
    rows = plain(runtime_s, gap_s=40_000, requested_s=requested_s if has_requests else None)
    found = answer_of(rows, requested_s=YEAR_S)
    assert found[5] <= 2.1 * runtime_s.max() and found[1] <= 2 * runtime_s.max()


def test_a_default_request_that_many_jobs_carry_tells_no_more_than_none() -> None:
    random = np.random.default_rng(3)
    requested_s = 3600.0 * 2.0 ** random.integers(0, 4, 400)
    runtime_s, is_default = 500 * (requested_s / 3600) * noise(400, 0.1), random.random(400) < 0.4
    year, none = (
        told(plain(runtime_s, gap_s=40_000, requested_s=[
            asked if is_one else float(own) for is_one, own in zip(is_default, requested_s, strict=True)
        ]))[200:, 1]
        for asked in (YEAR_S, None)
    )  # fmt: skip
    errors = [np.abs(np.log(one[is_default[200:]] / runtime_s[200:][is_default[200:]])).mean() for one in (year, none)]
    assert errors[0] < 1.2 * errors[1]


def test_a_log_without_users_is_answered_by_queue() -> None:
    """As three queues of a real log: one answer for all of them says nothing."""
    queue, median_s = np.arange(900) % 3, np.array([69.0, 2000.0, 33_000.0])
    runtime_s = median_s[queue] * noise(900, 0.4)
    rows = plain(runtime_s, gap_s=900.0, user=None, application=None, queue=[f"q{k}" for k in queue])
    for name, expected_s in zip(("q0", "q1", "q2"), median_s, strict=True):
        found = answer_of(rows, user=None, application=None, queue=name)
        assert abs(np.log(found[1] / expected_s)) < 0.5 and found[0] < expected_s < found[3]


def test_programs_that_no_two_jobs_share_are_unknown() -> None:
    """Numbered scripts: their names tell nothing, and learning them would fill memory."""
    runtime_s = 500 * noise(400, 0.3)
    numbered = told(plain(runtime_s, application=[f"script {job}" for job in range(400)]))
    nameless = told(plain(runtime_s, application=None))
    assert np.median(np.abs(np.log(numbered[200:, 1] / nameless[200:, 1]))) < 0.05


def test_a_query_knows_as_the_backtest_does_that_names_of_programs_tell_nothing() -> None:
    rows = plain(500 * noise(400, 0.3), application=[f"script {job}" for job in range(400)])
    past = history(jobs_of(rows))
    scored = walltime(past)
    for job in (150, 399):
        state = learn(past.take(np.arange(job)), float(past.submit_s[job]))
        assert np.array_equal(estimate(state, past.as_submitted().take(np.array([job])))[0, :6], scored[job])


def test_runs_that_were_stopped_are_lower_bounds() -> None:
    """Of 1,181 runs 1,117 were stopped at 3,492 s and 64 failed early: the answer is not the failures' runtime."""
    failed = np.random.default_rng(4).random(1181) < 64 / 1181
    runtime_s = np.where(failed, 218.0, 3492.0)
    rows = plain(runtime_s, gap_s=4000.0, requested_s=3492.0, is_lower_bound=~failed)
    found = answer_of(rows, requested_s=3492.0)
    assert found[1] == pytest.approx(3492, rel=0.01) and found[2] >= 3492
    longer = answer_of(rows, requested_s=4 * 3492.0)
    assert longer[1] >= 3492 and longer[4] > 4 * 3492


def test_stopped_jobs_do_not_pull_down() -> None:
    past = history(jobs_of(plain(1000 * noise(300, 0.3), requested_s=9000.0)))
    stopped = replace(past, is_lower_bound=np.arange(300) % 3 == 0)
    free_s, bound_s = (walltime(log)[100:, [1, 2, 4]] for log in (past, stopped))
    assert (np.median(bound_s / free_s, axis=0) >= 1).all()


def test_a_burst_of_a_thousand_jobs_does_not_replace_what_was_known_before() -> None:
    """A thousand jobs of one submit that die after a minute, after a hundred of an hour; then the usual ones go on."""
    usual = plain(3600 * noise(100, 0.1), gap_s=20_000.0, requested_s=14_400.0)
    at_s = 100 * 20_000
    burst = plain([60.0] * 1000, submit_s=np.full(1000, at_s), requested_s=14_400.0)
    after = answer_of([*usual, *burst], later_s=3000.0, requested_s=14_400.0)
    assert after[3] > 3600, "the next one may still take its usual time"
    more = plain(3600 * noise(4, 0.1), submit_s=at_s + DAY_S + 20_000.0 * np.arange(4), requested_s=14_400.0)
    assert answer_of([*usual, *burst, *more], later_s=3000.0, requested_s=14_400.0)[1] == pytest.approx(3600, rel=0.3)


def test_the_survivors_of_an_unfinished_burst_count() -> None:
    """Of forty jobs submitted at once ten died after a minute, and thirty have been running for two hours."""
    earlier = plain([600.0] * 40, gap_s=20_000.0, requested_s=14_400.0)
    at_s = 40 * 20_000.0
    runtime_s = np.where(np.arange(40) % 4 == 0, 60.0, 10_000.0)
    burst = plain(runtime_s, submit_s=at_s + np.arange(40), requested_s=14_400.0)
    asked = plain([1.0], submit_s=[at_s + 7200], requested_s=14_400.0)
    without = [row for row in burst if row["runtime_s"] == 60.0]
    counted, left_out = (told([*earlier, *jobs, *asked])[-1] for jobs in (burst, without))
    assert counted[3] >= 7200 > left_out[3]


def test_the_last_answers_of_a_log_that_was_cut_do_not_rest_on_survivors_alone() -> None:
    """A snapshot: the last day of submits of 20 users, of which only the longest jobs end after the last submit."""
    random = np.random.default_rng(5)
    n = 4000
    runtime_s = 3600 * np.exp(random.normal(0, 1.2, n))
    rows = plain(runtime_s, gap_s=120.0, user=[f"u{k}" for k in random.integers(0, 20, n)], requested_s=10.0 * DAY_S)
    last_s = rows[-1]["submit_s"]
    survivors = [row for row in rows if row["end_s"] > last_s]
    assert len(survivors) > 20 and np.median([row["runtime_s"] for row in survivors]) > 2 * 3600
    log = history(jobs_of(rows))
    for until_s in (float(last_s), float(log.end_s.max())):
        state = learn(log, until_s)
        asked = questions_of([{"user": f"u{k}", "application": "solver", "procs": 4, "requested_s": 10.0 * DAY_S}
                              for k in range(20)], np.full(20, until_s), "UTC")  # fmt: skip
        found = estimate(state, asked)
        assert abs(np.log(np.median(found[:, 1]) / 3600)) < np.log(1.6)
        # The true 80% and 95% quantiles are 2.7 and 7.2 hours.
        assert np.median(found[:, 2]) < 2 * 2.7 * 3600 and np.median(found[:, 4]) < 3 * 7.2 * 3600


def test_a_job_that_waits_and_one_that_starts_at_once_are_answered_alike() -> None:
    """How long a job waits is known after its submit."""
    rows, answers = plain(1000 * noise(100, 0.5), gap_s=300.0, requested_s=9000.0), []
    for wait_s in (0, 1800):
        rows[-1] |= {"start_s": rows[-1]["submit_s"] + wait_s}
        answers.append(told(rows)[-1])
    assert answers[0].tobytes() == answers[1].tobytes()


def test_the_campaign_under_way_answers_for_its_next_job() -> None:
    """Campaigns of six jobs, one after the other, each campaign with a level of its own: factors of three."""
    level = np.exp(np.random.default_rng(6).normal(0, 1.1, 80)).repeat(6)
    submit_s = 200_000.0 * np.arange(80).repeat(6) + 1000.0 * np.tile(np.arange(6), 80)
    runtime_s = np.minimum(600 * level, 900) * noise(480, 0.05)
    found = told(plain(runtime_s, submit_s=submit_s, requested_s=86_400.0))
    error = np.abs(np.log(found[:, 1] / runtime_s)).reshape(80, 6)[40:]
    assert error[:, 3:].mean() < 0.15 and error[:, 0].mean() > 0.3


def test_a_job_without_a_request_is_not_scaled_to_the_largest_request_of_its_user() -> None:
    """Jobs of 90 minutes request 3 h, one 2 days: without a request runtimes stay as they are."""
    rows = plain([5400.0] * 60, requested_s=[2.0 * DAY_S, *[10_800.0] * 59])
    assert answer_of(rows)[1] == pytest.approx(5400.0, rel=0.05)


def test_a_question_without_a_request_gets_that_of_the_newest_job_of_its_user_on_as_many_processors() -> None:
    rows = plain([5400.0] * 40, requested_s=10_800.0, procs=1) + plain([600.0] * 40, requested_s=1200.0, procs=8)
    log = history(jobs_of(sorted(rows, key=lambda row: row["submit_s"])))
    state = learn(log, float(log.end_s.max()))
    asked = questions_of([{"user": "ada", "procs": n} for n in (1, 8)], np.full(2, state.as_of_s), "UTC")
    assert completed(state, asked).requested_s.tolist() == [10_800.0, 1200.0]
    others = questions_of([{"user": "bob", "procs": 1}], np.array([state.as_of_s]), "UTC")
    assert np.isnan(completed(state, others).requested_s).all()
