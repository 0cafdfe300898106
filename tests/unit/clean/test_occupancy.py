"""Busy processors over time: the sweep against counting by hand."""

import numpy as np
import pytest

from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.occupancy import mean_busy, occupancy_of
from pipeline.settings import SiteSettings
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


def test_what_ends_at_a_second_frees_its_processors_for_what_starts_then() -> None:
    assert occupancy_of(arrays_of([(0, 10, 10), (10, 20, 10)])).busy.max() == 10


def test_a_log_in_which_nothing_ran_has_no_timeline() -> None:
    arrays = JobArrays(jobs_of([{"start_s": None, "end_s": None}]), SiteSettings(max_procs=4))
    assert not mean_busy(occupancy_of(arrays), np.array([0.0, 10.0])).any()


def test_slips_of_the_pen_overflow_nothing() -> None:
    arrays = arrays_of([(0, 2**62, 4), (0, 10, 2**62), (0, 10, 3), (2**32, 2**32 + 5, 2**39)], max_procs=None)
    assert occupancy_of(arrays).busy.max() == 2**39
