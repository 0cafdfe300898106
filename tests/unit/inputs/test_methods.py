"""Each method learns what it can learn; the density of the process has the gradient that its search uses."""

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import check_grad

from pipeline.inputs import Declaration, Input, InputType, LearnRules, predict
from pipeline.inputs import gaussian_process as process
from pipeline.inputs.encoding import Encoding
from pipeline.inputs.methods import METHODS, candidate_methods
from pipeline.inputs.training import Training
from tests.unit.inputs.simulated_runs import learnt, solver_runs

RUNS, LATER = solver_runs(150), solver_runs(400, seed=1)

MOST_PCT = {"gp": 6.0, "trees": 32.0, "network": 25.0, "laws": 8.0, "nearest": 60.0}
"""The noise alone is 4%. Each bound is a quarter above what was measured, or nearer."""


@cache
def error_pct(method: str, **settings: str) -> float:
    # Trees take longest: three folds, and no tests outside the runs.
    folds = 3 if method == "trees" else 10
    found = (
        predict(learnt(RUNS, method=method, folds=folds, outside="refuse", **settings), LATER)
        .column("median_s")
        .to_numpy()
    )
    return float(100 * np.nanmean(np.abs(found / LATER.column("truth_s").to_numpy() - 1)))


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_method_learns_a_solver_s_runtime(method: str) -> None:
    assert error_pct(method) < MOST_PCT[method]


def test_a_network_of_log_runtimes_beats_one_of_seconds() -> None:
    assert error_pct("network", network_target="log") < error_pct("network")


def test_a_network_of_bootstrap_samples_learns_too() -> None:
    assert error_pct("network", network_members="bags") < MOST_PCT["network"]


@pytest.mark.parametrize(("exponent", "logs"), [(2.0, 0), (1.0, 1), (0.5, 2), (3.0, 0)])
def test_laws_find_the_exponents_of_a_known_law(exponent: float, logs: int) -> None:
    rng = np.random.default_rng(0)
    n, m = np.exp(rng.uniform(2, 8, 80)), np.exp(rng.uniform(2, 8, 80))
    seconds = 5.0 + 1e-3 * n**exponent * np.log2(n) ** logs
    runs = pa.table({"n": n, "m": m, "time_s": seconds * np.exp(rng.normal(0, 0.01, 80))})
    numbers = Declaration(inputs=tuple(Input(name=one, type=InputType.LOG_NUMBER) for one in "nm"))
    method = learnt(runs, numbers, method="laws").facts["method"]
    largest = int(
        np.argmax([c if term else 0.0 for term, c in zip(method["terms"], method["coefficients"], strict=True)])
    )
    assert len(method["terms"]) == 2
    assert method["terms"][largest] == [[0, exponent, logs]]
    assert method["coefficients"] == pytest.approx([5.0, 1e-3], rel=0.1)


@pytest.mark.parametrize("has_batches", [False, True])
@pytest.mark.parametrize("is_fixed", [False, True])
@pytest.mark.parametrize("kernel", list(process.Kernel))
def test_the_gradient_of_the_density_is_its_slope(has_batches: bool, is_fixed: bool, kernel: process.Kernel) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(25, 3)), rng.normal(size=25)
    x[:, 2] = x[:, 2] > 0
    fold, encoding = np.arange(25) % 3, Encoding((), {}, {}, {})
    problem = Training(x, y, fold, np.arange(25) // 5 if has_batches else None, encoding, LearnRules())
    curves = process.Curves(np.array([0, 1]), np.array([0.3, -0.2])) if is_fixed else None
    density = process.Posterior(problem, curves)
    theta = process.start(3, kernel) + rng.normal(0, 0.3, 8)
    free = np.isfinite(theta)
    assert free.sum() == (8 if kernel == process.Kernel.ADDITIVE else 6)

    def at(some: np.ndarray) -> tuple[float, np.ndarray]:
        whole = theta.copy()
        whole[free] = some
        value, gradient = density.loss(whole)
        return value, gradient[free]

    error = check_grad(lambda some: at(some)[0], lambda some: at(some)[1], theta[free])
    assert error < 1e-4 * np.linalg.norm(at(theta[free])[1])


def test_a_process_is_the_mean_of_one_that_goes_on_and_one_that_falls_back_far_from_all_runs() -> None:
    """Beyond the runs of a power law, curves and line go on; the joint kernel alone stays nearer the mean."""
    n = np.exp(np.linspace(0, 4, 30))
    runs = pa.table({"n": n, "time_s": n**2})
    numbers = Declaration(inputs=(Input(name="n", type=InputType.LOG_NUMBER),))
    model = learnt(runs, numbers, outside="predict")
    far = np.array([[6.0]])
    every = METHODS["gp"].members(model.arrays, {}, far).reshape(-1, 2)
    going_on, falling_back = every.mean(axis=0)
    assert falling_back < going_on
    mean, _ = METHODS["gp"].predict(model.arrays, {}, far)
    assert mean[0] == pytest.approx((going_on + falling_back) / 2)


def test_auto_is_gp_for_few_runs_trees_for_many_and_both_are_tried_between() -> None:
    found = [candidate_methods(LearnRules(), n) for n in (2000, 2001, 10_000, 10_001)]
    assert found == [("gp",), ("gp", "trees"), ("gp", "trees"), ("trees",)]
    assert candidate_methods(LearnRules(method="laws"), 5000) == ("laws",)


def test_more_runs_than_a_process_conditions_on_are_all_predicted_and_the_smaller_held_error_is_taken() -> None:
    model = learnt(RUNS, gp_rows=100, folds=3, outside="refuse")
    assert (model.method, len(model.arrays["x"]), model.error.n_runs) == ("gp", 100, 150)
    assert model.error.mean_pct < learnt(RUNS, method="trees", folds=3, outside="refuse").error.mean_pct
    assert predict(model, LATER).column("status").to_pylist().count("ok") > 300


def test_trees_are_taken_above_the_rows_of_a_process_where_they_are_better() -> None:
    rng = np.random.default_rng(0)
    n = rng.uniform(1.0, 100.0, 400)
    seconds = np.exp(rng.normal(0.0, 3.0, 12))[(n // 8.4).astype(int)]
    declaration = Declaration(inputs=(Input(name="n", type=InputType.NUMBER),))
    runs = pa.table({"n": n, "time_s": seconds})
    assert learnt(runs, declaration, gp_rows=40, folds=3, outside="refuse").method == "trees"
