"""The counts that a job may start on, Amdahl's guess, and the figures by user."""

import numpy as np
import pytest

from benchmarks.moldable_engine import replay_moldable
from benchmarks.moldable_replay import (
    LEAST_JOBS,
    allowed_counts,
    amdahl_fractions,
    amdahl_growth,
    moldable_figures,
    user_means,
)
from tests.unit.benchmarks.plain_moldable import rigid_choices
from tests.unit.evaluate.test_replay import random_jobs


def test_counts_double_and_halve_within_the_machine() -> None:
    offsets, procs = allowed_counts(np.array([1, 6, 40]), 2, 64)
    assert np.split(procs, offsets[1:-1])[0].tolist() == [1, 2, 4]
    assert np.split(procs, offsets[1:-1])[1].tolist() == [2, 3, 6, 12, 24]
    assert np.split(procs, offsets[1:-1])[2].tolist() == [10, 20, 40]


def test_amdahl_takes_the_least_fraction_that_makes_the_preferred_count_efficient() -> None:
    fractions = amdahl_fractions(np.array([2, 8, 64, 4096]), 0.75)
    assert fractions.tolist() == [0.95, 0.96, 0.995, 0.9999]
    assert amdahl_growth(np.array([4]), np.array([2]), np.array([0.5]))[0] == pytest.approx(0.625 / 0.75)


def test_users_with_few_jobs_are_no_worst_user() -> None:
    user = np.array([0] * LEAST_JOBS + [1] * (LEAST_JOBS - 1) + [-1] * 50)
    assert [means.tolist() for means in user_means(user, np.full(len(user), 3.0))] == [[3.0]]


def test_a_rigid_replay_changes_nothing_for_anyone() -> None:
    work = random_jobs(200, 16, 3)
    ran, done = replay_moldable(work, rigid_choices(work))
    found = moldable_figures(work, ran, done, done, np.arange(200) >= 60)
    names = ("n_jobs", "worst_user_change", "share_users_harmed", "share_resized")
    assert [found[name] for name in names] == [140, 0, 0, 0]
    assert found["turnaround_mean_s"] == pytest.approx(found["wait_mean_s"] + work.run_s[60:].mean())
