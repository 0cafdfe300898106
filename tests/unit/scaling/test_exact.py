"""Each candidate of the exact fit wins where it should, and what the data leave open is said, with its range."""

import numpy as np
import pytest

from pipeline.laws import LAWS
from pipeline.scaling.fit import fit_law
from pipeline.scaling.series import SeriesBatch
from tests.fitters.unit_scale import fit_high_unit, fit_low_unit

POWERS = 2.0 ** np.arange(9)


def one(n, t, w=None):
    """A batch of one series."""
    n, t = np.asarray(n, float), np.asarray(t, float)
    return SeriesBatch(np.array([0, n.size]), n, t, np.ones(n.size) if w is None else np.asarray(w, float))


def curve(law, n, t1_s, A, sigma):
    return LAWS[law].runtime_s({"t1_s": t1_s, "avg_parallelism": A, "sigma": sigma}, np.asarray(n, float))


def fitted(law, n, t, w=None):
    """The one row of a fit as plain numbers, and its status."""
    fit = fit_law(law, one(n, t, w))
    row = {name: getattr(fit, name)[0] for name in fit.dtype.names if name != "status"}
    return row, fit.status[0]


@pytest.mark.parametrize(
    ("law", "n", "A", "sigma", "status"),
    [
        ("downey_low", POWERS, 20.0, 0.5, "ok"),  # A inside an interval
        ("downey_low", POWERS, 24.0, 0.5, "ok"),  # A in the very middle of an interval
        ("downey_low", POWERS, 16.0, 0.5, "ok"),  # A at a size
        ("downey_low", [1, 2, 4, 8, 15, 31, 64], 8.0, 0.7, "ok"),  # 2A - 1 at a size
        ("downey_low", POWERS, 20.0, 0.0, "at_bound"),  # on the edge sigma = 0
        ("downey_low", POWERS, 20.0, 1.0, "at_bound"),  # on the edge sigma = 1
        ("downey_low", [3, 4, 5, 9, 11, 13], 3.5, 0.8, "ok"),  # one size in piece 1
        ("downey_low", [5, 6, 7, 8, 9, 20], 4.8, 0.6, "ok"),  # piece 1 empty
        ("downey_high", POWERS, 12.0, 3.0, "ok"),  # the bend between sizes
        ("downey_high", POWERS, 12.2, 3.625, "ok"),  # bend away from sizes again
        ("downey_high", POWERS, 17.5, 46.5 / 16.5, "ok"),  # N* = 64 at a size
        ("downey_high", POWERS, 20.0, 1.0, "at_bound"),  # on the edge sigma = 1
    ],
)
def test_an_exact_curve_is_found(law, n, A, sigma, status):
    row, found = fitted(law, n, curve(law, n, 3600.0, A, sigma))
    assert found == status
    np.testing.assert_allclose(
        [row["t1_s"], row["avg_parallelism"], row["sigma"]], [3600, A, sigma], rtol=1e-7, atol=1e-9
    )
    assert row["tinf_s"] == pytest.approx(3600 / A)
    assert row["wssre"] < 1e-20
    assert np.isnan([row["avg_parallelism_lo"], row["avg_parallelism_hi"], row["serial_fraction"]]).all()


def test_two_curves_through_the_same_two_sizes_are_both_told():
    n = [3, 5, 7, 9, 11, 13]
    t = curve("downey_low", n, 3600.0, 3.5, 0.8)
    row, status = fitted("downey_low", n, t)
    assert status == "runner_up"
    assert (row["avg_parallelism"], row["avg_parallelism_lo"], row["avg_parallelism_hi"]) == pytest.approx(
        (3.5, 3.5, 3.8)
    )
    np.testing.assert_allclose(curve("downey_low", n, row["tinf_s"] * 3.8, 3.8, 0.5), t, rtol=1e-9)


def test_the_low_tail_left_open_runs_from_the_largest_size_to_sigma_one():
    n = [1, 2, 4, 8]
    row, status = fitted("downey_low", n, curve("downey_low", n, 100.0, 40.0, 0.5))
    assert status == "tail_unidentified"
    # T = 100 (A' - s'/2)/n.. : P = 100, T(inf) share s = 100/40 * 0.25
    assert row["avg_parallelism_lo"] == row["avg_parallelism"] == pytest.approx(8)
    assert row["avg_parallelism_hi"] == pytest.approx(100 / (2 * 0.625))
    for A in (8.0, 20.0, row["avg_parallelism_hi"]):
        np.testing.assert_allclose(
            curve("downey_low", n, 100.0, A, 2 * 0.625 * A / 100), curve("downey_low", n, 100.0, 40.0, 0.5), rtol=1e-12
        )


