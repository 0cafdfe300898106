"""Processes and trees learn what they can learn; the density of a process has the gradient that its search uses."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.linalg import cho_solve
from scipy.optimize import check_grad

from pipeline.inputs import Declaration, Input, InputType, LearnRules, predict
from pipeline.inputs import gaussian_process as process
from pipeline.inputs.encoding import Encoding, Training
from tests.unit.inputs.simulated_runs import learnt, solver_runs

RUNS, LATER = solver_runs(150), solver_runs(400, seed=1)
NUMBER = Declaration(inputs=(Input(name="n", type=InputType.LOG_NUMBER),))


@pytest.mark.parametrize("method", ["auto", "gp"])
def test_a_model_learns_a_solver_s_runtime(method: str) -> None:
    """The noise of each run is 4%."""
    found = predict(learnt(RUNS, method=method, outside="refuse"), LATER).column("median_s").to_numpy()
    assert 100 * np.nanmean(np.abs(found / LATER.column("truth_s").to_numpy() - 1)) < 2.5


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
@pytest.mark.parametrize("lacking", process.KERNELS)
def test_the_gradient_of_the_density_is_its_slope(has_batches: bool, has_repeats: bool, lacking: list[int]) -> None:
    problem = some_runs(has_batches, has_repeats)
    density = process.Posterior(problem)
    theta = process.start(problem, lacking) + np.random.default_rng(4).normal(0, 0.3, 9)
    free = np.isfinite(theta)
    assert free.sum() == 9 - (not has_batches) - (not has_repeats) - len(lacking)

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
    kernel = process.Kernel(process.start(problem, []), problem.x)
    for held, means, sds in process.held_folds(kernel, kernel.factor(problem), problem, problem, [0, 2]):
        rest = problem.rows(np.flatnonzero(~held))
        lower, cross = kernel.factor(rest), kernel.covariance(problem.x[held], rest.x)
        assert means == pytest.approx(cross @ cho_solve((lower, True), rest.y), rel=1e-6)
        assert sds == pytest.approx(kernel.sds(lower, problem.x[held], cross), rel=1e-6)


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
        process.predict(arrays | {name: arrays[name][k : k + 1] for name in ("theta", "alpha")}, far)[0][0]
        for k in range(len(arrays["theta"]))
    ]
    assert np.mean(every[1::2]) < np.mean(every[::2])
    assert process.predict(arrays, far)[0][0] == pytest.approx(np.mean(every))


def test_more_runs_than_a_process_conditions_on_are_all_predicted() -> None:
    model = learnt(RUNS, method="gp", gp_rows=100, outside="refuse")
    assert (model.arrays["x"].shape[:2], model.error.n_runs) == ((5, 100), 150)
    answers = predict(model, LATER)
    assert answers.column("status").to_pylist().count("ok") > 300
    error = np.abs(answers.column("median_s").to_numpy() / LATER.column("truth_s").to_numpy() - 1)
    assert np.nanmean(error) < 0.03


def test_trees_are_added_where_processes_leave_steps_and_nowhere_else() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.uniform(1.0, 100.0, (3, 1500))
    truth = np.exp(1.0 * (a > 37) + 1.2 * ((b > 61) & (a > 37)) + 0.8 * ((c > 20) & (b < 80)))
    runs = pa.table({"a": a, "b": b, "c": c, "time_s": truth})
    declaration, errors = Declaration(tuple(Input(name, InputType.NUMBER) for name in "abc")), {}
    for method in ("gp", "auto"):
        model = learnt(runs.slice(0, 1000), declaration, method=method, folds=5, gp_rows=100, outside="refuse")
        found = predict(model, runs.slice(1000)).column("median_s").to_numpy()
        errors[model.method] = np.nanmean(np.abs(found / truth[1000:] - 1))
    assert errors["gp+trees"] < 0.95 * errors["gp"]
    assert learnt(RUNS, outside="refuse").method == "gp"
