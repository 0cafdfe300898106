"""Published answers, and those that docs/explanations/exact-downey-fit.md lists."""

import numpy as np
import pytest

from pipeline.laws import LAWS
from pipeline.scaling.fit import fit_law
from pipeline.scaling.series import SeriesBatch
from tests.fitters.speedup import fit_speedup, speedups
from tests.fitters.unit_scale import fit_high_unit, fit_low_unit

# Lan 2007, Table 5.1: NAS LU, class W
LU_PROCS = np.array([2.0, 4, 8, 16, 32, 64])
LU_SPEEDUP = np.array([2.00, 3.92, 7.25, 13.29, 20.23, 24.95])
LU_THESIS_ROW = [1.97, 3.83, 7.24, 13.07, 20.77, 24.70]


def test_lu_relative_speedup_error_is_the_thesis_own_row():
    fit = fit_speedup(LU_PROCS, LU_SPEEDUP, "relative_speedup")
    assert (fit.law, round(fit.avg_parallelism, 3), round(fit.sigma, 3)) == ("downey_low", 24.702, 0.739)
    row = speedups(fit.law, fit.avg_parallelism, fit.sigma, LU_PROCS)
    assert row.round(2).tolist() == LU_THESIS_ROW


@pytest.mark.parametrize(
    ("objective", "A", "sigma"),
    [
        ("absolute_speedup", 24.870, 0.8055),
        ("relative_runtime", 24.714, 0.734),
        ("log_runtime", 24.708, 0.737),
    ],
)
def test_lu_under_other_objectives(objective, A, sigma):
    fit = fit_speedup(LU_PROCS, LU_SPEEDUP, objective)
    assert fit.law == "downey_low"
    assert fit.avg_parallelism == pytest.approx(A, abs=5.1e-4)
    assert fit.sigma == pytest.approx(sigma, abs=5.1e-4)


def test_lu_absolute_error_beats_the_thesis_parameters():
    fit = fit_speedup(LU_PROCS, LU_SPEEDUP, "absolute_speedup")
    assert fit.sum_of_squares == pytest.approx(0.294, abs=5e-4)
    thesis = ((speedups("downey_low", 24.702, 0.739, LU_PROCS) - LU_SPEEDUP) ** 2).sum()
    assert thesis == pytest.approx(0.41, abs=0.005)


def test_lu_with_free_scale_and_one_processor_not_given():
    fit = fit_law("downey_low", SeriesBatch(np.array([0, 6]), LU_PROCS, 1 / LU_SPEEDUP, np.ones(6)))
    assert fit.avg_parallelism[0] == pytest.approx(24.25, abs=5e-3)
    assert fit.sigma[0] == pytest.approx(0.823, abs=5e-4)
    assert fit.status.tolist() == ["ok"]


@pytest.mark.parametrize("given", [[0, 1, 2, 3], [0, 3, 6, 9], [6, 7, 8, 9]], ids=["smallest", "spread", "largest"])
@pytest.mark.parametrize("law", ["downey_low", "downey_high"])
def test_adept_table_2_every_prediction_within_one_per_cent(law, given):
    # Deshmeh 2013, Table 2: ten points of a Downey instance in units of tau, four of them given
    fit, A_range, sigma_range = {
        "downey_low": (fit_low_unit, (400, 1000), (0.0, 1.0)),
        "downey_high": (fit_high_unit, (400, 2000), (1.1, 12.0)),
    }[law]
    rng = np.random.default_rng(2)
    for _ in range(100):
        A, sigma = rng.uniform(*A_range), rng.uniform(*sigma_range)
        procs = np.round(np.geomspace(1, 2 * A, 10))
        t1 = A if law == "downey_low" else A * (1 + sigma)
        truth = LAWS[law].runtime_s({"t1_s": t1, "avg_parallelism": A, "sigma": sigma}, procs)
        found = fit(SeriesBatch(np.array([0, 4]), procs[given], truth[given], np.ones(4)))
        predicted = LAWS[law].runtime_s(found, procs)
        assert np.abs(1 - predicted / truth).max() < 0.01


def test_a_pinned_scale_is_pinned_where_a_free_one_would_leave_the_tail_open():
    procs = np.array([1.0, 2, 4, 8])
    truth = LAWS["downey_low"].runtime_s({"t1_s": 500.0, "avg_parallelism": 500.0, "sigma": 0.5}, procs)
    batch = SeriesBatch(np.array([0, 4]), procs, truth, np.ones(4))
    assert fit_law("downey_low", batch).status.tolist() == ["tail_unidentified"]
    assert fit_low_unit(batch).avg_parallelism[0] == pytest.approx(500, rel=1e-6)