def test_the_high_tail_left_open_runs_from_an_immediate_bend_to_amdahls_law():
    n = np.array([1.0, 2, 4, 8, 16])
    row, status = fitted("downey_high", n, 90 / n + 10)
    assert status == "tail_unidentified"
    assert row["avg_parallelism_lo"] == row["avg_parallelism"] == pytest.approx(100 / (10 + 90 / 16))
    assert row["avg_parallelism_hi"] == pytest.approx(10)
    bend = {"t1_s": 100.0, "avg_parallelism": row["avg_parallelism"], "sigma": row["sigma"]}
    assert LAWS["downey_high"].largest_useful_procs(bend) == pytest.approx(16)


def test_the_high_tail_never_bends_before_sigma_is_one():
    n = np.array([1.0, 2, 4])
    row, status = fitted("downey_high", n, 99 / n + 1)
    assert (status, row["sigma"]) == ("tail_unidentified", pytest.approx(1))
    assert row["avg_parallelism_lo"] == pytest.approx(50)
    assert row["avg_parallelism_hi"] == pytest.approx(100)


def test_linear_speedup_leaves_every_tail_open():
    n = np.array([1.0, 2, 4, 8])
    low, status = fitted("downey_low", n, 80 / n)
    assert (status, low["avg_parallelism"], low["avg_parallelism_hi"]) == ("tail_unidentified", 8.0, np.inf)
    high, status = fitted("downey_high", n, 80 / n)
    assert (status, high["avg_parallelism_lo"], high["tinf_s"]) == ("tail_unidentified", np.inf, 0.0)
    np.testing.assert_allclose(
        LAWS["downey_high"].runtime_s({k: high[k] for k in ("t1_s", "avg_parallelism", "sigma")}, n), 80 / n
    )


@pytest.mark.parametrize("law", ["downey_low", "downey_high"])
def test_a_constant_has_no_parallelism_unless_one_processor_was_not_seen(law):
    row, status = fitted(law, [1, 2, 4], [7, 7, 7])
    assert (status, row["avg_parallelism"], row["t1_s"]) == ("at_bound", 1.0, 7.0)
    row, status = fitted(law, [8, 16, 32], [7, 7, 7])
    assert (status, row["avg_parallelism_lo"]) == ("head_unidentified", 1.0)
    assert row["avg_parallelism_hi"] == (8.0 if law == "downey_low" else 4.5)


@pytest.mark.parametrize("law", ["downey_low", "downey_high"])
def test_slower_on_more_processors_is_fitted_by_a_constant(law):
    row, _ = fitted(law, [1, 2, 4, 8], [4, 5, 6, 7])
    constant, _ = fitted("constant", [1, 2, 4, 8], [4, 5, 6, 7])
    assert row["wssre"] == pytest.approx(constant["wssre"], rel=1e-12)
    assert row["tinf_s"] == pytest.approx(constant["t1_s"], rel=1e-12)


@pytest.mark.parametrize("law", ["downey_low", "downey_high"])
def test_one_size_before_the_plateau_leaves_the_head_open(law):
    n, t = np.array([2.0, 8, 16, 32]), np.array([30.0, 20, 20, 20])
    row, status = fitted(law, n, t)
    assert status == "head_unidentified"
    assert row["wssre"] < 1e-25
    lo, hi = row["avg_parallelism_lo"], row["avg_parallelism_hi"]
    # low: A = 2 * 1.5 - sigma/2; high: N* from 2 (2 * 1.5 - 1) = 4 (sigma = 1) to 8, with A = 1 + (N* - 1)/2/(N*/2 - 1)
    assert (lo, hi) == (pytest.approx((2.5, 3.0)) if law == "downey_low" else pytest.approx((1 + 7 / 6, 2.5)))


def test_one_size_before_the_plateau_at_one_processor_still_tells_the_parallelism():
    row, status = fitted("downey_low", [1, 8, 16, 32], [60, 20, 20, 20])
    assert (status, row["avg_parallelism_lo"], row["avg_parallelism_hi"]) == (
        "head_unidentified",
        pytest.approx(3),
        pytest.approx(3),
    )


def test_sizes_within_the_bending_piece_leave_the_head_open():
    n = np.array([20.0, 22, 24, 26])
    t = curve("downey_low", n, 100.0, 16.0, 0.5)
    row, status = fitted("downey_low", n, t)
    assert status == "head_unidentified"
    assert row["wssre"] < 1e-25
    assert row["avg_parallelism_lo"] <= 16 <= row["avg_parallelism_hi"] == pytest.approx(20)


