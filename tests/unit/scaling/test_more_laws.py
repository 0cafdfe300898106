"""The laws beyond Amdahl's and Downey's against other solvers: never above them, and what each says of odd series."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar, nnls

from pipeline.laws import LAWS
from pipeline.scaling.fit import fit_law
from pipeline.scaling.series import SeriesBatch

GROWTH = {"usl": lambda n: n - 1.0, "amdahl_log": np.log2, "downey_linear": lambda n: n - 1.0, "downey_log": np.log2}
MORE = ("usl", "amdahl_log", "downey_linear", "downey_log", "dowdy", "smirni", "power")


def random_batch(n_series, seed, noise=0.2):
    rng = np.random.default_rng(seed)
    sizes = [np.sort(rng.choice(np.arange(1, 200), rng.integers(4, 10), replace=False)) for _ in range(n_series)]
    procs = np.concatenate(sizes).astype(np.float64)
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in sizes])]).astype(np.int64)
    curve = [
        10 ** rng.uniform(0, 5) * (1 / n + rng.uniform(0, 0.2) + 10 ** rng.uniform(-6, -2) * n)
        for n in (one.astype(np.float64) for one in sizes)
    ]
    runtime_s = np.concatenate(curve) * np.exp(rng.normal(0, noise, procs.size))
    return SeriesBatch(offsets, procs, runtime_s, rng.uniform(0.2, 3, procs.size))


def parts(batch):
    for i in range(batch.n_series):
        part = slice(batch.offsets[i], batch.offsets[i + 1])
        yield batch.procs[part], batch.runtime_s[part], batch.weights[part]


@pytest.mark.parametrize("law", ["usl", "amdahl_log"])
def test_closed_forms_reach_what_nonnegative_least_squares_reaches(law):
    batch = random_batch(300, 1)
    fit = fit_law(law, batch)
    for i, (n, t, w) in enumerate(parts(batch)):
        basis = np.column_stack([1 / n, np.ones_like(n), GROWTH[law](n)]) * (np.sqrt(w) / t)[:, None]
        _, residual = nnls(basis, np.sqrt(w))
        assert fit.wssre[i] == pytest.approx(residual**2, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("law", MORE)
def test_the_squares_reported_are_those_of_the_curve(law):
    batch = random_batch(100, 2)
    fit = fit_law(law, batch)
    for i, (n, t, w) in enumerate(parts(batch)):
        curve_s = LAWS[law].runtime_s(fit[i], n)
        assert fit.wssre[i] == pytest.approx((w * (1 - curve_s / t) ** 2).sum(), rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("law", ["downey_linear", "downey_log"])
def test_downey_with_overhead_is_never_above_any_plateau_tried(law):
    """Curves that bend between sizes, so that what is left has edges at plateaus which no even grid holds."""
    rng, offsets, columns = np.random.default_rng(8), [0], []
    for k in range(40):
        n = np.sort(rng.choice(np.arange(1.0, 513.0), int(rng.integers(5, 12)), replace=False))
        shape = {"t1_s": 3600.0, "avg_parallelism": np.exp(rng.uniform(0, 6)), "sigma": rng.uniform(0, 1) + 2 * (k % 2)}
        columns.append((n, LAWS["downey_high" if k % 2 else "downey_low"].runtime_s(shape, n)))
        offsets.append(offsets[-1] + n.size)
    procs, runtime_s = (np.concatenate(column) for column in zip(*columns, strict=True))
    runtime_s = runtime_s * np.exp(rng.normal(0, 0.05, procs.size))
    batch = SeriesBatch(np.array(offsets), procs, runtime_s, np.ones(procs.size))
    fit = fit_law(law, batch)
    for i, (n, t, w) in enumerate(parts(batch)):
        scaled, least = (np.sqrt(w) / t)[:, None], np.inf
        for A in np.concatenate([np.geomspace(1, 3 * n[-1], 300), n, (n + 1) / 2]):
            second = np.maximum((A - 0.5) / n + 0.5, 1)
            for first in (np.maximum(A / n, 1), np.ones_like(n)):
                _, residual = nnls(np.column_stack([first, second, GROWTH[law](n)]) * scaled, np.sqrt(w))
                least = min(least, residual**2)
        assert fit.wssre[i] <= least * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("law", ["smirni", "power"])
def test_one_shape_laws_are_never_above_a_local_search(law):
    batch = random_batch(60, 4)
    fit = fit_law(law, batch)
    for i, (n, t, w) in enumerate(parts(batch)):

        def left(u, n=n, t=t, w=w):
            shape = {"t1_s": 1.0, "exponent": u, "avg_parallelism": 1 / max(1 - u, 1e-12)}
            x = LAWS[law].runtime_s(shape, n) / t
            return (w * (1 - x * (w * x).sum() / (w * x * x).sum()) ** 2).sum()

        found = min(minimize_scalar(left, bounds=(lo, lo + 0.1), method="bounded").fun for lo in np.arange(0, 1, 0.1))
        assert fit.wssre[i] <= found * (1 + 1e-6)


@pytest.mark.parametrize("law", MORE)
def test_too_few_sizes_bad_values_and_a_constant(law):
    def fit(n, t):
        return fit_law(law, SeriesBatch(np.array([0, len(n)]), np.array(n, float), np.array(t, float), np.ones(len(n))))

    few = LAWS[law].n_parameters - 1
    assert fit([1, 2, 4, 8][:few], [8, 4, 2, 1][:few]).status.tolist() == ["too_few_points"]
    assert fit([1, 2, 2, 8], [8, 4, 2, 1]).status.tolist() == ["bad_values"]
    assert fit([1, 2, 4, 8], [8, 4, -2, 1]).status.tolist() == ["bad_values"]
    flat = fit([1, 2, 4, 8, 16], [5.0] * 5)
    curve_s = LAWS[law].runtime_s(flat[0], [1, 4, 100])
    np.testing.assert_allclose(curve_s, 5.0, rtol=1e-6)
    assert flat.status.tolist() == ["at_bound"]


@pytest.mark.parametrize("law", ["usl", "amdahl_log", "downey_linear", "downey_log"])
def test_a_declining_series_is_followed(law):
    n = np.array([1.0, 2, 4, 8, 16, 32])
    t = 10 / n + GROWTH[law](n)
    fit = fit_law(law, SeriesBatch(np.array([0, 6]), n, t, np.ones(6)))
    assert fit.wssre[0] < 1e-12
    assert fit.overhead_s[0] == pytest.approx(1.0, rel=1e-5)


def test_dowdys_law_is_amdahls():
    batch = random_batch(20, 5)
    one, other = fit_law("dowdy", batch), fit_law("amdahl", batch)
    np.testing.assert_array_equal(one.wssre, other.wssre)
    finite = np.isfinite(one.avg_parallelism)
    for name in np.flatnonzero(finite):
        dowdy, amdahl = (
            LAWS[law].runtime_s(fit[name], [1, 7, 1e4]) for law, fit in (("dowdy", one), ("amdahl", other))
        )
        np.testing.assert_allclose(dowdy, amdahl, rtol=1e-12)
