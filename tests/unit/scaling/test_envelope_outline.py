"""The outline of ADEPT's envelope: it holds the truth, and nothing that the observations rule out."""

import numpy as np
import pytest

from pipeline.laws import LAWS
from pipeline.scaling.adept import outline

PROCS = 2.0 ** np.arange(7)
BEYOND = np.geomspace(1.0, 256.0, 40)


def truth_s(law: str, A: float, sigma: float, procs: np.ndarray) -> np.ndarray:
    given = {"t1_s": np.float64(1000.0), "avg_parallelism": np.float64(A), "sigma": np.float64(sigma)}
    return LAWS[law].runtime_s(given, procs)


@pytest.mark.parametrize(
    ("law", "A", "sigma"), [("downey_low", 20.0, 0.6), ("downey_high", 15.0, 2.0), ("downey_low", 200.0, 0.0)]
)
def test_the_outline_holds_the_truth_and_stays_within_delta_of_every_run(law: str, A: float, sigma: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(10):
        runtime_s = truth_s(law, A, sigma, PROCS) * (1 + 0.02 * rng.uniform(-1, 1, 7))
        found = outline(PROCS, runtime_s, np.append(PROCS, BEYOND))
        assert found is not None and found.delta == 0.05
        at_runs = np.abs(1 - np.stack([found.lo_s, found.hi_s])[:, :7] / runtime_s)
        assert at_runs.max() <= 0.05 + 1e-12
        expected_s = truth_s(law, A, sigma, BEYOND)
        assert (found.lo_s[7:] <= expected_s * 1.005).all() and (expected_s <= found.hi_s[7:] * 1.005).all()


def test_sizes_on_the_slope_leave_the_outline_open_beyond() -> None:
    found = outline(PROCS[:3], truth_s("downey_low", 200.0, 0.0, PROCS[:3]), np.array([256.0]))
    assert found is not None and found.hi_s[0] > 10 * found.lo_s[0]


def test_no_outline_without_three_sizes_or_without_a_curve() -> None:
    assert outline(PROCS[:2], 1 / PROCS[:2], PROCS) is None
    assert outline(PROCS, np.array([1.0, 9.0, 1.0, 9.0, 1.0, 9.0, 1.0]), PROCS) is None


def test_the_unit_of_time_does_not_matter() -> None:
    runtime_s = truth_s("downey_low", 20.0, 0.6, PROCS) * (1 + 0.03 * np.cos(PROCS))
    seconds, hours = outline(PROCS, runtime_s, BEYOND), outline(PROCS, runtime_s / 3600, BEYOND)
    assert seconds is not None and hours is not None
    np.testing.assert_allclose(hours.lo_s * 3600, seconds.lo_s, rtol=1e-9)
    np.testing.assert_allclose(hours.hi_s * 3600, seconds.hi_s, rtol=1e-9)


def test_a_large_series_is_drawn_by_pairs_of_few_sizes_and_held_against_all() -> None:
    procs = np.arange(1.0, 41.0)
    runtime_s = truth_s("downey_low", 20.0, 0.6, procs)
    found = outline(procs, runtime_s, procs)
    assert found is not None and (np.abs(1 - found.hi_s / runtime_s) <= 0.05 + 1e-12).all()
