"""The fitting stage: which law answers, and what is said of those that do not."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import minimize

from pipeline.laws import LAWS
from pipeline.scaling.fit import FitRules, fit, fit_batch, misfit
from pipeline.scaling.series import ObservedSizes, SeriesBatch, pooled, precision_weights, repeat_spread
from tests.rows import curve, observations_of

SIZES = (1, 2, 4, 8, 16, 32, 64)
CURVES = {
    "constant": curve("constant", SIZES, t1_s=500.0),
    "amdahl": curve("amdahl", SIZES, t1_s=500.0, serial_fraction=0.05),
    "downey_low": curve("downey_low", SIZES, t1_s=500.0, avg_parallelism=12.0, sigma=0.4),
    "downey_high": curve("downey_high", SIZES, t1_s=500.0, avg_parallelism=8.0, sigma=2.0),
}


def chosen_laws(observations: pa.Table) -> dict[str, str]:
    fits, _ = fit(observations, FitRules())
    return {row["group_id"]: row["law"] for row in fits.to_pylist() if row["is_chosen"]}


def test_each_law_is_recovered_from_its_own_curve() -> None:
    assert chosen_laws(observations_of(CURVES)) == {law: law for law in CURVES}


def test_every_group_and_law_has_a_row() -> None:
    fits, report = fit(observations_of(CURVES | {"one": {4: 10.0}}), FitRules())
    assert fits.num_rows == 5 * 4
    statuses = {(row["group_id"], row["law"]): row["status"] for row in fits.to_pylist()}
    assert statuses["one", "downey_low"] == "too_few_points"
    assert report.kept.rows == 5


def test_of_two_downey_modes_the_better_fit_answers() -> None:
    """Lan 2007, Table 5.1: sigma is 0.82, but leave-one-out alone would prefer the high mode's edge, sigma = 1."""
    speedups = {2: 2.00, 4: 3.92, 8: 7.25, 16: 13.29, 32: 20.23, 64: 24.95}
    assert chosen_laws(observations_of({"lu": {n: 1000 / s for n, s in speedups.items()}})) == {"lu": "downey_low"}


def test_two_sizes_are_a_constant_unless_they_clearly_differ() -> None:
    curves = {"apart": (100.0, 52.0), "close": (100.0, 101.0), "rising": (100.0, 150.0), "too steep": (100.0, 5.0)}
    series = {name: dict(zip((1, 2), runtimes_s, strict=True)) for name, runtimes_s in curves.items()}
    laws = chosen_laws(observations_of(series, n_jobs=3, log_sd=0.02))
    assert laws == {"apart": "amdahl", "close": "constant", "rising": "constant", "too steep": "constant"}
    assert set(chosen_laws(observations_of(series)).values()) == {"constant"}, "single runs tell no slope"


def test_sizes_that_disagree_do_not_drag_the_fit_to_the_smallest() -> None:
    """One user's single jobs at seven sizes of a real log; relative errors put the constant at 31 s."""
    seen = {1: 191528.0, 2: 70833.0, 4: 16838.0, 8: 31.0, 9: 39447.0, 16: 179867.0, 32: 86166.0}
    by_loss = {
        loss: fit(observations_of({"a": seen}), FitRules(loss=loss))[0].to_pylist() for loss in ("log", "relative")
    }
    constant_s = {loss: rows[0]["t1_s"] for loss, rows in by_loss.items()}
    assert constant_s["relative"] < 100
    assert constant_s["log"] == pytest.approx(np.exp(np.mean(np.log(list(seen.values())))), rel=1e-3)


