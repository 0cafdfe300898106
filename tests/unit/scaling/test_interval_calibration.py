"""Intervals rest on the number of sizes and the reach, and hold on measured series of codes that had no say in them."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import bench_curves, scaling_data
from pipeline.axes import MOST_OK_SPAN
from pipeline.scaling.average import Sizes
from pipeline.scaling.calibration import FACTORS, MOST_DOUBLINGS, MOST_SIZES, log_quantiles, rests_on

SCALING = Path(__file__).parents[4] / "shared" / "data" / "scaling"


def test_an_answer_rests_on_sizes_around_it_or_on_their_number_and_its_reach() -> None:
    sizes = Sizes(
        np.array([0, 3, 7, 13, 14]), np.array([1, 2, 4, 1, 2, 4, 8, 1, 2, 4, 8, 16, 32, 4.0]), *np.ones((2, 14)),
        np.ones(4),
    )  # fmt: skip
    series, procs = np.array([0, 0, 0, 1, 1, 2, 2, 3]), np.array([3, 8, 0.5, 8, 32, 1, 4096.0, 8])
    found = rests_on(sizes, series, procs)
    assert found.tolist() == [0, 7, 7, 0, 11, 0, 15, 1]
    assert len(FACTORS) == 1 + MOST_SIZES * MOST_DOUBLINGS


def test_intervals_nest_and_widen_with_doubt() -> None:
    places = np.arange(len(FACTORS))
    narrow = log_quantiles(np.zeros(places.size), np.full(places.size, 0.1), places)
    wide = log_quantiles(np.zeros(places.size), np.full(places.size, 0.2), places)
    assert (np.diff(narrow, axis=1) > 0).all()
    np.testing.assert_allclose(wide, 2 * narrow)


@pytest.mark.shared
@pytest.mark.skipif(not SCALING.exists(), reason="COVERAGE NOT CHECKED: no shared/data beside the checkout")
def test_intervals_hold_on_codes_left_out_and_ok_is_earned() -> None:
    """In every cell with 20 series, and over all; what is called ok is off by at most 12%, others by far more."""
    found = bench_curves.standardised(scaling_data.measured(SCALING))
    simulated = bench_curves.standardised(scaling_data.simulated(SCALING))
    rows = bench_curves.judged(bench_curves.pd.concat([found, simulated]))
    by_series = rows.groupby(["place", "code", "name"])[["in80", "in95"]].mean().groupby("place")
    cells, n_series = by_series.mean(), by_series.size()
    assert (n_series >= 20).all()
    assert cells.in80.between(0.72, 0.88).all() and cells.in95.between(0.88, 0.99).all(), cells
    assert 0.77 <= cells.in80.mean() <= 0.83 and 0.92 <= cells.in95.mean() <= 0.97
    is_ok = rows.span80 <= MOST_OK_SPAN
    assert is_ok.mean() > 0.2
    assert rows[is_ok].error.mean() < 12
    assert rows[~is_ok].error.mean() > 25
