"""Intervals calibrated on held-out sizes: they hold on measured series of applications that had no say in them."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import coverage_scaling, scaling_data
from pipeline.scaling.average import Sizes, average
from pipeline.scaling.calibration import DEFAULT_STRETCH, Calibration, calibrated, held_between, held_out, rests_on

SCALING = Path(__file__).parents[4] / "shared" / "data" / "scaling"


def sizes_of(log_s: np.ndarray, noise: float = 0.02) -> Sizes:
    """A row per series, on 1, 2, 4, ... processors; the noise they are said to have."""
    n_series, m = log_s.shape
    offsets = np.arange(0, n_series * m + 1, m, dtype=np.int64)
    procs, variance = np.tile(2.0 ** np.arange(m), n_series), np.full(n_series * m, noise**2)
    return Sizes(offsets, procs, np.exp(log_s.ravel()), variance, np.full(n_series, 0.07**2))


def test_stretched_intervals_keep_the_median_and_nest() -> None:
    log_s = np.array([[-2.0, -1.0, 0.0, 1.5, 4.0]])
    wide = Calibration(0.1, ((1.0, 1.0), (0.5, 2.0))).stretched(log_s, np.array([1]))
    assert wide.tolist() == [[-4.0, -0.5, 0.0, 0.75, 8.0]]
    crossed = Calibration(0.1, ((2.0, 0.5),)).stretched(log_s, np.array([0]))
    assert crossed.tolist() == [[-2.0, -2.0, 0.0, 3.0, 3.0]]


def test_a_series_is_held_out_once_for_each_count_it_has_sizes_beyond() -> None:
    sizes = sizes_of(np.zeros((2, 6)))
    held = held_out(sizes, np.arange(2))
    assert np.diff(held.kept.offsets).tolist() == [3, 3, 4, 4, 5, 5] and held.chosen.tolist() == [0, 1] * 3
    # From 1, 2, 4 processors 8 and 16 are within reach and 32 is not.
    assert held.rows[held.series == 0].tolist() == [3, 4] and held.rows[held.series == 5].tolist() == [11]


def test_an_answer_rests_on_sizes_around_it_or_on_their_number() -> None:
    sizes = Sizes(
        np.array([0, 3, 7, 13]), np.array([1, 2, 4, 1, 2, 4, 8, 1, 2, 4, 8, 16, 32.0]), *np.ones((2, 13)), np.ones(3)
    )
    series, procs = np.array([0, 0, 0, 1, 1, 2, 2]), np.array([3, 8, 0.5, 8, 16, 1, 64.0])
    assert rests_on(sizes, series, procs).tolist() == [0, 1, 1, 0, 2, 0, 3]


def test_a_size_between_others_is_held_out() -> None:
    held = held_between(sizes_of(np.zeros((2, 4))), np.arange(2))
    assert held.rows.tolist() == [2, 6] and held.kept.procs.tolist() == [1, 2, 8] * 2


def test_a_log_told_too_much_noise_calibrates_its_intervals() -> None:
    """Noise of 2% taken for 10%; 8,000 series calibrate the intervals of 200 others, which held all there was."""
    rng = np.random.default_rng(5)
    log_s = -0.5 * np.arange(6) + 0.02 * rng.standard_normal((8_200, 6))
    past, new = sizes_of(log_s[200:], 0.1), sizes_of(log_s[:200], 0.1)
    calibration = calibrated(past, past.variance, 0.07)
    held = held_out(new.drifting(calibration.drift_log_sd), np.arange(200))
    quantiles = average(held.kept, held.series, new.procs[held.rows], new.variance[held.rows]).log_s
    truth = np.log(new.runtime_s[held.rows])[:, None]
    ends = calibration.stretched(quantiles, rests_on(held.kept, held.series, new.procs[held.rows]))
    in80, in95 = (
        float(((ends[:, [low]] <= truth) & (truth <= ends[:, [high]])).mean()) for low, high in ((1, 3), (0, 4))
    )
    assert 0.75 <= in80 <= 0.85 and 0.92 <= in95 <= 0.98


def test_without_a_past_the_default_factors_stand() -> None:
    assert calibrated(sizes_of(np.zeros((3, 6))), np.full(18, 0.02**2), 0.0625) == Calibration(0.0625, DEFAULT_STRETCH)


@pytest.mark.shared
@pytest.mark.skipif(not SCALING.exists(), reason="COVERAGE NOT CHECKED: no shared/data beside the checkout")
def test_intervals_hold_on_applications_left_out(tmp_path: Path) -> None:
    """Of all series together, and from each number of sizes given."""
    scaling_data.write(SCALING, tmp_path)
    found = coverage_scaling.covered([tmp_path / f"{log}.csv" for log in ("real", "npb-A", "npb-W", "npb-S")])
    pooled = found["all"]
    assert pooled["sizes"] > 800
    assert 78 <= pooled["in_80"] <= 83 and 93 <= pooled["in_95"] <= 97, pooled
    for count in (3, 4, 5):
        shares = found[f"from {count}"]
        assert 70 <= shares["in_80"] <= 90 and 90 <= shares["in_95"] <= 99, (count, shares)
