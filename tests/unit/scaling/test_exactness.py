"""Points on Amdahl's curve to six digits: what the model average answers between and beyond them."""

import numpy as np
import pytest

from pipeline.arrays import Floats
from pipeline.scaling.average import SeriesBatch, average, exact_log_s


def rounded(curve_s: Floats) -> Floats:
    return np.array([float(f"{value:.6g}") for value in curve_s])


def one_series(procs: Floats, runtime_s: Floats) -> SeriesBatch:
    offsets = np.array([0, procs.size], np.int64)
    return SeriesBatch(offsets, procs, runtime_s, np.full(procs.size, 0.06**-2))


@pytest.mark.parametrize("serial", [0.0, 1e-6, 3e-5, 0.001, 0.02, 0.3])
@pytest.mark.parametrize("step", [2.0, 10.0, 100.0])
def test_between_exact_points_the_law_is_the_answer(serial: float, step: float) -> None:
    procs = np.unique(np.round(step ** np.arange(0.0, np.log(1e6) / np.log(step) + 1e-9)))
    sizes = one_series(procs, rounded(5000.0 * (serial + (1 - serial) / procs)))
    at = np.unique(np.round(np.geomspace(1, 1e6, 97)))
    found = np.exp(average(sizes, np.zeros(at.size, np.int64), at).log_s)
    truth = 5000.0 * (serial + (1 - serial) / at)
    assert np.abs(found / truth - 1).max() < 0.02
    assert (found[0] / found / at <= 1 + 1e-9).all()


def test_runs_that_scatter_are_not_exact() -> None:
    rng = np.random.default_rng(2)
    procs = 2.0 ** np.arange(6)
    hits = 0
    for _ in range(300):
        runtime_s = (0.01 + 0.99 / procs) * np.exp(0.02 * rng.standard_normal(6))
        hits += int(exact_log_s(one_series(procs, runtime_s), np.zeros(1, np.int64), procs[:1])[0][0])
    assert hits == 0
