"""Edges: planted ones are cut where they are planted, and steady, short and growing logs are left alone."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline.arrays import Bools
from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.records import EDGE_MAX_SHARE, log_edge
from pipeline.settings import SiteSettings
from tests.unit.clean.sites import BEGIN_S, WEEK_S, background, jobs_table

DAY_S = 86_400


def edge_of(jobs: pa.Table) -> Bools:
    return log_edge(JobArrays(jobs, SiteSettings()))


def at(submits_s: Any, mark: int = 1) -> dict[str, Any]:
    n = len(submits_s)
    return {
        "user": np.full(n, "early"), "submit_s": np.asarray(submits_s, np.int64), "procs": np.full(n, 4),
        "runtime_s": np.full(n, 600.0), "application": np.full(n, "trial"), "planted": np.full(n, mark),
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_a_steady_log_has_no_edge(seed: int) -> None:
    jobs, _ = jobs_table(background(np.random.default_rng(seed)))
    assert not edge_of(jobs).any()


@pytest.mark.parametrize("seed", range(5))
def test_trial_jobs_before_and_stragglers_after_a_gap_are_cut(seed: int) -> None:
    rng = np.random.default_rng(seed)
    early = at(BEGIN_S - 3 * DAY_S + rng.integers(0, DAY_S, 12))
    late = at(BEGIN_S + 26 * WEEK_S + 2 * DAY_S + rng.integers(0, DAY_S, 7))
    jobs, marks = jobs_table(background(rng), early, late)
    assert np.array_equal(edge_of(jobs), marks == 1)


@pytest.mark.parametrize("seed", range(5))
def test_a_ramp_is_cut_where_the_steady_part_begins(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steady = background(rng)
    ramp = at(np.sort(BEGIN_S - 28 * DAY_S + rng.integers(0, 28 * DAY_S, len(steady["user"]) // 26 // 3)))
    jobs, marks = jobs_table(steady, ramp)
    cut = edge_of(jobs)
    assert cut[marks == 1].mean() >= 0.95
    assert cut[marks == 0].mean() <= 0.01


def test_a_ramp_that_is_much_of_the_log_is_the_log() -> None:
    rng = np.random.default_rng(1)
    growing = at(BEGIN_S + np.sort((rng.random(20_000) ** 0.5 * 26 * WEEK_S).astype(np.int64)))
    jobs, _ = jobs_table(growing)
    assert edge_of(jobs).mean() <= EDGE_MAX_SHARE


def test_a_short_log_has_no_ramp() -> None:
    rng = np.random.default_rng(1)
    few = at(BEGIN_S + np.arange(20) * 17_000)
    many = at(BEGIN_S + 20 * 17_000 + np.sort(rng.integers(0, 30 * DAY_S, 5_000)), mark=0)
    jobs, _ = jobs_table(few, many)
    assert not edge_of(jobs).any()


def test_a_stray_year_costs_no_memory_and_is_an_edge() -> None:
    jobs, marks = jobs_table(background(np.random.default_rng(1)), at([7_000_000_000]))
    assert np.array_equal(edge_of(jobs), marks == 1)


def test_a_log_without_submits_has_no_edge() -> None:
    jobs, _ = jobs_table(background(np.random.default_rng(1)))
    unknown = pa.nulls(jobs.num_rows, pa.int64())
    jobs = jobs.set_column(jobs.column_names.index("submit_s"), jobs.schema.field("submit_s"), unknown)
    assert not edge_of(jobs).any()
