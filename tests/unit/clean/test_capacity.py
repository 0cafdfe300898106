"""Capacity: the sweep against counting by hand, and what a job larger than the machine is."""

from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.occupancy import capacity_facts, mean_busy, occupancy_of, over_capacity, sustained_procs
from pipeline.settings import CapacitySettings, CleanSettings, MachineSize, SiteSettings
from tests.rows import jobs_of


def arrays_of(spans: list[tuple[int, int, int]], max_procs: int | None = 10) -> JobArrays:
    rows = [
        {"submit_s": s, "start_s": s, "end_s": e, "runtime_s": float(e - s), "procs": procs} for s, e, procs in spans
    ]
    return JobArrays(jobs_of(rows), SiteSettings(max_procs=max_procs))


def random_arrays(seed: int, max_procs: int | None = 20) -> tuple[JobArrays, list[tuple[int, int, int]]]:
    rng = np.random.default_rng(seed)
    begins = rng.integers(0, 200, 60)
    spans = [(int(s), int(s + n), int(p)) for s, n, p in zip(begins, rng.integers(1, 50, 60), rng.integers(1, 6, 60))]  # noqa: B905
    return arrays_of(spans, max_procs), spans


@pytest.mark.parametrize("seed", range(20))
def test_the_sweep_counts_as_second_by_second_does(seed: int) -> None:
    arrays, spans = random_arrays(seed)
    by_hand = np.zeros(300, np.int64)
    for since, until, procs in spans:
        by_hand[since:until] += procs
    steps = occupancy_of(arrays)
    at = np.searchsorted(steps.times_s, np.arange(300), side="right") - 1
    assert np.array_equal(np.where(at < 0, 0, steps.busy[at]), by_hand)
    edges_s = np.linspace(steps.times_s[0], steps.times_s[-1], 8)
    mean = mean_busy(steps, edges_s)
    assert steps.busy.max() == by_hand.max()
    assert (mean * np.diff(edges_s)).sum() == pytest.approx(by_hand.sum())
    every_s = np.arange(steps.times_s[0], steps.times_s[-1] + 1, dtype=np.float64)
    assert np.allclose(mean_busy(steps, every_s), by_hand[int(every_s[0]) : int(every_s[-1])])
    facts = capacity_facts(arrays)
    assert facts["busy_procs_peak"] == by_hand.max()
    assert facts["over_size_share"] == pytest.approx((by_hand > 20).sum() / (by_hand > 0).sum())
    assert facts["peak_over_size"] == pytest.approx(by_hand.max() / 20)
    assert facts["over_size_stretches"] == (np.diff(np.append(0, by_hand > 20)) == 1).sum()


def test_what_ends_at_a_second_frees_its_processors_for_what_starts_then() -> None:
    assert capacity_facts(arrays_of([(0, 10, 10), (10, 20, 10)]))["peak_over_size"] == 1.0


def test_a_job_larger_than_the_machine_is_set_aside_and_overlapping_ones_are_not() -> None:
    spans = [(0, 100, 8), (50, 150, 8), (200, 300, 11), *((t, t + 1, 1) for t in range(400, 600))]
    assert np.flatnonzero(over_capacity(arrays_of(spans))).tolist() == [2]


def test_the_site_can_say_when_the_machine_grew() -> None:
    grown = CapacitySettings(sizes=(MachineSize(since=datetime(1970, 1, 1, 1), procs=20),))
    spans = [(3_500, 3_590, 15), (3_600, 3_700, 15), *((t, t + 1, 1) for t in range(4000, 4200))]
    arrays = replace(arrays_of(spans), settings=CleanSettings(capacity=grown))
    assert np.flatnonzero(over_capacity(arrays)).tolist() == [0]


def test_where_many_exceed_the_size_the_size_is_in_doubt() -> None:
    arrays = arrays_of([(t, t + 1, 16) for t in range(50)] + [(t, t + 1, 1) for t in range(50, 100)])
    assert not over_capacity(arrays).any()
    assert capacity_facts(arrays)["machine_size_in_doubt"] == 50


def test_without_a_size_nothing_is_over_it() -> None:
    arrays, _ = random_arrays(1, max_procs=None)
    assert not over_capacity(arrays).any()
    assert "over_size_share" not in capacity_facts(arrays)
    assert 0 < sustained_procs(occupancy_of(arrays)) <= occupancy_of(arrays).busy.max()


def test_a_log_in_which_nothing_ran_has_no_timeline() -> None:
    arrays = JobArrays(jobs_of([{"start_s": None, "end_s": None}]), SiteSettings(max_procs=4))
    assert not mean_busy(occupancy_of(arrays), np.array([0.0, 10.0])).any()
    assert capacity_facts(arrays) == {}


def test_slips_of_the_pen_overflow_nothing() -> None:
    arrays = arrays_of([(0, 2**62, 4), (0, 10, 2**62), (0, 10, 3), (2**32, 2**32 + 5, 2**39)], max_procs=None)
    assert occupancy_of(arrays).busy.max() == 2**39
