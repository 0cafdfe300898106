"""Each method learns what it can learn; the density of the process has the gradient that its search uses."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import check_grad

from pipeline.inputs import Declaration, Input, InputType, LearnRules, predict
from pipeline.inputs import gaussian_process as process
from pipeline.inputs.encoding import Encoding
from pipeline.inputs.methods import METHODS
from pipeline.inputs.training import Training
from tests.unit.inputs.simulated_runs import learnt, solver_runs

RUNS, LATER = solver_runs(150), solver_runs(400, seed=1)
NUMBER = Declaration(inputs=(Input(name="n", type=InputType.LOG_NUMBER),))

MOST_PCT = {"gp": 2.5, "trees": 27.0, "network": 25.0, "laws": 3.0, "nearest": 60.0}
"""The noise of each run is 4%. Each bound is some part above what was measured."""


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_method_learns_a_solver_s_runtime(method: str) -> None:
    found = predict(learnt(RUNS, method=method, outside="refuse"), LATER).column("median_s").to_numpy()
    assert 100 * np.nanmean(np.abs(found / LATER.column("truth_s").to_numpy() - 1)) < MOST_PCT[method]


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


def test_ernest_s_law_is_one_of_the_laws() -> None:
    """Data by machines, their logarithm and their number: three terms at once, which one at a time do not find."""
    rng = np.random.default_rng(2)
    size, nodes = rng.choice([10.0, 20.0, 40.0, 80.0], 120), rng.choice([2.0, 4.0, 8.0, 16.0, 32.0], 120)
    seconds = 10.0 + 30.0 * size / nodes + 8.0 * np.log2(nodes) + 2.0 * nodes
    runs = pa.table({"size": size, "nodes": nodes, "time_s": seconds * np.exp(rng.normal(0, 0.02, 120))})
    numbers = Declaration(tuple(Input(name, InputType.LOG_NUMBER) for name in ("size", "nodes")), procs="nodes")
    model = learnt(runs, numbers, method="laws")
    assert model.facts["method"]["terms"] == [[], [[0, 1.0, 0], [1, -1.0, 0]], [[1, 0.0, 1]], [[1, 1.0, 0]]]
    assert model.facts["method"]["coefficients"] == pytest.approx([10.0, 30.0, 8.0, 2.0], rel=0.35)
    assert model.error.mean_pct < 2.5


def some_runs(has_batches: bool, has_repeats: bool) -> Training:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(25, 3)), rng.normal(size=25)
    x[:, 2] = x[:, 2] > 0
    if has_repeats:
        x[10:20] = x[:10]
    batch = np.arange(25) // 5 if has_batches else None
    return Training(x, y, np.arange(25) % 3, batch, Encoding((), {}, {}, {}, {}), LearnRules())


@pytest.mark.parametrize("has_batches", [False, True])
@pytest.mark.parametrize("has_repeats", [False, True])
@pytest.mark.parametrize("kernel", list(process.Kernel))
def test_the_gradient_of_the_density_is_its_slope(has_batches: bool, has_repeats: bool, kernel: process.Kernel) -> None:
    problem = some_runs(has_batches, has_repeats)
    density = process.Posterior(problem)
    theta = process.start(problem, kernel) + np.random.default_rng(4).normal(0, 0.3, 9)
    free = np.isfinite(theta)
    assert free.sum() == 9 - (not has_batches) - (not has_repeats) - 2 * (kernel == process.Kernel.JOINT)

    def at(some: np.ndarray) -> tuple[float, np.ndarray]:
        whole = theta.copy()
        whole[free] = some
        value, gradient = density.loss(whole)
        return value, gradient[free]

    error = check_grad(lambda some: at(some)[0], lambda some: at(some)[1], theta[free])
    assert error < 1e-4 * np.linalg.norm(at(theta[free])[1])


@pytest.mark.parametrize("has_batches", [False, True])
def test_a_held_run_is_predicted_as_by_a_process_that_never_saw_its_fold(has_batches: bool) -> None:
    problem = some_runs(has_batches, has_repeats=True)
    theta = process.start(problem, process.Kernel.ADDITIVE)
    curved = process.curved_features(problem.x)
    whole = process.factor(theta, curved, problem)
    for held, means, sds in process._held(theta, curved, whole, problem, problem, [0, 2]):
        rest = problem.rows(np.flatnonzero(~held))
        lower = process.factor(theta, curved, rest)
        cross = process.covariance(theta, curved, problem.x[held], rest.x)
        assert means == pytest.approx(cross @ process._weights(lower, rest.y), rel=1e-6)
        assert sds == pytest.approx(process._sds(theta, curved, lower, problem.x[held], cross), rel=1e-6)


def test_repeats_of_a_run_tell_of_that_run_more_than_of_its_neighbours() -> None:
    """Every combination of inputs has a factor of its own, which its next run shares."""
    rng = np.random.default_rng(0)
    n = np.repeat(np.exp(rng.uniform(1, 5, 40)), 4)
    own = np.repeat(rng.normal(0, 0.2, 40), 4)
    truth = n**1.5 * np.exp(own)
    model = learnt(pa.table({"n": n, "time_s": truth * np.exp(rng.normal(0, 0.02, 160))}), NUMBER)
    assert model.method == "gp"
    found = predict(model, pa.table({"n": n})).column("median_s").to_numpy()
    assert np.abs(found / truth - 1).mean() < 0.03
    assert model.error.mean_pct > 10


def test_a_process_is_the_mean_of_one_that_goes_on_and_one_that_falls_back_far_from_all_runs() -> None:
    """Beyond the runs of a power law, curves and line go on; the joint kernel alone stays nearer the mean."""
    n = np.exp(np.linspace(0, 4, 30))
    arrays = learnt(pa.table({"n": n, "time_s": n**2}), NUMBER, method="gp", outside="predict").arrays
    far = np.array([[6.0]])
    every = [
        METHODS["gp"].predict(arrays | {name: arrays[name][k : k + 1] for name in ("theta", "alpha")}, {}, far)[0][0]
        for k in range(len(arrays["theta"]))
    ]
    assert np.mean(every[1::2]) < np.mean(every[::2])
    assert METHODS["gp"].predict(arrays, {}, far)[0][0] == pytest.approx(np.mean(every))


def test_more_runs_than_a_process_conditions_on_are_all_predicted() -> None:
    model = learnt(RUNS, method="gp", gp_rows=100, outside="refuse")
    assert (model.arrays["x"].shape[:2], model.error.n_runs) == ((5, 100), 150)
    answers = predict(model, LATER)
    assert answers.column("status").to_pylist().count("ok") > 300
    error = np.abs(answers.column("median_s").to_numpy() / LATER.column("truth_s").to_numpy() - 1)
    assert np.nanmean(error) < 0.03


@pytest.mark.parametrize("steps", [True, False])
def test_trees_are_taken_where_the_runtime_has_steps(steps: bool) -> None:
    rng = np.random.default_rng(0)
    n = rng.uniform(1.0, 100.0, 400)
    seconds = np.exp(rng.normal(0.0, 3.0, 12))[(n // 8.4).astype(int)] if steps else n**1.3
    declaration = Declaration(inputs=(Input(name="n", type=InputType.NUMBER),))
    runs = pa.table({"n": n, "time_s": seconds})
    assert learnt(runs, declaration, folds=3, outside="refuse").method == ("trees" if steps else "gp")
