"""The exact fit against searches that use none of its reasoning, and the symmetries of its problem."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from pipeline.laws import LAWS
from pipeline.scaling.fit import fit_law
from tests.properties.brute_force import brute_force, error
from tests.properties.random_series import batch_of, random_series

pytestmark = pytest.mark.slow


DOWNEY = ("downey_low", "downey_high")
# A fit this good relative to the weights is exact up to rounding: comparing it further compares rounding.
PERFECT = 1e-12


def excess(found, reference, weight):
    """How far above the reference the fit found lies, relative to it."""
    return (found - reference) / (reference + PERFECT * weight)


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(20)
    return [random_series(rng) for _ in range(5000)]


@pytest.mark.parametrize("law", DOWNEY)
def test_brute_force_never_beats_it_and_often_comes_close(law, many):
    fit = fit_law(law, batch_of(many))
    searched = np.array([brute_force(n, t, w, law == "downey_high") for n, t, w in many])
    weight = np.array([w.sum() for _, _, w in many])
    assert excess(fit.wssre, searched, weight).max() < 1e-6
    # the search reaches the optimum too: were the fit's objective too low to be true, it would not
    near = excess(searched, fit.wssre, weight) < 1e-3
    assert near.mean() > 0.5


@pytest.mark.parametrize("law", LAWS)
def test_the_objective_reported_is_that_of_the_curve_reported(law, many):
    batch = batch_of(many)
    fit, series = fit_law(law, batch), np.repeat(np.arange(batch.n_series), batch.n_points)
    curve = LAWS[law].runtime_s(fit[series], batch.procs)
    own = np.bincount(series, batch.weights * (1 - curve / batch.runtime_s) ** 2)
    weight = np.bincount(series, batch.weights)
    is_enough = batch.n_points >= LAWS[law].n_parameters
    assert (np.isfinite(fit.wssre) == is_enough).all()
    assert np.abs(excess(own, fit.wssre, weight)[is_enough]).max() < 1e-8


@pytest.mark.parametrize("law", DOWNEY)
def test_the_far_end_of_an_open_range_fits_as_well(law, many):
    batch = batch_of(many)
    fit = fit_law(law, batch)
    is_open = ~np.isnan(fit.avg_parallelism_lo)
    assert is_open.mean() > 0.1
    assert (fit.avg_parallelism_lo <= fit.avg_parallelism_hi)[is_open].all()
    assert (fit.avg_parallelism == fit.avg_parallelism_lo)[is_open].all()
    words = fit.status
    assert (is_open == np.isin(words, ["tail_unidentified", "head_unidentified", "runner_up"])).all()
    for i in np.flatnonzero(is_open & np.isfinite(fit.avg_parallelism_hi))[:300]:
        n, t, w = many[i]
        best = _best_sigma(n, t, w, fit.avg_parallelism_hi[i], law == "downey_high")
        assert excess(best, fit.wssre[i], w.sum()) < 1e-4, (i, words[i])


def _best_sigma(n, t, w, A, is_high):
    """The least error at one A: sigma by repeated zooming, in 1/sigma for high mode."""
    lo, hi = (1e-12, 1.0) if is_high else (0.0, 1.0)
    best = np.inf
    for _ in range(14):
        q = np.linspace(lo, hi, 61)
        f = [error(n, t, w, A, 1 / x if is_high else x, is_high) for x in q]
        at, best = int(np.argmin(f)), min(best, *f)
        lo, hi = q[max(at - 1, 0)], q[min(at + 1, 60)]
    return best


@pytest.mark.parametrize("law", DOWNEY)
def test_a_polished_search_from_many_starts_never_beats_it(law, many):
    few, is_high = many[:60], law == "downey_high"
    fit = fit_law(law, batch_of(few))
    rng = np.random.default_rng(9)
    for i, (n, t, w) in enumerate(few):

        def objective(x, n=n, t=t, w=w):
            A, sigma = 1 + np.exp(min(x[0], 50.0)), 1 + np.exp(min(x[1], 50.0)) if is_high else 0.5 + 0.5 * np.sin(x[1])
            return error(n, t, w, A, sigma, is_high)

        for _ in range(6):
            start = [rng.uniform(-2, np.log(3 * n[-1])), rng.normal(0, 2)]
            assert excess(fit.wssre[i], minimize(objective, start, method="Nelder-Mead").fun, w.sum()) < 1e-6


@st.composite
def series(draw):
    """A short series of whole or fractional sizes and runtimes over eight orders of magnitude."""
    m = draw(st.integers(3, 9))
    size = st.one_of(st.integers(1, 300).map(float), st.floats(1, 5000).map(lambda x: round(x, 3)))
    n = sorted(draw(st.lists(size, min_size=m, max_size=m, unique=True)))
    t = draw(st.lists(st.one_of(st.sampled_from([1.0, 2.0, 4.0]), st.floats(1e-3, 1e5)), min_size=m, max_size=m))
    w = draw(st.lists(st.sampled_from([1.0, 0.25, 7.0, 300.0]), min_size=m, max_size=m))
    return np.array(n), np.array(t), np.array(w)


@settings(max_examples=150, deadline=None)
@given(series())
def test_brute_force_never_beats_it_on_what_hypothesis_thinks_up(one):
    n, t, w = one
    for law in DOWNEY:
        fit = fit_law(law, batch_of([one]))
        assert np.isfinite([fit.wssre[0], fit.t1_s[0]]).all()
        assert excess(fit.wssre[0], brute_force(n, t, w, law == "downey_high"), w.sum()) < 1e-6


@settings(max_examples=25, deadline=None)
@given(st.lists(series(), min_size=1, max_size=8), st.floats(1e-6, 1e6), st.floats(1e-3, 1e3))
def test_seconds_and_weights_only_scale(some, seconds, weight):
    for law in LAWS:
        plain, scaled = (
            fit_law(law, batch_of(own)) for own in (some, [(n, t * seconds, w * weight) for n, t, w in some])
        )
        for place, (n, t, w) in enumerate(some):
            if len(n) < LAWS[law].n_parameters:
                assert plain.status[place] == scaled.status[place] == "too_few_points"
                continue
            wssre, slack = plain.wssre[place], 1e-7 * plain.wssre[place] + PERFECT * w.sum()
            assert abs(scaled.wssre[place] / weight - wssre) <= slack
            curve = LAWS[law].runtime_s(scaled[[place]], n)
            assert abs(wssre - _objective(n, t, w, curve / seconds)) <= slack


def _objective(n, t, w, curve):
    return float((w * (1 - curve / t) ** 2).sum())


def test_a_series_is_fitted_the_same_wherever_it_stands_in_a_batch(many):
    order = np.random.default_rng(1).permutation(1000)
    for law in LAWS:
        straight, mixed = fit_law(law, batch_of(many[:1000])), fit_law(law, batch_of([many[i] for i in order]))
        alone = [fit_law(law, batch_of([one])) for one in many[:8]]
        for name in straight.dtype.names:
            values = getattr(straight, name)
            np.testing.assert_array_equal(values[order], getattr(mixed, name))
            np.testing.assert_array_equal(values[:8], [getattr(fit, name)[0] for fit in alone])
