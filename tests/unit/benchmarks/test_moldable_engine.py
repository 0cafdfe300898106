"""Replays in which the scheduler chooses the processors."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.moldable_engine import Choices, replay_moldable
from pipeline.schedule.engine import ReplayOptions, Schedule, replay
from pipeline.schedule.workload import Workload
from tests.unit.benchmarks.plain_moldable import plain_moldable, rigid_choices
from tests.unit.evaluate.test_replay import random_jobs

pytestmark = pytest.mark.slow


def moldable(work: Workload, seed: int) -> Choices:
    """Two jobs in three on 1 to 5 counts; planned runtimes are from far too short to far too long."""
    generator = np.random.default_rng(seed)
    offsets, procs, run_s, planned_s = [0], [], [], []
    for job in range(len(work)):
        counts = {int(work.procs[job])}
        if generator.random() < 0.67:
            counts |= {int(n) for n in generator.integers(1, work.capacity + 1, 4)}
        for n in sorted(counts):
            true_s = max(1, int(work.run_s[job] * (0.2 + 0.8 * work.procs[job] / n)))
            procs.append(n)
            run_s.append(true_s)
            planned_s.append(max(1, int(true_s * generator.choice([0.1, 0.7, 1.0, 1.0, 3.0]))))
        offsets.append(len(procs))
    return Choices(*(np.array(values, np.int64) for values in (offsets, procs, run_s, planned_s)))


def most_in_use(ran: Workload, done: Schedule) -> int:
    """The most processors in use at any second; a job's last second is the one before its end."""
    at = np.concatenate([done.end_s, done.start_s])
    change = np.concatenate([-ran.procs, ran.procs])
    order = np.lexsort((change, at))
    return int(np.cumsum(change[order]).max())


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 120), st.integers(2, 40), st.integers(0, 2**32))
def test_jobs_with_one_count_are_scheduled_as_easy_does_to_the_bit(n: int, capacity: int, seed: int) -> None:
    work = random_jobs(n, capacity, seed)
    easy, (_, done) = replay(work, ReplayOptions()), replay_moldable(work, rigid_choices(work))
    assert done.start_s.tolist() == easy.start_s.tolist()
    assert done.end_s.tolist() == easy.end_s.tolist()
    assert done.by_end.tolist() == easy.by_end.tolist()
    assert done.is_backfilled.tolist() == easy.is_backfilled.tolist()
    assert not done.n_longer.any()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 120), st.integers(2, 40), st.integers(0, 2**32), st.sampled_from([0.0, 1.0, 10.0]))
def test_never_more_processors_in_use_than_exist(n: int, capacity: int, seed: int, weight: float) -> None:
    work = random_jobs(n, capacity, seed)
    choices = moldable(work, seed)
    ran, done = replay_moldable(work, choices, weight)
    assert most_in_use(ran, done) <= capacity
    assert np.all(done.start_s >= work.submit_s)
    assert sorted(done.by_end.tolist()) == list(range(n))
    for job in range(n):
        own = slice(choices.offsets[job], choices.offsets[job + 1])
        assert (ran.procs[job], ran.run_s[job]) in set(zip(choices.procs[own], choices.run_s[own], strict=True))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 60), st.integers(2, 40), st.integers(0, 2**32), st.sampled_from([(0.0, 0.0), (1.0, 0.0), (2.0, 8.0)])
)
def test_the_kernel_is_the_plain_replay_job_by_job(n: int, capacity: int, seed: int, rule: tuple[float, float]) -> None:
    work = random_jobs(n, capacity, seed)
    choices = moldable(work, seed)
    (ran, done), plain = replay_moldable(work, choices, *rule), plain_moldable(work, choices, *rule)
    assert done.start_s.tolist() == [plain.start[job] for job in range(n)]
    assert ran.procs.tolist() == [plain.taken[job][0] for job in range(n)]
    assert done.planned_s.tolist() == [plain.planned[job] for job in range(n)]
    assert done.by_end.tolist() == plain.ended


def two_jobs(
    capacity: int, submit_s: list[int], rows: list[list[tuple[int, int, int]]], weight: float, n_ahead: float = 0.0
) -> tuple[Workload, Schedule]:
    n = len(submit_s)
    ones = np.ones(n, np.int64)
    work = Workload(np.arange(n), np.array(submit_s), ones, ones, ones, ones, capacity, {})
    offsets = np.cumsum([0, *(len(own) for own in rows)])
    table = np.array([row for own in rows for row in own], np.int64)
    return replay_moldable(work, Choices(offsets, table[:, 0], table[:, 1], table[:, 2]), weight, n_ahead)


def test_alone_a_job_takes_the_count_on_which_it_ends_first() -> None:
    ran, done = two_jobs(8, [0], [[(2, 100, 100), (4, 60, 60), (8, 70, 70)]], 1.0)
    assert (ran.procs.tolist(), done.end_s.tolist()) == ([4], [60])
    # With jobs expected, the fewer processor-seconds count more than the earlier end.
    assert two_jobs(8, [0], [[(2, 100, 100), (4, 60, 60), (8, 70, 70)]], 1.0, 8.0)[0].procs.tolist() == [2]


def test_where_others_wait_a_job_takes_fewer_processors_unless_their_delay_does_not_count() -> None:
    rows = [[(8, 10, 10)], [(4, 100, 100), (8, 95, 95)], [(4, 100, 100), (8, 95, 95)]]
    assert two_jobs(8, [0, 1, 2], rows, 1.0)[0].procs.tolist() == [8, 4, 4]
    assert two_jobs(8, [0, 1, 2], rows, 0.0)[0].procs.tolist() == [8, 8, 8]


def test_the_first_waiting_job_waits_for_more_processors_where_it_ends_earlier_so() -> None:
    ran, done = two_jobs(8, [0, 1], [[(6, 10, 10)], [(2, 100, 100), (8, 30, 30)]], 1.0)
    assert (ran.procs.tolist(), done.start_s.tolist()) == ([6, 8], [0, 10])


def test_a_job_that_outlives_its_plan_is_planned_for_twice_the_time_and_not_killed() -> None:
    _, done = two_jobs(4, [0, 1], [[(4, 100, 30)], [(4, 10, 10)]], 1.0)
    assert done.end_s.tolist() == [100, 110]
    assert done.n_longer.tolist() == [2, 0] and done.planned_s.tolist() == [120, 10]


def test_choices_that_no_kernel_may_take_are_refused() -> None:
    work = random_jobs(3, 8, 1)
    good = rigid_choices(work)
    for change, said in (
        ({"offsets": np.array([0, 1, 1, 3])}, "one range"),
        ({"procs": np.array([1, 9, 1])}, "capacity"),
        ({"run_s": np.array([1, 0, 1])}, "at least 1 s"),
        ({"planned_s": np.array([1, 1])}, "as many runtimes"),
    ):
        with pytest.raises(ValueError, match=said):
            replay_moldable(work, dataclasses.replace(good, **change))
