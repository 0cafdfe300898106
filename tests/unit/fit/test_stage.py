"""The fitting stage: which law answers, and what is said of those that do not."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.core.settings import FitSettings
from pipeline.fit import fit
from pipeline.fit.weights import pooled, precision_weights, repeat_spread
from tests.rows import curve, observations_of

SIZES = (1, 2, 4, 8, 16, 32, 64)
CURVES = {
    "constant": curve("constant", SIZES, t1_s=500.0),
    "amdahl": curve("amdahl", SIZES, t1_s=500.0, serial_fraction=0.05),
    "downey_low": curve("downey_low", SIZES, t1_s=500.0, avg_parallelism=12.0, sigma=0.4),
    "downey_high": curve("downey_high", SIZES, t1_s=500.0, avg_parallelism=8.0, sigma=2.0),
}


def chosen_laws(observations: pa.Table) -> dict[str, str]:
    fits, _ = fit(observations, FitSettings())
    return {row["group_id"]: row["law"] for row in fits.to_pylist() if row["is_chosen"]}


def test_each_law_is_recovered_from_its_own_curve() -> None:
    assert chosen_laws(observations_of(CURVES)) == {law: law for law in CURVES}


def test_every_group_and_law_has_a_row() -> None:
    fits, report = fit(observations_of(CURVES | {"one": {4: 10.0}}), FitSettings())
    assert fits.num_rows == 5 * 4
    statuses = {(row["group_id"], row["law"]): row["status"] for row in fits.to_pylist()}
    assert statuses["one", "downey_low"] == "too_few_points"
    assert report.kept.rows == 5


def test_of_two_downey_modes_the_better_fit_answers() -> None:
    """Lan 2007, Table 5.1: sigma is 0.82, but leave-one-out alone would prefer the high mode's edge, sigma = 1."""
    speedups = {2: 2.00, 4: 3.92, 8: 7.25, 16: 13.29, 32: 20.23, 64: 24.95}
    assert chosen_laws(observations_of({"lu": {n: 1000 / s for n, s in speedups.items()}})) == {"lu": "downey_low"}


def test_two_sizes_are_a_constant_unless_they_clearly_differ() -> None:
    close, apart, rising = {1: 100.0, 2: 101.0}, {1: 100.0, 2: 50.0}, {1: 100.0, 2: 150.0}
    laws = chosen_laws(observations_of({"apart": apart, "close": close, "rising": rising}))
    assert laws == {"apart": "amdahl", "close": "constant", "rising": "constant"}


def test_noisy_repeats_need_a_larger_difference() -> None:
    assert chosen_laws(observations_of({"a": {1: 100.0, 2: 50.0}}, n_jobs=5, log_sd=0.5)) == {"a": "constant"}


def test_a_group_no_law_can_fit_is_counted() -> None:
    fits, report = fit(observations_of({"one": {4: 10.0}}), FitSettings(laws=("downey_low",)))
    assert not fits.column("is_chosen")[0].as_py()
    assert report.set_aside["no_usable_fit"].rows == 1


def test_order_of_rows_does_not_matter() -> None:
    observations = observations_of(CURVES)
    shuffled = observations.take(np.random.default_rng(3).permutation(observations.num_rows))
    assert fit(shuffled, FitSettings())[0].equals(fit(observations, FitSettings())[0])


def test_nothing_in_nothing_out() -> None:
    assert fit(observations_of({}), FitSettings())[0].num_rows == 0


def test_pooled_spread_by_hand() -> None:
    spread = pooled(np.array([0, 2, 3]), np.array([2.0, 1.0, 0.0]), np.array([0.1, 0.4, np.nan]))
    assert spread[0] == pytest.approx(np.sqrt((2 * 0.01 + 0.16) / 3))
    assert np.isnan(spread[1])


def test_spread_of_a_normal_group_and_of_one_with_odd_runs() -> None:
    normal = observations_of({"a": {4: 100.0}}, n_jobs=100, log_sd=0.2)
    odd = normal.set_column(normal.column_names.index("repeat_log_hi95"), "repeat_log_hi95", pa.array([4.5]))
    offsets = np.array([0, 1])
    plain, skewed = repeat_spread(offsets, normal), repeat_spread(offsets, odd)
    assert plain["core_log_sd"][0] == pytest.approx(0.2, rel=1e-3)
    assert plain["repeat_log_hi95"][0] == pytest.approx(0.392, rel=1e-3)
    assert skewed["core_log_sd"] == plain["core_log_sd"]
    assert skewed["repeat_log_lo95"] == plain["repeat_log_lo95"]
    assert skewed["repeat_log_hi95"][0] == 4.5


def test_weights_average_one_and_follow_precision() -> None:
    weights = precision_weights(np.array([0, 2]), np.array([1.0, 100.0]), np.array([0.5]), 0.05)
    assert weights.mean() == pytest.approx(1.0)
    assert weights[1] / weights[0] == pytest.approx((0.0025 + 0.25) / (0.0025 + 0.0025))
