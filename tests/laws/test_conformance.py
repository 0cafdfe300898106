"""What every law must do, whatever its parameters."""

import numpy as np
import pytest

from pipeline.laws import LAWS, MOST_PROCS
from pipeline.scaling.fit import FitRules, fit_law
from pipeline.scaling.series import SeriesBatch
from pipeline.settings import ScalingSettings

N_SHAPES = 400
SIZES = np.unique(np.concatenate([np.geomspace(1, 1e6, 400), np.arange(1.0, 200.0)]))
DOWNEY = ("downey_low", "downey_high")
OVERHEAD = tuple(name for name, law in LAWS.items() if any(one.name == "overhead_s" for one in law.parameters))
OURS = ("constant", "amdahl", *DOWNEY, "usl", "amdahl_log", "downey_linear", "downey_log", "dowdy", "smirni", "power")


def shapes(law):
    """Random parameters of one law as columns that broadcast against sizes, extremes among them."""
    rng = np.random.default_rng(4)
    A = np.exp(rng.uniform(0, np.log(3000), N_SHAPES))
    A[:3] = 1.0, 1.0 + 1e-12, np.inf
    sigma = rng.uniform(0, 1, N_SHAPES) if law != "downey_high" else 1 + rng.exponential(5, N_SHAPES)
    sigma[3:8] = (0.0, 1.0, 0.5, 1e-9, 1 - 1e-9) if law != "downey_high" else (1.0, 1.0, 1e9, np.inf, 1 + 1e-9)
    t1_s = np.exp(rng.uniform(-5, 12, N_SHAPES))
    columns = {"t1_s": t1_s, "avg_parallelism": A, "sigma": sigma, "serial_fraction": 1.0 / A}
    columns |= {"exponent": rng.uniform(0, 1, N_SHAPES), "overhead_s": np.zeros(N_SHAPES)}
    columns["exponent"][:2] = 0.0, 1.0
    if law in OVERHEAD:
        columns["overhead_s"][: N_SHAPES // 2] = t1_s[: N_SHAPES // 2] * 10 ** rng.uniform(-9, 0, N_SHAPES // 2)
    return {name: values[:, None] for name, values in columns.items()}


@pytest.mark.parametrize("law", LAWS)
def test_runtime_rises_only_by_overhead_and_speedup_never_exceeds_the_processors(law):
    p = shapes(law)
    t = LAWS[law].runtime_s(p, SIZES)
    assert t.shape == (N_SHAPES, SIZES.size)
    assert (t > 0).all()
    without = p["overhead_s"][:, 0] == 0
    assert (np.diff(t[without], axis=1) <= 1e-12 * t[without, 1:]).all()
    assert (p["t1_s"] / t <= SIZES * (1 + 1e-12)).all()


@pytest.mark.parametrize("law", LAWS)
def test_one_processor_takes_t1(law):
    p = shapes(law)
    np.testing.assert_allclose(LAWS[law].runtime_s(p, 1.0), p["t1_s"], rtol=1e-14)


@pytest.mark.parametrize("law", OVERHEAD)
def test_runtime_is_least_at_the_largest_useful_size(law):
    p = shapes(law)
    useful = LAWS[law].largest_useful_procs(p)
    assert (useful >= 1).all()
    least_s = LAWS[law].runtime_s(p, np.minimum(useful, MOST_PROCS))
    assert (LAWS[law].runtime_s(p, SIZES) >= least_s * (1 - 1e-9)).all()


@pytest.mark.parametrize("law", ("amdahl", "dowdy", "smirni", *DOWNEY))
def test_speedup_tends_to_the_average_parallelism(law):
    p = {name: values[10:] for name, values in shapes(law).items()}
    far = p["t1_s"] / LAWS[law].runtime_s(p, 1e15)
    np.testing.assert_allclose(far, p["avg_parallelism"], rtol=1e-9)


def test_both_modes_of_downey_agree_where_they_meet():
    p = shapes("downey_low") | {"sigma": np.ones((N_SHAPES, 1))}
    low, high = (LAWS[law].runtime_s(p, SIZES) for law in DOWNEY)
    np.testing.assert_allclose(low, high, rtol=1e-12)
    low, high = (LAWS[law].largest_useful_procs(p) for law in DOWNEY)
    np.testing.assert_allclose(low, high, rtol=1e-9)


@pytest.mark.parametrize(("sigma", "expected"), [(0.0, [100, 25, 25, 25]), (0.5, [100, 95 / 3.5, 25, 25])])
def test_low_mode_by_hand(sigma, expected):
    # A = 4, tau = 25: at n = 4, (4 - s/2)/4 + s/2; at 5, 3.5 s/5 + 1 - s/2; beyond 7 flat
    sizes = [1.0, 3.5, 7.0, 8.0] if sigma == 0.5 else [1.0, 4.0, 5.0, 8.0]
    if sigma == 0.5:
        expected[1] = 25 * (3.75 / 3.5 + 0.25)
    p = {"t1_s": 100.0, "avg_parallelism": 4.0, "sigma": sigma}
    np.testing.assert_allclose(LAWS["downey_low"].runtime_s(p, sizes), expected, rtol=1e-14)


def test_high_mode_by_hand():
    # A = 4, sigma = 2: N* = 10, T = tau (2 + 10/n) with tau = 120/12
    p = {"t1_s": 120.0, "avg_parallelism": 4.0, "sigma": 2.0}
    np.testing.assert_allclose(LAWS["downey_high"].runtime_s(p, [1, 5, 10, 99]), [120, 40, 30, 30], rtol=1e-14)


@pytest.mark.parametrize("law", DOWNEY)
def test_infinite_parallelism_is_linear_speedup(law):
    p = {"t1_s": 64.0, "avg_parallelism": np.inf, "sigma": 1.0}
    np.testing.assert_array_equal(LAWS[law].runtime_s(p, [1, 2, 64, 1e6]), [64, 32, 1, 64e-6])


def test_infinite_sigma_is_amdahls_law():
    p = {"t1_s": 64.0, "avg_parallelism": 8.0, "sigma": np.inf, "serial_fraction": 1 / 8}
    np.testing.assert_allclose(LAWS["downey_high"].runtime_s(p, SIZES), LAWS["amdahl"].runtime_s(p, SIZES), rtol=1e-14)


@pytest.mark.parametrize("law", DOWNEY)
def test_beyond_the_largest_useful_size_nothing_is_gained_and_before_it_something_is(law):
    p = {name: values[10:] for name, values in shapes(law).items()}
    useful = LAWS[law].largest_useful_procs(p)
    at, beyond, before = (LAWS[law].runtime_s(p, np.maximum(useful * f, 1)) for f in (1.0, 10.0, 0.98))
    np.testing.assert_allclose(at, beyond, rtol=1e-12)
    gains = (useful > 1.1) & (p["sigma"] > 0.05) & (p["sigma"] < 50)
    assert (before > at)[gains].all()


def test_the_largest_useful_size_of_each_law():
    def useful(law, **p):
        return float(LAWS[law].largest_useful_procs({"t1_s": 1.0} | p))

    assert useful("constant", t1_s=5.0) == 1
    assert useful("usl", t1_s=100.0, serial_fraction=0.2, overhead_s=0.2) == pytest.approx(20)
    assert useful("amdahl_log", t1_s=100.0, serial_fraction=0.2, overhead_s=0.2) == pytest.approx(400 * np.log(2))
    assert useful("usl", t1_s=100.0, serial_fraction=0.2, overhead_s=0.0) == np.inf
    assert useful("power", exponent=0.5) == useful("dowdy", serial_fraction=0.5) == np.inf
    assert useful("power", exponent=0.0) == useful("dowdy", serial_fraction=1.0) == 1
    assert useful("downey_linear", t1_s=100.0, avg_parallelism=10.0, sigma=0.5, overhead_s=0.0) == pytest.approx(
        19, rel=1e-9
    )
    assert useful("downey_linear", t1_s=100.0, avg_parallelism=10.0, sigma=0.0, overhead_s=100.0) == 1
    assert useful("amdahl", serial_fraction=0.01) == np.inf
    assert useful("amdahl", serial_fraction=1.0) == 1
    assert useful("downey_low", avg_parallelism=10.0, sigma=0.5) == pytest.approx(19, rel=1e-9)
    assert useful("downey_low", avg_parallelism=10.0, sigma=0.0) == pytest.approx(10, rel=1e-9)
    assert useful("downey_high", avg_parallelism=10.0, sigma=3.0) == pytest.approx(37, rel=1e-9)
    assert useful("downey_high", avg_parallelism=1.0, sigma=np.inf) == 1


@pytest.mark.parametrize("law", LAWS)
def test_sizes_below_one_are_refused_and_a_failed_fit_stays_nan(law):
    p = {"t1_s": 1.0, "avg_parallelism": 2.0, "sigma": 1.0, "serial_fraction": 0.5, "exponent": 0.5, "overhead_s": 0.1}
    with pytest.raises(ValueError, match=r"found procs = 0\.5, expected at least 1"):
        LAWS[law].runtime_s(p, [1, 0.5])
    failed = dict.fromkeys(p, np.nan)
    assert np.isnan(LAWS[law].runtime_s(failed, SIZES)).all()
    assert np.isnan(LAWS[law].largest_useful_procs(failed)).all()


# Searched by golden section, which knows a minimum to the square root of rounding.
TOLERANCE = {"smirni": 1e-6, "power": 1e-6, "downey_linear": 1e-5, "downey_log": 1e-5}
# What a fit publishes beside its parameters.
DERIVED = dict.fromkeys(("amdahl", "dowdy"), ("avg_parallelism",))


@pytest.mark.parametrize("law", LAWS)
def test_a_curve_gives_back_its_parameters(law):
    rng = np.random.default_rng(8)
    n = np.array([1.0, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610])
    for _ in range(15):
        A = np.exp(rng.uniform(np.log(4), np.log(60)))
        sigma = rng.uniform(0.1, 0.9) if law == "downey_low" else rng.uniform(1.1, 4.0)
        p = {"t1_s": rng.uniform(1, 1e5), "avg_parallelism": A, "sigma": sigma, "serial_fraction": 1 / A}
        p |= {"exponent": rng.uniform(0.1, 0.9), "overhead_s": p["t1_s"] * 10 ** rng.uniform(-5, -2)}
        t = np.broadcast_to(LAWS[law].runtime_s(p, n), n.shape).copy()
        fit = fit_law(law, SeriesBatch(np.array([0, n.size]), n, t, np.ones(n.size)))

        tolerance = TOLERANCE.get(law, 1e-7)
        for name in ("t1_s", *(one.name for one in LAWS[law].parameters), *DERIVED.get(law, ())):
            np.testing.assert_allclose(fit[name][0], p[name], rtol=tolerance, err_msg=name)
        assert fit.status.tolist() == ["ok"]


def test_settings_name_the_laws_that_can_be_fitted():
    assert [name for name in LAWS if name in OURS] == list(OURS)
    assert ScalingSettings(laws=tuple(LAWS)).laws == tuple(LAWS)
    with pytest.raises(ValueError, match=f"one of {', '.join(LAWS)}"):
        ScalingSettings(laws=("growing",))
    assert tuple(LAWS)[:4] == ScalingSettings().laws == FitRules().laws
    assert [law.name for law in LAWS.values()] == list(LAWS)
    assert [law.n_parameters for law in LAWS.values() if law.name in OURS] == [1, 2, 3, 3, 3, 3, 4, 4, 2, 2, 2]
    families = ["downey_low", "downey_high"], ["amdahl", "dowdy"]
    assert all(len({LAWS[name].family for name in family}) == 1 for family in families)
