"""Deshmeh 2013, Table 2: ten points of a Downey instance in units of tau, four given; ADEPT's search, and LM."""

import warnings

import numpy as np
import pytest
from scipy.optimize import OptimizeWarning, curve_fit

from pipeline.laws import LAWS
from pipeline.scaling.adept import find, runtime_s
from pipeline.scaling.series import SeriesBatch
from tests.fitters.unit_scale import fit_high_unit, fit_low_unit

pytestmark = pytest.mark.slow


RANGES = {"downey_low": ((400, 1000), (0.0, 1.0)), "downey_high": ((400, 2000), (1.1, 12.0))}
EXACT = {"downey_low": fit_low_unit, "downey_high": fit_high_unit}
GIVEN = {"smallest": [0, 1, 2, 3], "spread": [0, 3, 6, 9], "largest": [6, 7, 8, 9]}


def instances(law, count, seed):
    """Ten sizes from 1 to 2A of random instances, and the runtimes in units of tau."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        A, sigma = (rng.uniform(*ends) for ends in RANGES[law])
        n = np.round(np.geomspace(1, 2 * A, 10))
        yield n, unit_curve(law, n, A, sigma)


def unit_curve(law, n, A, sigma):
    t1 = A if law == "downey_low" else A * (1 + sigma)
    return LAWS[law].runtime_s({"t1_s": t1, "avg_parallelism": A, "sigma": sigma}, n)


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("law", RANGES)
def test_every_prediction_by_adept_is_within_one_per_cent(law, given):
    for n, t in instances(law, 5, 11):
        batch = SeriesBatch(np.array([0, 4]), n[given], t[given], np.ones(4))
        found = find(batch, np.zeros(10, np.int64), n, is_unit=True)
        assert np.abs(1 - runtime_s(found, n) / t).max() < 0.01


def reached_by_lm(law, n, t, given, start):
    """The largest relative error over all ten points; infinite where it gives up."""

    def bounded(sizes, A, sigma):
        return unit_curve(law, sizes, max(A, 1.0), np.clip(sigma, 0, 1) if law == "downey_low" else max(sigma, 1.0))

    try:
        found, _ = curve_fit(bounded, n[given], t[given], start, sigma=t[given], method="lm", maxfev=2000)
    except RuntimeError:
        return np.inf
    return np.abs(1 - bounded(n, *found) / t).max()


@pytest.mark.parametrize(("law", "given", "stalled"), [("downey_low", "spread", 0.3), ("downey_low", "largest", 0.05)])
def test_levenberg_marquardt_from_arbitrary_starts_stalls_where_the_exact_fit_does_not(law, given, stalled):
    """In the low mode, that is: without noise it finds the high mode's instances from nearly every start."""
    warnings.simplefilter("ignore", OptimizeWarning)
    rng, exact, lm = np.random.default_rng(12), [], []
    for n, t in instances(law, 60, 13):
        fitted = EXACT[law](SeriesBatch(np.array([0, 4]), n[GIVEN[given]], t[GIVEN[given]], np.ones(4)))
        exact.append(np.abs(1 - LAWS[law].runtime_s(fitted, n) / t).max())
        lm.append(reached_by_lm(law, n, t, GIVEN[given], [rng.uniform(1, 4000), rng.uniform(0, 1)]))
    assert max(exact) < 0.01
    assert np.mean(np.array(lm) > 0.01) > stalled