@pytest.mark.parametrize(
    ("law", "n_parameters"), [("constant", 1), ("amdahl", 2), ("downey_low", 3), ("downey_high", 3)]
)
def test_fewer_sizes_than_parameters_fit_nothing(law, n_parameters):
    n, t = np.arange(1.0, 4.0), np.array([9.0, 5.0, 4.0])
    row, status = fitted(law, n[: n_parameters - 1], t[: n_parameters - 1])
    assert status == "too_few_points"
    assert np.isnan(list(row.values())).all()
    row, status = fitted(law, n[:n_parameters], t[:n_parameters])
    assert status != "too_few_points"
    assert row["wssre"] >= 0


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_bad_values_spoil_their_own_series_only(law, column, value):
    good = ([1.0, 2, 4, 8], [8.0, 4.5, 3, 2.5], [1.0] * 4)
    bad = [list(values) for values in good]
    bad[column][3] = value
    columns = [np.array([*g, *b, *g]) for g, b in zip(good, bad, strict=True)]
    fit = fit_law(law, SeriesBatch(np.array([0, 4, 8, 12]), *columns))
    alone = fit_law(law, one(*good))
    assert fit.status.tolist() == [alone.status[0], "bad_values", alone.status[0]]
    assert np.isnan(fit.wssre[1]) and np.isnan(fit.t1_s[1])
    assert fit.wssre[0] == fit.wssre[2] == alone.wssre[0]


@pytest.mark.parametrize("n", [[0.5, 1, 2, 4], [1, 2, 2, 4], [4, 2, 1, 0.9]])
def test_sizes_below_one_repeated_or_out_of_order_are_bad_values(n):
    assert fitted("downey_low", n, [4, 3, 2, 1])[1] == "bad_values"


def test_values_too_extreme_for_arithmetic_are_bad_values_not_nonsense():
    for t in ([1e-300, 1, 1], [1e300, 1e-300, 1e-300]):
        row, status = fitted("downey_low", [1, 2, 4], t)
        assert status == "bad_values" or np.isfinite(row["wssre"])


@pytest.mark.parametrize("law", LAWS)
def test_no_series_and_empty_series(law):
    nothing = fit_law(law, SeriesBatch(np.array([0]), *(np.empty(0) for _ in range(3))))
    assert nothing.t1_s.shape == nothing.status.shape == (0,)
    n, t = np.array([1.0, 2, 4, 8]), np.array([4.0, 3, 2.5, 2.4])
    gaps = fit_law(law, SeriesBatch(np.array([0, 0, 4, 4]), n, t, np.ones(4)))
    assert gaps.status.tolist()[::2] == ["too_few_points"] * 2
    assert np.isfinite(gaps.wssre[1])


def test_amdahl_keeps_both_parts_non_negative():
    n = np.array([1.0, 2, 4, 8])
    row, status = fitted("amdahl", n, 90 / n + 10)
    assert (status, row["serial_fraction"], row["avg_parallelism"]) == ("ok", pytest.approx(0.1), pytest.approx(10))
    row, status = fitted("amdahl", n, 100 / n**1.3)
    assert (status, row["serial_fraction"], row["tinf_s"], row["avg_parallelism"]) == ("at_bound", 0.0, 0.0, np.inf)
    row, status = fitted("amdahl", n, n)
    assert (status, row["serial_fraction"], row["avg_parallelism"]) == ("at_bound", 1.0, 1.0)


def test_the_constant_is_the_weighted_relative_least_squares_mean():
    row, status = fitted("constant", [1, 2], [10, 20], [1, 4])
    best = (1 / 10 + 4 / 20) / (1 / 100 + 4 / 400)
    assert (status, row["t1_s"], row["avg_parallelism"]) == ("ok", pytest.approx(best), 1.0)
    assert row["wssre"] == pytest.approx((1 - best / 10) ** 2 + 4 * (1 - best / 20) ** 2)


def test_the_pinned_scale_is_the_best_of_its_kind():
    rng = np.random.default_rng(5)
    sigma, plateau = (grid.ravel() for grid in np.meshgrid(np.linspace(1, 9, 161), np.geomspace(1, 60, 400)))
    for _ in range(30):
        n = np.sort(rng.choice(np.arange(1.0, 40), 6, replace=False))
        t = curve("downey_high", n, 48.0, 12.0, 3.0) * np.exp(rng.normal(0, 0.3, 6))
        found = fit_high_unit(one(n, t))
        grid = sigma[:, None] + plateau[:, None] / np.minimum(n, plateau[:, None])
        assert found.wssre[0] <= ((1 - grid / t) ** 2).sum(1).min() * (1 + 1e-9)
        own = LAWS["downey_high"].runtime_s(found, n)
        assert found.wssre[0] == pytest.approx(((1 - own / t) ** 2).sum(), rel=1e-9)
    assert fit_high_unit(one([1.0], [5.0])).status.tolist() == ["too_few_points"]
    assert fit_low_unit(one([1.0, 2.0], [5.0, np.nan])).status.tolist() == ["bad_values"]
