"""The replay's kernels against a plain Python replay, job by job, and what holds of every schedule."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.limits.soft import SoftRules
from pipeline.schedule.engine import EASY_PLUS_PLUS, Policy, ReplayOptions, Schedule, replay
from pipeline.schedule.workload import Convention, Workload, workload, workload_of_jobs
from tests.rows import jobs_of
from tests.unit.evaluate.plain_replay import plain_replay

BACKFILLING = (Policy.EASY, Policy.EASY_SJBF)
RULES = SoftRules(margin_s=2, round_s=1, patience_s=5, patience_share=0.1)
EVERY = [
    *(ReplayOptions(policy=p) for p in Policy),
    *(ReplayOptions(policy=p, rules=RULES) for p in BACKFILLING),
    *(ReplayOptions(policy=p, learns_last_two=True) for p in (Policy.FCFS, *BACKFILLING)),
]


def in_steps(first_s: np.ndarray) -> np.ndarray:
    """A first limit, and longer ones by growing steps."""
    return first_s[:, None] + 60 * np.array([0, 1, 5, 15, 30, 60, 120, 300])


def doubled(first_s: np.ndarray) -> np.ndarray:
    """A first limit, and after each one twice as much."""
    return first_s[:, None] * 2 ** np.arange(30)


PASSED = {"request": lambda first_s: first_s, "steps": in_steps, "doubled": doubled}
"""What becomes of a limit that is too short."""


def given_limits(work: Workload, options: ReplayOptions, first_s: np.ndarray, passed: str) -> np.ndarray:
    """With rules the first limit is at least twice the margin, as `planned_limits` sees to it.

    Under CONSERVATIVE no job outlives it.
    """
    least_s = (
        work.run_s if options.policy is Policy.CONSERVATIVE else 2 * options.rules.margin_s if options.rules else 0
    )
    return PASSED[passed](np.maximum(first_s, least_s))


def random_jobs(n: int, capacity: int, seed: int, step_s: int = 600) -> Workload:
    """Jobs whose times are multiples of a few seconds, so that many events fall on the same second."""
    generator = np.random.default_rng(seed)
    run_s = generator.integers(1, 40, n) * step_s
    return workload(
        submit_s=np.sort(generator.integers(0, 12 * n, n)) * step_s,
        runtime_s=run_s,
        requested_s=run_s * generator.integers(1, 6, n),
        requested_procs=np.minimum(2 ** generator.integers(0, 6, n), capacity),
        allocated_procs=np.full(n, -1),
        user=generator.integers(-1, 5, n),
        capacity=capacity,
    )


def random_predictions(work: Workload, seed: int) -> np.ndarray:
    """From far too short to far too long."""
    return work.run_s * np.random.default_rng(seed).choice([0.1, 0.5, 1.0, 1.0, 2.0, 9.0], len(work))


def assert_same(work: Workload, options: ReplayOptions, **given: np.ndarray) -> Schedule:
    done, plain = replay(work, options, **given), plain_replay(work, options, **given)
    jobs = range(len(work))
    assert done.start_s.tolist() == [plain.start[job] for job in jobs]
    assert done.by_end.tolist() == plain.ended
    assert done.planned_s.tolist() == plain.first
    assert done.is_backfilled.tolist() == [job in plain.backfilled for job in jobs]
    assert done.n_longer.tolist() == [plain.n_longer[job] for job in jobs]
    if options.rules:
        assert done.expected_s.tolist() == [plain.expected.get(job, -1) for job in jobs]
    return done


@pytest.mark.parametrize("options", EVERY, ids=lambda o: f"{o.policy.name}-{o.rules is not None}-{o.learns_last_two}")
@pytest.mark.parametrize("passed", PASSED)
@pytest.mark.parametrize("step_s", [1, 600])
def test_kernel_equals_plain_python_job_by_job(options: ReplayOptions, passed: str, step_s: int) -> None:
    work = random_jobs(150, 32, seed=1, step_s=step_s)
    first_s = random_predictions(work, seed=2)
    limits_s = given_limits(work, options, first_s, passed)
    done = assert_same(work, options, limits_s=limits_s, order=first_s * work.procs)
    holds = options.policy is Policy.CONSERVATIVE
    assert done.n_longer.max() > 1 or passed == "request" or step_s == 1 or holds
    assert done.is_backfilled.any() == (options.policy is not Policy.FCFS)


def small_workloads() -> st.SearchStrategy[tuple[Workload, np.ndarray]]:
    job = st.tuples(st.integers(0, 30), st.integers(1, 12), st.integers(0, 12), st.integers(1, 4), st.integers(1, 20))
    return st.lists(job, min_size=1, max_size=14).map(as_workload)


def as_workload(rows: list[tuple[int, int, int, int, int]]) -> tuple[Workload, np.ndarray]:
    submit, run, more, procs, predicted = np.array(sorted(rows)).T
    unknown = np.full(len(rows), -1)
    return workload(submit, run, run + more, procs, unknown, np.arange(len(rows)) % 3, 4), predicted


@given(small_workloads(), st.sampled_from(EVERY), st.sampled_from(list(PASSED)))
@settings(max_examples=120)
def test_kernel_equals_plain_python_on_small_logs(
    drawn: tuple[Workload, np.ndarray], options: ReplayOptions, passed: str
) -> None:
    work, first_s = drawn
    assert_same(work, options, limits_s=given_limits(work, options, first_s, passed))


@given(small_workloads(), st.sampled_from(EVERY))
@settings(max_examples=60)
def test_no_more_processors_in_use_than_exist(drawn: tuple[Workload, np.ndarray], options: ReplayOptions) -> None:
    work, predicted = drawn
    done = replay(work, options, given_limits(work, options, predicted, "request"))
    assert (done.start_s >= work.submit_s).all()
    assert (done.end_s - done.start_s == work.run_s).all()
    for time in done.start_s:
        running = (done.start_s <= time) & (time < done.end_s)
        assert work.procs[running].sum() <= work.capacity


@given(small_workloads(), st.sampled_from(BACKFILLING))
@settings(max_examples=120)
def test_with_perfect_estimates_the_head_starts_when_it_was_first_expected(
    drawn: tuple[Workload, np.ndarray], policy: Policy
) -> None:
    work, _ = drawn
    exact = workload(
        work.submit_s, work.run_s, work.run_s, work.procs, work.procs, work.user, work.capacity, Convention.NATURAL
    )
    guarded = replay(exact, ReplayOptions(policy=policy, rules=RULES))
    waited = guarded.expected_s >= 0
    assert (guarded.start_s[waited] <= guarded.expected_s[waited]).all()
    # So the guard never acts: without it the schedule is the same.
    assert (replay(exact, ReplayOptions(policy=policy)).start_s == guarded.start_s).all()


@given(small_workloads())
@settings(max_examples=60)
def test_conservative_with_requests_never_starts_a_job_after_fcfs_would(drawn: tuple[Workload, np.ndarray]) -> None:
    work, _ = drawn
    exact = workload(work.submit_s, work.run_s, work.run_s, work.procs, work.procs, work.user, work.capacity)
    fcfs = replay(exact, ReplayOptions(policy=Policy.FCFS))
    assert (replay(exact, ReplayOptions(policy=Policy.CONSERVATIVE)).start_s <= fcfs.start_s).all()


def four_jobs() -> Workload:
    """On 4 processors: a long one of 3, a wide one that must wait for it, a small short one and a small long one."""
    sizes = np.array([3, 4, 1, 1])
    return workload(
        submit_s=np.arange(4),
        runtime_s=np.array([100, 10, 50, 200]),
        requested_s=np.array([100, 20, 60, 300]),
        requested_procs=sizes,
        allocated_procs=sizes,
        user=np.zeros(4, int),
        capacity=4,
    )


def test_fcfs_easy_and_order_by_hand() -> None:
    work = four_jobs()
    assert replay(work, ReplayOptions(policy=Policy.FCFS)).start_s.tolist() == [0, 100, 110, 110]
    easy = replay(work, ReplayOptions())
    assert easy.start_s.tolist() == [0, 100, 2, 110]
    assert easy.is_backfilled.tolist() == [False, False, True, False]


def test_a_limit_that_is_too_short_becomes_longer_and_kills_nobody() -> None:
    predicted = np.array([100, 20, 60, 40])  # the last job seems to end before the head's start at 100
    sjbf = ReplayOptions(Policy.EASY_SJBF)
    found = {name: replay(four_jobs(), sjbf, longer(predicted), predicted) for name, longer in PASSED.items()}
    for done in found.values():
        assert done.start_s.tolist() == [0, 252, 2, 52]
        assert (done.end_s - done.start_s).tolist() == [100, 10, 50, 200]
    # 40 s: at once 300 s; 100 s, then 340 s, which is more than the request; 80, 160, 320 s.
    assert {name: int(done.n_longer[3]) for name, done in found.items()} == {"request": 1, "steps": 2, "doubled": 3}


def test_fairness_bounds_the_heads_delay() -> None:
    """A stream of small jobs that all claim to be short holds a wide job back for ever, but not with fairness."""
    n = 200
    submit = np.concatenate([[0, 1], np.arange(2, n) * 10])
    run = np.concatenate([[50, 100], np.full(n - 2, 400)])
    size = np.concatenate([[3, 4], np.ones(n - 2, int)])
    work = workload(submit, run, run, size, size, np.zeros(n, int), 4)
    claimed = np.concatenate([[50, 100], np.full(n - 2, 5)])
    unfair = RULES._replace(patience_s=1e9)
    starts = [
        replay(work, ReplayOptions(Policy.EASY_SJBF, rules), in_steps(claimed), claimed).start_s[1]
        for rules in (unfair, RULES)
    ]
    assert starts[0] > 1000
    # Planned for 50, and 15 s of patience; what started before then ends 400 s later at the latest.
    assert starts[1] <= 465


def soft_limits(work: Workload, first_s: np.ndarray, step_s: int) -> np.ndarray:
    """From a first limit in equal steps to the request."""
    found = first_s[:, None] + step_s * np.arange(60)[None, :]
    return np.minimum(np.append(found, np.full((len(work), 1), 2**40), axis=1), work.request_s[:, None]).astype(int)


@given(small_workloads(), st.sampled_from(BACKFILLING), st.sampled_from([(4, 3), (2, 1), (1, 7)]))
@settings(max_examples=150)
def test_limits_are_raised_by_the_guards_rounds(
    drawn: tuple[Workload, np.ndarray], policy: Policy, times: tuple[int, int]
) -> None:
    work, predicted = drawn
    rules = SoftRules(margin_s=times[0], round_s=times[1], patience_s=5)
    first_s = np.minimum(np.maximum(predicted, times[0] + times[1]), work.request_s)
    options = ReplayOptions(policy, rules)
    assert_same(work, options, limits_s=soft_limits(work, first_s, times[0] + times[1]), order=predicted)


def test_a_limit_is_raised_before_it_is_reached_and_the_plan_follows() -> None:
    one = workload([0.0, 3650.0], [4000, 10], [9000, 9000], [1, 1], [1, 1], [0, 0], 1)
    limits_s = soft_limits(one, np.array([1800, 1800]), 900)
    done = replay(one, ReplayOptions(rules=SoftRules()), limits_s=limits_s)
    assert done.n_longer.tolist() == [4, 0] and done.planned_s.tolist() == [1800, 1800]
    assert done.start_s.tolist() == [0, 4000]
    # Planned for the end of the limit at its submit: 1800 s, and 900 s more at 930, 1830, 2730 and 3630 s.
    assert done.expected_s.tolist() == [-1, 5400]


@pytest.mark.parametrize("n_stated", [40, 60])
def test_a_job_without_a_request_is_never_cut(n_stated: int) -> None:
    """The few requests of a log may be short: a job without one keeps its runtime, or the log is refused."""
    stated = np.arange(100) < n_stated
    values = np.arange(100), np.where(stated, 100, 9_000), np.where(stated, 7_200, -1), np.ones(100), np.ones(100)
    if n_stated < 50:
        with pytest.raises(InputError, match="40 of 100 jobs with a requested runtime"):
            workload(*values, np.zeros(100), 8)
        return
    work = workload(*values, np.zeros(100), 8)
    assert work.run_s.tolist() == values[1].tolist()
    assert set(work.request_s[~stated]) == {9_000} and work.counts == {"no_request": 40}


def test_conventions_by_hand() -> None:
    values = {
        "submit_s": np.array([5.0, 1, 2, 3, np.nan]),
        "runtime_s": np.array([10.0, -1, 30, 20.2, 9]),
        "requested_s": np.array([20.0, 50, 10, -1, 9]),
        "requested_procs": np.array([2.0, 8, 9, -1, 1]),
        "allocated_procs": np.array([1.0, -1, 9, 4, 1]),
        "user": np.arange(5),
        "capacity": 8,
    }
    natural = workload(**values)
    assert natural.row.tolist() == [2, 3, 0]
    assert natural.run_s.tolist() == [10, 21, 10]
    assert natural.request_s.tolist() == [10, 50, 20]
    assert natural.procs.tolist() == [8, 4, 2]
    assert natural.counts == {
        "no_runtime": 1, "no_request": 1, "cut_at_request": 1, "no_submit": 1, "larger_than_machine": 1,
    }  # fmt: skip
    pyss = workload(**values, convention=Convention.PYSS)
    assert pyss.row.tolist() == [1, 2, 3, 0]
    assert pyss.run_s.tolist() == [1, 10, 1, 10]
    assert pyss.request_s.tolist() == [1, 30, 20, 20]
    assert pyss.procs.tolist() == [1, 8, 4, 2]
    nodes = workload(**values, procs_per_node=4)
    assert (nodes.capacity, nodes.procs.tolist()) == (2, [2, 1, 1])


def test_jobs_table_gives_the_same_workload_in_any_order_of_rows() -> None:
    rows = [
        {
            "submit_s": s,
            "runtime_s": 10.0 + s,
            "requested_s": 60.0,
            "requested_procs": 1 + s,
            "procs": 9,
            "user": f"u{s}",
        }
        for s in (3, 1, 1, 2)
    ]
    jobs = jobs_of([row | {"source_line": 1 + i} for i, row in enumerate(rows)])
    made, turned = workload_of_jobs(jobs, 8), workload_of_jobs(jobs.take([3, 2, 1, 0]), 8)
    assert made.row.tolist() == [1, 2, 3, 0]
    assert turned.row.tolist() == [2, 1, 0, 3]
    assert made.run_s.tolist() == turned.run_s.tolist() == [11, 11, 12, 13]


def test_what_cannot_be_replayed_is_refused() -> None:
    work = four_jobs()
    with pytest.raises(ValueError, match="order has shape"):
        replay(work, ReplayOptions(), order=np.zeros(3))
    wrong = {"submit_s": [3, 2, 1, 0], "procs": [5] * 4, "run_s": [999] * 4, "request_s": [2**61] * 4}
    for name, values in wrong.items():
        with pytest.raises(ValueError, match="cannot be replayed"):
            replay(dataclasses.replace(work, **{name: np.array(values)}), ReplayOptions())
    raised = ReplayOptions(Policy.CONSERVATIVE, RULES), ReplayOptions(Policy.CONSERVATIVE, learns_last_two=True)
    for options, limits_s in ((raised[0], None), (raised[1], None), (ReplayOptions(Policy.CONSERVATIVE), np.ones(4))):
        with pytest.raises(ValueError, match="no job may outlive its limit"):
            replay(work, options, limits_s)
    none = np.full(2, -1.0)
    with pytest.raises(InputError, match="0 of 2 jobs with a requested runtime"):
        workload(np.arange(2), np.ones(2), none, none + 2, none, np.zeros(2, int), 4)


def test_easy_plus_plus_plans_with_the_mean_of_the_users_last_two() -> None:
    n = 4
    work = workload(
        submit_s=np.array([0, 1, 500, 600]), runtime_s=np.array([100, 201, 7, 7]), requested_s=np.full(n, 1000),
        requested_procs=np.ones(n), allocated_procs=np.ones(n), user=np.array([0, 0, 0, 1]), capacity=4,
    )  # fmt: skip
    assert replay(work, EASY_PLUS_PLUS).planned_s.tolist() == [1000, 1000, 150, 1000]


def test_an_empty_log_has_an_empty_schedule() -> None:
    work = four_jobs()
    empty = Workload(
        *(getattr(work, name)[:0] for name in ("row", "submit_s", "run_s", "request_s", "procs", "user")), 4, {}
    )
    for policy in Policy:
        assert len(replay(empty, ReplayOptions(policy=policy)).start_s) == 0


def test_a_log_with_soft_limits_is_replayed_as_if_there_were_none() -> None:
    """A planned limit ends no job: one that ended near it ended by itself, or at its request."""
    rows = [
        {"submit_s": nth, "requested_s": 600.0, "runtime_s": run_s, "procs": 1, "user": "ada", "is_lower_bound": is_cut}
        for nth, (run_s, is_cut) in enumerate([(121.0, True), (121.0, False), (600.0, True)])
    ]
    limited = {"limit_set_s": 120.0, "limit_set_by": "plug-in 0a1b"}
    plain, soft = (
        workload_of_jobs(jobs_of([{**row, **more, "source_line": nth} for nth, row in enumerate(rows, 1)]), 8)
        for more in ({}, limited)
    )
    assert soft.run_s.tolist() == plain.run_s.tolist() == [121, 121, 600]
    assert set(soft.request_s.tolist()) == {600} and soft.counts == plain.counts == {}