def searched(law: str, sizes: np.ndarray, runtimes_s: np.ndarray) -> float:
    """Least sum of squared log errors that Nelder-Mead finds from twelve starts."""

    def cost(x: np.ndarray) -> float:
        x = np.clip(x, -50, 50)
        share = 1 / (1 + np.exp(-x[1]))
        sigma = 1 / (1 + np.exp(-x[2])) if law == "downey_low" else 1 + np.exp(x[2])
        given = {"t1_s": np.exp(x[0]), "serial_fraction": share, "avg_parallelism": 1 + np.exp(x[1]), "sigma": sigma}
        return float((np.log(LAWS[law].runtime_s(given, sizes) / runtimes_s) ** 2).sum())

    starts = [(6.0, b, c) for b in (-3.0, 0.0, 2.0, 3.5) for c in (-2.0, 0.0, 2.0)]
    return min(float(minimize(cost, x0, method="Nelder-Mead", options={"maxiter": 600}).fun) for x0 in starts)


@pytest.mark.parametrize("law", ["constant", "amdahl", "downey_low", "downey_high"])
def test_the_log_fit_is_near_what_a_search_finds(law: str) -> None:
    rng = np.random.default_rng(7)
    sizes = np.array([1.0, 2, 4, 8, 16, 32, 64])
    for _ in range(5):
        runtimes_s = 500 * (0.05 + 0.95 / np.minimum(sizes, 20)) * np.exp(0.5 * rng.standard_normal(len(sizes)))
        batch = SeriesBatch(np.array([0, len(sizes)]), sizes, runtimes_s, np.ones(len(sizes)))
        found = misfit(law, fit_batch(law, batch, "log"), batch, "log")[0]
        assert found <= searched(law, sizes, runtimes_s) * 1.10 + 1e-9


def test_noisy_repeats_need_a_larger_difference() -> None:
    assert chosen_laws(observations_of({"a": {1: 100.0, 2: 50.0}}, n_jobs=5, log_sd=0.5)) == {"a": "constant"}


def test_a_group_no_law_can_fit_is_counted() -> None:
    fits, report = fit(observations_of({"one": {4: 10.0}}), FitRules(laws=("downey_low",)))
    assert not fits.column("is_chosen")[0].as_py()
    assert report.set_aside["no_usable_fit"].rows == 1


def test_order_of_rows_does_not_matter() -> None:
    observations = observations_of(CURVES)
    shuffled = observations.take(np.random.default_rng(3).permutation(observations.num_rows))
    assert fit(shuffled, FitRules())[0].equals(fit(observations, FitRules())[0])


def test_nothing_in_nothing_out() -> None:
    assert fit(observations_of({}), FitRules())[0].num_rows == 0


def test_pooled_spread_by_hand() -> None:
    spread = pooled(batch(2, 1), np.array([2.0, 1.0, 0.0]), np.array([0.1, 0.4, np.nan]))
    assert spread[0] == pytest.approx(np.sqrt((2 * 0.01 + 0.16) / 3))
    assert np.isnan(spread[1])


def batch(*n_points: int) -> SeriesBatch:
    """Series of so many sizes each."""
    ones = np.ones(sum(n_points))
    return SeriesBatch(np.cumsum([0, *n_points]), ones, ones, ones)


def test_spread_of_a_normal_group_and_of_one_with_odd_runs() -> None:
    normal = observations_of({"a": {4: 100.0}}, n_jobs=100, log_sd=0.2)
    odd = normal.set_column(normal.column_names.index("repeat_log_hi95"), "repeat_log_hi95", pa.array([4.5]))
    plain, skewed = (repeat_spread(ObservedSizes.of(table)) for table in (normal, odd))
    assert plain["core_log_sd"][0] == pytest.approx(0.2, rel=1e-3)
    assert plain["repeat_log_hi95"][0] == pytest.approx(0.392, rel=1e-3)
    assert skewed["core_log_sd"] == plain["core_log_sd"]
    assert skewed["repeat_log_lo95"] == plain["repeat_log_lo95"]
    assert skewed["repeat_log_hi95"][0] == 4.5


def test_weights_average_one_and_follow_precision() -> None:
    weights = precision_weights(batch(2), np.array([1.0, 100.0]), np.array([0.5]), 0.05)
    assert weights.mean() == pytest.approx(1.0)
    assert weights[1] / weights[0] == pytest.approx((0.0025 + 0.25) / (0.0025 + 0.0025))
